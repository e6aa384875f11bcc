"""`tidegate status` and `tidegate lag` on real checkpoints and tables; they start no JVM."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.project import Checkpoint, Project, orders, state_progress, stateful_orders
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import metrics
from tidegate.spec import Pipeline

pytestmark = pytest.mark.slow

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def running(project: Project) -> Pipeline:
    """Orders with two of three files read: bronze and silver ran once, gold never."""
    pipeline = project.declare(orders())
    read = [project.land(f"{number}.csv", "order_id,amount\nA-1,1.0\n") for number in range(2)]
    project.land("2.csv", "order_id,amount\nA-2,2.0\nA-3,3.0\n")
    project.checkpoint(pipeline, pipeline.flow("bronze")).listed(0, *read).plan(0, {"logOffset": 0}).commit(0)
    table_id = project.table("bronze.orders", [{"line": "A-1,1.0"}, {"line": "A-1,1.0"}])
    project.table("silver.orders", [{"order_id": "A-1"}])
    project.checkpoint(pipeline, pipeline.flow("silver")).plan(0, feed(table_id, 1)).commit(0)
    return pipeline


def feed(table_id: str, version: int) -> dict[str, object]:
    return {
        "sourceVersion": 1,
        "reservoirId": table_id,
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": False,
    }


def test_every_flow_shows_its_checkpoint_last_batch_position_and_lag(project: Project, running: Pipeline) -> None:
    result = project.run("status")
    assert result.code == 0, result.err
    assert "behind" in result.row("orders/bronze", "v1", "0, ", " d ago", "~2", "32 B", "2 files read")
    assert "up to date" in result.row("silver", "version 0")
    assert "behind" in result.row("gold", "nothing read")


def test_a_stateful_flow_shows_the_size_of_its_state_and_how_far_its_watermark_is_behind(project: Project) -> None:
    project.declare(stateful_orders())
    progress = [state_progress(0), state_progress(1, state_rows=1_204, state_bytes=5_000_000)]
    metrics.append(PipelinePlace(project.layout, "orders").ops("progress"), progress)
    line = project.run("status").row("1,204 rows of state, 5.0 MB in files")
    assert line.startswith("orders/silver: ")
    assert "watermark 2026-01-05 09:01:00 UTC, " in line
    flows = {flow["flow"]: flow["operator_state"] for flow in project.run("status", "--json").json["flows"]}
    assert (flows["bronze"], flows["parsed"]) == (None, None)
    assert flows["silver"]["rows"] == 1_204
    assert flows["silver"]["watermark"] == "2026-01-05T09:01:00+00:00"


def test_the_json_output_has_the_same_values(project: Project, running: Pipeline) -> None:
    flows = project.run("status", "orders", "--json").json["flows"]
    assert [flow["flow"] for flow in flows] == ["bronze", "silver", "gold"]
    bronze = flows[0]
    assert (bronze["checkpoint_version"], bronze["last_committed_batch"], bronze["lease"]) == (1, 0, None)
    assert (bronze["lag"]["rows"], bronze["lag"]["rows_exact"]) == (2, False)
    assert (bronze["lag"]["bytes"], bronze["lag"]["bytes_exact"]) == (32, True)


def test_lag_shows_the_reason_and_marks_estimates(project: Project, running: Pipeline) -> None:
    result = project.run("lag", "orders")
    assert result.code == 0
    assert "~2" in result.row("bronze", "files", "32 B", "1 new file in orders")
    assert "~" not in result.row("silver", "change_feed", "nothing new")


def test_the_holder_of_the_lease_is_shown(project: Project, running: Pipeline) -> None:
    lock = project.layout.lease("table:silver.orders")
    lock.parent.mkdir(parents=True)
    lock.touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "locked\n"
        owner = {"what": "run 7 of orders", "pid": holder.pid, "host": "here", "since": "2026-01-05T10:00:00Z"}
        project.layout.lease_owner("table:silver.orders").write_text(json.dumps(owner))
        result = project.run("status")
        holder.stdin.close()
    assert "running" in result.row("orders/silver ")
    assert f"held by run 7 of orders (pid {holder.pid} " in result.row("orders/silver: ")
    assert "running" not in result.row("orders/bronze")


def test_a_pending_batch_is_unfinished(project: Project, running: Pipeline) -> None:
    Checkpoint(Path(Place(project.layout, "orders", "bronze", 1, 0).checkpoint)).listed(
        1, project.folder / "landing/orders/2.csv"
    ).plan(1, {"logOffset": 1})
    assert "unfinished" in project.run("status").row("orders/bronze ")


def test_an_unavailable_broker_only_affects_its_own_row_and_the_exit_code(project: Project, running: Pipeline) -> None:
    project.declare(orders(topic="clicks"))
    result = project.run("status")
    assert result.code == 75
    assert "unreachable" in result.row("clicks/bronze ", "v1")
    assert "127.0.0.1:9" in result.row("clicks/bronze: ")
    assert "behind" in result.row("orders/bronze", "2 files read")


def test_a_landing_folder_that_does_not_exist_yet_is_no_error(project: Project) -> None:
    project.declare(orders())
    result = project.run("lag", "orders")
    assert result.code == 0, result.err
    assert "not delivered yet" in result.row("orders/bronze")


def test_a_landing_folder_that_is_a_file_is_a_permanent_error(project: Project) -> None:
    project.declare(orders())
    (project.folder / "landing" / "orders").write_text("a file in place of the folder")
    result = project.run("lag", "orders")
    assert result.code == 78
    assert "is a file, not a folder" in result.row("orders/bronze")


def test_a_declaration_that_does_not_load_hides_no_other_pipeline(project: Project, running: Pipeline) -> None:
    (project.folder / "pipelines" / "broken.py").write_text("import nothing_of_that_name\n")
    result = project.run("status")
    assert result.code == 78
    assert "line 1" in result.row("broken", "nothing_of_that_name")
    assert "behind" in result.row("orders/bronze", "2 files read")


def test_a_declaration_that_does_not_match_its_checkpoint_is_an_error(project: Project, running: Pipeline) -> None:
    path = project.folder / "pipelines" / "orders.py"
    path.write_text(path.read_text().replace("orders:clean", "orders:tidy"))
    result = project.run("status")
    assert result.code == 78
    assert "checkpoint_version=2" in result.row("orders/silver: ")
    assert "error" in result.row("orders/silver ")


def test_a_lake_of_a_newer_tidegate_is_not_read(project: Project, running: Pipeline) -> None:
    Path(project.layout.root).joinpath("lake.json").write_text('{"format": 99}')
    result = project.run("status")
    assert (result.code, result.out) == (78, "")
    assert "upgrade Tidegate" in result.err


def test_status_and_lag_write_nothing(project: Project) -> None:
    project.declare(orders())
    project.run("status")
    project.run("lag")
    assert not Path(project.layout.root).exists()


def test_a_broker_that_never_answers_does_not_delay_the_other_flows(project: Project, running: Pipeline) -> None:
    project.declare(orders(topic="clicks"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # On a busy machine reading the other flows may take longer.
        for seconds in ("1", "2", "4", "8"):
            result = project.run("status", "--timeout", seconds, TIDEGATE_KAFKA=f"127.0.0.1:{silent.getsockname()[1]}")
            if "unreachable" not in result.row("orders/bronze "):
                break
    assert result.code == 75
    assert "--timeout" in result.row("clicks/bronze: ")
    assert "behind" in result.row("orders/bronze", "2 files read")


HEAVY = ("airflow", "pyspark", "py4j", "delta", "great_expectations", "pandas", "numpy", "scipy", "sqlalchemy")
COMMANDS = ("status", "lag", "plan orders", "run orders", "checkpoint orders")
LOADED = f"""
import sys
from tidegate.cli import app
from tidegate.errors import TidegateError
for command in {COMMANDS}:
    sys.argv[1:] = command.split()
    try:
        app()
    except (SystemExit, TidegateError):
        pass
    print(command, "loaded", sorted(set({HEAVY}) & set(sys.modules)))
"""


def test_no_command_loads_spark_airflow_or_pandas(project: Project, running: Pipeline) -> None:
    project.declare(orders(topic="clicks"))
    project.copy_of_real("flights")
    done = subprocess.run(
        # Not `Project.run`: its process has imported the modules before.
        [sys.executable, "-c", LOADED],
        env={**project.child_environment, "JAVA_HOME": "/nowhere"},
        cwd=project.folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = [line for line in done.stdout.splitlines() if " loaded " in line]
    assert loaded == [f"{command} loaded []" for command in COMMANDS], done.stdout + done.stderr
