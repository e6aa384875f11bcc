"""Fixtures: the pipeline `orders` of `tests.spark.orders` in a lake of the test."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tests.spark.orders import DECLARATION, JOB, SCHEMA, Declare, Orders


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """A function that writes the declaration and the transforms of the pipeline `orders`."""
    for package in ("pipelines", "spark_jobs"):
        folder = tmp_path / package
        folder.mkdir()
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])

    def forget() -> None:
        for name in ("pipelines.orders", "spark_jobs.orders"):
            sys.modules.pop(name, None)

    def write(
        contract: str = "Contract()",
        *,
        schema: str = SCHEMA,
        version: int = 1,
        columns: str = '"amount"',
        format: str = "json",
    ) -> None:
        declaration = DECLARATION.format(contract=contract, schema=schema, version=version, format=format)
        (tmp_path / "pipelines" / "orders.py").write_text(declaration)
        (tmp_path / "spark_jobs" / "orders.py").write_text(JOB.format(columns=columns))
        forget()
        importlib.invalidate_caches()
        # Python would reuse the bytecode of a version that was written within the same second.
        for cached in tmp_path.rglob("__pycache__/*.pyc"):
            cached.unlink()

    yield write
    # Otherwise later tests of this process would resolve their transforms to these files.
    forget()


@pytest.fixture
def orders(deployment: Deployment, spark: Any, declare: Declare) -> Orders:
    return Orders(deployment)
