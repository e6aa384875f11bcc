"""Which intervals of a file source are complete, from the landing zone, the checkpoint and the quarantine. Starts no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pendulum

from tidegate import formatting
from tidegate.checkpoints import checkpoint, progress
from tidegate.ops import store
from tidegate.probes import files
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.layout import Layout
    from tidegate.probes.files import LandedFile
    from tidegate.spec import Flow, Intervals, Pipeline

State = Literal["missing", "incomplete", "not read", "complete"]
STATES: tuple[State, ...] = ("missing", "incomplete", "not read", "complete")
"""``missing``: it has no file, and intervals before and after it have some. ``incomplete``: not all of it has landed. ``not read``: all
of it has landed, and some of its files are not in bronze. ``complete``: they all are."""
_NAMED = 3
"""How many intervals of a state a summary names."""
_MOST = 100_000
"""Intervals that are looked at, the newest: one file with a wrong year must not add millions that are missing."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One day or hour."""

    name: str
    """``2013-01-05``, or ``2013-01-05T13``."""
    state: State
    files: int
    why: str = ""
    """Why it is not complete, as a phrase."""


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """The intervals of a source at one time."""

    unit: Literal["day", "hour"]
    intervals: tuple[Interval, ...]
    """From the first to the last that has a file, without a gap."""
    other_files: int = 0
    """Files whose path names no interval."""

    @property
    def complete(self) -> tuple[str, ...]:
        """The names of the complete ones."""
        return tuple(each.name for each in self.intervals if each.state == "complete")

    def summary(self) -> str:
        """How many are complete, and some that are not, in one phrase."""
        number = formatting.count(len(self.intervals), self.unit)
        parts = [f"{len(self.complete):,} of {number} complete"]
        for state in STATES[:-1]:
            own = [each for each in self.intervals if each.state == state]
            if own:
                named = ", ".join(f"{each.name} ({each.why})" if each.why else each.name for each in own[-_NAMED:])
                more = f" and {len(own) - _NAMED:,} more" if len(own) > _NAMED else ""
                parts.append(f"{state}: {named}{more}")
        if self.other_files:
            parts.append(f"{formatting.count(self.other_files, 'file')} of no {self.unit}")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "unit": self.unit,
            "intervals": [
                {"interval": each.name, "state": each.state, "files": each.files, "why": each.why or None}
                for each in self.intervals
            ],
            "other_files": self.other_files,
        }


