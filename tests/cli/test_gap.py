"""`tidegate flow accept-gap`: the command in the error message accepts the gap, on a real broker."""

from __future__ import annotations

import re
import shlex

import pytest

from devstack.broker import Broker
from tests import topics
from tests.cli.project import Project
from tests.spark_files import Checkpoint
from tidegate.lake.place import Place

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]


@pytest.mark.nightly
def test_the_command_in_the_error_message_accepts_the_gap(project: Project, broker: Broker, topic: str) -> None:
    project, name = Project(project.folder, broker.bootstrap), topic.replace("-", "_")
    project.run("new", name, "--source", "kafka")
    broker.create_topic(name, 1)
    topics.send(broker, name, range(20))
    Checkpoint(Place(project.layout, name, "bronze", 1, 0).checkpoint).run(0, {name: {"0": 10}})
    topics.delete_before(broker, name, 15)

    result = project.run("plan", name, "--flow", "bronze", "--json")

    assert result.code == 65
    (flow,) = result.json["flows"]
    assert (flow["error"]["kind"], flow["error"]["lost"]) == ("GapError", {"0": [10, 14]})
    match = re.search(r"tidegate (flow accept-gap .*?--reason) ", flow["error"]["message"])
    assert match is not None
    command = shlex.split(match[1])
    assert project.run(*[word.replace("0:10-14", "0:10-12") for word in command], "tests").code == 64
    assert project.run("flow", "accept-gap", name, "silver", "0:10-14", "--reason", "tests").code == 64
    assert project.run(*command, "they were tests").code == 0
    (flow,) = project.run("plan", name, "--flow", "bronze", "--json").json["flows"]
    assert (flow["has_work"], flow["ahead"]) == (True, "offsets 0:15-19")
    assert project.run("flow", "show", name).row(
        "bronze", f"offsets 0:10-14 of topic {name} accepted as a gap", "they were tests"
    )
    (line,) = project.run("ledger", name, "--json").json["batches"]
    assert (line["kind"], line["read"], line["imbalance"]) == ("gap", 5, 0)
    assert project.run("ledger", name).row("bronze", "gap", f"5 filtered by gap({name} 0:10-14)")
