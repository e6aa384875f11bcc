"""What a kind of source provides so that rows of its bronze table can be read."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.schema.ddl import Column
from tidegate.spec.kinds import LANDED, source_folder
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from tidegate.schema.registry_schemas import WriterSchema
    from tidegate.spec import LandingSource

HEADER = "_file_header"
"""The column that `Bronze.header_of` returns."""
Lookup = Callable[[int], "WriterSchema | None"]
"""Returns a writer's schema by its id in messages; None if the registry does not have it."""
S = TypeVar("S", bound="LandingSource")


@dataclass(frozen=True, kw_only=True)
class Records:
    """Rows of a bronze table as records, before they are split into fields."""

    rows: DataFrame
    """With ``_row_id``, ``_writer``, ``_raw`` (the record as text), ``_at``, ``_source``, ``_ingested_at``, ``_arrival`` and
    `Bronze.columns`. Also ``_header`` and ``_dialect`` of a file, and ``_problem``, where a record cannot be read."""
    is_csv: bool = False
    """The records are CSV; others are JSON."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Fields that are not in the record: the column of ``rows`` with the text of each."""
    null_values: tuple[str, ...] = ("",)
    """Texts that mean "no value"."""
    writers: Mapping[int, tuple[Column, ...]] = field(default_factory=dict)
    """The fields of registered schemas, by ``_writer``."""
    writers_cover_all: bool = True
    """Whether every record has a writer's schema. Fields of JSON without a schema are only known from the rows."""


@dataclass(frozen=True, kw_only=True)
class Bronze(Generic[S]):
    """The bronze tables of one kind of source."""

    columns: tuple[str, ...]
    """Columns that a transform may use, beside the fields."""
    records: Callable[[DataFrame, S, Lookup | None], Records]
    """Rows as records. The lookup returns the schema of a message by its id; without it schema ids are not resolved."""
    needs_registry: Callable[[S], bool] = lambda _: False
    """Whether records cannot be read without the schemas of their writers."""
    header_of: Callable[[DataFrame, S], list[SparkColumn]] = lambda *_: []
    """The header of a row, as ``writers_in`` reads it; empty for formats without headers."""
    writers_in: Callable[[Iterable[Row], S], dict[int, tuple[Column, ...]]] = lambda *_: {}
    """The fields of each header in a batch, by ``_writer``, from the values of ``header_of``, each once; fields of CSV headers have
    an empty type."""
    skipping: Callable[[Sequence[Mapping[str, Any]]], SparkColumn]
    """A condition that rows with these ``_source`` meet, by which Delta skips files of the table."""
    place: Callable[[Mapping[str, Any], Address], str]
    """For messages: where the record with this ``_source`` is. The path is that of the landing zone."""


def arrival(feed: DataFrame) -> SparkColumn:
    """The commit of a row, as its change feed has it, and the number of the batch that brought it; NULL where the feed has none."""
    return F.struct(
        *[
            (F.col(column) if column in feed.columns else F.lit(None)).cast("bigint").alias(name)
            for name, column in (("version", hidden.COMMIT_VERSION), ("batch", hidden.BATCH_ID))
        ]
    )


def load(source: LandingSource) -> Bronze[Any]:
    """The bronze tables of the kind of a source."""
    return _load(str(source_folder(type(source))))


def columns() -> set[str]:
    """The columns that a transform may use, of all kinds."""
    return {name for folder in LANDED for name in _load(folder).columns}


def _load(folder: str) -> Bronze[Any]:
    bronze: Bronze[Any] = importlib.import_module(f"tidegate.sources.{folder}.read").BRONZE
    return bronze
