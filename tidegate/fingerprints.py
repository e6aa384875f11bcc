"""Short hashes of declarations, suites and transforms. When one has changed, a refused batch may pass.

Starts no JVM.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.errors import SpecError


def fingerprint(values: Mapping[str, Any]) -> str:
    """A short, stable hash of JSON values; the order of keys does not matter.

    SHA-256 over canonical JSON, 16 hex digits: a collision between declarations of one lake is very unlikely.
    """
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def suite_fingerprint(path: Path) -> str:
    """Hash of a suite's content, 16 hex digits. The layout of the file and the ids that GX generates do not change it.

    Args:
        path: A suite in Great Expectations' JSON format.

    Raises:
        OSError: The file cannot be read.
        json.JSONDecodeError: The file is not JSON.
    """
    return fingerprint(_without_ids(json.loads(path.read_text(encoding="utf-8"))))


def code_fingerprint(module_name: str) -> str:
    """Hash of the source of ``spark_jobs/<module_name>.py``, 16 hex digits. The module is read, not imported.

    Raises:
        SpecError: There is no such module.
    """
    spec = importlib.util.find_spec(f"spark_jobs.{module_name}") if module_name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise SpecError(f"spark_jobs/{module_name}.py does not exist; create it, or correct the flow's transform")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:16]


def _without_ids(suite: Any) -> Any:
    """Remove ``id`` from the suite and from each expectation; deeper inside, ``id`` may be a parameter of a rule."""
    if not isinstance(suite, dict):
        return suite
    content = {name: value for name, value in suite.items() if name != "id"}
    if isinstance(suite.get("expectations"), list):
        content["expectations"] = [_without_ids(expectation) for expectation in suite["expectations"]]
    return content
