"""The declaration, transform, suite and test of a pipeline, drafted from a sample, and what was guessed for them.

Longer than 300 lines: the files that it writes refer to each other.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from string import Template
from typing import Any

from tidegate import hidden
from tidegate.formatting import count
from tidegate.scaffolding.draft_field import DraftField, sent_to_quarantine, shortened, text_of
from tidegate.scaffolding.keys import Key, guess_key, is_nearly_complete
from tidegate.scaffolding.names import columns_of, declared_names, renamed_types
from tidegate.scaffolding.sample import Sample, line_numbers
from tidegate.scaffolding.spellings import Spelling, spelling
from tidegate.scaffolding.suites import suite_text
from tidegate.scaffolding.value_types import Guess, Oddity, of_json, of_texts
from tidegate.schema.names import FieldPath

_ORDER_NAME = re.compile(r"(^|_)(updated|modified|changed|published|version|revision|sequence|seq|ts|timestamp)(_|$)")
_EVENT_NAME = re.compile(r"(^|_)(created|ordered|occurred|event|day|date|time|at|on)(_|$)")
_ORDER_TYPES = ("INT", "BIGINT", "DATE", "TIMESTAMP")
_WIDTH = 90
"""Of a mapping on one line."""
_LANDED = {False: "landed_at", True: "sent_at"}
"""The column that orders versions where no field does: the file's modification time, or the message's timestamp."""
_SOURCES = {False: ("FileSource", "path", "@daily"), True: ("KafkaSource", "topic", "*/10 * * * *")}
_EXAMPLES = {
    **{"INT": "1", "BIGINT": "1", "DOUBLE": "1.5", "DECIMAL": "1", "BOOLEAN": "true"},
    **{"DATE": "2026-01-05", "TIMESTAMP": "2026-01-05T09:30:00Z", "STRING": "a"},
}
"""A made-up text of each type; None for others."""
_DIGITS = (("yyyy", "2026"), ("MM", "01"), ("dd", "05"), ("HH", "09"), ("mm", "30"), ("ss", "00"))
"""The same time in the letters of a pattern of `tidegate.spec.Formats`."""


def _template(name: str) -> Template:
    folder = importlib.resources.files("tidegate.scaffolding").joinpath("templates", "draft")
    return Template(folder.joinpath(f"{name}.txt").read_text(encoding="utf-8"))


_PIPELINE, _JOB, _TEST = (_template(name) for name in ("pipeline.py", "spark_job.py", "test.py"))


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Everything that is guessed from a sample."""

    sample: Sample
    fields: tuple[DraftField, ...]
    key: Key
    """Columns of silver."""
    order: str
    """The column that orders versions of a key; ``landed_at`` or ``sent_at`` where no field does; empty without keys."""
    event_time: str
    of_topic: bool
    formats: Spelling
    why: tuple[str, ...]
    """For people: what was guessed, and from what."""

    @classmethod
    def of(cls, sample: Sample, *, of_topic: bool) -> Draft:
        """Guess from a sample."""
        csv = sample.format == "csv"
        formats = spelling(sample.columns.values()) if csv else Spelling()
        names = declared_names(sample.columns)
        columns = columns_of(sample.columns, names, ("rescued", _LANDED[of_topic]))
        fields = []
        for name, values in sample.columns.items():
            guess = _guess(sample, name, formats)
            kind, nested = renamed_types(guess.type, (name,))
            if guess.type == "STRING":
                values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
            declared = name if name in names else columns[name]
            fields.append(
                DraftField(
                    name=name,
                    declared=declared,
                    column=columns[name],
                    guess=dataclasses.replace(guess, type=kind) if nested else guess,
                    values=values,
                    renames={**({} if declared == name else {name: declared}), **nested},
                )
            )
        orders = _orders(fields)
        key = guess_key(fields, orders, sample.lines_of)
        order = next((each.column for each in orders if each.column not in key.columns), _LANDED[of_topic])
        times = [each for each in fields if each.guess.type in ("DATE", "TIMESTAMP")]
        named = [each for each in times if each.column != order and _EVENT_NAME.search(each.column)]
        event_time = next((each.column for each in (*named, *times) if is_nearly_complete(each)), "")
        return cls(
            sample=sample,
            fields=tuple(fields),
            key=key,
            order=order if key.columns else "",
            of_topic=of_topic,
            event_time=event_time if key.columns else "",
            formats=formats,
            why=(*sample.notes, *formats.why, key.why),
        )

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without which a record goes to quarantine: those of the key, and the order."""
        return (*self.key.columns, self.order)

    def guesses(self) -> Iterator[str]:
        """What was guessed, one line each."""
        yield from self.why
        if self.key.columns:
            named = any(each.column == self.order for each in self.fields)
            origin = "" if named else ", because no field looks like a version: the last file or message wins"
            yield f"versions of a key are ordered by {self.order}{origin}"
        if self.event_time:
            yield f"event time, for windows of backfills: {self.event_time}"
        if renamed := sum(len(each.renames) for each in self.fields):
            yield f"{count(renamed, 'field')} renamed, because a column cannot have the name: fields={{…}} in the declaration"
        if len(self.sample.null_values) > 1:
            yield f"texts that mean no value: {', '.join(map(repr, self.sample.null_values))}"

    def doubts(self) -> Iterator[str]:
        """What a person should look at, one line each: the records by their lines, and what becomes of them."""
        if self.sample.malformed:
            yield f"{count(len(self.sample.malformed), 'record')} cannot be split: {line_numbers(self.sample.malformed)}"
        yield from self.key.doubts
        for each in self.fields:
            empty = each.empty
            if each.column in (self.order, self.event_time) and empty:
                effect = sent_to_quarantine(empty) if each.column == self.order else "no window of a backfill has it"
                yield f"{self._use(each)} {each.shown_name} has no value in {self.sample.lines_of(empty)}: {effect}"
            disposition = (
                "the record goes to quarantine"
                if each.column in self.required
                else f"{each.column} is empty, and the value in rescued"
            )
            for odd in _of_one_type(each.guess.misfits):
                yield f"{_path(each, odd[0])} is not {odd[0].type} in {self._shown(odd)}: {disposition}"
            for odd in _of_one_type(each.guess.wider):
                reason = f": {each.guess.why}" if each.guess.why else ""
                yield f"{_path(each, odd[0])} would be {odd[0].type} without {self._shown(odd)}{reason}"
            if each.guess.why and not each.guess.wider:
                yield f"{each.shown_name} is {each.guess.type}: {each.guess.why}"

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """A table of the fields: name, column, use, type, what the sample has."""
        return [
            (each.shown_name, each.column, self._use(each), shortened(each.guess.type), each.summary())
            for each in self.fields
        ]

    def _use(self, each: DraftField) -> str:
        parts = ["key"] if each.column in self.key.columns else []
        parts += ["order"] if each.column == self.order else []
        parts += ["event time"] if each.column == self.event_time else []
        return ", ".join(parts)

    def _shown(self, odd: Sequence[Oddity]) -> str:
        """The lines of values, with the first value."""
        return f"{self.sample.lines_of([each.record for each in odd])} ({shortened(text_of(odd[0].value))})"

    def pipeline(self, name: str, place: str) -> str:
        """The text of ``pipelines/<name>.py``.

        Args:
            place: The folder of the files, relative to the landing zone, or the topic.
        """
        source, first, schedule = _SOURCES[self.of_topic]
        arguments: dict[str, Any] = {first: place}
        if not self.of_topic:
            arguments["format"] = self.sample.format
        texts = [f"{argument}={_literal(value)}" for argument, value in arguments.items()] + ["schema=SCHEMA"]
        imports = {"ChangeFeed", "Flow", "Gate", "Pipeline", "Table", source}
        if renames := {path: name for each in self.fields for path, name in each.renames.items()}:
            texts.append(f"fields={_renames(renames)}")
        for kind, values in (("Dialect", self.sample.dialect), ("Formats", self.formats.values)):
            if values:
                imports.add(kind)
                texts.append(f"{kind.lower()}={kind}({_arguments(values)})")
        rescued = {
            each.declared: "rescue" for each in self.fields if each.guess.misfits and each.column not in self.required
        }
        if rescued:
            imports.add("Contract")
            pairs = ", ".join(f"{_literal(name)}: {_literal(mode)}" for name, mode in rescued.items())
            texts.append(f"contract=Contract(columns={{{pairs}}})")
        if self.sample.null_values != ("",):
            texts.append(f"null_values={_literal(self.sample.null_values)}")
        if self.sample.glob:
            texts.append(f"glob={_literal(self.sample.glob)}")
        table = [f'"silver.{name}"']
        if self.key.columns:
            table += [f"keys={_literal(self.key.columns)}", f"sequence_by={_literal((self.order,))}"]
        if self.event_time:
            table.append(f'event_time="{self.event_time}"')
        fields = (
            f"{each.declared} {each.guess.type}{' NOT NULL' if each.column in self.required else ''}"
            for each in self.fields
        )
        return _PIPELINE.substitute(
            title=_title(name),
            imports=", ".join(sorted(imports)),
            # Names of nested fields may have any characters, and the text is Python's.
            fields=",\n    ".join(fields).replace("\\", "\\\\").replace('"', '\\"'),
            name=name,
            schedule=schedule,
            source=source,
            arguments="".join(f"                {text},\n" for text in texts),
            table="".join(f"                {text},\n" for text in table),
        )

    def job(self, name: str) -> str:
        """The text of ``spark_jobs/<name>.py``."""
        selected = [_selected(each) for each in self.fields]
        if self.order in _LANDED.values():
            selected.append(
                f'F.col("{hidden.TIMESTAMP if self.of_topic else hidden.MODIFIED_AT}").alias("{self.order}")'
            )
        return _JOB.substitute(name=name, columns="".join(f"        {each},\n" for each in selected))

    def suite(self, name: str) -> str:
        """The text of the first suite."""
        return suite_text(name, self.fields, self.key.columns, self.order)

    def test(self, name: str) -> str:
        """The text of ``tests/spark_jobs/test_<name>.py``, with a made-up record."""
        formats = self.formats.values
        examples = {each.name: _example(each.guess.type, formats) for each in self.fields}
        values = "".join(f"    {_literal(name)}: {_literal(example)},\n" for name, example in examples.items())
        shown = [each.column for each in self.fields if examples[each.name] is not None]
        column = next((column for column in shown if column in self.key.columns), shown[0] if shown else hidden.ROW_ID)
        return _TEST.substitute(name=name, values=values, column=column)


def _guess(sample: Sample, name: str, formats: Spelling) -> Guess:
    if name in sample.types:
        kind = sample.types[name]
        # The names of nested fields keep their case.
        return Guess(type=kind if "<" in kind else kind.upper())
    values = sample.columns[name]
    return of_texts(values, formats.values) if sample.format == "csv" else of_json(values)


def _orders(fields: Sequence[DraftField]) -> list[DraftField]:
    """The fields that may order versions of a key, the best first: instants and numbers with such a name, other instants."""
    complete = [each for each in fields if is_nearly_complete(each)]
    named = [each for each in complete if _ORDER_NAME.search(each.column) and each.guess.type in _ORDER_TYPES]
    instants = [each for each in complete if each.guess.type == "TIMESTAMP" and each not in named]
    return [*named, *instants]


def _example(kind: str, formats: Mapping[str, Any]) -> str | None:
    """A made-up text of a type, as the source writes it."""
    name = kind.partition("(")[0]
    if name == "BOOLEAN" and "true" in formats:
        return str(formats["true"][0])
    if name == "DOUBLE" and "decimal_comma" in formats:
        return "1,5"
    pattern = formats.get(name.lower()) if name in ("DATE", "TIMESTAMP") else None
    if pattern is None:
        return _EXAMPLES.get(name)
    return reduce(lambda text, part: text.replace(*part), _DIGITS, str(pattern))


def _selected(each: DraftField) -> str:
    same = each.declared == each.column
    return f'"{each.column}"' if same else f'F.col("{each.declared}").alias("{each.column}")'


def _renames(renames: Mapping[FieldPath, str]) -> str:
    """The mapping on one line, or one pair a line where that is long."""
    pairs = [f"{_literal(path)}: {_literal(name)}" for path, name in renames.items()]
    line = f"{{{', '.join(pairs)}}}"
    return line if len(line) <= _WIDTH else "{\n" + "".join(f"{' ' * 20}{pair},\n" for pair in pairs) + f"{' ' * 16}}}"


def _arguments(values: Any) -> str:
    return ", ".join(f"{name}={_literal(value)}" for name, value in values.items())


def _literal(value: Any) -> str:
    """Python's literal with double quotes, as the formatter writes it."""
    if isinstance(value, str):
        return (
            "'" + value + "'"
            if '"' in value and not {"'", "\\"} & {*value} and value.isprintable()
            else json.dumps(value, ensure_ascii=False)
        )
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_literal, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def _of_one_type(oddities: Iterable[Oddity]) -> Iterable[list[Oddity]]:
    """The oddities of each path and type, one of each record."""
    groups: dict[tuple[tuple[str, ...], str], dict[int, Oddity]] = {}
    for each in oddities:
        groups.setdefault((each.path, each.type), {}).setdefault(each.record, each)
    return [[*group.values()] for group in groups.values()]


def _path(each: DraftField, odd: Oddity) -> str:
    return ".".join((each.shown_name, *odd.path))


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()
