"""`docker-compose.yaml` describes services that this project has: paths, settings and secrets are there, and its brokers run."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from cryptography import x509

from devstack import certificates, kafka_users
from tests.composed import BROKERS, FILE, SERVICES, TEXT, composed
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.environment import Environment
from tidegate.environment.settings import SETTINGS

PROJECT = Path(__file__).parents[2]
BUILT = {name: service for name, service in SERVICES.items() if "build" in service}
PASSWORD = "canary-9c41"
ANSWER_SECONDS = 5
"""After which a broker that refuses counts as one that does not answer."""


def variables() -> Iterator[tuple[str, str, str]]:
    """Service, variable and value."""
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            yield name, variable, value


def test_the_file_is_valid_by_the_schema_of_its_specification() -> None:
    schema = json.loads(Path(__file__).with_name("compose").joinpath("compose-spec.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(FILE)] == []
    wrong = {**FILE, "services": {"kafka": {"image": "kafka", "port": [9092]}}}
    assert [error.message for error in validator.iter_errors(wrong)]


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_the_file_contains_no_secrets() -> None:
    secret = re.compile("PASSWORD|SECRET|SQL_ALCHEMY_CONN")
    values = {value for _, variable, value in variables() if secret.search(variable)}
    assert values
    assert {value for value in values if "${" not in value} == {"file:/run/secrets/kafka"}


def test_services_volumes_and_secrets_that_are_named_are_declared() -> None:
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= set(FILE["volumes"]), name
        assert set(service.get("secrets", ())) <= set(FILE["secrets"]), name
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert used == set(FILE["volumes"])


def test_every_address_is_that_of_a_service() -> None:
    hosts = set()
    texts = [value for _, _, value in variables()]
    texts += [part for service in SERVICES.values() for part in service.get("command", ())]
    for text in texts:
        hosts |= set(re.findall(r"(?:^|[/@,])([a-z][a-z0-9-]*):\d", text))
        hosts |= set(re.findall(r"[a-z]+://([a-z][a-z0-9-]*)", text)) - {"lake", "landing"}
    assert hosts - {"127"} <= set(SERVICES), hosts - set(SERVICES)
    assert set(BROKERS) < hosts


def test_every_variable_of_the_shell_is_in_the_command_that_creates_them_or_has_a_default() -> None:
    (created,) = re.findall(r"for name in ([A-Z0-9_ ]+);", TEXT)
    used = set(re.findall(r"\$\{(\w+):\?", TEXT)) | {secret["environment"] for secret in FILE["secrets"].values()}
    assert used == set(created.split())


def test_every_path_of_the_image_is_in_the_tree_or_made_by_its_dockerfile() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    (made,) = re.findall(r"install --directory .*? --group 0 (.+)$", dockerfile, re.MULTILINE)
    for name, _, value in variables():
        if name in BUILT and value.startswith("/opt/tidegate"):
            assert (PROJECT / value.removeprefix("/opt/tidegate/")).exists(), value
    mounted = {
        volume.split(":")[1]
        for name, service in BUILT.items()
        if name != "buckets"
        for volume in service.get("volumes", ())
    }
    assert mounted <= set(made.split()), "a new volume has the owner of the folder of the image"
    modules = [
        part for service in BUILT.values() for part in service.get("entrypoint", ()) if part.startswith("devstack.")
    ]
    assert modules
    assert all(importlib.util.find_spec(module) for module in modules)


def test_the_settings_of_jobs_are_known_and_valid() -> None:
    unknown = {
        variable
        for _, variable, _ in variables()
        if variable.startswith("TIDEGATE_") and not any(each.names(variable) for each in SETTINGS)
    }
    assert unknown == set()
    job = SERVICES["airflow-scheduler"]["environment"]
    environment = Environment.read({**job, "TIDEGATE_PROJECT": str(PROJECT)})
    assert (str(environment.lake_at), str(environment.landing_at)) == ("s3://lake", "s3://landing")
    cluster = environment.cluster("default")
    assert cluster.servers.count(":9092") == len(BROKERS)
    spark = {name for name in SERVICES if name.startswith("spark-worker")}
    shared = {"TIDEGATE_KAFKA__DEFAULT__CA", "AWS_ENDPOINT_URL_S3"}
    for name in spark:
        worker = SERVICES[name]
        assert shared <= worker["environment"].keys(), "an executor has the variables of its worker"
        assert "kafka" in worker["secrets"] and "certificates:/certificates:ro" in worker["volumes"]


def test_the_settings_of_airflow_are_known() -> None:
    spec = importlib.util.find_spec("airflow")
    assert spec is not None and spec.origin is not None
    declared = yaml.safe_load(
        (Path(spec.origin).parent / "config_templates" / "config.yml").read_text(encoding="utf-8")
    )
    known = {(section, option) for section, each in declared.items() for option in each["options"]}
    for name, variable, _ in variables():
        if variable.startswith("AIRFLOW__"):
            _, section, option = variable.lower().split("__")
            assert (section, option) in known, (name, variable)


def test_every_host_has_a_certificate_of_the_authority_and_a_second_start_makes_none(tmp_path: Path) -> None:
    (folder, *hosts) = SERVICES["certificates"]["command"]
    assert folder == "/certificates"
    certificates.main(tmp_path, hosts)
    authority = (tmp_path / "authority.pem").read_bytes()
    for host in hosts:
        certificate = x509.load_pem_x509_certificate((tmp_path / f"{host}.crt").read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [host]
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    certificates.main(tmp_path, hosts)
    assert (tmp_path / "authority.pem").read_bytes() == authority


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_brokers_run_with_tls_and_the_user_reads_and_writes_and_one_is_killed(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    def has_three_brokers(options: Mapping[str, Any]) -> bool:
        try:
            return len(AdminClient({**options, "log_level": 0}).list_topics(timeout=ANSWER_SECONDS).brokers) == len(
                BROKERS
            )
        except Exception:
            time.sleep(0.2)
            return False

    with composed(tmp_path, KAFKA_PASSWORD=PASSWORD) as services:
        services.certify()
        for name in BROKERS:
            services.start_broker(name)
        servers, certificates, user, password = services.command("kafka-users")[-4:]
        mutual = kafka_users.of_administrator(servers, Path(certificates))
        wait_until(lambda: has_three_brokers(mutual), "three brokers")
        without = {name: value for name, value in mutual.items() if not name.startswith(("ssl.cert", "ssl.key"))}
        assert not has_three_brokers(without), "the listener of the brokers asks for a certificate"
        kafka_users.set_password(mutual, user, Path(password).read_text())
        options = Environment.read(services.environment("airflow-scheduler")).cluster("default").librdkafka()
        wait_until(lambda: has_three_brokers(options), "the user to be known")
        assert not has_three_brokers({**options, "sasl.password": "wrong"})
        admin = AdminClient(options)
        admin.create_topics([NewTopic("events", num_partitions=3)])["events"].result(TIMEOUT_SECONDS)
        producer = Producer({**options, "acks": "all"})
        for number in range(30):
            producer.produce("events", str(number).encode())
        assert producer.flush(TIMEOUT_SECONDS) == 0
        services.kill(BROKERS[0])
        for number in range(30, 60):
            producer.produce("events", str(number).encode())
        assert producer.flush(TIMEOUT_SECONDS) == 0, "two of three brokers go on"
        consumer = Consumer({**options, "group.id": "test", "auto.offset.reset": "earliest"})
        consumer.subscribe(["events"])
        values: set[int] = set()

        def has_all() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.add(int(message.value() or b"-1"))
            return values == set(range(60))

        wait_until(has_all, "all messages")
        consumer.close()
