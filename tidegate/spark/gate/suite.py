"""Loads a suite from Great Expectations' JSON and validates it before anything runs."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args

from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.errors.classification import raise_machine
from tidegate.project import suite_file
from tidegate.project.fingerprints import suite_fingerprint
from tidegate.reports.verdict import Severity
from tidegate.spark.gate.rules import BATCH_RULES, NO_ROW_CONDITION, ROW_RULES, UNSUPPORTED, Rule, short_name

_KEYS = ("type", "kwargs", "severity", "meta", "id", "notes", "description", "rendered_content")
_SEVERITIES: tuple[str, ...] = get_args(Severity)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The rules by which every batch of a flow is judged."""

    name: str
    """``<pipeline>/<flow>``."""
    fingerprint: str
    """Of the parsed content, independent of the file's formatting."""
    expectations: tuple[Rule, ...]
    """In the order of the file."""

    def row_rules(self) -> tuple[Rule, ...]:
        """The row rules, in the order of the file."""
        return tuple(rule for rule in self.expectations if rule.of_rows)


def load_suite(path: Path, name: str) -> Suite:
    """Read and validate a suite.

    Further rules of the same short name (two limits for one column) get ``#2``, ``#3`` … in the order of the file.

    Args:
        path: The JSON file, in the format of Great Expectations.
        name: Its name in the declaration, ``<pipeline>/<flow>``.

    Raises:
        SpecError: The file is missing or not a suite, or an expectation is unknown, invalid or not usable in a gate.
            The message names the file, the expectation and what is allowed.
    """
    where, entries = suite_file.label(path, name), suite_file.read_entries(path, name)
    rules: list[Rule] = []
    uses: Counter[str] = Counter()
    for number, entry in enumerate(entries, start=1):
        rule = _rule(entry, f"{where}, expectation {number}")
        uses[rule.name] += 1
        if uses[rule.name] > 1:
            rule = Rule(**{**vars(rule), "name": f"{rule.name}#{uses[rule.name]}"})
        rules.append(rule)
    return Suite(name=name, fingerprint=suite_fingerprint(path), expectations=tuple(rules))


def _rule(entry: Any, where: str) -> Rule:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        raise SpecError(
            f"{where} is not an expectation", Edit('allowed: {"type": …, "kwargs": {…}, "severity": …}', "suite")
        )
    kind: str = entry["type"]
    where = f"{where} ({kind})"
    _check_type(kind, where)
    if unknown := sorted(set(entry) - set(_KEYS)):
        raise SpecError(f"{where}: {unknown[0]!r} is not allowed here", Edit(f"allowed: {', '.join(_KEYS)}", "suite"))
    severity = entry.get("severity", "critical")
    if severity not in _SEVERITIES:
        raise SpecError(
            f"{where}: severity={severity!r} is not allowed", Edit(f"allowed: {', '.join(_SEVERITIES)}", "suite")
        )
    kwargs = entry.get("kwargs", {})
    if not isinstance(kwargs, dict):
        raise SpecError(f"{where}: kwargs must be an object.", Edit("write it as {…}", "suite"))
    _check_kwargs(kind, kwargs, where)
    from tidegate.spark.gate.conditions import describe

    expectation = _expectation(kind, kwargs, severity, entry.get("meta"), where)
    return Rule(
        type=kind,
        name=short_name(kind, _columns(kwargs)),
        severity=severity,
        mostly=float(expectation.mostly) if kind in ROW_RULES else None,
        of_rows=kind in ROW_RULES,
        columns=_columns(kwargs),
        table=kwargs.get("table"),
        sentence=describe(expectation),
        expectation=expectation,
    )


def _check_type(kind: str, where: str) -> None:
    if kind in UNSUPPORTED:
        raise SpecError(
            f"{where} cannot be used in a gate: {UNSUPPORTED[kind]}",
            Edit("remove it, or use another expectation", "suite"),
        )
    supported = ROW_RULES + BATCH_RULES
    if kind not in supported:
        close = difflib.get_close_matches(kind, supported, n=3, cutoff=0.6) or sorted(supported)
        raise SpecError(
            f"{where} is not an expectation that a gate supports", Edit(f"allowed: {', '.join(close)}", "suite")
        )


def _check_kwargs(kind: str, kwargs: dict[str, Any], where: str) -> None:
    """Refuse arguments that Great Expectations accepts and a gate does not support."""
    if "batch_id" in kwargs:
        raise SpecError(f"{where}: batch_id is not allowed", Edit("a gate always judges the present batch", "suite"))
    if any(isinstance(value, dict) and "$PARAMETER" in value for value in kwargs.values()):
        raise SpecError(f"{where}: $PARAMETER is not allowed", Edit("write the value into the suite", "suite"))
    if kind in NO_ROW_CONDITION and kwargs.get("row_condition") is not None:
        raise SpecError(
            f"{where}: row_condition is not allowed here: {NO_ROW_CONDITION[kind]}.",
            Edit("add a column in the transform that is null for the rows to be ignored", "transform"),
        )
    query = kwargs.get("unexpected_rows_query")
    if query is not None and "{batch}" not in str(query):
        raise SpecError(
            f"{where}: unexpected_rows_query must read FROM {{batch}}",
            Edit("write FROM {batch}: otherwise it would judge other data", "suite"),
        )


def _expectation(kind: str, kwargs: dict[str, Any], severity: str, meta: Any, where: str) -> Any:
    from great_expectations.compatibility.pydantic import ValidationError

    from tidegate.spark.gate.conditions import build_expectation

    try:
        return build_expectation(kind, kwargs, severity, meta if isinstance(meta, dict) else None)
    except ValidationError as error:
        _refuse_kwargs(error, kwargs, where)
    except Exception as error:
        raise_machine(error, where)
        raise SpecError(f"{where} is not valid: {error}", Edit("correct it", "suite")) from error


def _refuse_kwargs(error: Any, kwargs: dict[str, Any], where: str) -> NoReturn:
    allowed = sorted(name for name in error.model.__fields__ if name not in {*_KEYS, "windows", "batch_id"})
    reasons: dict[str, list[str]] = {}
    for item in error.errors():
        reasons.setdefault(str(item["loc"][0]), []).append(item["msg"])
    if "mostly" in reasons:
        reasons["mostly"] = ["allowed: a number from 0 to 1"]
    messages = [
        f"{f'{name}={kwargs[name]!r}' if name in kwargs else name}: {', '.join(dict.fromkeys(texts))}".removeprefix(
            "__root__: "
        )
        for name, texts in reasons.items()
    ]
    raise SpecError(
        f"{where}: {'; '.join(messages)}.", Edit(f"allowed kwargs: {', '.join(allowed)}", "suite")
    ) from error


def _columns(kwargs: dict[str, Any]) -> tuple[str, ...]:
    if "column" in kwargs:
        return (str(kwargs["column"]),)
    if "column_A" in kwargs:
        return (str(kwargs["column_A"]), str(kwargs.get("column_B")))
    return tuple(str(column) for column in kwargs.get("column_list", ()))
