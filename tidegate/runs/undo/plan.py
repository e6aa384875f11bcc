"""What an undo puts back: the commits of one run, from its ledger lines. Starts no JVM.

An undo puts back what a backfill, a replay or another undo wrote to a keyed table. The rows of an increment are not put back:
its checkpoint has read past their source rows, which would then be in no table. The table of a full refresh belongs to another
checkpoint than the one before it, and bronze keeps every record.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then
from tidegate.checkpoints import checkpoint, overrides
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.lake import identity
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops.ledger import LEDGER, RecordedLine
from tidegate.probes import delta
from tidegate.quarantine.lifecycle import quoted
from tidegate.reports.ledger_line import LedgerLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline
    from tidegate.requests.request import RunRequest
    from tidegate.spec import Flow, Pipeline

SMALL_ROWS = 200_000
"""An undo of fewer changed rows takes less than about a minute."""

_AGAIN = "correct the code or the suite and backfill its days, or run a full refresh: both derive the rows again"
_DERIVE = Then(
    Edit("correct the code or the suite", "transform"),
    Either(OutsideAct("backfill its days"), OutsideAct("run a full refresh: both derive the rows again")),
)


def label(line: LedgerLine) -> str:
    """``backfill 3 of silver``."""
    return f"{line.label} of {line.flow}"


def changed_rows(line: LedgerLine) -> int:
    """How many rows of the table a line changed; of a replay, how many source rows it wrote."""
    return line.written if line.kind == "replay" else line.upserted + line.deleted


def plan_run(environment: Environment, resolved: ResolvedPipeline, request: RunRequest) -> tuple[RunRequest, list[str]]:
    """As `plan`, for `tidegate.requests.runs`."""
    return plan(Layout.of(environment), resolved.pipeline, request)


def plan(layout: Layout, pipeline: Pipeline, request: RunRequest) -> tuple[RunRequest, list[str]]:
    """Find the run in the ledger, and the flows in which it can be undone.

    Returns:
        The request with the run's key and these flows, and lines for people about what is put back and what stays.

    Raises:
        RequestError: The ledger has no such run, nothing that it wrote can be put back, or it was undone already.
    """
    assert request.undoes is not None
    lines = read(PipelinePlace(layout, pipeline.name), request.undoes)
    key = find(lines, request.undoes)
    if key is None:
        raise RequestError(
            f"the ledger of pipeline {pipeline.name!r} has no line of run {request.undoes!r}: it wrote "
            "nothing, or has another id.",
            Command.tidegate("ledger", pipeline.name, "--json", says="`{}` shows the run_key of each line"),
        )
    flows, texts, done = [], [], []
    for flow in request.selected(pipeline):
        place = PipelinePlace(layout, pipeline.name).flow(flow.name)
        own, stays = commits(place, flow, lines, key)
        texts += stays
        if not own:
            continue
        if (by := undone_by(lines, flow.name, key)) is not None:
            done.append(
                f"{flow.name}: run {key} was undone already, by run {by.run_key} at {by.recorded_at:%Y-%m-%d %H:%M:%S} UTC"
            )
            continue
        overrides.check_on(place)
        flows.append(flow.name)
        for line in own:
            check_readable(layout, flow, line)
            texts.append(
                f"{flow.name}: puts back {line.label} ({line.recorded_at:%Y-%m-%d %H:%M:%S} UTC), {_changed(line)}"
            )
    if not flows:
        raise RequestError(*_nothing(pipeline.name, key, done, texts))
    wanted = sum(changed_rows(line) for line in _of_run(lines, key) if line.flow in flows)
    request = dataclasses.replace(request, undoes=key, flows=tuple(flows), small=wanted < SMALL_ROWS)
    return request, [*done, *texts]


def read(place: PipelinePlace, run: str) -> list[RecordedLine]:
    """The ledger lines of a run, by its id or its key, and those of all undos; oldest first."""
    keys = ", ".join(quoted(key) for key in _keys(run))
    return LEDGER.read(place, f"run_key IN ({keys}) OR kind = '{identity.UNDO}'")


def find(lines: Sequence[RecordedLine], run: str) -> str | None:
    """The key of a run, by its id or its key; None if no line is of it."""
    return next((key for key in _keys(run) if _of_run(lines, key)), None)


def _keys(run: str) -> tuple[str, str]:
    return run_key(run), run


def commits(
    place: FlowPlace, flow: Flow, lines: Sequence[RecordedLine], key: str
) -> tuple[list[RecordedLine], list[str]]:
    """The lines of a run in one flow whose commits can be put back, oldest first, and a sentence for each that cannot."""
    current = checkpoint.current(place, flow.checkpoint_version)
    own: list[RecordedLine] = []
    stays: list[str] = []
    for line in _of_run(lines, key):
        if line.flow != flow.name or (flow.kind.has_groups and not changed_rows(line)):
            continue
        why = _stays(flow, line, (current.version, current.refresh))
        if why is None:
            own.append(line)
        else:
            stays.append(f"{flow.name}: {line.label} stays: {why}")
    return own, stays


def undone_by(lines: Sequence[RecordedLine], flow: str, key: str) -> RecordedLine | None:
    """The undo of a run in a flow that was not undone itself; None without one."""
    undos = (line for line in reversed(lines) if line.flow == flow and line.undoes == key)
    return next((line for line in undos if undone_by(lines, flow, line.run_key or "") is None), None)


def _of_run(lines: Sequence[RecordedLine], key: str) -> list[RecordedLine]:
    return [line for line in lines if line.run_key == key]


def _stays(flow: Flow, line: RecordedLine, current: tuple[int, int]) -> str | None:
    """Why the commit of a line cannot be put back; None if it can."""
    if not flow.feeds:
        return f"{flow.target.name} keeps every record as it arrived; to take its rows out of the tables below, {_AGAIN} there"
    if flow.kind.sends:
        return f"{flow.target.name} has got its changes; its next increment sends the rows that are put back in {flow.source_tables[0]}"
    if not flow.target.keys:
        return f"{flow.target.name} has no keys by which the rows could be found again"
    if line.kind == "swap":
        return "a full refresh or a new version is not put back; to return, restore the earlier code and run a full refresh"
    if line.is_batch and flow.kind.has_groups:
        return "it followed its source, and the next increment follows the rows that are put back there"
    if line.is_batch:
        return f"it is an increment, whose source rows are not read again; to take its rows back, {_AGAIN}"
    if (line.checkpoint_version, line.refresh) != current:
        return "a full refresh or a new version derives the table again, in another checkpoint"
    return None


def _changed(line: RecordedLine) -> str:
    if line.kind == "replay":
        return f"which wrote {count(changed_rows(line), 'row')} and closed their quarantine entries"
    return f"which changed {count(changed_rows(line), 'row')} of {count(line.groups, 'key')}"


def _nothing(pipeline: str, key: str, done: Sequence[str], texts: Sequence[str]) -> tuple[str, Advice]:
    """What is wrong with an undo that would change nothing, and what to do."""
    if done:
        by = done[0].partition("by run ")[2].partition(" at ")[0]
        return f"{'; '.join(done)}. Nothing was changed", Command.tidegate("undo", by, says="`{}` takes that undo back")
    why = "; ".join(texts) or "none of these flows wrote anything in it"
    lines = Command.tidegate("ledger", pipeline, "--json", says="`{}` shows the run_key of each line")
    return f"run {key} has nothing that can be undone: {why}.", lines


def check_readable(layout: Layout, flow: Flow, line: RecordedLine) -> None:
    """Raise `RequestError` if the table's log or its files no longer have the changes of a commit."""
    path, version = layout.table(flow.target.name), line.target_version
    where = f"flow {flow.name!r}: the changes of {label(line)} (version {version} of {flow.target.name})"
    put_back = "so they cannot be put back."
    if version is None:
        raise RequestError(f"{where} have no version in the ledger, {put_back}", _DERIVE)
    try:
        commit, metadata = delta.read_commit(path, version), delta.commit_metadata(path, version)
    except FileNotFoundError:
        metadata = {}
    if (metadata.get("app_id"), metadata.get("batch_id")) != (line.app_id, line.batch_id):
        raise RequestError(f"{where} are no longer in the table's log, {put_back}", _DERIVE)
    newest = delta.current_version(path) or version
    for later in range(version + 1, newest + 1):
        if delta.is_replacement(path, later):
            raise RequestError(
                f"{where} were made before version {later} replaced all rows and the schema, {put_back}", _DERIVE
            )
    if not delta.all_exist(path, commit.files):
        raise RequestError(f"{where} were removed, possibly by VACUUM, {put_back}", _DERIVE)
