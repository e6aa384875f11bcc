"""``tidegate expectations``: propose a suite, and check suites."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import hidden
from tidegate.advice import Command, Edit, Either
from tidegate.cli import console, project
from tidegate.cli.arguments import AnyName, AsJson, Name
from tidegate.environment import Environment
from tidegate.errors import EX_CONFIG, RequestError, TidegateError
from tidegate.expectations import profile
from tidegate.expectations.profile import Profile
from tidegate.expectations.proposal import propose as propose_suite
from tidegate.lake.layout import Layout
from tidegate.ops.query import query
from tidegate.probes import delta_table
from tidegate.project.resolution import ResolvedFlow, ResolvedPipeline
from tidegate.spec import Flow, Pipeline
from tidegate.spec.table import INTERVAL
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.spark.gate import Suite

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def propose(
    name: Name,
    flow: Annotated[str, typer.Option(metavar="FLOW", help="The flow whose table is profiled.")],
    write: Annotated[bool, typer.Option("--write", help="Write the file instead of printing it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let --write replace an existing suite.")] = False,
) -> None:
    """Propose a suite from the contents of a flow's table, as a draft to correct. Starts no JVM.

    Limits extend the observed range by half its length at each end. No rule is critical: which rules refuse a batch is your
    decision. A column with few distinct texts gets a rule that lists them.
    """
    environment, resolved = _load_flow(name, flow)
    chosen = resolved.flow
    suite = chosen.gate.suite if chosen.gate is not None else f"{name}/{flow}"
    path = resolved.suite or environment.project / "expectations" / f"{suite}.json"
    if write and not force:
        _check_absent(path)
    text = json.dumps(
        propose_suite(suite, _profile_table(environment, chosen), chosen.target.keys, chosen.target.sequence_by),
        indent=2,
        ensure_ascii=False,
    )
    if not write:
        print(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    package = path.parent / "__init__.py"
    if not package.exists():
        package.write_text(f'"""Suites of the {path.parent.name} pipeline."""\n', encoding="utf-8")
    path.write_text(text + "\n", encoding="utf-8")
    console.echo(f"Wrote {path}: correct it, then run `tidegate expectations check {name}`")
    if chosen.gate is None:
        console.echo(f'Flow {flow!r} has no gate yet: add gate=Gate("{suite}") to it in pipelines/{name}.py')


@app.command()
def check(name: AnyName = None, as_json: AsJson = False) -> None:
    """Check the suites of all gates as a run would, and against the existing tables. Starts no JVM.

    A suite that a run would refuse is an error (exit code 78). A column that is missing in the table and a suite that no
    flow uses are only noted, because the transform may be about to change.
    """
    environment = project.read()
    lines: list[dict[str, Any]] = []
    for each, resolved in project.resolve_all(environment, name):
        if isinstance(resolved, TidegateError):
            lines.append({"pipeline": each, "flow": None, "suite": None, "error": resolved.message, "notes": []})
            continue
        lines += [
            _check_suite(environment, resolved, one, one.suite) for one in resolved.flows if one.suite is not None
        ]
        lines += _unused_suites(environment, resolved.pipeline)
    if as_json:
        console.print_json({"format": 1, "suites": lines})
    else:
        _print(lines)
    if any(line["error"] for line in lines):
        raise typer.Exit(EX_CONFIG)


def _load_flow(name: str, flow: str) -> tuple[Environment, ResolvedFlow]:
    """The environment and the flow.

    Raises:
        RequestError: The pipeline or flow does not exist, or the flow's table does not exist, or not yet.
    """
    environment = project.read()
    resolved = project.resolve(environment, name)
    (chosen,) = project.choose(resolved.pipeline, [flow])
    if chosen.kind.sends:
        raise RequestError(
            f"flow {flow!r} of {name!r} has no table and no suite: it sends {chosen.source_tables[0]} to "
            f"{chosen.target.name}.",
            Edit("name the flow that writes that table", "request"),
        )
    if not (Layout.of(environment).read_table(chosen.target.name) / "_delta_log").exists():
        raise RequestError(
            f"flow {flow!r} of {name!r} has no table {chosen.target.name!r} yet",
            Command.tidegate("run", name, says="`{}` creates it"),
        )
    return environment, resolved.flow(flow)


def _check_absent(path: Path) -> None:

    if path.exists():
        raise RequestError(
            f"{path} exists already",
            Either(Edit("print the proposal without --write", "request"), Edit("replace it with --force", "request")),
        )


def _profile_table(environment: Environment, flow: Flow) -> tuple[Profile, ...]:

    path = Layout.of(environment).read_table(flow.target.name)
    schema = delta_table.open_table(path).schema().to_json()
    # A gate judges the output of the transform, which has no intervals yet.
    computed = INTERVAL if flow.target.history else ()
    columns = tuple(column for column in profile.columns(schema) if column.name not in computed)
    names = [column.name for column in columns]
    not_deleted = f"NOT coalesce({hidden.DELETED}, false)" if f'"{hidden.DELETED}"' in schema else "true"
    (measured,) = query(path, names, profile.statistics_query(columns), where=not_deleted)
    if not measured["rows"]:
        raise RequestError(f"table {flow.target.name!r} has no rows to profile", Edit("run the flow first", "request"))
    profiles = profile.profiles(columns, measured)
    categorical = [each for each in profiles if each.is_choice()]
    if not categorical:
        return profiles
    (choices,) = query(
        path, [each.column.name for each in categorical], profile.choices_query(categorical), where=not_deleted
    )
    # Checked again, because the first distinct count was an estimate.
    few = {name: tuple(texts) for name, texts in choices.items() if len(texts) <= profile.MAX_CHOICES}
    return tuple(dataclasses.replace(each, choices=few.get(each.column.name, ())) for each in profiles)


def _check_suite(
    environment: Environment, pipeline: ResolvedPipeline, resolved: ResolvedFlow, path: Path
) -> dict[str, Any]:
    from tidegate.spark import gate  # imports Great Expectations

    flow, name = resolved.flow, f"{path.parent.name}/{path.stem}"
    line: dict[str, Any] = {
        "pipeline": resolved.pipeline.name,
        "flow": flow.name,
        "suite": name,
        "error": None,
        "notes": [],
    }
    try:
        suite = gate.load_suite(path, name)
        line["fingerprint"] = suite.fingerprint
        line["row_rules"] = len(suite.row_rules())
        line["batch_rules"] = len(suite.expectations) - len(suite.row_rules())
        line["notes"] = [*_columns_missing(environment, flow, suite), *_tables_missing(pipeline, suite)]
    except TidegateError as error:
        line["error"] = error.message
    return line


def _columns_missing(environment: Environment, flow: Flow, suite: Suite) -> list[str]:
    path = Layout.of(environment).read_table(flow.target.name)
    if not (path / "_delta_log").exists():
        return []
    columns = {field.name for field in delta_table.open_table(path).schema().fields}
    return [
        f"{rule.name}: table {flow.target.name!r} has no column {column!r}"
        for rule in suite.expectations
        for column in rule.columns
        if column.partition(".")[0] not in columns
    ]


def _tables_missing(pipeline: ResolvedPipeline, suite: Suite) -> list[str]:

    declared = [each for each in pipeline.declared.values() if isinstance(each, Pipeline)]
    return [
        f"{rule.name}: no declared flow writes {rule.table!r}"
        for rule in suite.expectations
        if rule.table is not None and not any(each.writer_of(rule.table) for each in declared)
    ]


def _unused_suites(environment: Environment, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Suites in the pipeline's folder that none of its flows uses."""
    used = {flow.gate.suite for flow in pipeline.flows if flow.gate is not None}
    files = Address.local(environment.project / "expectations" / pipeline.name).list()
    return [
        {"pipeline": pipeline.name, "flow": None, "suite": suite, "error": None, "notes": ["no flow uses it"]}
        for suite in (
            f"{pipeline.name}/{file.name.removesuffix('.json')}" for file in files if file.name.endswith(".json")
        )
        if suite not in used
    ]


def _print(lines: list[dict[str, Any]]) -> None:

    if not lines:
        console.echo("No flow has a gate, and there is no suite.")
        return
    rows = [
        (
            line["pipeline"],
            line["flow"] or "-",
            line["suite"] or "-",
            line.get("fingerprint", "-"),
            str(line.get("row_rules", "-")),
            str(line.get("batch_rules", "-")),
            "error" if line["error"] else "ok",
        )
        for line in lines
    ]
    console.print_table(
        ("pipeline", "flow", "suite", "fingerprint", "row rules", "batch rules", "state"),
        rows,
        right=("row rules", "batch rules"),
    )
    for line in lines:
        if line["error"]:
            console.print_error(line["error"])
        for note in line["notes"]:
            console.echo(f"{line['suite']}: {note}")
