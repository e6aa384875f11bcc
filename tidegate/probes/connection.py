"""A connection to a cluster of Kafka: whether a server listens, its certificate, and what librdkafka reports about it."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from concurrent import futures
from typing import TYPE_CHECKING, Any

from tidegate.probes.broker_errors import not_accepted, refusal, unavailable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from tidegate.environment.clusters import Cluster

_PAUSE_SECONDS = 0.1


class Client:
    """An `AdminClient`, and what librdkafka reports about its connections while it waits."""

    def __init__(self, cluster: Cluster, topic: str, config: Mapping[str, Any]) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.reported: list[KafkaError] = []
        # Both settings stop librdkafka from logging each refused connection to standard error.
        settings: dict[str, Any] = {**config, "log_level": 0, "error_cb": self.reported.append}
        try:
            self.admin = AdminClient(settings)
        except KafkaException as error:
            raise not_accepted(cluster, topic, "the settings", error.args[0].str()) from None

    def answer(self, future: Any, deadline: float) -> Any:
        """The result of a request. Raises TimeoutError, or KafkaException, also as soon as a broker refuses the client."""
        from confluent_kafka import KafkaException

        while not futures.wait([future], _PAUSE_SECONDS).done:
            self.admin.poll(0)
            if refused := next(filter(refusal, self.reported), None):
                raise KafkaException(refused)
            if time.monotonic() > deadline:
                raise TimeoutError
        return future.result()


def check_listening(cluster: Cluster, topic: str, authorities: str | None, timeout: float) -> None:
    """Fail at once if no server listens, or if the first that does has no valid certificate; librdkafka would retry until the timeout.

    Args:
        authorities: The certificates of the cluster's authorities, if it has its own.
    """
    servers = [server.strip() for server in cluster.servers.split(",") if server.strip()]
    reason = "no server is configured"
    for server in servers:
        host, _, port = server.rpartition("://")[2].rpartition(":")
        try:
            patience = max(0.2, timeout / 2 / len(servers))
            with socket.create_connection((host.strip("[]"), int(port)), timeout=patience) as connection:
                if authorities is not None:
                    _check_certificate(cluster, topic, authorities, host.strip("[]"), connection)
                return
        except (OSError, ValueError) as error:
            reason = str(error)
    raise unavailable(cluster, topic, reason)


def _check_certificate(cluster: Cluster, topic: str, authorities: str, host: str, connection: socket.socket) -> None:
    """Say what is wrong with a broker's certificate, which librdkafka does not say."""
    try:
        # A broker that wants a certificate refuses the connection only after this handshake, or in it.
        ssl.create_default_context(cadata=authorities).wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        raise not_accepted(cluster, topic, "the broker's certificate", error.verify_message) from None
    except (ssl.SSLError, OSError):
        return


def remaining(deadline: float) -> float:
    """Seconds until a deadline, at least a tenth."""
    return max(0.1, deadline - time.monotonic())
