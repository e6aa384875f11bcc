"""The declaration of the change feed of another table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import FieldError
from tidegate.spec.checks import check_positive, check_size, check_table, check_unique, fits

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ChangeFeed:
    """The changes of a Delta table that another flow writes (Delta's Change Data Feed)."""

    table: str
    """For example ``bronze.flights``."""
    _: dataclasses.KW_ONLY
    max_files_per_trigger: int = 1000
    max_bytes_per_trigger: str = "1g"
    """A soft limit: a commit with change files is always read in one micro-batch."""
    on: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    """For each source of a flow except the first: which rows of the first source its rows belong to, as
    ``{<column of the first source>: <column of this table>}``. Both have the same type. A change of a row of this table
    recomputes the groups of these rows. May be left out where a transform in SQL joins the table by such columns."""

    def __post_init__(self) -> None:
        check_table(self, "table", self.table)
        if not isinstance(self.on, Mapping) or not all(
            isinstance(name, str) and fits(_COLUMN, name) for pair in self.on.items() for name in pair
        ):
            raise FieldError(
                "ChangeFeed",
                "on",
                self.on,
                "{<column of the first source>: <column of this table>}, as in {'tail': 'id'}",
            )
        if len(set(self.on.values())) < len(self.on):
            raise FieldError(
                "ChangeFeed",
                "on",
                self.on,
                "each column of this table once, because a row must equal all of them; to join a table twice, copy it with a flow "
                "without transform",
            )
        check_positive(self, "max_files_per_trigger", self.max_files_per_trigger)
        check_size(self, self.max_bytes_per_trigger)

    @property
    def deletes_unread(self) -> bool:
        """Whether it deletes data after a time, read or not, by a setting of its own."""
        return False

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "change_feed", "table": self.table, **({"on": dict(self.on)} if self.on else {})}

    def summary(self) -> str:
        """For pages."""
        return f"changes of {self.table}"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown, with the limit of a batch."""
        pairs = ", ".join(f"`{ours}` = `{theirs}`" for ours, theirs in self.on.items())
        joined = f", joined by {pairs}" if pairs else ""
        return f"changes of `{self.table}`, about {self.max_bytes_per_trigger} a batch{joined}"

    @property
    def name(self) -> str:
        """The table without its layer: the parameter of a transform that takes several sources."""
        return self.table.partition(".")[2]


def check_sources(owner: str, sources: object, *, shown: bool) -> None:
    """Refuse what is not two change feeds or more, of which all after the first have ``on``.

    Args:
        owner: The flow, for messages.
        sources: What it declares.
        shown: Whether the transform may show the columns of ``on`` that are not declared.
    """
    if not isinstance(sources, tuple) or len(sources) < 2 or not all(type(each) is ChangeFeed for each in sources):
        raise FieldError(
            owner, "sources", sources, "a tuple of two ChangeFeed or more; one source is declared as source"
        )
    check_unique(owner, "sources", [each.name for each in sources], "names of tables after the dot")
    for each in sources[1:]:
        if not each.on and not shown:
            allowed = f"on for {each.table!r}: {{<column of {sources[0].table}>: <column of {each.table}>}}"
            raise FieldError(owner, "sources", each, allowed)
