"""``tidegate quarantine``: quarantine entries by rule and source; contents only on request.

The commands that change entries are in `tidegate.cli.decisions` and `tidegate.cli.replay`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidegate import formatting, hidden
from tidegate.advice import Edit
from tidegate.cli import console, decisions, lazy, project
from tidegate.cli.arguments import AnyFlow, AsJson, Name, OneFlow
from tidegate.errors import RequestError
from tidegate.lake.file_id import path_sql
from tidegate.lake.place import FlowPlace
from tidegate.ops.query import query
from tidegate.quarantine import lifecycle

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_ORIGIN = f"""coalesce(
    {path_sql("json_extract_string(source, '$.path')")},
    json_extract_string(source, '$.topic'),
    'version ' || json_extract_string(source, '$.version'),
    'unknown')"""
"""SQL for the origin of a row without its line or offset: a file, a topic, or a version of the source table."""

_COUNTS = f"""
SELECT level, rule, {_ORIGIN} AS origin, count(DISTINCT {hidden.ROW_ID}) AS entries
FROM (SELECT level, {hidden.ROW_ID}, source, unnest(rules) AS rule FROM delta_table)
GROUP BY ALL ORDER BY entries DESC, rule, origin
"""
_RECORDS = f"""
SELECT {hidden.ROW_ID}, level, rules, source, record, strftime(quarantined_at, '%Y-%m-%d %H:%M:%S') AS quarantined_at,
    {hidden.BATCH_ID} AS batch_id, state, changed_by, strftime(changed_at, '%Y-%m-%d %H:%M:%S') AS changed_at, reason
FROM delta_table ORDER BY delta_table.quarantined_at DESC, {hidden.ROW_ID} LIMIT ?
"""
_RECORD = (
    *(hidden.ROW_ID, "level", "rules", "source", "record", "quarantined_at", hidden.BATCH_ID),
    *("state", "changed_by", "changed_at", "reason"),
)
_OPEN = "state = 'open'"
_CLOSED = tuple(state for state in lifecycle.STATES if state != "open")


@app.command("list")
def list_open(name: Name, flow: AnyFlow = None, as_json: AsJson = False) -> None:
    """Count open quarantine entries by flow, rule and source. Shows no contents. Starts no JVM.

    An entry that broke several rules is counted under each; the total counts it once.
    """
    layout, flows = decisions.selected_flows(name, flow)
    pipeline = project.load(name)
    counted = [(each.name, *_count(FlowPlace(layout, name, each.name))) for each in flows]
    counts = {each.name: lifecycle.entry_counts(FlowPlace(layout, name, each.name).quarantine) for each in flows}
    if as_json:
        output = [
            {"flow": each, "open": total, "states": dict(counts[each].states), "by_rule": lines}
            for each, total, lines in counted
        ]
        console.print_json({"format": 1, "pipeline": name, "flows": output})
        return
    if not any(each.states for each in counts.values()):
        console.echo(f"Nothing is quarantined in {name!r}.")
        return
    rows = [
        (each, line["level"], line["rule"], f"{line['entries']:,}", line["source"])
        for each, _, lines in counted
        for line in lines
    ]
    if rows:
        console.print_table(("flow", "level", "rule", "open", "source"), rows, right=("open",))
    for each, _, lines in counted:
        for shown in pipeline.names_of(each).shown_in(line["rule"] for line in lines):
            console.echo(f"{each}: {shown}")
    for each, total, _ in counted:
        if not counts[each].states:
            continue
        closed = "".join(
            f", {counts[each].states[state]:,} {state}" for state in _CLOSED if state in counts[each].states
        )
        hint = f"; `tidegate quarantine show {name} {each} --limit 5` prints their contents" if total else ""
        console.echo(f"{each}: {total:,} open{closed}{hint}")
        if counts[each].claimed:
            console.echo(
                f"{each}: a replay was interrupted with {formatting.count(counts[each].claimed, 'claimed entry', 'claimed entries')}; "
                f"`tidegate quarantine replay {name} {each}` finishes it first"
            )


@app.command()
def show(
    name: Name,
    flow: OneFlow,
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many records, the newest first.", min=1)] = 10,
    state: Annotated[str, typer.Option(metavar="STATE", help="open, replayed, waived, expired or withdrawn.")] = "open",
    as_json: AsJson = False,
) -> None:
    """Print quarantined records with their original contents, which may be personal data. Starts no JVM.

    Closed entries are shown with who closed them, when and why.
    """
    if state not in lifecycle.STATES:
        raise RequestError(
            f"--state {state!r} is not allowed", Edit(f"allowed: {', '.join(lifecycle.STATES)}", "request")
        )

    layout, (only,) = decisions.selected_flows(name, flow)
    names = project.load(name).names_of(only.name)
    records = query(
        FlowPlace(layout, name, only.name).quarantine, _RECORD, _RECORDS, [limit], where=f"state = '{state}'"
    )
    if as_json:
        console.print_json({"format": 1, "pipeline": name, "flow": only.name, "records": records})
        return
    for record in records:
        console.echo(f"{record[hidden.ROW_ID]}  batch {record['batch_id']}, {record['quarantined_at']}", style="bold")
        console.echo(f"  rules   {', '.join(record['rules'])}")
        if shown := names.shown_in(record["rules"]):
            console.echo(f"  fields  {', '.join(shown)}")
        console.echo(f"  source  {record['source']}")
        console.echo(f"  record  {record['record'] if record['record'] is not None else '(a whole file)'}")
        if record["changed_by"]:
            why = f": {record['reason']}" if record["reason"] else ""
            console.echo(f"  {record['state']:<7} by {record['changed_by']}, {record['changed_at']}{why}")
    if not records:
        nothing = "Nothing is quarantined" if state == "open" else f"Nothing is {state}"
        console.echo(f"{nothing} in flow {only.name!r} of {name!r}.")


def _count(place: FlowPlace) -> tuple[int, list[dict[str, Any]]]:
    """The number of open entries, and the counts by level, rule and source."""
    path = place.quarantine
    total = query(
        path, [hidden.ROW_ID], f"SELECT count(DISTINCT {hidden.ROW_ID}) AS entries FROM delta_table", where=_OPEN
    )
    if not total or not total[0]["entries"]:
        return 0, []
    lines = query(path, [hidden.ROW_ID, "level", "rules", "source"], _COUNTS, where=_OPEN)
    by_rule = [{"level": e["level"], "rule": e["rule"], "source": e["origin"], "entries": e["entries"]} for e in lines]
    return total[0]["entries"], by_rule


lazy.add(app, "replay", "Replay open entries through today's transform and suite.")
app.command()(decisions.take)
app.command()(decisions.accept)
app.command()(decisions.waive)
app.command()(decisions.expire)
