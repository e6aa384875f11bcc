"""Which forms of a private key librdkafka and Java's client of Kafka read. What is refused is what Java does not read."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from devstack.certificates import Authority
from tests.waiting import TIMEOUT_SECONDS
from tidegate.environment.clusters import Cluster
from tidegate.environment.key_forms import unreadable
from tidegate.errors import SetupError
from tidegate.spark.intake.topic_reader import java_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORD = "canary-word"
KEYS: dict[str, Callable[[], Any]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}
FORMS: dict[str, tuple[PrivateFormat, KeySerializationEncryption]] = {
    "PKCS #8": (PrivateFormat.PKCS8, NoEncryption()),
    "PKCS #8 in PBES2": (PrivateFormat.PKCS8, BestAvailableEncryption(WORD.encode())),
    "alone": (PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    "alone, encrypted": (PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(WORD.encode())),
}
CASES = [(kind, form) for kind in KEYS for form in FORMS if (kind, form.startswith("alone")) != ("Ed25519", True)]


@cache
def key(kind: str) -> Any:
    return KEYS[kind]()


def written(kind: str, form: str) -> str:
    structure, encryption = FORMS[form]
    return str(key(kind).private_bytes(Encoding.PEM, structure, encryption).decode())


def certificate(kind: str, folder: Path) -> str:
    return Authority(folder, "authority").certify(key(kind)).decode()


def read_by_librdkafka(pem: str, of: str, word: str) -> bool:
    """Whether it takes the key of a certificate."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    settings = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.key.pem": pem}
    settings |= {"ssl.certificate.pem": of, "log_level": "0"} | ({"ssl.key.password": word} if word else {})
    try:
        AdminClient({**settings})
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_librdkafka_reads_every_form(kind: str, form: str, tmp_path: Path) -> None:
    word = WORD if "PBES2" in form or "encrypted" in form else ""
    assert read_by_librdkafka(written(kind, form), certificate(kind, tmp_path), word)


def test_java_before_21_does_not_read_what_pbes2_has_encrypted() -> None:
    pem = written("EC", "PKCS #8 in PBES2")
    assert unreadable(pem) is unreadable(pem, 21) is unreadable(pem, 25) is None
    assert (wrong := unreadable(pem, 17)) and wrong.command.endswith("-v1 PBE-SHA1-3DES")


def test_a_file_without_a_key_or_with_a_damaged_one_is_named(tmp_path: Path) -> None:
    for pem, problem in (
        ("", "no private key"),
        ("\x30\x82", "no private key"),
        ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", "damaged"),
    ):
        assert (wrong := unreadable(pem)) and problem in wrong.why
        assert not read_by_librdkafka(pem or "x", certificate("EC", tmp_path), "")


@pytest.mark.parametrize("form", ["alone", "alone, encrypted"])
def test_a_key_that_no_java_reads_is_refused_in_plans_too(form: str, tmp_path: Path) -> None:
    (tmp_path / "client.key").write_text(written("EC", form))
    (tmp_path / "word").write_text(WORD)
    own = {"security": "SSL", "certificate": "env:X", "key": f"file:{tmp_path / 'client.key'}"}
    own |= {"key_password": f"file:{tmp_path / 'word'}"} if "encrypted" in form else {}
    for make in (Cluster.librdkafka, lambda each: each.java(25)):
        with pytest.raises(SetupError, match="a key in the form of EC alone, not in PKCS #8") as raised:
            make(Cluster(name="events", servers="a:1", settings=tuple(own.items())))
        assert "kafka.events.key is file:" in raised.value.message
        assert "openssl pkcs8 -topk8 -in <key> -out <new key>" in str(raised.value.advice)
        assert not raised.value.transient and WORD not in f"{raised.value} {raised.value.advice}"


@pytest.mark.jvm
@pytest.mark.parametrize(("kind", "form"), CASES)
def test_java_reads_what_is_not_refused_and_what_the_advice_makes_of_the_rest(
    spark: SparkSession, kind: str, form: str, tmp_path: Path
) -> None:
    of = certificate(kind, tmp_path)
    word = WORD if "PBES2" in form or "encrypted" in form else ""
    pem = written(kind, form)
    wrong = unreadable(pem, java_version(spark))
    # What an encrypted key is of stands in its encrypted part.
    if (kind, form) != ("Ed25519", "PKCS #8 in PBES2"):
        assert read_by_java(spark, pem, of, word) == (wrong is None), wrong
    if wrong is None or kind == "Ed25519":
        return
    (tmp_path / "key").write_text(pem)
    command = wrong.command.replace("<key>", str(tmp_path / "key")).replace("<new key>", str(tmp_path / "new"))
    words = ["-passin", f"pass:{word}", "-passout", f"pass:{word}"] if word else []
    subprocess.run([*shlex.split(command), *words], check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    converted = (tmp_path / "new").read_text()
    assert unreadable(converted, java_version(spark)) is None
    assert read_by_java(spark, converted, of, word) and read_by_librdkafka(converted, of, word)


def read_by_java(spark: SparkSession, pem: str, of: str, word: str) -> bool:
    """Whether Kafka's own class for PEM stores reads the key of a certificate."""
    jvm: Any = spark._jvm
    security, types = jvm.org.apache.kafka.common.security.ssl, jvm.org.apache.kafka.common.config.types
    settings = jvm.java.util.HashMap()
    settings.put("ssl.keystore.type", "PEM")
    settings.put("ssl.keystore.key", types.Password(pem))
    settings.put("ssl.keystore.certificate.chain", types.Password(of))
    if word:
        settings.put("ssl.key.password", types.Password(word))
    settings.put("ssl.protocol", "TLSv1.3")
    settings.put("ssl.keymanager.algorithm", "SunX509")
    settings.put("ssl.trustmanager.algorithm", "PKIX")
    try:
        security.DefaultSslEngineFactory().configure(settings)
    except Exception as error:
        assert "InvalidConfigurationException" in str(error), error
        return False
    return True
