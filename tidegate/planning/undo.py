"""What an undo puts back: the commits of one run, from its ledger lines. Starts no JVM.

An undo puts back what a backfill, a replay or another undo wrote to a keyed table. The rows of an increment are not put back:
its checkpoint has read past their source rows, which would then be in no table. The table of a full refresh belongs to another
checkpoint than the one before it, and bronze keeps every record.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import identity
from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then
from tidegate.checkpoints import checkpoint, overrides
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.layout import Layout, run_key
from tidegate.ops import store
from tidegate.place import FlowPlace, PipelinePlace
from tidegate.probes import delta
from tidegate.quarantine.lifecycle import quoted
from tidegate.report import BatchRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.environment import Environment
    from tidegate.request import RunRequest
    from tidegate.resolution import ResolvedPipeline
    from tidegate.spec import Flow, Pipeline

SMALL_ROWS = 200_000
"""An undo of fewer changed rows takes less than about a minute."""

_AGAIN = "correct the code or the suite and backfill its days, or run a full refresh: both derive the rows again"
_DERIVE = Then(
    Edit("correct the code or the suite", "transform"),
    Either(
        OutsideAct("backfill its days"),
        OutsideAct("run a full refresh: both derive the rows again"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A ledger line that is about a run, with the columns of its run."""

    record: BatchRecord
    run_key: str
    checkpoint: tuple[int, int]
    """Version and refresh."""
    at: str
    """When it was recorded, in UTC, to the second."""

    @property
    def label(self) -> str:
        """``backfill 3 of silver``."""
        return f"{identity.label(self.record.app_id, self.record.batch_id, self.record.kind)} of {self.record.flow}"

    @property
    def rows(self) -> int:
        """How many rows of the table it changed; of a replay, how many source rows it wrote."""
        return self.record.written if self.record.kind == "replay" else self.record.upserted + self.record.deleted


def plan_run(environment: Environment, resolved: ResolvedPipeline, request: RunRequest) -> tuple[RunRequest, list[str]]:
    """As `plan`, for `tidegate.runs`."""
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
        own, stays = commits(layout, pipeline, flow, lines, key)
        texts += stays
        if not own:
            continue
        if (by := undone_by(lines, flow.name, key)) is not None:
            done.append(f"{flow.name}: run {key} was undone already, by run {by.run_key} at {by.at} UTC")
            continue
        overrides.check_on(FlowPlace(layout, pipeline.name, flow.name))
        flows.append(flow.name)
        for line in own:
            check_readable(layout, flow, line)
            texts.append(f"{flow.name}: puts back {line.label.rpartition(' of ')[0]} ({line.at} UTC), {_changed(line)}")
    if not flows:
        raise RequestError(*_nothing(pipeline.name, key, done, texts))
    wanted = sum(line.rows for line in _of_run(lines, key) if line.record.flow in flows)
    request = dataclasses.replace(request, undoes=key, flows=tuple(flows), small=wanted < SMALL_ROWS)
    return request, [*done, *texts]


def read(place: PipelinePlace, run: str) -> list[RunLine]:
    """The ledger lines of a run, by its id or its key, and those of all undos; oldest first."""
    keys = ", ".join(quoted(key) for key in _keys(run))
    # All columns, because a ledger that no newer run has written to lacks `undoes`.
    path = place.ops("ledger")
    rows = store.select(
        path,
        f"SELECT * FROM delta_table WHERE run_key IN ({keys}) OR kind = '{identity.UNDO}' "
        f"ORDER BY {store.oldest_first(store.ordering(path))}, batch_id",
    )
    return [_line(row) for row in rows]


def find(lines: Sequence[RunLine], run: str) -> str | None:
    """The key of a run, by its id or its key; None if no line is of it."""
    return next((key for key in _keys(run) if _of_run(lines, key)), None)


def _keys(run: str) -> tuple[str, str]:
    return run_key(run), run


def commits(
    layout: Layout, pipeline: Pipeline, flow: Flow, lines: Sequence[RunLine], key: str
) -> tuple[list[RunLine], list[str]]:
    """The lines of a run in one flow whose commits can be put back, oldest first, and a sentence for each that cannot."""
    place = checkpoint.current(layout, pipeline, flow)
    own: list[RunLine] = []
    stays: list[str] = []
    for line in _of_run(lines, key):
        if line.record.flow != flow.name or (flow.kind.has_groups and not line.rows):
            continue
        why = _stays(flow, line, (place.version, place.refresh))
        if why is None:
            own.append(line)
        else:
            stays.append(f"{flow.name}: {line.label.rpartition(' of ')[0]} stays: {why}")
    return own, stays


