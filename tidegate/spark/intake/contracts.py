"""Detects schema changes in a batch and applies the contract to them before a row is written.

The column ``_origin``, which transforms pass through, holds all that is needed: no record is parsed again for it.
`tidegate.schema.changes` defines the kinds of change, `tidegate.schema.contract` the actions, `tidegate.ops.evolution` keeps
the history.

Longer than 300 lines: what a batch has, what the contract does with it and what is recorded are one account of each change.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.errors import ContractRefusedError
from tidegate.lake import identity
from tidegate.ops import evolution
from tidegate.schema import registry_schemas
from tidegate.schema.changes import SchemaChange, compare, fingerprint, normal
from tidegate.schema.contract import Action
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.names import hashed_name
from tidegate.spark.intake import bronze, parse
from tidegate.spark.intake.casts import cast
from tidegate.spark.intake.typed_values import MASK_BITS
from tidegate.spec import Formats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column as SparkColumn

    from tidegate.environment.registry import RegistryServer
    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.spark.job import Run

MAX_NEW_NAMES = 100
"""A batch with more undeclared names has names that are data, not new fields; they are handled as one field."""
MANY_NAMES = f"(more than {MAX_NEW_NAMES} names)"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_DECLARED = re.compile(r"[A-Za-z0-9_ .@-]{1,128}")


class SchemaChanges:
    """The schema changes in one batch of a flow that parses records."""

    def __init__(
        self,
        place: Place,
        resolved: ResolvedFlow,
        run: Run,
        *,
        registry: RegistryServer | None,
        app_id: str,
        is_replay: bool = False,
    ) -> None:
        """The changes of a batch that is written with this transaction id; the registry has writers' schemas."""
        assert resolved.landing is not None
        self.place, self.resolved, self.run = place, resolved, run
        self.registry, self.app_id, self.is_replay = registry, app_id, is_replay
        self.source = resolved.landing
        self.bronze = bronze.load(self.source)
        self.columns = parse_ddl("schema", self.source.schema)
        self.terms = evolution.terms(place, self.source)
        self.lines: list[evolution.SchemaHistoryLine] = []
        self.actions: dict[SchemaChange, Action] = {}

    def parse(self, feed: DataFrame) -> DataFrame:
        """Parse bronze rows into typed rows; see `tidegate.spark.intake.parse.parse`."""
        folder = self.place.of_pipeline.schemas
        lookup = functools.partial(registry_schemas.fetch, self.registry, folder)
        # Without a registry, JSON is read without looking at schema ids; Avro cannot be read without its schema.
        uses_schema_ids = self.registry is not None or self.bronze.needs_registry(self.source)
        self.parsed = parse.parse(feed, self.source, self.terms, lookup if uses_schema_ids else None)
        return self.parsed.rows

    def header_of(self, feed: DataFrame) -> list[SparkColumn]:
        """The header of a bronze row, if its format has headers."""
        return self.bronze.header_of(feed, self.source)

    def measures(self) -> list[SparkColumn]:
        """Aggregates over the output of the transform for `apply_contract`: undeclared fields, and the masks of each field."""
        masks = []
        for word in range(self._words):
            filled, unfit = (F.col(f"{hidden.ORIGIN}.{name}")[word] for name in ("filled", "unfit"))
            masks += [
                F.bit_or(filled).alias(f"_filled_{word}"),
                F.bit_or(filled.bitwiseAND(F.bitwise_not(unfit))).alias(f"_fitting_{word}"),
            ]
        return [F.max(F.size(f"{hidden.ORIGIN}.unknown")).alias("_most_unknown"), *masks]

    @property
    def _words(self) -> int:
        return (len(self.columns) + MASK_BITS - 1) // MASK_BITS

    def apply_contract(
        self,
        output: DataFrame,
        of_feed: Mapping[str, Any],
        measures: Mapping[str, Any],
        batch_id: int,
        *,
        decided: bool,
    ) -> DataFrame:
        """Detect the schema changes of the batch, and take the contract's action for each.

        Args:
            output: The output of the transform, with ``_origin`` and ``_broken`` (the rules that the row breaks).
            of_feed: Has the values of `header_of`, each once, as ``_headers``.
            measures: The values of `measures`.
            decided: Whether the disposition of the batch's rows was already decided in an earlier attempt; then the batch is
                not refused any more.

        Returns:
            The same rows with the evolved columns, ``_rescued`` as JSON, and ``schema_change(<field>)`` in ``_broken`` of rows
            with a change that was answered with ``quarantine``.

        Raises:
            ContractRefusedError: The contract is frozen and the schema change has no answer. It was recorded in the history.
        """
        headers = self.bronze.writers_in(of_feed["_headers"], self.source)
        changes = self._detect(output, {**self.parsed.writers, **headers}, measures)
        used_names = {name.lower() for name in output.columns}
        evolved = {name: kind for name, kind in self.terms.evolved.items() if name.lower() not in used_names}
        used_names |= {name.lower() for name in evolved}
        self.actions = actions = {}
        for change in changes:
            actions[change] = self.terms.action(change)
            if actions[change] == "evolve":
                # The transform has a column of that name, or the batch has the name in two spellings of its case.
                if change.field.lower() in used_names:
                    actions[change] = "rescue"
                used_names.add(change.field.lower())
        frozen = [change for change, action in actions.items() if action == "freeze"]
        if frozen and not decided:
            raise self._refusal(frozen, batch_id)
        self.lines = [self._line(change, action, batch_id) for change, action in actions.items() if action != "freeze"]
        evolved |= {change.field: change.after or "string" for change, action in actions.items() if action == "evolve"}
        refused = [change for change, action in actions.items() if action == "quarantine"]
        return self._with_broken_rules(_with_columns(output, evolved, self.source.formats), refused)

    def record(self, batch_id: int, quarantined: Mapping[str, int]) -> None:
        """Record the actions in the history. Call it before the batch is written: the history has every added column then.

        A dry run records nothing.

        Args:
            batch_id: The batch.
            quarantined: Its rows in quarantine, by rule.
        """
        if self.run.request.dry_run:
            return
        for name in self.source.names.shown_in(quarantined):
            if (note := f"quarantined by rules about {name}") not in self.run.report.notes:
                self.run.report.notes.append(note)
        added = evolution.record(self.place.of_pipeline, self.lines)
        if added:
            summary = "; ".join(
                f"{line.change.summary(self.source.names)}: {self.terms.effect(line.change, self.actions[line.change], quarantined)}"
                for line in added
            )
            self.run.report.notes.append(f"batch {batch_id}: {summary}")

    def _detect(
        self, output: DataFrame, writers: Mapping[int, tuple[Column, ...]], measures: Mapping[str, Any]
    ) -> list[SchemaChange]:
        """The schema changes of the batch, each once."""
        filled_names, fitting = (
            _names(self.columns, tuple(measures[f"_{kind}_{word}"] for word in range(self._words)))
            for kind in ("filled", "fitting")
        )
        self.unknown = self._unknown_names(output) if (measures["_most_unknown"] or 0) > 0 else {}
        self.writers_by_change: dict[SchemaChange, list[int]] = {}
        for writer, fields in writers.items():
            for change in self._changes_of_writer(fields):
                self.writers_by_change.setdefault(change, []).append(writer)
        if not self.parsed.writers_cover_all:
            changed_fields = {change.field for change in self.writers_by_change}
            present = [column for column in self._expected() if column.name in (*filled_names, *self.terms.evolved)]
            undeclared = (Column(name, "") for name in self.unknown if name not in self.terms.evolved)
            for change in compare(self._expected(), [*present, *undeclared]):
                # JSON records may omit any field: a field that no record of a batch has was not necessarily removed.
                if change.kind != "removal" and change.field not in changed_fields:
                    self.writers_by_change.setdefault(change, [])
        for column in self.columns:
            if column.name in filled_names and column.name not in fitting and not self._has_type_change(column.name):
                change = SchemaChange(kind="type_change", field=column.name, before=normal(column.type))
                self.writers_by_change.setdefault(change, [])
        return list(self.writers_by_change)

    def _expected(self) -> list[Column]:
        """Declared and evolved fields, without NOT NULL: that is checked row by row."""
        declared = [Column(column.name, column.type) for column in self.columns]
        return declared + [Column(name, kind) for name, kind in self.terms.evolved.items()]

    def _changes_of_writer(self, fields: Iterable[Column]) -> list[SchemaChange]:
        expected = {column.name: column for column in self._expected()}
        written = []
        for column in fields:
            declared = expected.get(column.name)
            by_values = declared is not None and _judged_by_values(normal(declared.type), normal(column.type))
            written.append(Column(self._loggable(column.name), "" if by_values else column.type))
        changes = compare(list(expected.values()), written)
        # Values of a narrower type always fit, and older files lack fields that were added later.
        return [
            change
            for change in changes
            if change.kind != "narrowing"
            and not (change.kind == "removal" and change.field in (*self.terms.added, *self.terms.evolved))
        ]

    def _has_type_change(self, name: str) -> bool:
        return any(change.kind == "type_change" and change.field == name for change in self.writers_by_change)

    def _unknown_names(self, output: DataFrame) -> dict[str, list[str]]:
        """Undeclared field names, by the form in which they may be logged."""
        names = (
            output.select(F.explode(F.map_keys(f"{hidden.ORIGIN}.unknown")).alias("name"))
            .distinct()
            .limit(MAX_NEW_NAMES + 1)
        )
        raw = sorted(row["name"] for row in names.collect())
        if len(raw) > MAX_NEW_NAMES:
            return {MANY_NAMES: []}
        names_by_label: dict[str, list[str]] = {}
        for name in raw:
            names_by_label.setdefault(self._loggable(name), []).append(name)
        return names_by_label

    def _loggable(self, name: str) -> str:
        """A field name in a form that may be logged: a name that is not an identifier could be data, so only its hash is shown.

        Names in the contract are shown, since they are in the declaration anyway.
        """
        if _IDENTIFIER.fullmatch(name) or (name in self.terms.contract.column_modes() and _DECLARED.fullmatch(name)):
            return name
        return hashed_name(name)

    def _refusal(self, frozen: list[SchemaChange], batch_id: int) -> ContractRefusedError:
        schema_change_id = fingerprint(self.place.flow, frozen)
        lines = [
            dataclasses.replace(
                self._line(change, "freeze", batch_id), event="refused", schema_change_id=schema_change_id
            )
            for change in frozen
        ]
        if not self.run.request.dry_run:
            evolution.record(self.place.of_pipeline, lines)
        return ContractRefusedError(
            self.place.pipeline,
            self.place.flow,
            batch_id,
            schema_change_id=schema_change_id,
            changes=[change.summary(self.source.names) for change in frozen],
            declared=evolution.declared_fingerprint(self.source),
            breaks=sorted({name for line in lines for name in line.breaks}),
            is_replay=self.is_replay,
            is_backfill=not identity.is_stream(self.app_id),
        )

    def _line(self, change: SchemaChange, action: Action, batch_id: int) -> evolution.SchemaHistoryLine:
        return evolution.SchemaHistoryLine(
            flow=self.place.flow,
            event="observed",
            change=change,
            decision=self.terms.outcome(change, action),
            version_before=self.place.version,
            version_after=self.place.version,
            breaks=() if change.keeps_checkpoint else self.resolved.readers,
            app_id=self.app_id,
            batch_id=batch_id,
            run_key=self.run.request.run_key,
        )

    def _with_broken_rules(self, output: DataFrame, refused: list[SchemaChange]) -> DataFrame:
        if not refused:
            return output
        rules = [F.when(self._has(change), F.lit(f"schema_change({change.field})")) for change in refused]
        return output.withColumn(hidden.BROKEN, F.array_union(hidden.BROKEN, F.array_compact(F.array(*rules))))

    def _has(self, change: SchemaChange) -> SparkColumn:
        """Whether a row has a given change of its batch."""
        if change.field == MANY_NAMES:
            return F.size(f"{hidden.ORIGIN}.unknown") > 0
        if change.kind in ("addition", "rename_suspect", "case_clash"):
            if not (names := self.unknown.get(change.field)):
                return F.lit(False)
            has_name = F.arrays_overlap(
                F.map_keys(f"{hidden.ORIGIN}.unknown"), F.array(*[F.lit(name) for name in names])
            )
            return F.coalesce(has_name, F.lit(False))
        if writers := self.writers_by_change[change]:
            return F.col(f"{hidden.ORIGIN}.writer").isin(*writers)
        index = [column.name for column in self.columns].index(change.field)
        word, bit = divmod(index, MASK_BITS)
        return F.col(f"{hidden.ORIGIN}.unfit")[word].bitwiseAND(F.lit(1 << bit).cast("bigint")) != 0


