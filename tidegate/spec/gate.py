"""The declaration of a gate."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.spec.checks import fits

_SUITE = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Gate:
    """The expectation suite that checks every batch of a flow before it is written."""

    suite: str
    """``<pipeline>/<flow>``: the file ``expectations/<pipeline>/<flow>.json`` in Great Expectations' own format."""

    def __post_init__(self) -> None:
        if not fits(_SUITE, self.suite):
            raise FieldError("Gate", "suite", self.suite, "'<pipeline>/<flow>' in lower case, as in 'flights/silver'")
