"""Fingerprints of what a gate decides by, without a JVM: when one changed, judging a refused batch again may end otherwise."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

from tidegate.errors import SpecError


def suite_fingerprint(path: Path) -> str:
    """Of what a suite says: 16 hex digits that do not change with its layout or with the ids that GX deals out.

    Args:
        path: The suite, as Great Expectations' JSON.

    Raises:
        OSError: The file cannot be read.
        json.JSONDecodeError: It is not JSON.
    """
    said = json.dumps(_without_ids(json.loads(path.read_text(encoding="utf-8"))), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def code_fingerprint(module_name: str) -> str:
    """Of the source of ``spark_jobs/<module_name>.py``: 16 hex digits. The module is found and read, not imported.

    Raises:
        SpecError: There is no such module.
    """
    spec = importlib.util.find_spec(f"spark_jobs.{module_name}") if module_name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise SpecError(f"there is no spark_jobs/{module_name}.py; write it, or correct the flow's transform")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:16]


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_ids(item) for name, item in value.items() if name != "id"}
    if isinstance(value, list):
        return [_without_ids(item) for item in value]
    return value


def code_fingerprint(module: str) -> str:
    """Of the source of ``spark_jobs/<module>.py``: 16 hex digits. Finds the module and never imports it.

    Args:
        module: For example ``flights``; an unknown one has the fingerprint of nothing.
    """
    import importlib.util
    from pathlib import Path

    found = importlib.util.find_spec(f"spark_jobs.{module}")
    source = Path(found.origin).read_bytes() if found is not None and found.origin else b""
    return hashlib.sha256(source).hexdigest()[:16]
