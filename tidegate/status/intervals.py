"""Which intervals of a file source are complete, from the landing zone, the checkpoint and the quarantine. Starts no JVM."""

from __future__ import annotations

import dataclasses
import fnmatch
import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pendulum

from tidegate import formatting, hidden
from tidegate.checkpoints import checkpoint, landing_folder, progress
from tidegate.errors import NotDeliveredError
from tidegate.errors.classification import raise_machine
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace
from tidegate.ops import store
from tidegate.probes import files
from tidegate.spec import FileSource, Flow, Intervals
from tidegate.spec.intervals import CODES
from tidegate.status import changed_files
from tidegate.status.completeness import Completeness, Interval, end_of, exists, name_of, quiet_from, step
from tidegate.store import Address, Entry

if TYPE_CHECKING:
    from tidegate.probes.files import LandedFile

_MOST = 100_000
"""Intervals that are looked at, the newest, besides those that have a file: one with a wrong year must not add millions that are
missing."""
_SOON = timedelta(days=366)
"""A file of a later interval, as of the year 9999, makes none before it missing."""


def read(place: FlowPlace, flow: Flow, timezone: str, now: datetime) -> Completeness | None:
    """The intervals of a flow's source; None if it declares none.

    Args:
        timezone: The name of the pipeline's time zone.
        now: With a time zone.

    Raises:
        SourceError: The folder cannot be read, or it is missing and files of it were read before.
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    source = flow.source
    if not isinstance(source, FileSource) or source.intervals is None:
        return None
    folder = place.layout.landing(source.path)
    rule, zone = source.intervals, ZoneInfo(timezone)
    local_now = now.astimezone(zone).replace(tzinfo=None)
    # Before the listing, so that a file that lands meanwhile counts as not read.
    bronze = _Bronze.read(place, flow, source)
    declared = _Declared(folder=folder, intervals=rule, zone=zone, now=now)
    read_before = _by_interval(folder, rule, bronze.read_files)[0]
    sealed = _sealed(folder, rule)
    if rule.marker:
        declared = dataclasses.replace(declared, marked=sealed)
    try:
        listed = {file.path: file for file in files.list_files(folder, source.glob).files}
    except NotDeliveredError:
        if bronze.read_files:
            raise
        listed = {}
    with_another_time = files.with_another_time(listed.values(), bronze.read_files)
    unread = changed_files.unread(place, flow, bronze.read_files, with_another_time)
    bronze = dataclasses.replace(bronze, changed=frozenset(file.path for file in unread.overwritten))
    paths, others = _by_interval(folder, rule, listed)
    landed = {start: [listed[path] for path in own] for start, own in paths.items()}
    empty = sealed - landed.keys() - read_before.keys()
    if empty:
        # Files that the glob leaves out are no marker alone.
        seals = {str(declared.file(rule.marker or rule.manifest, start)) for start in empty}
        others_there = (file.path for file in files.list_files(folder, "*").files if file.path not in seals)
        empty -= _by_interval(folder, rule, others_there)[0].keys()
    statuses = tuple(
        dataclasses.replace(_interval(declared, start, landed.get(start, ()), bronze), is_empty=start in empty)
        for start in _range(rule, sealed.union(landed), local_now)
        if start in landed or exists(rule.unit, zone, start)
    )
    touched = frozenset(file.path for file in unread.touched)
    return Completeness(unit=rule.unit, intervals=statuses, other_files=others, touched=touched)


@dataclass(frozen=True, kw_only=True)
class _Declared:
    folder: Address
    intervals: Intervals
    zone: ZoneInfo
    now: datetime
    marked: frozenset[datetime] = frozenset()
    """Intervals whose marker was there before the files were listed. One that comes later may follow files that are not listed."""

    def file(self, template: str, start: datetime) -> Address:
        return self.folder / start.strftime(template)


@dataclass(frozen=True, kw_only=True)
class _Bronze:
    """What the flow has read."""

    read_files: Mapping[str, int] = field(default_factory=dict)
    """Path to modification time in milliseconds since 1970."""
    quarantined: frozenset[str] = frozenset()
    """The paths of files with an open entry."""
    changed: frozenset[str] = frozenset()
    """The paths of files that were overwritten after they were read."""

    @classmethod
    def read(cls, place: FlowPlace, flow: Flow, source: FileSource) -> _Bronze:
        folder = checkpoint.current(place, flow.checkpoint_version).checkpoint
        committed = progress.read(folder).last_committed
        if committed is None:
            return cls()
        up_to = progress.planned_batch(folder, committed).log_offset
        source_folder = landing_folder.of(place, source)
        refused = store.select(
            place.quarantine, f"SELECT {hidden.ROW_ID} FROM delta_table WHERE level = 'file' AND state = 'open'"
        )
        return cls(
            read_files=dict(source_folder.identity(file.id) for file in progress.source_files(folder, up_to=up_to)),
            quarantined=frozenset(source_folder.present_path(FileId.parse(row[hidden.ROW_ID]).path) for row in refused),
        )

    def written_ms(self, file: LandedFile) -> int:
        """The time of its content: a file that was read has the first one, whatever gave it another."""
        return file.modified_ms if file.path in self.changed else self.read_files.get(file.path, file.modified_ms)

    def to_read(self, landed: Sequence[LandedFile]) -> tuple[LandedFile, ...]:
        """Those of these files that a reingest reads."""
        return tuple(
            file
            for file in landed
            if (file.path not in self.read_files or file.path in self.changed) and file.path not in self.quarantined
        )

    def missing(self, landed: Sequence[LandedFile]) -> str:
        """Why bronze does not have all of these files, as a phrase; empty if it has."""
        unread = [file for file in landed if file.path not in self.read_files]
        changed = [file for file in landed if file.path in self.changed]
        refused = [file for file in landed if file.path in self.quarantined]
        parts = [f"{formatting.count(len(unread), 'file')} to read"] if unread else []
        parts += [f"{formatting.count(len(changed), 'file')} changed after being read"] if changed else []
        parts += [f"{formatting.count(len(refused), 'file')} in quarantine"] if refused else []
        return " and ".join(parts)


def _sealed(folder: Address, rule: Intervals) -> frozenset[datetime]:
    """The intervals that have a marker or a manifest, also those without a file."""
    template = rule.marker or rule.manifest
    if not template:
        return frozenset()
    parts = re.split(r"(%[YmdH])", template)
    wildcards = "".join("*" if part in CODES else glob.escape(part) for part in parts)
    # The same code may stand in the folder and in the name.
    values = [f"(?P<{part[1]}>{CODES[part]})" if part in CODES else re.escape(part) for part in parts]
    repeated = {part: number for number, part in reversed(list(enumerate(parts))) if part in CODES}
    pattern = re.compile(
        "".join(
            f"(?P={part[1]})" if part in CODES and repeated[part] != number else value
            for number, (part, value) in enumerate(zip(parts, values, strict=True))
        )
    )
    parents, matching = [folder], list[Entry]()
    for part in wildcards.split("/"):
        listed = (entry for parent in parents for entry in parent.list())
        matching = [entry for entry in listed if fnmatch.fnmatchcase(entry.name, part)]
        parents = [folder.at(entry) for entry in matching if entry.is_folder]
    names = (entry.key.removeprefix(f"{folder.key}/") for entry in matching)
    matches = (match for name in names if (match := pattern.fullmatch(name)) is not None)
    return frozenset(start for match in matches if (start := _start(match.groupdict(), rule)) is not None)


def _by_interval(folder: Address, rule: Intervals, paths: Iterable[str]) -> tuple[dict[datetime, list[str]], int]:
    """The paths of each interval, and how many belong to none.

    An interval is the local time at which it begins, without a zone: clocks that skip or repeat an hour do not change what a path says.
    """
    pattern, others = rule.pattern, 0
    by_start: dict[datetime, list[str]] = {}
    for path in paths:
        matches = pattern.finditer(path.removeprefix(f"{folder}/"))
        start = next((start for match in matches if (start := _start(match.groupdict(), rule)) is not None), None)
        if start is None:
            others += 1
        else:
            by_start.setdefault(start, []).append(path)
    return by_start, others


def _start(parts: Mapping[str, str], rule: Intervals) -> datetime | None:
    """The beginning of the interval; None for a date that does not exist, and for the last one of the calendar, which has no end."""
    try:
        start = datetime(int(parts["Y"]), int(parts["m"]), int(parts["d"]), int(parts.get("H", 0)))  # noqa: DTZ001
        return start if start + step(rule.unit) > start else None
    except (ValueError, OverflowError):
        return None


def _range(rule: Intervals, landed: Iterable[datetime], now: datetime) -> list[datetime]:
    """The intervals with a file, and those between them: `_MOST`, up to the last one that `_SOON` allows."""
    length, starts = step(rule.unit), set(landed)
    if between := [start for start in starts if start <= now + _SOON]:
        last = max(between)
        starts.update(last - number * length for number in range(min((last - min(between)) // length, _MOST)))
    return sorted(starts)


def _interval(declared: _Declared, start: datetime, landed: Sequence[LandedFile], bronze: _Bronze) -> Interval:
    name = name_of(declared.intervals.unit, start)
    why = bronze.missing(landed)
    interval = Interval(name=name, state="complete", files=len(landed), to_read=bronze.to_read(landed))
    lacks = _lacks(declared, start, landed, bronze, unread=bool(why))
    if lacks:
        has_marker = bool(declared.intervals.manifest) and declared.file(declared.intervals.manifest, start).exists()
        has_some = bool(landed) or has_marker
        return dataclasses.replace(
            interval, state="incomplete" if has_some else "missing", why=lacks if has_some else ""
        )
    own = _listed(declared, start, landed)
    return dataclasses.replace(interval, state="not read" if why else "complete", why=why, landed=own)


def _listed(declared: _Declared, start: datetime, landed: Sequence[LandedFile]) -> tuple[LandedFile, ...]:
    if not declared.intervals.manifest:
        return tuple(landed)
    try:
        names = _names(declared.file(declared.intervals.manifest, start))
    except (OSError, UnicodeDecodeError) as error:
        raise_machine(error)
        return ()
    own = tuple(file for file in landed if file.path in names)
    # A manifest that was replaced after `_lacks` read it may list files that landed after the listing.
    return own if len(own) == len(names) else ()


def _lacks(declared: _Declared, start: datetime, landed: Sequence[LandedFile], bronze: _Bronze, *, unread: bool) -> str:
    """What is missing in the landing zone, as a phrase; empty if nothing is."""
    rule = declared.intervals
    if rule.marker:
        marker = declared.file(rule.marker, start)
        return "" if start in declared.marked or (unread and marker.exists()) else f"no {marker.name}"
    if rule.manifest:
        return _lacks_of_manifest(declared.file(rule.manifest, start), landed)
    if rule.files is not None:
        return "" if len(landed) >= rule.files else f"{len(landed):,} of {formatting.count(rule.files, 'file')}"
    assert rule.quiet_hours is not None
    if not landed:
        return "no file"
    newest = pendulum.from_timestamp(max(map(bronze.written_ms, landed)) / 1000)
    quiet_at = max(end_of(rule.unit, declared.zone, start), newest).add(seconds=rule.quiet_hours * 3600)
    return "" if declared.now >= quiet_at else quiet_from(quiet_at)


def _lacks_of_manifest(manifest: Address, landed: Sequence[LandedFile]) -> str:
    try:
        listed = _names(manifest)
    except FileNotFoundError:
        return f"no {manifest.name}"
    except (OSError, UnicodeDecodeError) as error:
        raise_machine(error)
        return f"{manifest.name} cannot be read"
    absent = listed - {file.path for file in landed}
    return f"{len(absent):,} of {formatting.count(len(listed), 'file')} of {manifest.name} missing" if absent else ""


def _names(manifest: Address) -> set[str]:
    """The paths of the files that a manifest lists."""
    names = manifest.read().data.decode("utf-8-sig").split("\n")
    return {_path(manifest.parent, name.strip()) for name in names if name.strip()}


def _path(folder: Address, name: str) -> str:
    """What a manifest in a folder may call a file that is listed: also ``./a.csv``, and an absolute path."""
    return name if name.startswith("/") else f"{folder}/{PurePosixPath(name)}"
