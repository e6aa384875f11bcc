"""What a person decided about a flow at run time: it is off, a file is to be skipped, messages that are gone are given up.

One line of JSON per decision beside the flow's checkpoints, with who, when and why. Lines are added and never changed;
the newest one about a flow, or about a file, holds. `plan` and the job read them; neither needs a JVM for it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from tidegate.checkpoints import progress
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import CheckpointCorruptError, RequestError
from tidegate.layout import Layout
from tidegate.report import now
from tidegate.spec import FileSource, Flow

Act = Literal["off", "on", "skip", "read", "gap"]
"""``off``, ``on``: whether the flow runs. ``skip``, ``read``: whether a file is opened once its turn comes. ``gap``: messages
that the broker deleted before they were read are given up (`tidegate.checkpoints.gap`)."""

RULE = "skipped_file"
"""What the entry in quarantine of a skipped file carries: a replay of it reads the file after all."""


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """One decision."""

    act: Act
    by: str
    reason: str
    file: str | None = None
    """Relative to the landing folder; None for a decision about the flow."""
    topic: str | None = None
    """Whose messages are given up."""
    topic_id: str | None = None
    """Kafka's id of it: one that is made anew has another."""
    offsets: dict[str, list[int]] | None = None
    """What is given up: partition to the first and the last offset."""
    at: str = field(default_factory=now)
    """The instant, in UTC, as ISO 8601."""

    @property
    def offsets_told(self) -> str:
        """``0:10-14 1:3-7``; empty where no messages are given up."""
        return " ".join(f"{partition}:{first}-{last}" for partition, (first, last) in (self.offsets or {}).items())

    def told(self) -> str:
        """``switched off by ada on 2026-11-02T08:00: the source sends rubbish``."""
        verbs = {
            "off": "switched off",
            "on": "switched on",
            "skip": f"{self.file} skipped",
            "read": f"{self.file} read",
            "gap": f"offsets {self.offsets_told} of topic {self.topic} given up",
        }
        return f"{verbs[self.act]} by {self.by} on {self.at[:16]}: {self.reason}"


def history(layout: Layout, dag_id: str, flow: str) -> list[Intervention]:
    """All decisions about a flow, oldest first.

    Raises:
        CheckpointCorruptError: The file is not what we wrote.
    """
    path = layout.interventions(dag_id, flow)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [Intervention(**json.loads(line)) for line in lines]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError):
        raise CheckpointCorruptError(
            f"{path} is not the list of decisions that we wrote: restore it from a backup, or remove the line that is damaged",
            path=str(path),
        ) from None


def switched_off(layout: Layout, dag_id: str, flow: str) -> Intervention | None:
    """The decision that keeps a flow from running; None when it runs."""
    newest = [each for each in history(layout, dag_id, flow) if each.act in ("off", "on")][-1:]
    return newest[0] if newest and newest[0].act == "off" else None


def check_on(layout: Layout, dag_id: str, flow: str) -> None:
    """Refuse what a flow that is switched off would pass over.

    Raises:
        RequestError: It is switched off.
    """
    off = switched_off(layout, dag_id, flow)
    if off is not None:
        raise RequestError(
            f"flow {flow!r} of {dag_id!r} is {off.told()}. Switch it on first: "
            f'tidegate flow on {dag_id} {flow} --reason "…"'
        )


def skipped_files(layout: Layout, dag_id: str, flow: str) -> dict[str, Intervention]:
    """Decisions by the file, relative to the landing folder, that is not to be opened."""
    newest = {each.file: each for each in history(layout, dag_id, flow) if each.file is not None}
    return {file: each for file, each in newest.items() if each.act == "skip"}


def switch(layout: Layout, dag_id: str, flow: str, *, on: bool, by: str, reason: str) -> Intervention:
    """Switch a flow off from its next run on, or on again. A run that is under way ends as it began.

    Raises:
        RequestError: There is no reason, or the flow is as asked for already.
    """
    current = switched_off(layout, dag_id, flow)
    if (current is None) == on:
        state = "on" if on else f"off: {current.told()}" if current is not None else "off"
        raise RequestError(f"flow {flow!r} of {dag_id!r} is {state} already")
    return record(layout, dag_id, flow, Intervention(act="on" if on else "off", by=by, reason=reason))


def skip(
    layout: Layout, flow: Flow, ref: CheckpointRef, file: str, *, by: str, reason: str, undo: bool = False
) -> Intervention:
    """Decide that a file is put into quarantine unopened when its turn comes; with ``undo`` that it is read after all.

    Args:
        layout: The lake's.
        flow: A flow that reads files.
        ref: Its checkpoint.
        file: Relative to the landing folder.
        by: Who decides.
        reason: Why.
        undo: Take the decision back.

    Raises:
        RequestError: The flow reads no files, the file is not there, it was read already, there is no reason, or nothing
            is to be taken back.
    """
    if not isinstance(flow.source, FileSource):
        raise RequestError(f"flow {flow.name!r} reads no landing folder, so it has no files to skip")
    folder = layout.landing(flow.source.path)
    if undo:
        if file not in skipped_files(layout, ref.dag_id, flow.name):
            raise RequestError(f"{file} is not among the files to skip; `tidegate flow show {ref.dag_id}` lists them")
        return record(layout, ref.dag_id, flow.name, Intervention(act="read", by=by, reason=reason, file=file))
    if not (folder / file).is_file():
        raise RequestError(f"there is no file {file} in {folder}; name it relative to that folder")
    committed = progress.read(ref.path(layout)).last_committed
    planned = None if committed is None else progress.planned_batch(ref.path(layout), committed)
    read = progress.source_files(ref.path(layout), up_to=-1 if planned is None else planned.log_offset)
    if str(folder / file) in {each.path for each in read}:
        raise RequestError(
            f"{file} was read already; what bronze holds of it stays. To take its rows out of silver, filter them by _origin in "
            "the transform and replay, or delete them at the source"
        )
    return record(layout, ref.dag_id, flow.name, Intervention(act="skip", by=by, reason=reason, file=file))


def record(layout: Layout, dag_id: str, flow: str, decision: Intervention) -> Intervention:
    """Add a decision that was checked.

    Raises:
        RequestError: There is no reason.
    """
    if not decision.reason.strip():
        raise RequestError("there is no reason: say why, for whoever finds it later")
    path = layout.interventions(dag_id, flow)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(decision)) + "\n")
    return decision