def undone_by(lines: Sequence[RunLine], flow: str, key: str) -> RunLine | None:
    """The undo of a run in a flow that was not undone itself; None without one."""
    undos = (line for line in reversed(lines) if line.record.flow == flow and line.record.undoes == key)
    return next((line for line in undos if undone_by(lines, flow, line.run_key) is None), None)


def _of_run(lines: Sequence[RunLine], key: str) -> list[RunLine]:
    return [line for line in lines if line.run_key == key]


def _stays(flow: Flow, line: RunLine, current: tuple[int, int]) -> str | None:
    """Why the commit of a line cannot be put back; None if it can."""
    if not flow.feeds:
        return f"{flow.target.name} keeps every record as it arrived; to take its rows out of the tables below, {_AGAIN} there"
    if flow.kind.sends:
        return f"{flow.target.name} has got its changes; its next increment sends the rows that are put back in {flow.source_tables[0]}"
    if not flow.target.keys:
        return f"{flow.target.name} has no keys by which the rows could be found again"
    if line.record.kind == "swap":
        return "a full refresh or a new version is not put back; to return, restore the earlier code and run a full refresh"
    if line.record.is_batch and flow.kind.has_groups:
        return "it followed its source, and the next increment follows the rows that are put back there"
    if line.record.is_batch:
        return f"it is an increment, whose source rows are not read again; to take its rows back, {_AGAIN}"
    if line.checkpoint != current:
        return "a full refresh or a new version derives the table again, in another checkpoint"
    return None


def _changed(line: RunLine) -> str:
    if line.record.kind == "replay":
        return f"which wrote {count(line.rows, 'row')} and closed their quarantine entries"
    return f"which changed {count(line.rows, 'row')} of {count(line.record.groups, 'key')}"


def _nothing(pipeline: str, key: str, done: Sequence[str], texts: Sequence[str]) -> tuple[str, Advice]:
    """What is wrong with an undo that would change nothing, and what to do."""
    if done:
        by = done[0].partition("by run ")[2].partition(" at ")[0]
        return f"{'; '.join(done)}. Nothing was changed", Command.tidegate("undo", by, says="`{}` takes that undo back")
    why = "; ".join(texts) or "none of these flows wrote anything in it"
    lines = Command.tidegate("ledger", pipeline, "--json", says="`{}` shows the run_key of each line")
    return f"run {key} has nothing that can be undone: {why}.", lines


def check_readable(layout: Layout, flow: Flow, line: RunLine) -> None:
    """Raise `RequestError` if the table's log or its files no longer have the changes of a commit."""
    path, version = layout.table(flow.target.name), line.record.target_version
    where = f"flow {flow.name!r}: the changes of {line.label} (version {version} of {flow.target.name})"
    put_back = "so they cannot be put back."
    if version is None:
        raise RequestError(f"{where} have no version in the ledger, {put_back}", _DERIVE)
    try:
        commit, metadata = delta.read_commit(path, version), delta.commit_metadata(path, version)
    except FileNotFoundError:
        metadata = {}
    if (metadata.get("app_id"), metadata.get("batch_id")) != (line.record.app_id, line.record.batch_id):
        raise RequestError(f"{where} are no longer in the table's log, {put_back}", _DERIVE)
    newest = delta.current_version(path) or version
    for later in range(version + 1, newest + 1):
        if delta.is_replacement(path, later):
            raise RequestError(
                f"{where} were made before version {later} replaced all rows and the schema, {put_back}", _DERIVE
            )
    if not delta.all_exist(path, commit.files):
        raise RequestError(f"{where} were removed, possibly by VACUUM, {put_back}", _DERIVE)


def _line(row: dict[str, Any]) -> RunLine:
    return RunLine(
        record=BatchRecord.of_line(row),
        run_key=row["run_key"],
        checkpoint=(row["checkpoint_version"], row["refresh"]),
        at=f"{row['recorded_at']:%Y-%m-%d %H:%M:%S}",
    )
