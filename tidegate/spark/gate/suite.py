"""Loads a suite from Great Expectations' own JSON and checks it before anything runs."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from tidegate.errors import SpecError
from tidegate.fingerprints import suite_fingerprint
from tidegate.report import Severity
from tidegate.spark.gate.rules import BATCH_RULES, NO_ROW_CONDITION, ROW_RULES, UNSUPPORTED, short_name

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("type", "kwargs", "severity", "meta", "id", "notes", "description", "rendered_content")
_SEVERITIES: tuple[str, ...] = get_args(Severity)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One expectation of a suite."""

    type: str
    """GX's name of it, for example ``expect_column_values_to_be_between``."""
    name: str
    """Its short name, distinct within the suite, for example ``between(dep_delay)``."""
    severity: Severity
    mostly: float | None
    """The share of rows that must keep a row rule; None for a batch rule."""
    of_rows: bool
    """Whether it says of every row if the row breaks it, or only something of the batch."""
    columns: tuple[str, ...]
    """What it is about; none for the whole table."""
    table: str | None
    """The other table that it looks at, as ``<layer>.<table>``."""
    sentence: str
    """The same in Great Expectations' words."""
    expectation: Any = field(repr=False, compare=False)
    """GX's own object."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The rules that every batch of a flow is judged by."""

    name: str
    """``<pipeline>/<flow>``."""
    fingerprint: str
    """Of what the suite says, not of how the file is written."""
    expectations: tuple[Rule, ...]
    """In the order of the file."""

    def row_rules(self) -> tuple[Rule, ...]:
        """The rules that can be held against a single row."""
        return tuple(rule for rule in self.expectations if rule.of_rows)


def load_suite(path: Path, name: str) -> Suite:
    """Read and check a suite.

    Rules that would be called the same (two limits for one column) get ``#2``, ``#3`` … in the order of the file.

    Args:
        path: The JSON file, as Great Expectations writes it.
        name: What the declaration calls it: ``<pipeline>/<flow>``.

    Raises:
        SpecError: There is no such file, it is not a suite, or an expectation is unknown, wrong or cannot be used in a
            gate. The message names the file, the expectation and what is allowed.
    """
    told = f"suite {name!r} ({path.parent.name}/{path.name})"
    entries = _entries(path, told)
    rules: list[Rule] = []
    seen: Counter[str] = Counter()
    for number, entry in enumerate(entries, start=1):
        rule = _rule(entry, f"{told}, expectation {number}")
        seen[rule.name] += 1
        if seen[rule.name] > 1:
            rule = Rule(**{**vars(rule), "name": f"{rule.name}#{seen[rule.name]}"})
        rules.append(rule)
    return Suite(name=name, fingerprint=suite_fingerprint(path), expectations=tuple(rules))


