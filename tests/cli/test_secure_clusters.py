"""One run with several clusters and schema registries that ask for certificates and passwords.

It leaves none of them, a wrong one stops its flow alone, and each registry's ids are ids of its cluster alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pytest
from deltalake import DeltaTable

from devstack.broker import Broker
from tests import topics
from tests.canaries import files_containing
from tests.cli.project import Project
from tests.schema_registry import SchemaRegistry, framed
from tests.secure_broker import KEY_PASSWORD, PASSWORDS, secure_broker
from tests.waiting import TIMEOUT_SECONDS
from tidegate.probes import kafka
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSink, KafkaSource, Pipeline, Table

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.nightly]

EVENT_LOG = """\
spark.eventLog.enabled true
spark.eventLog.dir file:{folder}
spark.eventLog.compress false
"""
CLUSTERS: dict[str, tuple[str, dict[str, str]]] = {
    "scram": ("PASSWORD", {}),
    "plain": ("PASSWORD", {"mechanism": "PLAIN", "password": "env:KAFKA_CANARY"}),
    "mutual": (
        "MUTUAL",
        {"key": "file:{folder}/open.key", "certificate": "file:{folder}/open.crt", "key_password": ""},
    ),
    "refused": ("PASSWORD", {"password": "file:{folder}/limited.password"}),
    "unreadable": ("PASSWORD", {"user": "limited", "password": "file:{folder}/limited.password"}),
    "absent": ("PASSWORD", {"servers": "127.0.0.1:9"}),
}
REGISTRY_PASSWORDS = {"scram": "canary-registry-5e21", "plain": "canary-registry-c04d"}
"""Of the registries that two clusters have of their own."""
FIELDS = {"scram": ("id", "number"), "plain": ("number", "id")}
"""Of schema 1 of each registry. Read with the schema of the other one, the two fields of a message change places and nothing fails."""


def pipeline() -> Pipeline:
    """A topic of each cluster but one, a table whose changes are sent to that one, and a topic of schemas of each registry."""
    reading = tuple(
        Flow(
            name=name,
            source=KafkaSource(topic=f"described-{name}", schema="id INT", cluster=name),
            target=Table(f"bronze.{name}"),
        )
        for name in CLUSTERS
        if name != "mutual"
    )
    files = FileSource(path="orders", format="csv", schema="order_id STRING, number INT")
    landed = Flow(name="orders", source=files, target=Table("bronze.orders"))
    kept = Table("silver.orders", keys=("order_id",), sequence_by=("number",))
    rows = Flow(name="rows", source=ChangeFeed("bronze.orders"), transform="orders:clean", target=kept)
    sent = Flow(name="sent", source=ChangeFeed("silver.orders"), target=KafkaSink("sent", cluster="mutual"))
    parsed = tuple(flow for name in FIELDS for flow in registered(name))
    return Pipeline(name="mixed", flows=(*reading, landed, rows, sent, *parsed))


def registered(cluster: str) -> tuple[Flow, Flow]:
    """A topic with schemas in the registry of a cluster, and its messages with columns."""
    topic = KafkaSource(topic=f"described-avro-{cluster}", schema="id INT, number INT", format="avro", cluster=cluster)
    columns = Table(f"silver.avro_{cluster}", keys=("id",), sequence_by=("number",))
    return (
        Flow(name=f"avro_{cluster}", source=topic, target=Table(f"bronze.avro_{cluster}")),
        Flow(
            name=f"columns_{cluster}",
            source=ChangeFeed(f"bronze.avro_{cluster}"),
            transform="orders:clean",
            target=columns,
        ),
    )


@contextmanager
def registries(folder: Path) -> Iterator[tuple[dict[str, SchemaRegistry], dict[str, str]]]:
    """The registry of each of the two clusters, and the variables with its settings.

    One asks for TLS, a certificate of the client and a password, all references; the other one's URL has user and password.
    """
    (folder / "registry.password").write_text(REGISTRY_PASSWORDS["scram"])
    files = {"PASSWORD": "registry.password", "CA": "authority.pem", "CERTIFICATE": "client.crt", "KEY": "client.key"}
    files |= {"KEY_PASSWORD": "key.password"}
    secure = SchemaRegistry(
        f"ada:{REGISTRY_PASSWORDS['scram']}", certificate=folder / "broker.pem", clients_of=folder / "authority.pem"
    )
    with secure, SchemaRegistry(f"ada:{REGISTRY_PASSWORDS['plain']}") as plain:
        of_secure = {f"_{name}": f"file:{folder / file}" for name, file in files.items()} | {"_USER": "ada"}
        variables = {f"TIDEGATE_KAFKA__SCRAM__REGISTRY{name}": text for name, text in of_secure.items()}
        variables["TIDEGATE_KAFKA__SCRAM__REGISTRY"] = secure.settings.address
        variables["TIDEGATE_KAFKA__PLAIN__REGISTRY"] = plain.address
        yield {"scram": secure, "plain": plain}, variables


def send_registered(broker: Broker, cluster: str, registry: SchemaRegistry) -> None:
    """Two messages, with the first schema of a registry."""
    from confluent_kafka import Producer

    fields = [{"name": name, "type": "int"} for name in FIELDS[cluster]]
    schema: dict[str, Any] = {"type": "record", "name": "Click", "fields": fields}
    schema_id = registry.register(schema)
    assert schema_id == 1
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for id in (1, 2):
        content = io.BytesIO()
        fastavro.schemaless_writer(content, fastavro.parse_schema(schema), {"id": id, "number": id + 10})
        producer.produce(f"described-avro-{cluster}", framed(schema_id, content.getvalue()))
    assert producer.flush(TIMEOUT_SECONDS) == 0


def test_a_run_with_several_clusters_leaves_no_secret_and_a_wrong_one_stops_its_flow_alone(
    project: Project, tmp_path: Path
) -> None:
    conf, events, certificates = project.folder / "conf", project.folder / "events", tmp_path / "secure"
    for folder in (conf, events, certificates):
        folder.mkdir()
    (conf / "spark-defaults.conf").write_text(EVENT_LOG.format(folder=events))
    project.declare(pipeline())
    project.land("1.csv", "order_id,number\nA-1,1\nA-2,1\n")
    with secure_broker(certificates) as secure:
        variables = {"SPARK_CONF_DIR": str(conf), "KAFKA_CANARY": PASSWORDS["tide"]}
        for name, (listener, changes) in CLUSTERS.items():
            own = {each: text.format(folder=certificates) for each, text in changes.items()}
            variables |= secure.variables(listener, name, **own)
        for topic in ("sent", *(f"described-{name}" for name in CLUSTERS)):
            secure.broker.create_topic(topic)
            topics.send(secure.broker, topic, range(0 if topic == "sent" else 5))
        with registries(certificates) as (servers, settings):
            variables |= settings
            for name, registry in servers.items():
                secure.broker.create_topic(f"described-avro-{name}")
                send_registered(secure.broker, name, registry)

            plan = project.run("plan", "mixed", "--json", **variables)
            run = project.run("run", "mixed", **variables)
            commands = (
                ("status",),
                ("lag",),
                ("alerts",),
                ("doctor",),
                ("config",),
                ("ledger", "mixed"),
                ("docs", "mixed"),
            )
            others = [project.run(*command, **variables) for command in commands]

        assert kafka.end_offsets(secure.broker.cluster, "sent") == {0: 2}
        requested = [registry.requests.count("/schemas/ids/1") for registry in servers.values()]
        assert requested == [1, 1], run.out + run.err
    shown = run.out + run.err
    assert (plan.code, run.code) == (78, 78), shown
    planned = {flow["flow"]: flow for flow in plan.json["flows"]}
    assert [planned[name]["behind"] for name in ("scram", "plain", "unreadable", "orders")] == [5, 5, 5, 1]
    assert "user and password failed at cluster refused of Kafka" in planned["refused"]["error"]["message"]
    assert "no Kafka broker answers at 127.0.0.1:9 (cluster absent)" in planned["absent"]["error"]["message"]
    tables = ("bronze.scram", "bronze.plain", "bronze.orders")
    counts = {name: DeltaTable(str(project.layout.table(name))).to_pyarrow_table().num_rows for name in tables}
    assert list(counts.values()) == [5, 5, 2]
    for name in FIELDS:
        columns = DeltaTable(str(project.layout.table(f"silver.avro_{name}"))).to_pyarrow_table()
        rows = columns.select(["id", "number"]).sort_by("id").to_pylist()
        assert rows == [{"id": 1, "number": 11}, {"id": 2, "number": 12}], name
    assert "no Kafka broker answers at 127.0.0.1:9 (cluster absent) for topic 'described-absent'" in shown
    assert "user and password failed at cluster refused of Kafka" in shown
    assert "cluster unreadable of Kafka does not let the user read topic 'described-unreadable'" in shown

    key = (certificates / "open.key").read_text().splitlines()[2]
    secrets = (*PASSWORDS.values(), *REGISTRY_PASSWORDS.values(), KEY_PASSWORD, key)
    logs = [path for path in events.rglob("*") if path.is_file()]
    assert any("SparkListenerSQLExecutionStart" in path.read_text() for path in logs)
    assert not files_containing(project.folder, secrets)
    shown += "".join(each.out + each.err for each in (plan, *others))
    assert "file:" in shown and "env:KAFKA_CANARY" in shown, "references are shown"
    assert not [secret for secret in secrets if secret in shown]
