"""``tidegate quarantine``: what did not pass, by rule and source; contents only where they are asked for.

What is done about it is in `tidegate.cli.decisions` and `tidegate.cli.replay`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import decisions, project, replay

if TYPE_CHECKING:
    from tidegate.layout import Layout

app = typer.Typer(
    help="What did not pass: show it, run it through today's rules again, or give it up.",
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
    _batch_id AS batch_id, state, changed_by, strftime(changed_at, '%Y-%m-%d %H:%M:%S') AS changed_at, reason
FROM held ORDER BY held.quarantined_at DESC, _row_id LIMIT ?
"""
_RECORD = (
    *("_row_id", "level", "rules", "source", "record", "quarantined_at", "_batch_id"),
    *("state", "changed_by", "changed_at", "reason"),
)
_OPEN = "state = 'open'"
_CLOSED = ("replayed", "waived", "expired")


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
    from tidegate.quarantine import lifecycle

    layout, flows = decisions.chosen(name, flow)
    counted = [(each.name, *_count(layout, name, each.name)) for each in flows]
    held = {each.name: lifecycle.held(layout.quarantine(name, each.name)) for each in flows}
    if as_json:
        found = [
            {"flow": each, "open": total, "states": dict(held[each].states), "by_rule": lines}
            for each, total, lines in counted
        ]
        console.print_json({"format": 1, "pipeline": name, "flows": found})
        return
    if not any(each.states for each in held.values()):
        console.say(f"Nothing is quarantined in {name!r}.")
        return
    rows = [
        (each, line["level"], line["rule"], f"{line['entries']:,}", line["source"])
        for each, _, lines in counted
        for line in lines
    ]
    if rows:
        console.print_table(("flow", "level", "rule", "open", "source"), rows, right=("open",))
    for each, total, _ in counted:
        if not held[each].states:
            continue
        closed = "".join(f", {held[each].states[state]:,} {state}" for state in _CLOSED if state in held[each].states)
        hint = f"; `tidegate quarantine show {name} {each} --limit 5` prints their contents" if total else ""
        console.say(f"{each}: {total:,} open{closed}{hint}")
        if held[each].in_hand:
            console.say(
                f"{each}: a replay was interrupted with {held[each].in_hand:,} of them in hand; "
                f"`tidegate quarantine replay {name} {each}` finishes it first"
            )


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow.")],
    limit: Annotated[int, typer.Option(metavar="COUNT", help="At most so many records, the newest first.", min=1)] = 10,
    state: Annotated[
        str, typer.Option(metavar="STATE", help="Those that are open, replayed, waived or expired.")
    ] = "open",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print quarantined records with their contents, as they arrived: data that may be personal. Starts no JVM.

    Of those that are no longer open it says who closed them, when and why.
    """
    from tidegate.cli import console
    from tidegate.errors import RequestError
    from tidegate.ops.query import query
    from tidegate.quarantine import lifecycle

    if state not in lifecycle.STATES:
        raise RequestError(f"--state {state!r} is not allowed; allowed: {', '.join(lifecycle.STATES)}")

    layout, (only,) = decisions.chosen(name, flow)
    records = query(layout.quarantine(name, only.name), _RECORD, _RECORDS, [limit], where=f"state = '{state}'")
    if as_json:
        console.print_json({"format": 1, "pipeline": name, "flow": only.name, "records": records})
        return
    for record in records:
        console.say(f"{record['_row_id']}  batch {record['batch_id']}, {record['quarantined_at']}", style="bold")
        console.say(f"  rules   {', '.join(record['rules'])}")
        console.say(f"  source  {record['source']}")
        console.say(f"  record  {record['record'] if record['record'] is not None else '(a whole file)'}")
        if record["changed_by"]:
            why = f": {record['reason']}" if record["reason"] else ""
            console.say(f"  {record['state']:<7} by {record['changed_by']}, {record['changed_at']}{why}")
    if not records:
        nothing = "Nothing is quarantined" if state == "open" else f"Nothing is {state}"
        console.say(f"{nothing} in flow {only.name!r} of {name!r}.")


def _count(layout: Layout, pipeline: str, flow: str) -> tuple[int, list[dict[str, Any]]]:
    """How many entries are open, and the lines by level, rule and source."""
    from tidegate.ops.query import query

    path = layout.quarantine(pipeline, flow)
    total = query(path, ["_row_id"], "SELECT count(DISTINCT _row_id) AS entries FROM held", where=_OPEN)
    if not total or not total[0]["entries"]:
        return 0, []
    lines = query(path, ["_row_id", "level", "rules", "source"], _COUNTS, where=_OPEN)
    told = [{"level": e["level"], "rule": e["rule"], "source": e["place"], "entries": e["entries"]} for e in lines]
    return total[0]["entries"], told


app.command()(replay.replay)
app.command()(decisions.take)
app.command()(decisions.waive)
app.command()(decisions.expire)
