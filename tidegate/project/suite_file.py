"""Reads the file of a suite and checks its outline. The rules themselves are checked by `tidegate.spark.gate.load_suite`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.advice import Edit, Either
from tidegate.errors import SpecError
from tidegate.errors.classification import raise_machine


def read_entries(path: Path, name: str) -> list[Any]:
    """The expectations of a suite, unchecked.

    Args:
        path: The JSON file, in the format of Great Expectations.
        name: Its name in the declaration, ``<pipeline>/<flow>``.

    Raises:
        SpecError: The file is missing or not a suite, or it contains no expectation.
    """
    where = label(path, name)
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(
            f"{where} does not exist.",
            Either(
                Edit("write it as Great Expectations' JSON", "suite"),
                Edit("remove the gate from the declaration", "suite"),
            ),
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise_machine(error, where)
        raise SpecError(
            f"{where} cannot be read ({type(error).__name__})", Edit("write it as a UTF-8 text file", "suite")
        ) from error
    except json.JSONDecodeError as error:
        raise SpecError(
            f"{where} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            Edit("correct it", "suite"),
        ) from error
    if not isinstance(plain, dict) or not isinstance(plain.get("expectations"), list):
        raise SpecError(f"{where} is not a suite", Edit('allowed: an object {"name": …, "expectations": […]}', "suite"))
    if not plain["expectations"]:
        raise SpecError(
            f"{where} contains no expectation",
            Either(Edit("add one", "suite"), Edit("remove the gate from the declaration", "declaration")),
        )
    return list(plain["expectations"])


def label(path: Path, name: str) -> str:
    """The suite and its file, as errors name them."""
    return f"suite {name!r} ({path.parent.name}/{path.name})"
