"""The current checkpoint of a flow, and the declaration that its version was created with.

Longer than 300 lines: it is the sidecar of a version and every check against it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET, UnsetType

from tidegate import __version__
from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then, new_version
from tidegate.checkpoints import progress
from tidegate.checkpoints.note import Note
from tidegate.errors import (
    CheckpointIncompatibleError,
    DeclarationConflictError,
    SchemaChangedError,
    StateSchemaChangedError,
)
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.project.fingerprints import fingerprint
from tidegate.project.resolution import ResolvedFlow
from tidegate.reports.report import now
from tidegate.schema.changes import SchemaChange, compare
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spec import Flow
from tidegate.spec.checks import in_seconds

REPAIR = Either(OutsideAct("restore it from a backup"), new_version(says="raise checkpoint_version"))
"""What to do about a damaged file of a checkpoint version."""


def current(place: FlowPlace, version: int) -> Place:
    """The current checkpoint of a version: its highest refresh, 0 when there is none yet."""
    first = place.of_version(version)
    return max(of_version(first), default=first, key=lambda place: place.refresh)


def of_version(place: Place) -> list[Place]:
    """The checkpoints that a version has, the first refresh first; none before its first run."""
    return [replace(place, refresh=refresh) for refresh in place.checkpoint.parent.numbers()]


def of_flow(place: FlowPlace) -> list[Place]:
    """The checkpoints that a flow has, of all versions, whether these have a sidecar or not."""
    names = (entry.name for entry in place.checkpoints.list() if entry.is_folder and entry.name.startswith("v"))
    versions = (int(name[1:]) for name in names if name[1:].isdigit())
    return [each for version in versions for each in of_version(place.of_version(version))]


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """The declaration that a checkpoint version was created with."""

    fingerprint: str
    remembered: dict[str, Any]
    """`tidegate.spec.Flow.remembered`, as JSON values."""
    created_at: str
    tidegate: str
    """The version of Tidegate."""
    delay: str | None = None
    """The longest delay of a watermark that the version was used with."""
    exact_ids: bool = False
    """Whether the ``_row_id`` of a result contains times with microseconds. Versions of earlier releases have milliseconds, and keep
    their ids."""
    paths_by_numbers: bool = False
    """Whether the numbers in the paths of files with equal times order their records. In versions of earlier releases characters do."""


@dataclass(frozen=True, kw_only=True)
class _Schema:
    """The schema that a flow last parsed records with."""

    fields: tuple[Column, ...]
    written_at: str


SIDECAR: Note[Sidecar, Place] = Note(
    name="sidecar",
    file="v{version}.json",
    content=Sidecar,
    says="the declaration that the version was made with",
    absent="the version was never used",
    written="a run of the flow, once, before the version is first used; later only a longer delay of the watermark",
    repair=REPAIR,
)
SCHEMA: Note[_Schema, Place] = Note(
    name="schema",
    file="v{version}.schema.json",
    content=_Schema,
    says="the fields with which the version parses records",
    absent="the version has parsed no records; the schema of the newest earlier version counts",
    written="a run of the flow that parses records, before its first batch, after its declaration was accepted",
    repair=Either(
        OutsideAct("restore it from a backup"),
        OutsideAct("remove it: the schema declared now then counts as the recorded one"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What opened a refresh. A field that does not apply is not stored."""

    mode: str
    """Of the request; ``accept_gap`` or ``accept_move`` where a decision of a person did."""
    run_key: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    """Of a request: further attempts at it go on with the refresh."""
    requested_by: str | UnsetType | None = UNSET
    lost: int | UnsetType = UNSET
    """Of a recovery: the rows that no source has any more, which its swap may delete."""
    damages: tuple[dict[str, Any], ...] | UnsetType = UNSET
    """Of a recovery: what was damaged, for people."""
    recorded_at: str | UnsetType = UNSET
    done: bool | UnsetType = UNSET
    """Of a recovery: that its flow has read everything."""

    @property
    def may_delete(self) -> int:
        """How many rows its swap may delete without an acceptance of their number."""
        return 0 if isinstance(self.lost, UnsetType) else self.lost

    @property
    def recovers(self) -> bool:
        """Whether a recovery opened it, and is not finished."""
        return self.mode == "recover" and self.done is not True


