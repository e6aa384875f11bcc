"""The code of a stateful flow is checked without importing it: no clock, no chance, no state that grows for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import SpecError
from tidegate.project import state_code, transform_code

PROCESSOR = """
from datetime import datetime
from spark_jobs import helpers
from spark_jobs.helpers import hour_of

class Velocity(StatefulProcessor):
    '''What current_timestamp() would break.'''
    def init(self, handle):
        self.recent = handle.getValueState("recent", "n int")

    def handleInputRows(self, key, rows, timerValues):
        self.handle.registerTimer(3_600_000)
        yield {body}

def decide(payments):
    return payments.groupBy("card").transformWithStateInPandas(Velocity(), "card string", "Append", "{mode}")
"""
HELPERS = "import time\n\ndef hour_of(row):\n    return {body}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import spark_jobs

    monkeypatch.setattr(spark_jobs, "__path__", [str(tmp_path)])
    return tmp_path


def write(project: Path, body: str = "rows", mode: str = "EventTime", helper: str = "row") -> None:
    (project / "cards.py").write_text(PROCESSOR.format(body=body, mode=mode))
    (project / "helpers.py").write_text(HELPERS.format(body=helper))


def test_code_that_takes_time_from_the_rows_passes(project: Path) -> None:
    write(project, "hour_of(rows).sort_values(['at']).drop_duplicates()")
    state_code.check("cards:decide")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("datetime.now()", "line 13 reads a clock .now."),
        ("pd.Timestamp.utcnow()", "reads a clock .utcnow."),
        ("timerValues.getCurrentProcessingTimeInMs()", "reads a clock"),
        ("F.expr('date_sub(current_date(), 1)')", r"in SQL .current_date."),
        ("F.expr('unix_timestamp()')", "in SQL"),
        ("random.choice(rows)", "draws a random number"),
        ("numpy.random.default_rng().normal()", "draws a random number"),
        ("numpy.random.normal()", "draws a random number"),
        ("secrets.token_hex()", "draws a random number"),
        ("time.gmtime()", "reads a clock .gmtime."),
        ("handle.getValueState('a', 'n int', ttlDurationMs=5)", "expire by the clock"),
        ("rows.dropDuplicates()", "remembers every row for ever"),
        ("rows.withWatermark('at', '1 hour')", "is applied already"),
    ],
)
def test_code_of_which_a_rerun_would_decide_otherwise_or_whose_state_grows_is_refused(
    project: Path, body: str, message: str
) -> None:
    write(project, body)
    with pytest.raises(SpecError, match=message) as raised:
        state_code.check("cards:decide")
    assert "spark_jobs/cards.py" in raised.value.message


def test_timers_by_the_clock_are_refused_and_timers_are_needed(project: Path) -> None:
    write(project, mode="ProcessingTime")
    with pytest.raises(SpecError, match="by the clock"):
        state_code.check("cards:decide")
    write(project)
    (project / "cards.py").write_text((project / "cards.py").read_text().replace("registerTimer", "listTimers"))
    with pytest.raises(SpecError, match="without registerTimer: it would remember every key for ever"):
        state_code.check("cards:decide")


def test_the_fingerprint_of_the_code_is_of_all_modules_that_it_uses(project: Path) -> None:
    write(project, "hour_of(rows)")
    assert [path.name for path in transform_code.files("cards:decide")] == ["cards.py", "helpers.py"]
    write(project)
    assert [path.name for path in transform_code.files("cards:decide")] == ["cards.py"]


def test_what_the_code_uses_in_other_modules_is_checked_too(project: Path) -> None:
    write(project, "hour_of(rows)", helper="time.time()")
    with pytest.raises(SpecError, match=r"spark_jobs/helpers\.py line 4 reads a clock .time."):
        state_code.check("cards:decide")
    write(project, "hour_of(rows)", helper="row.time.time(7)")
    state_code.check("cards:decide")


@pytest.mark.parametrize(
    ("imported", "used"),
    [("import spark_jobs.helpers", "spark_jobs.helpers"), ("import spark_jobs.helpers as other", "other")],
)
def test_code_of_other_modules_is_found_however_they_are_imported(project: Path, imported: str, used: str) -> None:
    write(project, f"{used}.hour_of(rows)", helper="time.time()")
    file = project / "cards.py"
    file.write_text(file.read_text().replace("from spark_jobs.helpers import hour_of", imported))
    assert [path.name for path in transform_code.files("cards:decide")] == ["cards.py", "helpers.py"]
    with pytest.raises(SpecError, match=r"spark_jobs/helpers\.py line 4 reads a clock .time."):
        state_code.check("cards:decide")
