"""``tidegate quarantine``: what did not pass, by rule and source; contents only where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.layout import Layout
    from tidegate.spec import Flow

app = typer.Typer(
    help="Show what did not pass: counts by rule and source, or the records themselves.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PLACE = """coalesce(
    regexp_replace(json_extract_string(source, '$.path'), '^file://', ''),
    json_extract_string(source, '$.topic'),
    'version ' || json_extract_string(source, '$.version'),
    'unknown')"""
"""Where a row came from, without its line or offset: a file, a topic, or a version of the table that the flow reads."""

_COUNTS = f"""
SELECT level, rule, {_PLACE} AS place, count(DISTINCT _row_id) AS entries
FROM (SELECT level, _row_id, source, unnest(rules) AS rule FROM held)
GROUP BY ALL ORDER BY entries DESC, rule, place
"""
_RECORDS = """
SELECT _row_id, level, rules, source, record, strftime(quarantined_at, '%Y-%m-%d %H:%M:%S') AS quarantined_at,
    _batch_id AS batch_id
FROM held ORDER BY held.quarantined_at DESC, _row_id LIMIT ?
"""
_RECORD = ("_row_id", "level", "rules", "source", "record", "quarantined_at", "_batch_id")
_OPEN = "state = 'open'"


@app.command("list")
def list_open(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    flow: Annotated[str | None, typer.Argument(metavar="FLOW", help="One flow; all of them without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Count what is quarantined and still open, by flow, rule and source. Shows no contents. Starts no JVM.

    A row that broke several rules counts under each; the total counts it once.
    """
    from tidegate.cli import console

    layout, flows = _opened(name, flow)
    counted = [(each.name, *_count(layout, name, each.name)) for each in flows]
    if as_json:
        found = [{"flow": each, "open": total, "by_rule": lines} for each, total, lines in counted]
        console.print_json({"format": 1, "pipeline": name, "flows": found})
        return
    if not any(total for _, total, _ in counted):
        console.say(f"Nothing is quarantined in {name!r}.")
        return
    rows = [
        (each, line["level"], line["rule"], f"{line['entries']:,}", line["source"])
        for each, _, lines in counted
        for line in lines
    ]
    console.print_table(("flow", "level", "rule", "open", "source"), rows, right=("open",))
    for each, total, _ in counted:
        if total:
            console.say(
                f"{each}: {total:,} open; `tidegate quarantine show {name} {each} --limit 5` prints their contents"
            )


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow.")],
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many records, the newest first.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print quarantined records with their contents, as they arrived: data that may be personal. Starts no JVM."""
    from tidegate.cli import console
    from tidegate.query import query

    layout, (only,) = _opened(name, flow)
    records = query(layout.quarantine(name, only.name), _RECORD, _RECORDS, [limit], where=_OPEN)
    if as_json:
        console.print_json({"format": 1, "pipeline": name, "flow": only.name, "records": records})
        return
    for record in records:
        console.say(f"{record['_row_id']}  batch {record['batch_id']}, {record['quarantined_at']}", style="bold")
        console.say(f"  rules   {', '.join(record['rules'])}")
        console.say(f"  source  {record['source']}")
        console.say(f"  record  {record['record'] if record['record'] is not None else '(a whole file)'}")
    if not records:
        console.say(f"Nothing is quarantined in flow {only.name!r} of {name!r}.")


def _opened(name: str, flow: str | None) -> tuple[Layout, Sequence[Flow]]:
    from tidegate.layout import Layout

    environment = project.read()
    return Layout.of(environment), project.choose(project.load(name), [flow] if flow is not None else [])


def _count(layout: Layout, pipeline: str, flow: str) -> tuple[int, list[dict[str, Any]]]:
    """How many entries are open, and the lines by level, rule and source."""
    from tidegate.query import query

    path = layout.quarantine(pipeline, flow)
    total = query(path, ["_row_id"], "SELECT count(DISTINCT _row_id) AS entries FROM held", where=_OPEN)
    if not total or not total[0]["entries"]:
        return 0, []
    lines = query(path, ["_row_id", "level", "rules", "source"], _COUNTS, where=_OPEN)
    told = [{"level": e["level"], "rule": e["rule"], "source": e["place"], "entries": e["entries"]} for e in lines]
    return total[0]["entries"], told
