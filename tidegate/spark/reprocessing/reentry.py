"""Runs quarantined entries through today's transform and suite, by the way of every micro-batch, once only.

A replay takes open entries in hand in bounded claims. Each claim has a number, which stands where a batch id does, under
a transaction id that all replays of a flow share. What happens to a claim, in commits of their own:

a. claim: the entries are in hand, nobody else touches them;
b. steps 0 to 5 of `tidegate.spark.batch.micro_batch`, in which step 3 marks the entries that break a rule again;
c. settle: those are open again, the others are replayed.

A crash leaves the claim in hand. The flow's next replay finishes it before it takes another; the flow's next run
finishes it when the target holds it, and opens its entries again when not. So does a replay that meets an error which
would come again. An attempt of the same request goes on where the one before stopped. Rows re-enter by
the silver flow that refused them: its sequence decides, so that an old row never replaces a newer one. A file is read
again into bronze, as it lies there now.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate.atomic import write_text
from tidegate.checkpoints import checkpoint
from tidegate.errors import RequestError
from tidegate.ops import store
from tidegate.quarantine import claims, decision, lifecycle
from tidegate.report import BatchRecord
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.split import Decision, check_balance, decide
from tidegate.spark.context import FlowContext, Reentry
from tidegate.spark.driver.failures import translate
from tidegate.spark.driver.turn import turn
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import originals
from tidegate.spec import ChangeFeed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tidegate.quarantine.selection import Selection

ENTRIES_AT_ONCE = 10_000
"""Of one claim, so that memory does not grow with the quarantine."""


def reenter(context: FlowContext, selection: Selection, *, limit: int | None = None, dry_run: bool = False) -> None:
    """Replay what a flow holds in quarantine.

    Args:
        context: The flow; its report tells what happened, a line of kind ``replay`` for each claim.
        selection: Which open entries.
        limit: At most so many; None means all.
        dry_run: Judge them and write nothing; the report tells what would happen to the first of them.

    Raises:
        RequestError: The live table belongs to another checkpoint: a full refresh is on its way.
        TidegateError: As a run; what is in hand is finished by the next replay.
    """
    name, flow = context.pipeline.name, context.flow.name
    with turn(context, work=f"replay of flow {flow!r}", holder=f"replay {context.attempt} of {name}"):
        _check_ready(context, dry_run=dry_run)
        if dry_run:
            _foresee(context, selection, min(limit or ENTRIES_AT_ONCE, ENTRIES_AT_ONCE))
        else:
            _replay(context, selection, limit)


def finish_interrupted(context: FlowContext) -> None:
    """End what an interrupted replay has in hand, before an ordinary run goes on; its live table is written, not staging.

    What the target holds is recorded and closed. Else the entries are open again: a run does not judge what nobody
    asked it to.
    """
    marker = _marker(context)
    try:
        told = json.loads(marker.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    # Its line in the ledger is that of the replay, whoever finishes it.
    asked = dataclasses.replace(context.request, mode="quarantine", requested_by=told["by"])
    context = dataclasses.replace(context, request=asked)
    held = claims.in_hand(context.quarantine)
    if held is not None:
        replaying = _with(context, held.number, claims.entries_of(context.quarantine, held.number))
        if decide(replaying, held.number).written:
            work_through(context, held.number)
            context.report.notes.append(f"finished replay {held.number} of its quarantine, which had been interrupted")
        else:
            claims.release(context.quarantine, held.number)
            context.report.notes.append(
                f"replay {held.number} of its quarantine had been interrupted: {held.entries:,} entries are open again"
            )
    marker.unlink(missing_ok=True)


def _check_ready(context: FlowContext, *, dry_run: bool) -> None:
    checkpoint.check_compatible(context.layout, context.pipeline, context.flow)
    if not isinstance(context.flow.source, ChangeFeed) or not tables.exists(context.quarantine):
        return
    if context.app_id not in tables.transactions(context.spark, context.live):
        raise RequestError(
            f"flow {context.flow.name!r}: table {context.flow.target.name!r} does not hold checkpoint "
            f"v{context.ref.version} yet, and what is replayed now would be lost. Run the flow first, then replay."
        )
    if not dry_run:
        decision.retire(context.layout, context.ref)


def _replay(context: FlowContext, selection: Selection, limit: int | None) -> None:
    unfinished = claims.in_hand(context.quarantine)
    if unfinished is not None:
        work_through(context, unfinished.number)
    earlier = _claims(context)
    _tell_earlier(context, earlier)
    number = _highest(context) + 1
    first = min(earlier, default=number)
    left = None if limit is None else limit - claims.count_entries(context.quarantine, earlier)
    while left is None or left > 0:
        at_most = ENTRIES_AT_ONCE if left is None else min(left, ENTRIES_AT_ONCE)
        taken = claim(context, selection, number=number, first=first, limit=at_most)
        if taken is None:
            break
        work_through(context, number)
        number += 1
        left = None if left is None else left - taken.entries


def claim(context: FlowContext, selection: Selection, *, number: int, first: int, limit: int) -> claims.Claim | None:
    """Step a: take entries in hand; None when nothing is left. That it is about to stands in files before."""
    by = context.request.requested_by or "tidegate"
    marker = _marker(context)
    write_text(_claims_file(context), json.dumps([*_claims(context), number]))
    write_text(marker, json.dumps({"number": number, "by": by}))
    taken = claims.take(context.quarantine, selection, number=number, first=first, limit=limit, by=by)
    if taken is None:
        marker.unlink()
    return taken


def _marker(context: FlowContext) -> Path:
    """The file that is there while a replay of the flow has entries in hand."""
    return context.layout.claim(context.pipeline.name, context.flow.name)


def _claims_file(context: FlowContext) -> Path:
    return context.layout.claims(context.pipeline.name, context.request.run_key, context.request.request_id)


def _claims(context: FlowContext) -> list[int]:
    """The claims of earlier attempts at the same request, in order; one that was undone may be among them."""
    try:
        numbers: list[int] = json.loads(_claims_file(context).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return sorted(set(numbers))


def _tell_earlier(context: FlowContext, numbers: Sequence[int]) -> None:
    """Put what earlier attempts at the same request did into this one's report: the replay is one for whoever asked."""
    told = {record.batch_id for record in context.report.batches}
    wanted = ", ".join(str(number) for number in numbers if number not in told)
    if not wanted:
        return
    lines = store.select(
        context.layout.ops(context.pipeline.name, "ledger"),
        f"SELECT * FROM held WHERE app_id = '{context.replays_app_id}' AND batch_id IN ({wanted}) ORDER BY batch_id",
    )
    context.report.batches[:0] = [BatchRecord.from_json(line) for line in lines]


