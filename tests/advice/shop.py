"""The pipeline `shop` of one test, whose files advice edits, and what its tables must have, computed in plain Python."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tidegate import cli
from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then
from tidegate.cli import run, state, verify
from tidegate.errors import TidegateError
from tidegate.lake.layout import Layout
from tidegate.reports.report import RunReport
from tidegate.requests.request import RunRequest

DECLARATION = """
from tidegate.spec import *

pipeline = Pipeline(
    name="shop",
    rewrite_limits=RewriteLimits(rows=0, deleted_share={deleted_share}, quarantined_share=1),
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path={path!r}, format="csv", schema={schema!r}, contract=Contract(mode={contract!r})),
            target=Table("bronze.shop"),
            checkpoint_version={bronze_version},
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.shop", max_files_per_trigger={files}),
            transform="shop:clean",
            target=Table("silver.shop", keys=("id",), sequence_by={sequence_by}, event_time="day"),
            gate=Gate("shop/silver"),
            statistics=(Statistic("rows", "count(*)", rule={rule!r}),),
            thresholds=Thresholds(transform_error_share={error_share}),
            checkpoint_version={silver_version},
        ),
        Flow(
            name="gold",
            source=ChangeFeed("silver.shop"),
            transform="shop:daily",
            target=Table("gold.shop", keys=("day",)),
            checkpoint_version={gold_version},
        ),
        Flow(
            name="log",
            source=ChangeFeed("bronze.shop"),
            transform="shop:clean",
            target=Table({log!r}),
            checkpoint_version={log_version},
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

def clean(rows):
    return rows.select("_row_id", "_origin", {columns}){then}

def daily(rows):
    return rows.groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount")){grouped}
"""
FIELDS: dict[str, Any] = {
    "path": "shop",
    "schema": "id INT NOT NULL, at INT, day DATE, amount INT, note STRING",
    "contract": "rescue",
    "files": 1000,
    "sequence_by": ("at",),
    "rule": "value < 1000",
    "error_share": 0.1,
    "deleted_share": 1,
    "columns": '"id", "at", "day", "amount"',
    "then": "",
    "grouped": "",
    "highest": 1_000_000,
    "log": "silver.log",
    "severity": "critical",
    **{f"{flow}_version": 1 for flow in ("bronze", "silver", "gold", "log")},
}
FILTERED = 3
"""The key that a transform filters of which a full refresh is refused."""
FLOWS = ("bronze", "silver", "gold", "log")


@dataclass
class Shop:
    """The pipeline, its lake, and the records that landed."""

    deployment: Deployment
    spark: Any
    patch: pytest.MonkeyPatch
    fields: dict[str, Any] = field(default_factory=lambda: dict(FIELDS))
    records: list[tuple[int, int, date, int]] = field(default_factory=list)
    quarantined: list[tuple[int, int, date, int]] = field(default_factory=list)
    """The records that a command sent to quarantine instead of the keyed table."""
    errors: list[TidegateError] = field(default_factory=list)
    """Every error that was made."""
    newest: list[tuple[int, int, date, int]] = field(default_factory=list)
    """Those of the newest file."""
    commands: list[tuple[str, ...]] = field(default_factory=list)
    """Every command that was run."""

    def __post_init__(self) -> None:
        environment = self.deployment.environment
        self.patch.setenv("TIDEGATE_PROJECT", str(environment.project))
        self.patch.setenv("TIDEGATE_LAKE", str(environment.lake))
        self.patch.setenv("TIDEGATE_LANDING", str(environment.landing))
        for module in (run, verify, state):
            self.patch.setattr(module, "execute", self._execute)
        say, made = TidegateError.say, self.errors

        def remember(error: TidegateError, problem: str, advice: Advice | None) -> None:
            say(error, problem, advice)
            made.append(error)

        self.patch.setattr(TidegateError, "say", remember)
        self.edit()

    @property
    def layout(self) -> Layout:
        return self.deployment.layout

    def edit(self, **fields: Any) -> None:
        """Write the files of the project with these values, and let this process import them."""
        self.fields |= fields
        folder = self.deployment.environment.project
        bound = {"column": "amount", "min_value": 0, "max_value": self.fields["highest"]}
        rule = {
            "type": "expect_column_values_to_be_between",
            "kwargs": bound,
            "severity": self.fields["severity"],
        }
        files = {
            "pipelines/shop.py": DECLARATION.format(**self.fields),
            "spark_jobs/shop.py": JOB.format(**self.fields),
            "expectations/shop/silver.json": json.dumps({"name": "shop/silver", "expectations": [rule]}),
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for package in ("pipelines", "spark_jobs"):
            module = importlib.import_module(package)
            if str(folder / package) not in module.__path__:
                module.__path__.append(str(folder / package))
            sys.modules.pop(f"{package}.shop", None)
        importlib.invalidate_caches()
        for cached in folder.rglob("__pycache__/*.pyc"):
            cached.unlink()

    def forget(self) -> None:
        """Let this process forget the pipeline."""
        for package in ("pipelines", "spark_jobs"):
            importlib.import_module(package).__path__.remove(str(self.deployment.environment.project / package))
            sys.modules.pop(f"{package}.shop", None)

    def land(
        self, *records: tuple[int, int, date, int], header: str = "id,at,day,amount,note", more: str = ",x"
    ) -> None:
        """Land a file with these records."""
        number = len(list(self.deployment.environment.landing.glob("shop/*.csv")))
        lines = [f"{one},{at},{day},{amount}{more}" for one, at, day, amount in records]
        self.deployment.land(f"{number}.csv", "\n".join((header, *lines, "")), folder="shop")
        self.records += records
        self.newest = list(records)

    def run(self, **options: Any) -> RunReport:
        """One run in the session of this process; afterwards Delta knows no log from before, as in a job of its own."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return self.deployment.run("shop", **options)

    def command(self, *argv: str) -> None:
        """A command of `tidegate` in this process; a job that it starts uses the session of this process."""
        self.commands.append(argv)
        code = cli.app(list(argv), standalone_mode=False)
        assert not code, f"tidegate {' '.join(argv)} ended with {code}"
        if argv[:2] == ("quarantine", "take") or (argv[:2] == ("contract", "answer") and argv[-1] == "quarantine"):
            self.quarantined = self.newest
        if "--accept" in argv:
            self.quarantined = [record for record in self.records if record[0] == FILTERED]

    def error_of(self, flow: str, report: RunReport | None = None) -> TidegateError:
        """The error of a flow in a run, with its advice."""
        error = (report or self.run()).flow(flow).error
        assert error is not None, f"{flow} ended well"
        return next(each for each in reversed(self.errors) if each.message == error.message)

    def differences(self) -> list[str]:
        """How the tables differ from what the landed records make."""
        newest: dict[int, tuple[int, int, date, int]] = {}
        for record in (each for each in self.records if each not in self.quarantined):
            if record[0] not in newest or newest[record[0]][1] < record[1]:
                newest[record[0]] = record
        days: dict[date, list[int]] = {}
        for _, _, day, amount in newest.values():
            days.setdefault(day, []).append(amount)
        expected = {
            "silver.shop": (("id", "at", "day", "amount"), sorted(newest.values())),
            "gold.shop": (("day", "orders", "amount"), sorted((day, len(own), sum(own)) for day, own in days.items())),
            self.fields["log"]: (("id", "at", "day", "amount"), sorted(self.records)),
        }
        return [
            f"{name}: {rows} and not {wanted}"
            for name, (columns, wanted) in expected.items()
            if (rows := self._rows(name, columns)) != wanted
        ]

    def _rows(self, name: str, columns: tuple[str, ...]) -> list[Any]:
        rows = self.deployment.table(name).to_pylist()
        return sorted(tuple(row[column] for column in columns) for row in rows if not row.get("_deleted"))

    def _execute(self, environment: Any, request: RunRequest) -> tuple[int, RunReport, Any]:
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        report = self.deployment.try_run(dataclasses.replace(request))
        code = 0 if all(each.error is None for each in report.flows) and report.error is None else 70
        return code, report, Path(self.layout.root) / "no.log"


Act = Callable[[Shop], None]
Part = Command | Edit | OutsideAct


def ways(advice: Advice) -> Iterator[tuple[Part, ...]]:
    """Every way to follow advice, as the parts of it in order."""
    match advice:
        case Either(ways=each):
            for way in each:
                yield from ways(way)
        case Then(ways=(first, *rest)):
            for one in ways(first):
                for left in ways(Then(*rest)) if rest else ((),):
                    yield (*one, *left)
        case Command() | Edit() | OutsideAct():
            yield (advice,)


def follow(shop: Shop, flow: str, way: tuple[Part, ...], acts: dict[str, Act]) -> bool:
    """Follow one way; whether it can be followed.

    A command and the edit of a field with a value are done as they are. For other edits and acts outside there is what a person does.

    Args:
        acts: What a person does, by the first words of the clause.
    """
    doable = [(part, _act(shop, flow, part, acts)) for part in way]
    if any(act is None for _, act in doable):
        return False
    for _, act in doable:
        assert act is not None
        act(shop)
    return True


def _act(shop: Shop, flow: str, part: Part, acts: dict[str, Act]) -> Act | None:
    for words, act in acts.items():
        if part.text.startswith(words):
            return act
    match part:
        case Command(argv=("tidegate", *arguments)):
            return lambda shop: shop.command(*("because" if each == "…" else each for each in arguments))
        case Edit(field="checkpoint_version", value=value):
            name = f"{flow}_version"
            return lambda shop: shop.edit(**{name: value if value is not None else shop.fields[name] + 1})
        case OutsideAct(says=says) if says.startswith(("run again", "run the flow again", "run the backfill again")):
            return lambda _: None
    return None


def settle(shop: Shop, acts: dict[str, Act], rounds: int = 8) -> list[str]:
    """Run until a run ends well, and follow the advice of each error on the way; the classes of the errors."""
    classes: list[str] = []
    for _ in range(rounds):
        report = shop.run()
        failed = [each for each in report.flows if each.error is not None]
        if not failed:
            return classes
        error = shop.error_of(failed[0].flow, report)
        classes.append(type(error).__name__)
        assert error.advice is not None
        assert any(follow(shop, failed[0].flow, way, acts) for way in ways(error.advice)), error.message
    raise AssertionError(f"no end after {classes}: {error.message}")
