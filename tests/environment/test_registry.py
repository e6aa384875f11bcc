"""The settings of the schema registry: who asks it, and that a secret is read when a request needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.certificates import Authority
from tidegate.environment import Environment
from tidegate.environment.clusters import DEFAULT
from tidegate.environment.registry import RegistryServer
from tidegate.errors import SetupError

OWN = {"TIDEGATE_REGISTRY": "https://registry:8081/base", "TIDEGATE_REGISTRY_USER": "a@b"}


def of(variables: dict[str, str], cluster: str = DEFAULT) -> RegistryServer:
    registry = Environment.read(variables).schema_registry(cluster)
    assert registry is not None
    return registry


def test_without_a_url_there_is_none() -> None:
    assert Environment.read({"TIDEGATE_REGISTRY_USER": "ada"}).schema_registry(DEFAULT) is None


def test_the_password_is_read_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(OWN).credentials() == ("a@b", "")
    file = tmp_path / "password"
    file.write_text("p:/w@d ü\n")
    of_file = of({**OWN, "TIDEGATE_REGISTRY_PASSWORD": f"file:{file}"})
    of_variable = of({**OWN, "TIDEGATE_REGISTRY_PASSWORD": "env:REGISTRY_WORD"})
    monkeypatch.setenv("REGISTRY_WORD", "p:/w@d ü")
    assert of_file.credentials() == of_variable.credentials() == ("a@b", "p:/w@d ü")
    assert of_file.address == "https://registry:8081/base"
    assert "w@d" not in repr(of_file)
    file.write_text("next\n")
    assert of_file.credentials() == ("a@b", "next"), "it is read again"
    for change in (lambda: file.write_text("\n"), file.unlink):
        change()
        with pytest.raises(SetupError, match=r"registry\.password is (in the file|file:.*, which is empty)"):
            of_file.credentials()
    monkeypatch.delenv("REGISTRY_WORD")
    with pytest.raises(SetupError, match="in the variable REGISTRY_WORD, which is not set"):
        of_variable.credentials()


def test_a_cluster_may_have_a_registry_of_its_own() -> None:
    own = {
        **OWN,
        "TIDEGATE_KAFKA__PAYMENTS__REGISTRY": "https://payments:8081",
        "TIDEGATE_KAFKA__PAYMENTS__REGISTRY_CA": "env:CA",
        "TIDEGATE_KAFKA__PAYMENTS": "kafka:9092",
    }
    payments = of(own, "payments")
    assert (payments.address, payments.user, payments.ca) == ("https://payments:8081", "", "env:CA")
    assert of(own, "orders") == of(own) == of(OWN) != payments
    assert Environment.read(own).cluster("payments").settings == (), "no option of Kafka's clients"
    passed = Environment.read(own).variables()
    assert (of(passed, "payments"), of(passed)) == (payments, of(OWN)), "as a job reads them"
    alone = {name: value for name, value in own.items() if not name.startswith("TIDEGATE_REGISTRY")}
    assert of(alone, "payments") == payments
    assert Environment.read(alone).schema_registry(DEFAULT) is None


@pytest.mark.parametrize(
    ("more", "problem", "advice"),
    [
        ({"REGISTRY_USER": "ada"}, "has no registry of its own, and settings of one", "set kafka.payments.registry"),
        ({"REGISTRY": "https://ada:w@x", "REGISTRY_USER": "ada"}, "two users", "kafka.payments.registry_user"),
        ({"REGISTRY": "http://x", "REGISTRY_CA": "env:X"}, "begins with http", "kafka.payments.registry_ca"),
        ({"REGISTRY": "https://x", "REGISTRY_KEY": "file:/x"}, "its key", "kafka.payments.registry_certificate"),
    ],
)
def test_settings_of_a_clusters_registry_that_do_not_fit_name_the_cluster(
    more: dict[str, str], problem: str, advice: str
) -> None:
    with pytest.raises(SetupError, match=problem) as raised:
        of({**OWN, **{f"TIDEGATE_KAFKA__PAYMENTS__{name}": value for name, value in more.items()}}, "payments")
    assert "cluster payments" in raised.value.message and advice in str(raised.value.advice)


def test_user_and_password_may_be_in_the_url() -> None:
    registry = of({"TIDEGATE_REGISTRY": "https://a%40b:p%3Aw@registry:8081/base?x=1"})
    assert registry.credentials() == ("a@b", "p:w")
    assert registry.address == "https://registry:8081/base"
    assert of({"TIDEGATE_REGISTRY": "http://registry"}).credentials() is None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"TIDEGATE_REGISTRY": "https://ada:word@registry", "TIDEGATE_REGISTRY_USER": "ada"}, "two users"),
        ({"TIDEGATE_REGISTRY_USER": "", "TIDEGATE_REGISTRY_PASSWORD": "env:X"}, "a password and no user"),
        ({"TIDEGATE_REGISTRY_CERTIFICATE": "file:/x"}, "one of a certificate and its key"),
        ({"TIDEGATE_REGISTRY_KEY_PASSWORD": "env:X"}, "one of a certificate and its key"),
        ({"TIDEGATE_REGISTRY": "http://registry", "TIDEGATE_REGISTRY_CA": "env:X"}, "begins with http"),
    ],
)
def test_settings_that_do_not_fit_together_are_an_error(more: dict[str, str], problem: str) -> None:
    with pytest.raises(SetupError, match=problem) as raised:
        of(OWN | more)
    assert "word@" not in raised.value.message


@pytest.mark.parametrize(
    ("setting", "reference"), [("CERTIFICATE", "env:X"), ("KEY", "airflow-connection:x"), ("CA", "-----BEGIN")]
)
def test_certificate_and_key_are_files_and_nothing_is_a_value(setting: str, reference: str) -> None:
    with pytest.raises(SetupError, match=f"TIDEGATE_REGISTRY_{setting} is not a reference to a secret") as raised:
        Environment.read(OWN | {f"TIDEGATE_REGISTRY_{setting}": reference})
    assert "BEGIN" not in f"{raised.value} {raised.value.advice}"


def test_certificates_that_cannot_be_read_are_an_error_without_their_text(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    authority.issue("client", password="canary-word")
    authority.issue("other")
    (tmp_path / "word").write_text("canary-wrong")
    own = {"certificate": f"file:{tmp_path / 'client.crt'}", "key": f"file:{tmp_path / 'client.key'}"}
    for changes in (
        {},
        {"key_password": f"file:{tmp_path / 'word'}"},
        {"key": f"file:{tmp_path / 'other.key'}"},
        {"key": f"file:{tmp_path / 'none.key'}"},
        {"ca": f"file:{tmp_path / 'word'}"},
    ):
        with pytest.raises(
            SetupError, match=r"registry\.certificate, registry\.key or registry\.ca cannot be"
        ) as raised:
            RegistryServer(url="https://registry", **(own | changes)).tls()
        assert "canary" not in f"{raised.value} {raised.value.advice}"
    (tmp_path / "word").write_text("canary-word")
    RegistryServer(url="https://registry", **own, key_password=f"file:{tmp_path / 'word'}").tls()
