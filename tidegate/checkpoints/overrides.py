"""Overrides of a flow at run time: it is switched off, a file is skipped, a gap in a topic or a loss is accepted, its folder was moved.

Each decision is one line of JSON next to the flow's checkpoints, with who, when and why. Lines are only appended; the newest
one about a flow, or about a file, applies. `plan` and the job read them, without a JVM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tidegate.advice import Command, Edit, Either, OutsideAct
from tidegate.checkpoints import progress
from tidegate.checkpoints.note import NoteLines
from tidegate.errors import RequestError
from tidegate.lake.place import FlowPlace, Place
from tidegate.reports.report import now
from tidegate.spec import FileSource, Flow
from tidegate.store import Address

Act = Literal["off", "on", "skip", "read", "gap", "loss", "move", "start", "keep"]
"""``off``, ``on``: whether the flow runs. ``skip``, ``read``: whether a file is opened when a batch lists it. ``gap``:
the flow continues without messages that the broker deleted before they were read (`tidegate.checkpoints.gap`). ``loss``: it is
recovered without what its table had and no source has any more (`tidegate.planning.losses`). ``move``: its landing folder was moved
(`tidegate.checkpoints.landing_folder`). ``start``: a checkpoint version began where its declaration says, and skipped what is before.
``keep``: the flow is not declared any more, and all that it wrote is kept (`tidegate.status.removed`)."""

RULE = "skipped_file"
"""The rule of a skipped file's quarantine entry. A replay of the entry reads the file."""


@dataclass(frozen=True, kw_only=True)
class Override:
    """One decision about a flow or a file."""

    act: Act
    by: str
    reason: str
    file: str | None = None
    """Relative to the landing folder; None for a decision about the flow."""
    topic: str | None = None
    """The topic of an accepted gap, or of a start."""
    topic_id: str | None = None
    """Kafka's id of the topic; a topic that is deleted and created again has another."""
    offsets: dict[str, list[int]] | None = None
    """The messages of an accepted gap, or those that a start skipped: partition to first and last offset."""
    lost: int | None = None
    """Of an accepted loss: the number."""
    what: str | None = None
    """Of an accepted loss: what was lost, with the number. Of a flow that is kept: where it stopped."""
    moved_from: str | None = None
    """Where the landing folder was."""
    version: int | None = None
    """Of a start: the checkpoint version."""
    at: str = field(default_factory=now)
    """The instant, in UTC, as ISO 8601."""

    @property
    def offsets_text(self) -> str:
        """``0:10-14 1:3-7``; empty for other decisions than accepted gaps and starts."""
        return " ".join(f"{partition}:{first}-{last}" for partition, (first, last) in (self.offsets or {}).items())

    def summary(self) -> str:
        """``switched off by ada on 2026-11-02T08:00: the source sends rubbish``."""
        verbs = {
            "off": "switched off",
            "on": "switched on",
            "skip": f"{self.file} skipped",
            "read": f"{self.file} read",
            "gap": f"offsets {self.offsets_text} of topic {self.topic} accepted as a gap",
            "loss": f"the loss of {self.what} accepted",
            "move": f"the move of the landing folder from {self.moved_from} accepted",
            "keep": f"{self.what} kept",
            "start": f"offsets {self.offsets_text or 'none'} of topic {self.topic} skipped at the start of v{self.version}",
        }
        return f"{verbs[self.act]} by {self.by} on {self.at[:16]}: {self.reason}"


OVERRIDES: NoteLines[Override, FlowPlace] = NoteLines(
    name="overrides",
    file="overrides.jsonl",
    content=Override,
    says="decisions of people about the flow, with who, when and why",
    absent="nobody has decided anything: the flow is on, and reads everything",
    written="a command or a page, for a person, at any time",
    repair=Either(OutsideAct("restore it from a backup"), OutsideAct("remove the damaged line")),
)


def history(place: FlowPlace) -> list[Override]:
    """All decisions about a flow, oldest first.

    Raises:
        DamagedFileError: A line is not a decision.
    """
    return OVERRIDES.read(place)


def earlier_folders(place: FlowPlace) -> list[str]:
    """Where the landing folder of the flow was before, by accepted moves."""
    return [each.moved_from for each in history(place) if each.act == "move" and each.moved_from is not None]


