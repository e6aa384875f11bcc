"""Declarations of what judges a batch: a gate, and statistics."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal

from tidegate.errors import FieldError
from tidegate.spec.checks import check_name, fits

_SUITE = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Gate:
    """The expectation suite that checks every batch of a flow before it is written."""

    suite: str
    """``<pipeline>/<flow>``: the file ``expectations/<pipeline>/<flow>.json`` in Great Expectations' own format."""

    def __post_init__(self) -> None:
        if not fits(_SUITE, self.suite):
            raise FieldError("Gate", "suite", self.suite, "'<pipeline>/<flow>' in lower case, as in 'flights/silver'")


@dataclass(frozen=True)
class Statistic:
    """A number that is computed for each batch of a flow before it is written, and a rule that it must meet."""

    name: str
    """A lower-case name, for messages, pages and the rule ``dropped(<name>)``."""
    expression: str
    """An aggregate of Spark SQL, for example ``count(*)`` or ``avg(if(amount IS NULL, 1, 0))``: a number or a boolean. The rows
    are those that the suite of a gate would judge: the output of the transform without rows that break a built-in rule, filtered
    rows and deletes; of a flow that recomputes groups, the groups. The number is recorded and shown, so it should be no value of
    a single row."""
    _: dataclasses.KW_ONLY
    rule: str
    """A condition of Spark SQL on ``value``, on ``median`` and ``mean`` of earlier batches, and on their values ``earlier``, an
    array with the newest first: ``value >= 0.5 * median``, ``value > 0 OR size(earlier) < 3``. NULL is met, so a comparison with
    the median is met as long as there is no earlier batch. NaN and infinity are NULL."""
    otherwise: Literal["hold", "drop"] = "hold"
    """What happens to a batch that does not meet the rule. ``hold``: nothing is written, and the batch waits for a person, as one
    that a gate refuses. ``drop``: no row is written, all go to quarantine as ``waived`` entries, and the flow continues."""
    batches: int = 10
    """How many earlier batches are compared, at most. Not counted are batches that were held or dropped, backfills, and batches by
    which a full refresh or a reingest filled another checkpoint."""

    def __post_init__(self) -> None:
        check_name("Statistic", "name", self.name)
        owner = f"Statistic {self.name!r}"
        for name in ("expression", "rule"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise FieldError(owner, name, text, "an expression of Spark SQL")
        if self.otherwise not in ("hold", "drop"):
            raise FieldError(owner, "otherwise", self.otherwise, "'hold' or 'drop'")
        if isinstance(self.batches, bool) or not isinstance(self.batches, int) or not 1 <= self.batches <= 1000:
            raise FieldError(owner, "batches", self.batches, "a whole number from 1 to 1000")