ORIGIN: Note[Origin, Place] = Note(
    name="origin",
    file="v{version}-{refresh}.origin.json",
    content=Origin,
    says="the request that opened the refresh",
    absent="no request opened it: it is the first of its version",
    written="a run of the flow, before the folder of the refresh exists, which makes it the current one; a recovery again at its end",
)


def versions(place: FlowPlace) -> dict[int, Sidecar]:
    """The sidecars by version, oldest first.

    Raises:
        DamagedFileError: A sidecar does not have the content that Tidegate writes.
    """
    sidecars = {}
    for entry in place.checkpoints.list():
        number = entry.name.removeprefix("v").removesuffix(".json")
        if number.isdigit() and entry.name == f"v{number}.json":
            sidecar = SIDECAR.read(place.of_version(int(number)))
            if sidecar is not None:
                sidecars[int(number)] = sidecar
    return dict(sorted(sidecars.items()))


def check_compatible(layout: Layout, resolved: ResolvedFlow) -> None:
    """Compare the declaration with the sidecar of its checkpoint version. Changes nothing, needs no JVM.

    Raises:
        CheckpointIncompatibleError: They differ, the delay of the watermark is shorter than it was, or a higher version is
            already in use.
        SchemaChangedError: A field of the schema is missing or has another type.
        StateSchemaChangedError: The lake is in a bucket, and the state was stored in a format that is not safe there.
        DamagedFileError: The sidecar cannot be read.
    """
    flow = resolved.flow
    if any(not feed.on for feed in flow.feeds[1:]):
        # Its transform in SQL does not show them: that is the error of the flow, which does not run.
        return
    sidecars = versions(resolved.place(layout))
    if sidecars and flow.checkpoint_version < max(sidecars):
        newest = max(sidecars)
        raise CheckpointIncompatibleError(
            flow.name,
            newest,
            {"checkpoint_version": (newest, flow.checkpoint_version)},
            again=new_version(newest, _REBUILDS),
        )
    sidecar = sidecars.get(flow.checkpoint_version)
    if sidecar is None:
        return
    remembered, declared = sidecar.remembered, flow.remembered()
    if sidecar.fingerprint == fingerprint(declared):
        _check_delay(flow, sidecar)
        _check_schema(layout, resolved)
        _check_state(layout, resolved)
        return
    names = sorted(set(remembered) | set(declared))
    changed = {
        name: (remembered.get(name), declared.get(name)) for name in names if remembered.get(name) != declared.get(name)
    }
    version = flow.checkpoint_version
    raise CheckpointIncompatibleError(flow.name, version, changed, again=new_version(version, _REBUILDS))


def _check_state(layout: Layout, resolved: ResolvedFlow) -> None:
    """In a bucket two drivers would replace files of state of the first format, which have the same names."""
    flow = resolved.flow
    if flow.state is None or layout.root.store.is_local:
        return
    place = current(resolved.place(layout), flow.checkpoint_version)
    if progress.commit_format(place.checkpoint) == 1:
        raise StateSchemaChangedError(
            f"flow {flow.name!r}: the state of its checkpoint at {place.checkpoint} has format 1, in which two drivers would replace "
            "files of each other in a bucket. Nothing was read.",
            new_version(flow.checkpoint_version, _REBUILDS),
        )


_REBUILDS = "set {} in the declaration: the next run then rebuilds the table behind staging; readers never see it empty"


def check_writers(flow: Flow, place: Place, writers: Collection[str]) -> None:
    """Check that a checkpoint may write the flow's table, which it has not written yet.

    Args:
        writers: The transaction ids (`Place.app_id`) of all writers of the table.

    Raises:
        DeclarationConflictError: Another flow wrote the table.
    """
    if place.app_id in writers:
        return
    own = f"{place.pipeline}/{flow.name}/"
    if others := sorted({app_id.rsplit("/", 2)[0] for app_id in writers if not app_id.startswith(own)}):
        raise DeclarationConflictError(
            f"flow {flow.name!r}: table {flow.target.name!r} was written by {', '.join(others)}.",
            Either(
                Edit("keep that flow's name", "declaration"),
                Edit("give this flow another target: two flows cannot write the same table", "declaration"),
            ),
        )


