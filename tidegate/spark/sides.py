"""`Sides`: what a verification compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What a verification compares."""

    expected: DataFrame
    """The rows that the source makes."""
    actual: DataFrame
    """The rows of the table."""
    keys: tuple[str, ...]
    """The columns that identify a row. Several rows may have the same key; then they are compared in any order."""
    source: str
    """As in `tidegate.reports.verification.Verification`."""
    ignored: tuple[str, ...] = ()
    """Columns that are not compared, because they depend on how the input was divided into batches."""
    sums: bool = False
    """Whether floating-point columns are aggregates."""
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """As in `tidegate.reports.verification.Verification`."""
