"""Functions of the project, which declarations name: transforms, and functions of sinks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidegate.advice import Edit
from tidegate.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tidegate.spec import Flow


def transform_of(flow: Flow) -> Callable[..., DataFrame] | None:
    """The transform of a flow as a function of its sources, in whatever language it is; None without one.

    Raises:
        SpecError: It cannot be imported, or read.
    """
    if flow.transform is None:
        return None
    if flow.is_sql:
        # Few flows need it, and its parser.
        from tidegate.spark import statement

        return statement.transform_of(flow)
    function: Callable[..., DataFrame] = import_function(flow.transform, "transform")
    return function


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