def _judged_by_values(declared: str, written: str) -> bool:
    """Whether only values show a misfit, not the types: a text can hold any value, a timestamp without a zone is read as UTC."""
    return written == "string" or {declared, written} == {"timestamp", "timestamp_ntz"}


def _with_columns(output: DataFrame, evolved: dict[str, str], formats: Formats) -> DataFrame:
    """Add evolved fields as columns after those of the transform; a value that does not fit stays rescued, as JSON."""
    unknown, rescued = F.col(f"{hidden.ORIGIN}.unknown"), F.col(f"{hidden.ORIGIN}.rescued")
    empty = F.create_map().cast("map<string,string>")
    names = [F.lit(name) for name in evolved]
    columns: dict[str, SparkColumn] = {
        name: cast(unknown.getItem(name), kind, formats) for name, kind in evolved.items()
    }
    remaining = F.coalesce(F.map_filter(rescued, lambda key, _: ~key.isin(*names)) if names else rescued, empty)
    for name, value in columns.items():
        text = unknown.getItem(name)
        misfit = F.map_concat(remaining, F.create_map(F.lit(name), text))
        remaining = (
            F.when(text.isNotNull() & value.isNull(), misfit).otherwise(remaining)
            if evolved[name] != "string"
            else remaining
        )
    return output.withColumns({**columns, hidden.RESCUED: F.when(F.size(remaining) > 0, F.to_json(remaining))})


def _names(columns: tuple[Column, ...], words: tuple[Any, ...]) -> set[str]:
    """The fields whose bit is set in a mask."""
    return {
        column.name
        for index, column in enumerate(columns)
        if (words[index // MASK_BITS] or 0) >> (index % MASK_BITS) & 1
    }
