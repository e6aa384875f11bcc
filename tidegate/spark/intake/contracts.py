"""What a batch brings that its schema does not say, classed and settled before a row is written.

What a transform carries along in ``_origin`` is enough to see it: no record is parsed twice for it. The words are those of
`tidegate.schema.drift` (what changed) and `tidegate.schema.contract` (what is done about it); the history is `tidegate.ops.evolution`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import checkpoint
from tidegate.errors import ContractRefusedError
from tidegate.ops import evolution
from tidegate.schema import writers
from tidegate.schema.contract import Action
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.drift import Change, compare, fingerprint, normal
from tidegate.spark.intake import parse
from tidegate.spark.intake.casts import cast
from tidegate.spark.intake.values import MASK_BITS
from tidegate.spec import Formats, KafkaSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, Row

    from tidegate.spark.context import FlowContext

MOST_NEW = 100
"""A batch with more unknown names than this has no new fields but names that are data; they are taken together as one."""
MANY_NAMES = f"(more than {MOST_NEW} names)"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_DECLARED = re.compile(r"[A-Za-z0-9_ .@-]{1,128}")


def record_declared(context: FlowContext) -> None:
    """Write into the history how the declared schema changed since the flow ran last, and remember it as it is now.

    `tidegate.checkpoints.checkpoint.check_compatible` has refused by now what this checkpoint version cannot follow.
    """
    pipeline, flow = context.pipeline, context.flow
    version, changes = checkpoint.schema_changes(context.layout, pipeline, flow)
    lines = [
        evolution.Line(
            flow=flow.name,
            event="declared",
            change=change,
            decision="keep_checkpoint" if version == context.ref.version else "new_version",
            version_before=version,
            version_after=context.ref.version,
            breaks=() if change.keeps_checkpoint else checkpoint.readers(pipeline, flow),
            run_key=context.run_key,
        )
        for change in changes
    ]
    if lines:
        evolution.record(context.layout, pipeline.name, lines)
    checkpoint.write_schema(context.layout, pipeline, flow)


class Drift:
    """The drift of one batch of one flow that parses records."""

    def __init__(self, context: FlowContext) -> None:
        assert context.landing is not None
        self.context = context
        self.source = context.landing
        self.columns = parse_ddl("schema", self.source.schema)
        self.terms = evolution.terms(context.layout, context.pipeline.name, context.flow.name, self.source)
        self.lines: list[evolution.Line] = []

    def parse(self, feed: DataFrame) -> DataFrame:
        """Bronze rows as typed rows; see `tidegate.spark.intake.parse.parse`."""
        folder = self.context.layout.ops(self.context.pipeline.name, "schemas")
        lookup = functools.partial(writers.fetch, self.context.registry, folder)
        # JSON can be read without the schema that it may name, so where there is no registry nobody looks for names.
        named = self.context.registry or (isinstance(self.source, KafkaSource) and self.source.format == "avro")
        self.parsed = parse.parse(feed, self.source, self.terms, lookup if named else None)
        return self.parsed.rows

    def measures_of_feed(self, feed: DataFrame) -> list[SparkColumn]:
        """Aggregates over bronze rows, by which `settle` knows the files' headers."""
        return parse.header_measure(feed, self.source)

    def measures(self) -> list[SparkColumn]:
        """Aggregates over what the transform made, by which `settle` sees what the batch brings."""
        from pyspark.sql import functions as F

        masks = []
        for word in range(self._words):
            filled, unfit = (F.col(f"_origin.{name}")[word] for name in ("filled", "unfit"))
            masks += [
                F.bit_or(filled).alias(f"_filled_{word}"),
                F.bit_or(filled.bitwiseAND(F.bitwise_not(unfit))).alias(f"_fitting_{word}"),
            ]
        return [F.max(F.size("_origin.unknown")).alias("_most_unknown"), *masks]

    @property
    def _words(self) -> int:
        return (len(self.columns) + MASK_BITS - 1) // MASK_BITS

    def settle(self, output: DataFrame, fed: Row, measured: Row, batch_id: int, *, decided: bool) -> DataFrame:
        """Class what the batch brings, and do what the contract says.

        Args:
            output: What the transform made; every row carries ``_origin``, and ``_broken`` (the rules that refuse it).
            fed: The values of `measures_of_feed`.
            measured: The values of `measures`.
            batch_id: The batch.
            decided: The split stands already: nothing is refused any more.

        Returns:
            The same rows with the columns that evolved, ``_rescued`` as JSON, and ``drift(<field>)`` in ``_broken`` of the
            rows that a person sent to quarantine.

        Raises:
            ContractRefusedError: The contract is frozen and nobody has answered; the history has it.
        """
        seen = self._observe(output, {**self.parsed.writers, **parse.writers_in(fed, self.source)}, measured)
        taken = {name.lower() for name in output.columns}
        evolved = {name: kind for name, kind in self.terms.evolved.items() if name.lower() not in taken}
        taken |= {name.lower() for name in evolved}
        actions: dict[Change, Action] = {}
        for change in seen:
            actions[change] = self.terms.action(change)
            if actions[change] == "evolve":
                # The transform makes a column of that name, or the batch brings the name in two cases.
                if change.field.lower() in taken:
                    actions[change] = "rescue"
                taken.add(change.field.lower())
        frozen = [change for change, action in actions.items() if action == "freeze"]
        if frozen and not decided:
            raise self._refusal(frozen, batch_id)
        self.lines = [self._line(change, action, batch_id) for change, action in actions.items() if action != "freeze"]
        evolved |= {change.field: change.after or "string" for change, action in actions.items() if action == "evolve"}
        refused = [change for change, action in actions.items() if action == "quarantine"]
        return self._marked(_with_columns(output, evolved, self.source.formats), refused)

    def record(self, batch_id: int) -> None:
        """Write what was done into the history, before the batch is written: what it adds to the table is known then.

        A dry run does nothing, so it writes nothing.
        """
        if self.context.request.dry_run:
            return
        added = evolution.record(self.context.layout, self.context.pipeline.name, self.lines)
        if added:
            told = "; ".join(f"{line.change.told()} ({line.decision})" for line in added)
            self.context.report.notes.append(f"batch {batch_id}: {told}")

    def _observe(self, output: DataFrame, listed: Mapping[int, tuple[Column, ...]], measured: Row) -> list[Change]:
        """What is different, each change once."""
        filled_names, fitting = (
            _names(self.columns, tuple(measured[f"_{kind}_{word}"] for word in range(self._words)))
            for kind in ("filled", "fitting")
        )
        self.unknown = self._unknown_names(output) if (measured["_most_unknown"] or 0) > 0 else {}
        self.bringing: dict[Change, list[int]] = {}
        for writer, fields in listed.items():
            for change in self._of_writer(fields):
                self.bringing.setdefault(change, []).append(writer)
        if not self.parsed.writers_tell_all:
            told = {change.field for change in self.bringing}
            names = [column for column in self._known() if column.name in (*filled_names, *self.terms.evolved)]
            came = [*names, *(Column(shown, "") for shown in self.unknown if shown not in self.terms.evolved)]
            for change in compare(self._known(), came):
                # A record may leave any field out, so that none of a batch has it is no sign that it is gone.
                if change.kind != "removal" and change.field not in told:
                    self.bringing.setdefault(change, [])
        for column in self.columns:
            if column.name in filled_names and column.name not in fitting and not self._has_type_change(column.name):
                change = Change(kind="type_change", field=column.name, before=normal(column.type))
                self.bringing.setdefault(change, [])
        return list(self.bringing)

    def _known(self) -> list[Column]:
        """Declared and evolved fields; whether a value must be there is a matter of rows and not of shape."""
        declared = [Column(column.name, column.type) for column in self.columns]
        return declared + [Column(name, kind) for name, kind in self.terms.evolved.items()]

    def _of_writer(self, fields: Iterable[Column]) -> list[Change]:
        known = {column.name: column for column in self._known()}
        came = []
        for column in fields:
            declared = known.get(column.name)
            by_values = declared is not None and _judged_by_values(normal(declared.type), normal(column.type))
            came.append(Column(self._shown(column.name), "" if by_values else column.type))
        changes = compare(list(known.values()), came)
        # A writer with a narrower type gives only values that fit, and older files lack what was added later.
        return [
            change
            for change in changes
            if change.kind != "narrowing"
            and not (change.kind == "removal" and change.field in (*self.terms.added, *self.terms.evolved))
        ]

    def _has_type_change(self, name: str) -> bool:
        return any(change.kind == "type_change" and change.field == name for change in self.bringing)

    def _unknown_names(self, output: DataFrame) -> dict[str, list[str]]:
        """Names that the schema does not know, as they may be shown, each with the names that it stands for."""
        from pyspark.sql import functions as F

        names = output.select(F.explode(F.map_keys("_origin.unknown")).alias("name")).distinct().limit(MOST_NEW + 1)
        raw = sorted(row["name"] for row in names.collect())
        if len(raw) > MOST_NEW:
            return {MANY_NAMES: []}
        found: dict[str, list[str]] = {}
        for name in raw:
            found.setdefault(self._shown(name), []).append(name)
        return found

    def _shown(self, name: str) -> str:
        """A name that may stand in logs: one that is no identifier could be data, so only its hash is shown.

        What the contract names itself stands in the declaration already.
        """
        if _IDENTIFIER.fullmatch(name) or (name in self.terms.contract.named() and _DECLARED.fullmatch(name)):
            return name
        return f"name#{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    def _refusal(self, frozen: list[Change], batch_id: int) -> ContractRefusedError:
        context = self.context
        drift = fingerprint(context.flow.name, frozen)
        lines = [
            dataclasses.replace(self._line(change, "freeze", batch_id), event="refused", drift=drift)
            for change in frozen
        ]
        if not context.request.dry_run:
            evolution.record(context.layout, context.pipeline.name, lines)
            context.tell_drift(batch_id, drift)
        return ContractRefusedError(
            context.pipeline.name,
            context.flow.name,
            batch_id,
            drift=drift,
            changes=[change.told() for change in frozen],
            declared=evolution.declared_fingerprint(self.source),
            breaks=sorted({name for line in lines for name in line.breaks}),
            is_replay=context.replay is not None,
        )

    def _line(self, change: Change, action: Action, batch_id: int) -> evolution.Line:
        context = self.context
        return evolution.Line(
            flow=context.flow.name,
            event="observed",
            change=change,
            decision=self.terms.done(change, action),
            version_before=context.ref.version,
            version_after=context.ref.version,
            breaks=() if change.keeps_checkpoint else checkpoint.readers(context.pipeline, context.flow),
            app_id=context.app_id,
            batch_id=batch_id,
            run_key=context.run_key,
        )

    def _marked(self, output: DataFrame, refused: list[Change]) -> DataFrame:
        from pyspark.sql import functions as F

        if not refused:
            return output
        rules = [F.when(self._has(change), F.lit(f"drift({change.field})")) for change in refused]
        return output.withColumn("_broken", F.array_union("_broken", F.array_compact(F.array(*rules))))

    def _has(self, change: Change) -> SparkColumn:
        """Whether a row has a change that its batch brings."""
        from pyspark.sql import functions as F

        if change.field == MANY_NAMES:
            return F.size("_origin.unknown") > 0
        if change.kind in ("addition", "rename_suspect", "case_clash"):
            if not (names := self.unknown.get(change.field)):
                return F.lit(False)
            there = F.arrays_overlap(F.map_keys("_origin.unknown"), F.array(*[F.lit(name) for name in names]))
            return F.coalesce(there, F.lit(False))
        if writers := self.bringing[change]:
            return F.col("_origin.writer").isin(*writers)
        place = [column.name for column in self.columns].index(change.field)
        word, bit = divmod(place, MASK_BITS)
        return F.col("_origin.unfit")[word].bitwiseAND(F.lit(1 << bit).cast("bigint")) != 0


