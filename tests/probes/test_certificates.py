"""The certificate of a broker is checked before the first request, so that the error says what is wrong with it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.certificates import Authority
from tests.waiting import TIMEOUT_SECONDS
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceError, SourceUnavailableError
from tidegate.probes import kafka

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def served(
    certificate: Path, *, clients_of: Authority | None = None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> Iterator[str]:
    """The address of a server that shows a certificate and then ends each connection.

    Args:
        clients_of: The authority of the certificates that it accepts from clients; it asks for none if it has none.
        newest: The newest version that it speaks.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.maximum_version = newest
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients_of.file)
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    context.wrap_socket(connection, server_side=True).close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"localhost:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(TIMEOUT_SECONDS)


def secured(servers: str, authority: Authority, client: Path | None = None) -> Cluster:
    settings: tuple[tuple[str, str], ...] = (("security", "SSL"), ("ca", f"file:{authority.file}"))
    if client is not None:
        settings += (
            ("certificate", f"file:{client.with_suffix('.crt')}"),
            ("key", f"file:{client.with_suffix('.key')}"),
        )
    return Cluster(name="events", servers=servers, settings=settings)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("expired", "certificate has expired"),
        ("another host", "Hostname mismatch"),
        ("another authority", "unable to get local issuer certificate"),
    ],
)
def test_a_certificate_that_is_not_valid_is_a_terminal_error_that_says_why(
    tmp_path: Path, fault: str, problem: str
) -> None:
    authority = Authority(tmp_path, "authority")
    signer = Authority(tmp_path, "other") if fault == "another authority" else authority
    host, days = ("kafka.example.com" if fault == "another host" else "localhost"), (-1 if fault == "expired" else 30)
    with (
        served(signer.issue("broker", host=host, days=days)) as address,
        pytest.raises(SourceError, match=problem) as raised,
    ):
        kafka.describe(secured(address, authority), "clicks")
    error = raised.value
    assert (error.transient, error.exit_code) == (False, 78)
    assert f"topic 'clicks': the broker's certificate failed at cluster events of Kafka, {address}" in error.message
    assert "kafka.events" in str(error.advice)


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        ("none", "certificate required|handshake failure"),
        ("of another authority", "unknown ca"),
        ("expired", "certificate expired"),
    ],
)
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_whose_certificate_is_refused_gets_a_terminal_error_at_once(
    tmp_path: Path, client: str, problem: str, newest: ssl.TLSVersion
) -> None:
    authority, other = Authority(tmp_path, "authority"), Authority(tmp_path, "other")
    own = None
    if client != "none":
        own = (other if "another" in client else authority).issue("client", days=-1 if client == "expired" else 30)
    began = time.monotonic()
    with (
        served(authority.issue("broker"), clients_of=authority, newest=newest) as address,
        pytest.raises(
            SourceError, match=rf"the (certificate of the client|connection) failed .*: ({problem})"
        ) as raised,
    ):
        kafka.describe(secured(address, authority, own), "clicks", timeout=TIMEOUT_SECONDS)
    error = raised.value
    assert (error.transient, error.exit_code) == (False, 78)
    assert "topic 'clicks': " in error.message and f"at cluster events of Kafka, {address}" in error.message
    assert time.monotonic() - began < TIMEOUT_SECONDS / 4


def test_a_valid_certificate_of_a_server_that_is_no_broker_leaves_the_error_transient(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    with served(authority.issue("broker")) as address, pytest.raises(SourceUnavailableError) as raised:
        kafka.describe(secured(address, authority), "clicks", timeout=1.0)
    assert raised.value.transient and "(cluster events) for topic 'clicks'" in raised.value.message


def test_an_authority_that_is_no_certificate_is_an_error_of_the_settings(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    with served(authority.issue("broker")) as address:
        authority.file.write_text("canary-in-place-of-a-certificate")
        with pytest.raises(SourceError, match="the settings failed at cluster events of Kafka") as raised:
            kafka.describe(secured(address, authority), "clicks")
    assert "canary" not in f"{raised.value}"


def test_a_cluster_that_is_not_there_is_a_transient_error_that_names_it_and_its_setting() -> None:
    nowhere = Cluster(name="events", servers="127.0.0.1:1")
    with pytest.raises(SourceUnavailableError, match=r"127\.0\.0\.1:1 \(cluster events\) for topic 'clicks'") as raised:
        kafka.describe(nowhere, "clicks")
    assert raised.value.transient and "TIDEGATE_KAFKA__EVENTS" in str(raised.value.advice)