def _entries(path: Path, told: str) -> list[Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(
            f"{told} does not exist. Write it as Great Expectations' JSON, or take the gate out of the declaration."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{told} cannot be read ({type(error).__name__}): it must be a UTF-8 text file.") from error
    except json.JSONDecodeError as error:
        raise SpecError(f"{told} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from error
    if not isinstance(plain, dict) or not isinstance(plain.get("expectations"), list):
        raise SpecError(f'{told} is not a suite; allowed: an object {{"name": …, "expectations": […]}}.')
    if not plain["expectations"]:
        raise SpecError(f"{told} holds no expectation: add one, or take the gate out of the declaration.")
    return list(plain["expectations"])


def _rule(entry: Any, told: str) -> Rule:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        raise SpecError(f'{told} is not an expectation; allowed: {{"type": …, "kwargs": {{…}}, "severity": …}}.')
    kind: str = entry["type"]
    told = f"{told} ({kind})"
    _check_type(kind, told)
    if strangers := sorted(set(entry) - set(_KEYS)):
        raise SpecError(f"{told}: {strangers[0]!r} is not allowed here; allowed: {', '.join(_KEYS)}.")
    severity = entry.get("severity", "critical")
    if severity not in _SEVERITIES:
        raise SpecError(f"{told}: severity={severity!r} is not allowed; allowed: {', '.join(_SEVERITIES)}.")
    kwargs = entry.get("kwargs", {})
    if not isinstance(kwargs, dict):
        raise SpecError(f"{told}: kwargs must be an object.")
    _check_kwargs(kind, kwargs, told)
    from tidegate.spark.gate.conditions import phrase

    expectation = _expectation(kind, kwargs, severity, entry.get("meta"), told)
    return Rule(
        type=kind,
        name=short_name(kind, _columns(kwargs)),
        severity=severity,
        mostly=float(expectation.mostly) if kind in ROW_RULES else None,
        of_rows=kind in ROW_RULES,
        columns=_columns(kwargs),
        table=kwargs.get("table"),
        sentence=phrase(expectation),
        expectation=expectation,
    )


def _check_type(kind: str, told: str) -> None:
    if kind in UNSUPPORTED:
        raise SpecError(f"{told} cannot be used in a gate: {UNSUPPORTED[kind]}.")
    known = ROW_RULES + BATCH_RULES
    if kind not in known:
        close = difflib.get_close_matches(kind, known, n=3, cutoff=0.6) or sorted(known)
        raise SpecError(f"{told} is not an expectation that a gate knows; allowed: {', '.join(close)}.")


def _check_kwargs(kind: str, kwargs: dict[str, Any], told: str) -> None:
    """What Great Expectations would accept and a gate cannot keep."""
    if "batch_id" in kwargs:
        raise SpecError(f"{told}: batch_id is not allowed; a gate judges the batch at hand.")
    if any(isinstance(value, dict) and "$PARAMETER" in value for value in kwargs.values()):
        raise SpecError(f"{told}: $PARAMETER is not allowed; write the value, so that the suite alone decides.")
    if kind in NO_ROW_CONDITION and kwargs.get("row_condition") is not None:
        raise SpecError(
            f"{told}: row_condition is not allowed here: {NO_ROW_CONDITION[kind]}. "
            "Make a column in the transform that is null for rows that do not matter."
        )
    query = kwargs.get("unexpected_rows_query")
    if query is not None and "{batch}" not in str(query):
        raise SpecError(f"{told}: unexpected_rows_query must read FROM {{batch}}; otherwise it judges other data.")


def _expectation(kind: str, kwargs: dict[str, Any], severity: str, meta: Any, told: str) -> Any:
    from great_expectations.compatibility.pydantic import ValidationError

    from tidegate.spark.gate.conditions import build_expectation

    try:
        return build_expectation(kind, kwargs, severity, meta if isinstance(meta, dict) else None)
    except ValidationError as error:
        _refuse_kwargs(error, kwargs, told)
    except Exception as error:
        raise SpecError(f"{told} is not valid: {error}") from error


def _refuse_kwargs(error: Any, kwargs: dict[str, Any], told: str) -> NoReturn:
    allowed = sorted(name for name in error.model.__fields__ if name not in {*_KEYS, "windows", "batch_id"})
    reasons: dict[str, list[str]] = {}
    for item in error.errors():
        reasons.setdefault(str(item["loc"][0]), []).append(item["msg"])
    if "mostly" in reasons:
        reasons["mostly"] = ["allowed: a number from 0 to 1"]
    wrong = [
        f"{f'{name}={kwargs[name]!r}' if name in kwargs else name}: {', '.join(dict.fromkeys(said))}".removeprefix(
            "__root__: "
        )
        for name, said in reasons.items()
    ]
    raise SpecError(f"{told}: {'; '.join(wrong)}. Its kwargs: {', '.join(allowed)}.") from error


def _columns(kwargs: dict[str, Any]) -> tuple[str, ...]:
    if "column" in kwargs:
        return (str(kwargs["column"]),)
    if "column_A" in kwargs:
        return (str(kwargs["column_A"]), str(kwargs.get("column_B")))
    return tuple(str(column) for column in kwargs.get("column_list", ()))
