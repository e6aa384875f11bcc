"""The pipeline `orders` of `tests.spark.orders`, in a lake of the test's own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tests.spark.orders import DECLARATION, JOB, SCHEMA, Declare, Orders


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Writes the files of a pipeline `orders`, as a person edits them."""
    for package in ("pipelines", "spark_jobs"):
        folder = tmp_path / package
        folder.mkdir()
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])

    def write(
        contract: str = "Contract()",
        *,
        schema: str = SCHEMA,
        version: int = 1,
        columns: str = '"amount"',
        format: str = "json",
    ) -> None:
        declared = DECLARATION.format(contract=contract, schema=schema, version=version, format=format)
        (tmp_path / "pipelines" / "orders.py").write_text(declared)
        (tmp_path / "spark_jobs" / "orders.py").write_text(JOB.format(columns=columns))
        for name in ("pipelines.orders", "spark_jobs.orders"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        # Two versions written within one second would have the same time stamp.
        for cached in tmp_path.rglob("__pycache__/*.pyc"):
            cached.unlink()

    return write


@pytest.fixture
def orders(deployment: Deployment, spark: Any, declare: Declare) -> Orders:
    return Orders(deployment)
