"""Functions of the project, which declarations name: transforms, and functions of sinks."""

from __future__ import annotations

import importlib
from typing import Any

from tidegate.advice import Edit
from tidegate.errors import SpecError


def import_function(name: str, role: str) -> Any:
    """The function ``module:function`` of the package ``spark_jobs``.

    Args:
        name: The function, as it is declared.
        role: What it is, and of which flow, for the error.

    Raises:
        SpecError: Importing the module fails, or it has no such function.
    """
    module_name, _, function_name = name.partition(":")
    try:
        return getattr(importlib.import_module(f"spark_jobs.{module_name}"), function_name)
    except Exception as error:
        raise SpecError(
            f"{role} {name!r}: spark_jobs/{module_name}.py cannot be imported ({error})",
            Edit("correct it", "transform"),
        ) from error
