"""Which delay a watermark needs: how late the rows of a flow came, in the order of the batches of bronze. Starts no JVM.

The rows of table and late table together are those of bronze but for what the transform filtered and what is in quarantine, so that
no wrong clock counts. Their ``_ingested_at`` says in which batch of bronze each came, and the ledger in which commit.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.advice import Command, Edit
from tidegate.checkpoints import checkpoint
from tidegate.errors import RequestError
from tidegate.lake.place import FlowPlace
from tidegate.ops import arrivals, query
from tidegate.probes import delta, delta_table

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow

DELAYS = {
    **{f"{number} seconds": number for number in (10, 30)},
    **{f"{number} minute{'s' * (number > 1)}": number * 60 for number in (1, 2, 5, 10, 15, 30)},
    **{f"{number} hour{'s' * (number > 1)}": number * 3_600 for number in (1, 2, 3, 6, 12)},
    **{f"{number} day{'s' * (number > 1)}": number * 86_400 for number in (1, 2, 3, 7, 14, 30)},
}
"""The delays that are compared, as they are declared, in seconds."""

_LATENESS = """
WITH batches AS (SELECT came, max(event_time) AS newest FROM arrived GROUP BY came),
versions AS (SELECT unnest($planned) AS planned, unnest($versions) AS version),
marks AS (
    SELECT came, max(newest) OVER (
        -- The ledger of earlier releases has no times of batches; these came before the others.
        ORDER BY version NULLS FIRST, came ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS newest
    FROM batches LEFT JOIN versions ON planned = epoch_us(came)
)
SELECT epoch_us(marks.newest) - epoch_us(arrived.event_time) AS lateness,
    epoch_us(arrived.event_time) - epoch_us(arrived.came) AS ahead
FROM arrived JOIN marks USING (came)
"""


@dataclass(frozen=True, kw_only=True)
class DelayProposal:
    """What a flow's rows say about its watermark."""

    rows: int
    batches: int
    """Batches of bronze that brought them."""
    late: dict[str, int]
    """By delay: the rows that would have been late. Until the first delay by which none would."""
    worst_seconds: float
    """How far the event time of a row was before the highest of earlier batches, at most."""
    ahead_seconds: float
    """How far the event time of a row was after its ingestion, at most; negative if none was after it."""
    proposed: str | None
    """The shortest delay by which at most the accepted share is late; None if the longest one is too short."""


def measure(layout: Layout, flow: ResolvedFlow, share: float) -> DelayProposal:
    """Compare delays by the rows that the flow has read so far.

    Args:
        flow: A flow that appends to a table with an event time; a watermark need not be declared.
        share: Which share of the rows may be late.

    Raises:
        RequestError: The flow has no such table, or has written no row to it yet.
    """
    pipeline, name, target = flow.pipeline.name, flow.flow.name, flow.flow.target
    if flow.landing is None or target.write_mode != "append" or target.event_time is None:
        raise RequestError(
            f"flow {name!r} cannot have a watermark",
            Edit(
                "it must read a bronze table and append to a table with event_time, as in "
                "Table('silver.payments', event_time='paid_at')",
                "declaration",
            ),
        )
    read = {layout.table(target.name): "true", FlowPlace(layout, pipeline, name).late: _of_table(layout, flow)}
    tables = [(table, where) for path, where in read.items() if (table := delta_table.find(path)) is not None]
    columns = (target.event_time, hidden.INGESTED_AT)
    event_time = delta_table.quoted(target.event_time)
    with closing(query.connect()) as connection:
        parts = []
        for number, (table, where) in enumerate(tables):
            connection.register(f"part_{number}", query.Scan(table, columns, f"{event_time} IS NOT NULL AND {where}"))
            parts.append(f"SELECT {event_time} AS event_time, {hidden.INGESTED_AT} AS came FROM part_{number}")
        if not parts:
            raise _no_rows(pipeline, name)
        connection.execute(f"CREATE TEMP TABLE arrived AS {' UNION ALL '.join(parts)}")
        counts = ", ".join(f"count(*) FILTER (lateness > {seconds * 1_000_000})" for seconds in DELAYS.values())
        commits = _commits(layout, flow)
        [measured] = connection.execute(
            f"SELECT count(*), max(lateness), max(ahead), {counts} FROM ({_LATENESS})",
            {"planned": list(commits), "versions": list(commits.values())},
        ).fetchall()
        [(batches,)] = connection.execute("SELECT count(DISTINCT came) FROM arrived").fetchall()
    rows, worst, ahead, *late = measured
    if not rows:
        raise _no_rows(pipeline, name)
    by_delay = dict(zip(DELAYS, late, strict=True))
    enough = [delay for delay, number in by_delay.items() if number <= share * rows]
    none = [delay for delay, number in by_delay.items() if not number]
    shown = list(DELAYS)[: list(DELAYS).index(none[0]) + 1] if none else list(DELAYS)
    return DelayProposal(
        rows=rows,
        batches=batches,
        late={delay: by_delay[delay] for delay in shown},
        worst_seconds=max(worst or 0, 0) / 1_000_000,
        ahead_seconds=ahead / 1_000_000,
        proposed=enough[0] if enough else None,
    )


def _commits(layout: Layout, flow: ResolvedFlow) -> dict[int, int]:
    """Which version of bronze the batch committed that was planned at a time, in microseconds since 1970."""
    writer = flow.writer
    if writer is None:
        return {}
    place = flow.above(layout)
    app_id = checkpoint.current(place, writer.checkpoint_version).app_id
    writers = delta.writers(layout.read_table(writer.target.name), app_id)
    commits = arrivals.read(place, writers)
    return {commit.planned: commit.version for commit in commits if commit.planned is not None}


def _of_table(layout: Layout, flow: ResolvedFlow) -> str:
    """The condition for the late rows of the checkpoint that the table belongs to: those of others are in it, or late, once more."""
    place = flow.place(layout)
    app_id = checkpoint.current(place, flow.flow.checkpoint_version).app_id
    writers = delta.writers(layout.table(flow.flow.target.name), app_id)
    places = [each for app_id in writers if (each := place.of_stream(app_id)) is not None]
    newest = max(places, key=lambda each: (each.version, each.refresh), default=None)
    if newest is None:
        return "true"
    return f"{hidden.CHECKPOINT_VERSION} = {newest.version} AND {hidden.REFRESH} = {newest.refresh}"


def _no_rows(pipeline: str, flow: str) -> RequestError:
    return RequestError(
        f"flow {flow!r} has written no row yet, so nothing is known of how late its rows come.",
        Command.tidegate("run", pipeline, "--flow", flow, says="run it first: {}"),
    )
