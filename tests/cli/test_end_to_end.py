"""A new pipeline from its first command to its rows, with the real Spark; stopped, crashed and refused on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import COMMAND, Project

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.scaffolded(tmp_path_factory.mktemp("copy") / "project")


def rows(project: Project, table: str) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    found: list[dict[str, Any]] = DeltaTable(str(project.layout.table(table))).to_pyarrow_table().to_pylist()
    return found


def jobs(project: Project) -> list[str]:
    """Command lines of processes that work on this project's lake."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TIDEGATE_LAKE={project.layout.lake}".encode() in entry.read_bytes():
                found.append((entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_ctrl_c_ends_the_job_and_says_what_the_next_run_does(project: Project) -> None:
    with subprocess.Popen(
        [COMMAND, "run", "sample"],
        env=project.child_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        for line in running.stdout:
            if "starting Spark" in line:
                break
        time.sleep(1)
        assert any("run_pipeline.py" in job for job in jobs(project))
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 130
        assert running.stderr.read() == (
            "tidegate: stopped. Nothing is half done: the next run finishes the batch in hand.\n"
        )
    assert jobs(project) == []


def test_a_job_that_crashes_ends_with_70_and_shows_its_last_words(project: Project) -> None:
    told = project.run("run", "sample", TIDEGATE_DRIVER_MEMORY="1m")
    assert told.code == 70
    assert "driver.log" in told.err
    assert "Too small maximum heap" in told.out


def test_the_first_run_gives_rows_in_every_layer(project: Project) -> None:
    told = project.run("run", "sample")
    assert told.code == 0, told.out + told.err
    assert "8 read = 8 written" in told.out
    assert "8 read = 4 written + 2 quarantined + 1 filtered + 1 deduplicated" in told.out
    assert "between(amount) 1, wrong_type(amount) 1" in told.out
    assert "tidegate quarantine list sample" in told.out
    page = Path(told.row("report (silver): ").partition(": ")[2])
    assert page.is_file() and page.is_relative_to(project.layout.docs("sample"))

    assert len(rows(project, "bronze.sample")) == 8
    silver = {row["order_id"]: str(row["amount"]) for row in rows(project, "silver.sample")}
    assert silver == {"A-1": "19.90", "A-2": "205.00", "A-3": "7.50", "A-4": "42.00"}
    gold = {str(row["day"]): (row["orders"], str(row["amount"])) for row in rows(project, "gold.sample")}
    assert gold == {"2026-01-05": (3, "232.40"), "2026-01-06": (1, "42.00")}


def test_the_second_run_says_that_nothing_is_new_without_a_jvm(project: Project) -> None:
    before = sorted(project.layout.reports("sample").iterdir())
    told = project.run("run", "sample", JAVA_HOME="/nowhere")
    assert told.code == 0, told.err
    assert "nothing is new; no JVM was started" in told.out
    assert sorted(project.layout.reports("sample").iterdir()) == before


def test_status_ledger_and_quarantine_tell_of_what_spark_wrote(project: Project) -> None:
    assert [flow["state"] for flow in project.run("status", "sample", "--json").json["flows"]] == ["up to date"] * 3
    assert all(line["imbalance"] == 0 for line in project.run("ledger", "sample", "--json").json["batches"])
    held = project.run("quarantine", "list", "sample", "silver", "--json").json["flows"][0]
    assert held["open"] == 2
    assert {line["source"] for line in held["by_rule"]} == {
        str(project.environment.landing / "sample" / "sample_sample.csv")
    }


def test_a_refused_batch_ends_with_65_and_status_and_plan_wait_for_a_person(project: Project) -> None:
    landing = project.environment.landing / "sample"
    header = (landing / "sample_sample.csv").read_text().splitlines()[0]
    lines = [f"B-{number},2026-01-07T09:00:00Z,,1.00,2026-01-07T09:00:00Z" for number in range(5)]
    draft = landing / ".nameless.csv"
    draft.write_text("\n".join([header, *lines]) + "\n")
    draft.rename(landing / "nameless.csv")
    told = project.run("run", "sample")
    assert told.code == 65, told.out + told.err
    assert "silver -> silver.sample: refused" in told.out
    assert "not_null(customer) (5 of 5 rows break it, mostly 0.8)" in told.out
    assert "gold -> gold.sample: skipped" in told.out
    assert len(rows(project, "silver.sample")) == 4

    assert [flow["state"] for flow in project.run("status", "sample", "--json").json["flows"]][1] == "refused"
    waiting = project.run("run", "sample", JAVA_HOME="/nowhere")
    assert waiting.code == 0
    assert "until somebody mends what was refused" in waiting.out

    suite = project.folder / "expectations" / "sample" / "silver.json"
    said = json.loads(suite.read_text())
    said["expectations"][0]["severity"] = "info"
    suite.write_text(json.dumps(said))
    told = project.run("run", "sample")
    assert told.code == 0, told.out + told.err
    assert len(rows(project, "silver.sample")) == 9
