"""`tidegate new --from` drafts a pipeline from a file and prints its guesses (`test_draft.py`). Its rows: `tests/spark/test_drafted.py`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.cli.test_new import ROOT
from tidegate.project import suite_file

pytestmark = pytest.mark.slow

GERMAN = (
    "Order ID;order_no;Betrag;Tag;updated_at;aktiv\n"
    "x;1;1.234,50;05.01.2026;2026-01-05T09:30:00Z;Y\n"
    "x;2;2,50;06.01.2026;2026-01-05T09:31:00Z;N\n"
    "x;3;NA;06.01.2026;2026-01-05T09:31:00Z;N\n"
    "x;2;12,50;16.01.2026;2026-01-07T09:31:00Z;N\n"
    "bad\n"
)


def sample(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def declaration(project: Project) -> str:
    return (project.folder / "pipelines" / "shop.py").read_text()


def test_dialect_formats_keys_and_order_are_guessed_and_said(project: Project, tmp_path: Path) -> None:
    result = project.run("new", "shop", "--from", sample(tmp_path, "orders.csv", GERMAN))
    assert result.code == 0, result.err
    declared = declaration(project)
    assert 'dialect=Dialect(separator=";"),' in declared
    assert 'formats=Formats(date="dd.MM.yyyy", decimal_comma=True, true=("Y",), false=("N",)),' in declared
    assert 'null_values=("", "NA"),' in declared
    assert 'keys=("order_no",),' in declared
    assert 'sequence_by=("updated_at",),' in declared
    assert "order_no INT NOT NULL,\n    Betrag DECIMAL(18,2),\n    Tag DATE," in declared
    for line in (
        "csv, separated by semicolon, with a header; all 4 records",
        "1 field renamed, because a column cannot have the name: fields={…} in the declaration",
        "key order_no: 3 of 4 records are different, with updated_at all; its name is like an identifier's",
        "lines 3, 5 have the same order_no: taken for versions by updated_at",
        "versions of a key are ordered by updated_at",
        "1 record cannot be split: line 6",
    ):
        assert line in result.out
    assert 'fields={"Order ID": "order_id"},' in declared
    assert " ".join(result.row("Order ID").split()) == "Order ID order_id STRING 4 values, 1 different: x"
    assert (project.folder / "landing" / "shop" / "orders.csv").read_text() == GERMAN
    plan = project.run("plan", "shop", "--json").json["flows"]
    assert [(flow["flow"], flow["has_work"]) for flow in plan] == [("bronze", True), ("silver", True)]
    entries = suite_file.read_entries(project.folder / "expectations/shop/silver.json", "shop/silver")
    assert {"betrag", "tag"} <= {entry["kwargs"].get("column") for entry in entries}


def test_a_file_in_the_landing_zone_stays_there_and_folders_of_partitions_are_left_out(project: Project) -> None:
    landed = sample(project.folder / "landing" / "clicks" / "year=2026", "1.csv", "id,at\n1,2026-01-01\n2,2026-01-02\n")
    result = project.run("new", "shop", "--from", landed)
    assert result.code == 0, result.err
    assert 'path="clicks",' in declaration(project)
    assert "landing" not in result.out
    assert project.run("plan", "shop", "--json").json["flows"][0]["has_work"] is True


def test_options_that_do_not_fit_are_refused(project: Project, tmp_path: Path) -> None:
    missing = project.run("new", "shop", "--from", str(tmp_path / "x.csv"))
    assert (missing.code, "there is no such file" in missing.err) == (64, True), missing.err
    both = project.run("new", "shop", "--from", "x.csv", "--topic", "clicks")
    assert (both.code, "exclude each other" in both.err) == (64, True), both.err
    away = project.run("new", "shop", "--topic", "clicks")
    assert away.code == 75, "no broker answers"


def test_a_refused_sample_writes_nothing_and_ends_with_the_code_for_wrong_usage(
    project: Project, tmp_path: Path
) -> None:
    result = project.run("new", "shop", "--from", sample(tmp_path, "x.csv", ""))
    assert (result.code, "it is empty" in result.err) == (64, True), result.err
    assert not (project.folder / "pipelines" / "shop.py").exists()


def test_drafted_files_pass_ruff(project: Project, tmp_path: Path) -> None:
    assert project.run("new", "shop", "--from", sample(tmp_path, "orders.csv", GERMAN)).code == 0
    (project.folder / "tidegate").symlink_to(ROOT / "tidegate")  # so that imports are sorted as in the real tree
    shutil.copy(ROOT / "pyproject.toml", project.folder / "pyproject.toml")
    files = ["pipelines/shop.py", "spark_jobs/shop.py", "tests/spark_jobs/test_shop.py"]
    for check in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check, "--no-cache", *files]
        done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