def work_through(context: FlowContext, number: int) -> None:
    """Steps b and c of one claim, whatever an earlier attempt did of them.

    Raises:
        TidegateError: As a run. When it would come again and the target holds nothing, the entries are open as before.
    """
    replaying = _with(context, number, claims.entries_of(context.quarantine, number))
    session = context.spark.newSession()
    try:
        if decide(replaying, number).written:
            batch = session.range(0).toDF("_row_id")
        else:
            batch = originals.read(replaying, session)
            _let_go_of_the_lost(replaying, batch)
        micro_batch.process(replaying, batch, number)
    except Exception as error:
        failure = translate(error, what="a replay", checkpoint=str(context.checkpoint))
        if not failure.transient and not decide(replaying, number).written:
            claims.release(context.quarantine, number)
            _marker(context).unlink(missing_ok=True)
        raise
    settle(replaying, number)
    _marker(context).unlink(missing_ok=True)


def settle(context: FlowContext, number: int) -> None:
    """Step c: what broke a rule again is open, the others are replayed."""
    claims.settle(context.quarantine, number)


def _highest(context: FlowContext) -> int:
    """The highest number that a claim of this flow had, by all three that remember one."""
    places = (context.quarantine, context.live)
    written = [tables.transactions(context.spark, path).get(context.replays_app_id, -1) for path in places]
    return max(*written, claims.highest(context.quarantine))


def _foresee(context: FlowContext, selection: Selection, limit: int) -> None:
    entries = lifecycle.free_entries(context.quarantine, selection, limit)
    context.report.dry_run = True
    if not entries:
        return
    number = _highest(context) + 1
    replaying = _with(context, number, entries)
    try:
        batch = originals.read(replaying, context.spark.newSession())
        split = micro_batch.split_batch(replaying, batch, number, Decision(quarantined=False, written=False))
        if split is not None:
            check_balance(replaying, split.planned)
            replaying.tell_batch(split.planned)
    finally:
        replaying.release()


def _with(context: FlowContext, number: int, entries: list[dict[str, Any]]) -> FlowContext:
    moment_ms = int(pendulum.now("UTC").timestamp() * 1000)
    replay = Reentry(number=number, moment_ms=moment_ms, entries=tuple(entries))
    return dataclasses.replace(context, replay=replay, persisted=[])


def _let_go_of_the_lost(context: FlowContext, batch: DataFrame) -> None:
    """Reopen entries whose record is gone from bronze. A file that is gone comes back from step 2, as ``vanished``."""
    if context.source_table is None or context.replay is None:
        return
    import pyarrow

    found = {row["_row_id"] for row in batch.select("_row_id").collect()}
    lost = [entry["_row_id"] for entry in context.replay.entries if entry["_row_id"] not in found]
    if lost:
        ids = pyarrow.table({"_row_id": pyarrow.array(lost, pyarrow.string())})
        claims.let_go(context.quarantine, context.replay.number, ids)