def write_sidecar(of_flow: FlowPlace, flow: Flow) -> None:
    """Write the declaration to the sidecar, once per version, before the version is first used; later only a longer delay."""
    place = of_flow.of_version(flow.checkpoint_version)
    delay = None if flow.watermark is None else flow.watermark.delay
    recorded = SIDECAR.read(place)
    if recorded is not None:
        if delay is not None and (recorded.delay is None or in_seconds(delay) > in_seconds(recorded.delay)):
            SIDECAR.write(place, replace(recorded, delay=delay))
        return
    remembered = flow.remembered()
    sidecar = Sidecar(
        fingerprint=fingerprint(remembered),
        remembered=remembered,
        created_at=now(),
        tidegate=__version__,
        delay=delay,
        exact_ids=True,
        paths_by_numbers=True,
    )
    SIDECAR.write(place, sidecar)


def record_refresh_origin(place: Place, origin: Origin) -> None:
    """Record what started a refresh, before its folder exists and so makes it the current one."""
    ORIGIN.write(place, replace(origin, recorded_at=now()))


def reads_again(place: Place) -> bool:
    """Whether a refresh of a landing flow was opened to read the whole source again, and not to go on after what was read."""
    origin = ORIGIN.read(place)
    return origin is not None and origin.mode in ("reingest", "recover")


def schema_changes(layout: Layout, resolved: ResolvedFlow) -> tuple[int, tuple[SchemaChange, ...]]:
    """How the declared schema differs from the one that the flow last ran with.

    Returns:
        The checkpoint version that the earlier schema was recorded for, and the changes. There are none if no schema is
        recorded or the flow parses no records.

    Raises:
        DamagedFileError: The recorded schema cannot be read.
    """
    flow, source = resolved.flow, resolved.landing
    if source is None:
        return flow.checkpoint_version, ()
    for version in range(flow.checkpoint_version, 0, -1):
        recorded = SCHEMA.read(resolved.place(layout).of_version(version))
        if recorded is not None:
            return version, compare(recorded.fields, parse_ddl("schema", source.schema))
    return flow.checkpoint_version, ()


def write_schema(layout: Layout, resolved: ResolvedFlow) -> None:
    """Write the schema that the flow parses with next to the checkpoint, after `check_compatible` has accepted it."""
    if resolved.landing is None:
        return
    place = resolved.place(layout).of_version(resolved.flow.checkpoint_version)
    columns = parse_ddl("schema", resolved.landing.schema)
    recorded = SCHEMA.read(place)
    if recorded is None or recorded.fields != columns:
        SCHEMA.write(place, _Schema(fields=columns, written_at=now()))


def _check_delay(flow: Flow, sidecar: Sidecar) -> None:
    """A table that rows entered by a longer delay has rows that a stateful flow would drop by a shorter one, also in a rebuild."""
    if flow.watermark is None or sidecar.delay is None or flow.watermark.delay_seconds >= in_seconds(sidecar.delay):
        return
    name = "delay of the watermark, which can only grow within a version"
    changed = {name: (sidecar.delay, flow.watermark.delay)}
    version = flow.checkpoint_version
    raise CheckpointIncompatibleError(flow.name, version, changed, again=new_version(version, _REBUILDS))


def _check_schema(layout: Layout, resolved: ResolvedFlow) -> None:
    pipeline, flow = resolved.pipeline, resolved.flow
    version, changes = schema_changes(layout, resolved)
    breaking = [change for change in changes if not change.keeps_checkpoint]
    if not breaking or version != flow.checkpoint_version:
        return
    file, changed = f"pipelines/{pipeline.name}.py", ", ".join(change.formerly or change.field for change in breaking)
    steps: list[Advice] = [new_version(version, f"set {{}} for flow {flow.name!r} in {file}")]
    if flow.transform is not None:
        steps.append(Edit(f"check {flow.transform_place} for {changed}", "transform"))
    swapped = f"run `{{}}`: {flow.target.name} is derived again from bronze and swapped in"
    again = swapped if flow.is_staged else "run `{}`: the new table gets all rows"
    steps.append(Command.tidegate("run", pipeline.name, "--flow", flow.name, says=again))
    raise SchemaChangedError(
        flow.name,
        version,
        {change.field: (change.before, change.after) for change in breaking},
        descriptions=[change.summary(resolved.names) for change in breaking],
        steps=Then(*steps),
        breaks=resolved.readers,
    )
