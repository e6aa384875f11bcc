"""Checks the code of a stateful flow without importing it: its results depend on the rows only, and its state is bounded.

The rest is checked on the plan when the job has it (`tidegate.kinds.stateful.state_plan`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.project import transform_code

_CLOCKS = frozenset(
    (
        *(
            "now",
            "utcnow",
            "today",
            "time_ns",
            "monotonic",
            "monotonic_ns",
            "perf_counter",
            "perf_counter_ns",
            "curdate",
            "current_date",
            "current_timestamp",
        ),
        *("localtimestamp", "getCurrentProcessingTimeInMs", "get_current_processing_time_in_ms"),
    )
)
"""Functions that read a clock."""
_WITHOUT_ARGUMENTS = frozenset(("time", "localtime", "gmtime", "unix_timestamp"))
"""Functions that read a clock if they are called without arguments."""
_RANDOM = frozenset(
    (
        *(
            "rand",
            "randn",
            "randstr",
            "random",
            "randint",
            "randrange",
            "choice",
            "choices",
            "shuffle",
            "uniform",
            "getrandbits",
        ),
        *("default_rng", "RandomState", "urandom", "token_bytes", "token_hex", "uuid", "uuid1", "uuid4"),
    )
)
_CLOCK_IN_SQL = re.compile(
    r"\b(?:current_timestamp|current_date|localtimestamp|curdate)\b|\b(?:now|unix_timestamp|rand|randn|uuid)\s*\(\s*\)",
    re.IGNORECASE,
)
_UNBOUNDED: Mapping[str, tuple[str, str]] = {
    "dropDuplicates": ("remembers every row for ever", "use dropDuplicatesWithinWatermark"),
    "distinct": ("remembers every row for ever", "use dropDuplicatesWithinWatermark"),
    "applyInPandasWithState": (
        "is an older operator",
        "use transformWithStateInPandas, which has timers by event time",
    ),
    "orderBy": ("needs the last row of a stream, which has none", "sort where the table is read"),
    "withWatermark": ("is applied already, as the flow that writes the source declares it", "remove it"),
}
_PROCESSORS = ("transformWithState", "transformWithStateInPandas")
_OF_BATCH = "take the time from the rows, and timers from the watermark (timeMode='EventTime')"


def check(transform: str) -> None:
    """Check the function of a transform, and what it uses in ``spark_jobs``.

    Raises:
        SpecError: It reads a clock or draws a random number, so that a rerun would decide otherwise; or its state would grow
            without bound.
    """
    module, _, function = transform.partition(":")
    nodes = list(transform_code.reached(module, function))
    for place, node in nodes:
        if (problem := _problem(node)) is not None:
            why, remedy = problem
            raise SpecError(
                f"transform {transform!r}: spark_jobs/{place}.py line {getattr(node, 'lineno', 0)} {why}",
                Edit(remedy, "transform"),
            )
    names = {transform_code.last_name(node) for _, node in nodes}
    if names.intersection(_PROCESSORS) and "registerTimer" not in names:
        raise SpecError(
            f"transform {transform!r} uses transformWithStateInPandas without registerTimer: it would "
            "remember every key for ever.",
            Edit("register a timer by event time, and clear the state of the key in handleExpiredTimer", "transform"),
        )


def _problem(node: ast.AST) -> tuple[str, str] | None:
    """What is wrong with a node, as the rest of a sentence; None if nothing is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value.lower() == "processingtime":
            return (
                f"has timers or an expiry by the clock ({node.value}), so that a rerun would decide otherwise",
                _OF_BATCH,
            )
        if (clock := _CLOCK_IN_SQL.search(node.value)) is not None and _is_sql(node.value):
            return (
                f"reads a clock or a random number in SQL ({clock[0]}), so that a rerun would decide otherwise",
                _OF_BATCH,
            )
    if isinstance(node, ast.keyword) and node.arg == "ttlDurationMs":
        return "lets state expire by the clock (ttlDurationMs), so that a rerun would decide otherwise", _OF_BATCH
    if not isinstance(node, ast.Call):
        return None
    name = transform_code.last_name(node.func) or ""
    if name in _CLOCKS or (name in _WITHOUT_ARGUMENTS and not node.args and not node.keywords):
        return f"reads a clock ({name}), so that a rerun would decide otherwise", _OF_BATCH
    of_random = isinstance(node.func, ast.Attribute) and transform_code.last_name(node.func.value) == "random"
    if name in _RANDOM or of_random:
        return (
            f"draws a random number ({name}), so that a rerun would decide otherwise",
            "derive it from the row, as by a hash",
        )
    if isinstance(node.func, ast.Attribute) and name in _UNBOUNDED:
        why, remedy = _UNBOUNDED[name]
        return f"uses {name}, which {why}", remedy
    return None


def _is_sql(text: str) -> bool:
    """Whether a text is an expression, and not a docstring or a message."""
    return "\n" not in text and not text.rstrip().endswith(".")
