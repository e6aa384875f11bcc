"""One run with several clusters that ask for certificates and passwords: it leaves none, and a wrong one stops its flow alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests import topics
from tests.canaries import files_containing
from tests.cli.project import Project
from tests.secure_broker import KEY_PASSWORD, PASSWORDS, secure_broker
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


def pipeline() -> Pipeline:
    """A topic of each cluster but one, and a table whose changes are sent to that one."""
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
    return Pipeline(name="mixed", flows=(*reading, landed, rows, sent))


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
    shown = run.out + run.err
    assert (plan.code, run.code) == (78, 78), shown
    planned = {flow["flow"]: flow for flow in plan.json["flows"]}
    assert [planned[name]["behind"] for name in ("scram", "plain", "unreadable", "orders")] == [5, 5, 5, 1]
    assert "user and password failed at cluster refused of Kafka" in planned["refused"]["error"]["message"]
    assert "no Kafka broker answers at 127.0.0.1:9 (cluster absent)" in planned["absent"]["error"]["message"]
    tables = ("bronze.scram", "bronze.plain", "bronze.orders")
    counts = {name: DeltaTable(str(project.layout.table(name))).to_pyarrow_table().num_rows for name in tables}
    assert list(counts.values()) == [5, 5, 2]
    assert "no Kafka broker answers at 127.0.0.1:9 (cluster absent) for topic 'described-absent'" in shown
    assert "user and password failed at cluster refused of Kafka" in shown
    assert "cluster unreadable of Kafka does not let the user read topic 'described-unreadable'" in shown

    key = (certificates / "open.key").read_text().splitlines()[2]
    secrets = (*PASSWORDS.values(), KEY_PASSWORD, key)
    logs = [path for path in events.rglob("*") if path.is_file()]
    assert any("SparkListenerSQLExecutionStart" in path.read_text() for path in logs)
    assert not files_containing(project.folder, secrets)
    shown += "".join(each.out + each.err for each in (plan, *others))
    assert "file:" in shown and "env:KAFKA_CANARY" in shown, "references are shown"
    assert not [secret for secret in secrets if secret in shown]