def _judged_by_values(declared: str, written: str) -> bool:
    """Whether only the values can say if they fit: a text may hold any, and a time without a zone is taken for UTC."""
    return written == "string" or {declared, written} == {"timestamp", "timestamp_ntz"}


def _with_columns(output: DataFrame, evolved: dict[str, str], formats: Formats) -> DataFrame:
    """Evolved fields as columns behind those of the transform; what does not fit one stays rescued, as JSON."""
    from pyspark.sql import functions as F

    unknown, rescued = F.col("_origin.unknown"), F.col("_origin.rescued")
    nothing = F.create_map().cast("map<string,string>")
    names = [F.lit(name) for name in evolved]
    columns: dict[str, SparkColumn] = {
        name: cast(unknown.getItem(name), kind, formats) for name, kind in evolved.items()
    }
    kept = F.coalesce(F.map_filter(rescued, lambda key, _: ~key.isin(*names)) if names else rescued, nothing)
    for name, value in columns.items():
        text = unknown.getItem(name)
        misfit = F.map_concat(kept, F.create_map(F.lit(name), text))
        kept = F.when(text.isNotNull() & value.isNull(), misfit).otherwise(kept) if evolved[name] != "string" else kept
    return output.withColumns({**columns, "_rescued": F.when(F.size(kept) > 0, F.to_json(kept))})


def _names(columns: tuple[Column, ...], words: tuple[Any, ...]) -> set[str]:
    """The fields whose bit is set."""
    return {
        column.name
        for place, column in enumerate(columns)
        if (words[place // MASK_BITS] or 0) >> (place % MASK_BITS) & 1
    }
