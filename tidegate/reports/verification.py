"""What a verification of a table found: how its rows compare with those that its sources make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidegate.formatting import count

Effect = Literal["missing", "unexpected", "different"]
"""``missing``: the source makes the row, the table does not have it. ``unexpected``: the reverse. ``different``: a column differs."""
EFFECTS: tuple[Effect, ...] = ("missing", "unexpected", "different")


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The counts of one verification. All versions were read before the first row."""

    version: int
    """The version of the table that was compared."""
    source: str
    """What it was compared with, for example ``bronze.orders at version 4``."""
    equal: int
    missing: int
    unexpected: int
    different: int
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Rows of the table that could not be compared, by the reason."""

    @property
    def differs(self) -> bool:
        """Whether a row is missing, unexpected or different."""
        return bool(self.missing or self.unexpected or self.different)

    def summary(self) -> str:
        """All counts in one line."""
        compared = count(self.equal + self.missing + self.unexpected + self.different, "row")
        result = f"{self.missing:,} missing, {self.unexpected:,} unexpected, {self.different:,} different"
        left = "".join(f"; not compared: {count(rows, 'row')} {reason}" for reason, rows in self.not_compared.items())
        return f"version {self.version} against {self.source}: {compared}, {self.equal:,} equal, {result}{left}"


@dataclass(frozen=True, kw_only=True)
class DifferingRow:
    """One row that differs. The key is a value of the data, so no report and no log has it."""

    effect: Effect
    key: str
    """As a JSON object."""
    columns: tuple[str, ...] = ()
    """The names of the columns that differ; empty unless ``effect`` is ``different``."""