def switched_off(place: FlowPlace) -> Override | None:
    """The decision that switched a flow off; None when the flow is on."""
    newest = [each for each in history(place) if each.act in ("off", "on")][-1:]
    return newest[0] if newest and newest[0].act == "off" else None


def kept(place: FlowPlace, stopped: str) -> Override | None:
    """The decision to keep what a flow left that is not declared any more; None if there is none since it stopped there."""
    return next((each for each in history(place) if each.act == "keep" and each.what == stopped), None)


def check_on(place: FlowPlace) -> None:
    """Check that a flow is switched on.

    Raises:
        RequestError: It is switched off.
    """
    off = switched_off(place)
    if off is not None:
        raise RequestError(
            f"flow {place.flow!r} of {place.pipeline!r} is {off.summary()}.",
            Command.tidegate("flow", "on", place.pipeline, place.flow, "--reason", "…", says="switch it on first: {}"),
        )


def skipped_files(place: FlowPlace) -> dict[str, Override]:
    """The skipped files, relative to the landing folder, each with its decision."""
    newest = {each.file: each for each in history(place) if each.file is not None}
    return {file: each for file, each in newest.items() if each.act == "skip"}


def switch(place: FlowPlace, *, on: bool, by: str, reason: str) -> Override:
    """Switch a flow off or on, from its next run on. A run in progress is not affected.

    Raises:
        RequestError: The reason is empty, or the flow is in that state already.
    """
    current = switched_off(place)
    if (current is None) == on:
        state = "on" if on else f"off: {current.summary()}" if current is not None else "off"
        raise RequestError(
            f"flow {place.flow!r} of {place.pipeline!r} is already {state}",
            Command.tidegate("flow", "show", place.pipeline, says="`{}` shows the decisions"),
        )
    return record(place, Override(act="on" if on else "off", by=by, reason=reason))


def skip(place: Place, flow: Flow, file: str, *, by: str, reason: str, undo: bool = False) -> Override:
    """Decide that a file goes to quarantine unread when a batch lists it.

    Args:
        file: Relative to the landing folder.
        undo: Cancel such a decision: the file is read.

    Raises:
        RequestError: The flow reads no files, the file does not exist, it was read already, the reason is empty, or there is
            no decision to cancel.
    """
    if not isinstance(flow.source, FileSource):
        raise RequestError(
            f"flow {flow.name!r} reads no landing folder, so it has no files to skip",
            Edit("name a flow with a FileSource", "request"),
        )
    folder = place.layout.landing(flow.source.path)
    if undo:
        if file not in skipped_files(place):
            raise RequestError(
                f"{file} is not among the files to skip",
                Command.tidegate("flow", "show", place.pipeline, says="`{}` lists them"),
            )
        return record(place, Override(act="read", by=by, reason=reason, file=file))
    if not _exists(folder, file):
        raise RequestError(f"there is no file {file} in {folder}", Edit("name it relative to that folder", "request"))
    committed = progress.read(place.checkpoint).last_committed
    planned = None if committed is None else progress.planned_batch(place.checkpoint, committed)
    read = progress.source_files(place.checkpoint, up_to=-1 if planned is None else planned.log_offset)
    names = {f"{each}/{file}" for each in (folder.uri, *earlier_folders(place))}
    if not names.isdisjoint(each.path for each in read):
        raise RequestError(
            f"{file} was read already, and its rows stay in bronze.",
            Either(
                Edit(
                    "to remove them from silver, filter them by _origin in the transform and run a backfill",
                    "transform",
                ),
                OutsideAct("delete them at the source"),
            ),
        )
    return record(place, Override(act="skip", by=by, reason=reason, file=file))


def _exists(folder: Address, file: str) -> bool:
    try:
        return (folder / file).stat().kind == "content"
    except (FileNotFoundError, ValueError):
        return False


def record(place: FlowPlace, decision: Override) -> Override:
    """Append a decision.

    Raises:
        RequestError: The reason is empty.
    """
    if not decision.reason.strip():
        raise RequestError("the reason is empty", Edit("say why, it is recorded with the decision", "request"))
    OVERRIDES.append(place, decision)
    return decision
