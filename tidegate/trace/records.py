"""Finds the record of a file's line or of a message in bronze, and says why it is not there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.advice import Command, Edit
from tidegate.checkpoints import overrides
from tidegate.errors import RequestError
from tidegate.lake.file_id import beginning, url_of_path
from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.spec import FileSource, KafkaSource
from tidegate.trace import conditions

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.trace.lineage import Lineage
    from tidegate.trace.step import Step

_ENTRY = (hidden.ROW_ID, "level", "rules", "state", "quarantined_at")


@dataclass(frozen=True, kw_only=True)
class Record:
    """The coordinates of a record."""

    path: str | None = None
    """As `FileId.path`."""
    line: int = 0
    topic: str = ""
    partition: int = 0
    offset: int = 0

    @classmethod
    def of(cls, layout: Layout, file: str | None, line: int | None, offset: str | None) -> Record | None:
        """From the options of the command; None if none is given.

        Raises:
            RequestError: They do not fit together.
        """
        if (file is None) != (line is None):
            raise RequestError("--file and --line need each other.", Edit("give both", "request"))
        if offset is not None:
            match = re.fullmatch(r"(.+)/(\d+)/(\d+)", offset)
            if match is None or file is not None or max(int(match[2]), int(match[3])) >= 2**63:
                raise RequestError(
                    f"--offset {offset!r} is not TOPIC/PARTITION/OFFSET", Edit("write it as in clicks/0/42", "request")
                )
            return cls(topic=match[1], partition=int(match[2]), offset=int(match[3]))
        if file is None or line is None:
            return None
        landing = layout.landing_root
        if "://" in file or not landing.store.is_local:
            return cls(path=file if "://" in file else (landing / file).uri, line=line)
        # As bronze names it: absolute, without resolving links. A relative one is of this folder, or of the landing zone.
        chosen = file if Path(file).exists() else Path(landing) / file
        return cls(path=os.path.abspath(chosen), line=line)  # noqa: PTH100  # resolves "..", and no links

    def describe(self) -> str:
        """For messages."""
        return f"line {self.line} of {self.path}" if self.path else f"{self.topic}/{self.partition}/{self.offset}"


def find(lineage: Lineage, record: Record) -> list[Step]:
    """The record in every bronze table that has it, with what became of it.

    Raises:
        RequestError: No bronze table has it; the message says what is known of the file or the topic.
    """
    flows = [flow for flow in lineage.landing_flows() if _reads(lineage, flow, record)]
    if not flows:
        raise RequestError(
            f"no declared flow reads {record.path or f'topic {record.topic!r}'}",
            Command.tidegate("lag", says="`{}` lists what flows read"),
        )
    steps = [lineage.down(flow, row) for flow in flows for row in _rows(lineage, flow, record)]
    if not steps:
        raise RequestError(
            " ".join(_missing(lineage, flow, record) for flow in flows), Edit("name another line or offset", "request")
        )
    return steps


def _reads(lineage: Lineage, flow: ResolvedFlow, record: Record) -> bool:
    source = flow.flow.source
    if isinstance(source, KafkaSource):
        return record.topic in source.topics
    return (
        isinstance(source, FileSource)
        and record.path is not None
        and record.path.startswith(f"{lineage.layout.landing(source.path)}/")
    )


def _rows(lineage: Lineage, flow: ResolvedFlow, record: Record) -> list[dict[str, Any]]:
    """The rows of the record: several if the file was replaced and read again, or the topic was created again."""
    if record.path is None:
        name = conditions.literal(record.topic)
        return lineage.find(
            flow,
            f"{hidden.TOPIC} = {name} AND {hidden.PARTITION} = {record.partition} "
            f"AND {hidden.OFFSET} = {record.offset}",
        )
    path = conditions.literal(url_of_path(record.path))
    rows = lineage.find(flow, f"{hidden.PATH} = {path} AND {hidden.LINE_NUMBER} = {record.line}")
    # A line within a record: a record has line breaks in quotes.
    before = lineage.find(
        flow, f"{hidden.PATH} = {path} AND {hidden.LINE_NUMBER} < {record.line} AND strpos(line, chr(10)) > 0"
    )
    return rows or [row for row in before if row[hidden.LINE_NUMBER] + row["line"].count("\n") >= record.line]


def _missing(lineage: Lineage, flow: ResolvedFlow, record: Record) -> str:
    table = flow.flow.target.name
    what = f"{table} has no record of {record.describe()}"
    if record.path is None:
        if entry := _newest_entry(lineage, flow, f"level = 'message' AND {_is_offset(record)}"):
            return f"{what}: the message is in quarantine for {entry}."
        for decision in overrides.history(flow.place(lineage.layout)):
            first, last = (decision.offsets or {}).get(str(record.partition), (0, -1))
            if decision.topic == record.topic and first <= record.offset <= last:
                return f"{what}: {decision.summary()}."
        bounds = lineage.find(
            flow, f"{hidden.TOPIC} = {conditions.literal(record.topic)} AND {hidden.PARTITION} = {record.partition}"
        )
        newest = max((row[hidden.OFFSET] for row in bounds), default=None)
        known = (
            "of that partition it has none"
            if newest is None
            else f"its newest rows of the partition are up to offset {newest}"
        )
        return f"{what}: {known}. tidegate lag {flow.pipeline.name} shows what is not read yet."
    others = lineage.find(flow, f"{hidden.PATH} = {conditions.literal(url_of_path(record.path))}")
    if others:
        return f"{what}: it has other lines of the file; the line is the header, blank, or after the end."
    of_file = f"level = 'file' AND starts_with({hidden.ROW_ID}, {conditions.literal(beginning(record.path))})"
    if entry := _newest_entry(lineage, flow, of_file):
        return f"{what}: the file is in quarantine as a whole for {entry}."
    if lineage.layout.landing_root.of_uri(record.path).exists():
        return f"{what}: the file is not read yet. tidegate lag {flow.pipeline.name} shows what a run would read."
    return f"{what}, and the file does not exist."


def _is_offset(record: Record) -> str:
    """The condition for the entries of a message: their ids name the topic, its id if it has one, the partition and the offset."""
    of_topic = f"starts_with({hidden.ROW_ID}, {conditions.literal(f'{record.topic}/')})"
    place = conditions.literal(f"/{record.partition}/{record.offset}")
    return f"{of_topic} AND ends_with({hidden.ROW_ID}, {place})"


def _newest_entry(lineage: Lineage, flow: ResolvedFlow, where: str) -> str:
    """The rules of the newest entry in quarantine, with its state; empty for none."""
    path = flow.place(lineage.layout).quarantine
    columns = delta_table.columns(path)
    names = [name for name in _ENTRY if name in columns]
    entries = query.query(path, names, "FROM delta_table ORDER BY quarantined_at DESC LIMIT 1", where=where)
    return f"{', '.join(entries[0]['rules'])} ({entries[0]['state']})" if entries else ""