def read(layout: Layout, pipeline: Pipeline, flow: Flow, now: datetime) -> Completeness | None:
    """The intervals of a flow's source; None if it declares none.

    Args:
        now: With a time zone.

    Raises:
        SourceError: The folder is missing or cannot be read.
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    source = flow.source
    if not isinstance(source, FileSource) or source.intervals is None:
        return None
    folder = layout.landing(source.path)
    # Before the listing, so that a file that lands meanwhile counts as not read.
    outside = _Bronze.read(layout, pipeline, flow)
    landed, others = _by_interval(folder, source, pipeline.timezone)
    declared = _Declared(folder=folder, intervals=source.intervals, now=pendulum.instance(now))
    statuses = tuple(_interval(declared, start, landed.get(start, ()), outside) for start in _range(declared, landed))
    return Completeness(unit=source.intervals.unit, intervals=statuses, other_files=others)


@dataclass(frozen=True, kw_only=True)
class _Declared:
    folder: Path
    intervals: Intervals
    now: pendulum.DateTime

    def file(self, template: str, start: pendulum.DateTime) -> Path:
        return self.folder / start.strftime(template)


@dataclass(frozen=True, kw_only=True)
class _Bronze:
    """What the flow has read."""

    read_files: Mapping[str, int] = field(default_factory=dict)
    """Path to modification time in milliseconds since 1970."""
    quarantined: frozenset[str] = frozenset()
    """The paths of files with an open entry."""

    @classmethod
    def read(cls, layout: Layout, pipeline: Pipeline, flow: Flow) -> _Bronze:
        folder = checkpoint.current(layout, pipeline, flow).path(layout)
        committed = progress.read(folder).last_committed
        if committed is None:
            return cls()
        up_to = progress.planned_batch(folder, committed).log_offset
        entries = store.select(
            layout.quarantine(pipeline.name, flow.name),
            "SELECT _row_id FROM delta_table WHERE level = 'file' AND state = 'open'",
        )
        return cls(
            read_files={file.path: file.modified_ms for file in progress.source_files(folder, up_to=up_to)},
            quarantined=frozenset(row["_row_id"].rpartition("@")[0] for row in entries),
        )

    def missing(self, landed: Sequence[LandedFile]) -> str:
        """Why bronze does not have all of these files, as a phrase; empty if it has."""
        unread = [file for file in landed if self.read_files.get(file.path) != file.modified_ms]
        refused = [file for file in landed if file.path in self.quarantined]
        parts = [f"{formatting.count(len(unread), 'file')} to read"] if unread else []
        parts += [f"{formatting.count(len(refused), 'file')} in quarantine"] if refused else []
        return " and ".join(parts)


def _by_interval(
    folder: Path, source: FileSource, timezone: str
) -> tuple[dict[pendulum.DateTime, list[LandedFile]], int]:
    assert source.intervals is not None
    pattern, others = source.intervals.pattern, 0
    landed: dict[pendulum.DateTime, list[LandedFile]] = {}
    for file in files.list_files(folder, source.glob).files:
        match = pattern.search(file.path.removeprefix(f"{folder}/"))
        start = None if match is None else _start(match.groupdict(), timezone)
        if start is None:
            others += 1
        else:
            landed.setdefault(start, []).append(file)
    return landed, others


def _start(parts: Mapping[str, str], timezone: str) -> pendulum.DateTime | None:
    """The beginning of the interval; None for a date that does not exist."""
    try:
        return pendulum.datetime(int(parts["Y"]), int(parts["m"]), int(parts["d"]), int(parts.get("H", 0)), tz=timezone)
    except ValueError:
        return None


def _range(declared: _Declared, landed: Mapping[pendulum.DateTime, object]) -> Iterator[pendulum.DateTime]:
    """All intervals from the first to the last with a file, at most `_MOST`."""
    if not landed:
        return
    step = {f"{declared.intervals.unit}s": 1}
    last = max(landed)
    start = max(min(landed), last.subtract(**dict.fromkeys(step, _MOST)))
    while start <= last:
        yield start
        start = start.add(**step)


def _interval(declared: _Declared, start: pendulum.DateTime, landed: Sequence[LandedFile], bronze: _Bronze) -> Interval:
    name = start.strftime("%Y-%m-%dT%H" if declared.intervals.unit == "hour" else "%Y-%m-%d")
    lacks = _lacks(declared, start, landed)
    if lacks:
        has_marker = bool(declared.intervals.manifest) and declared.file(declared.intervals.manifest, start).exists()
        state: State = "incomplete" if landed or has_marker else "missing"
        return Interval(name=name, state=state, files=len(landed), why=lacks if state == "incomplete" else "")
    why = bronze.missing(landed)
    return Interval(name=name, state="not read" if why else "complete", files=len(landed), why=why)


def _lacks(declared: _Declared, start: pendulum.DateTime, landed: Sequence[LandedFile]) -> str:
    """What is missing in the landing zone, as a phrase; empty if nothing is."""
    rule = declared.intervals
    if rule.marker:
        marker = declared.file(rule.marker, start)
        return "" if marker.exists() else f"no {marker.name}"
    if rule.manifest:
        return _lacks_of_manifest(declared.file(rule.manifest, start), landed)
    if rule.files is not None:
        return "" if len(landed) >= rule.files else f"{len(landed):,} of {formatting.count(rule.files, 'file')}"
    assert rule.quiet_hours is not None
    if not landed:
        return "no file"
    end = start.add(hours=1) if rule.unit == "hour" else start.add(days=1)
    newest = pendulum.from_timestamp(max(file.modified_ms for file in landed) / 1000)
    quiet_at = max(end, newest).add(seconds=rule.quiet_hours * 3600)
    return (
        ""
        if declared.now >= quiet_at
        else f"quiet from {quiet_at.in_timezone('UTC').format('YYYY-MM-DD HH:mm')} UTC on"
    )


def _lacks_of_manifest(manifest: Path, landed: Sequence[LandedFile]) -> str:
    try:
        names = manifest.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return f"no {manifest.name}"
    except (OSError, UnicodeDecodeError):
        return f"{manifest.name} cannot be read"
    listed = {str(manifest.parent / name.strip()) for name in names if name.strip()}
    absent = listed - {file.path for file in landed}
    return f"{len(absent):,} of {formatting.count(len(listed), 'file')} of {manifest.name} missing" if absent else ""
