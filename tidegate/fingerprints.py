"""Short hashes of what decides: of a declaration, a suite, a transform. When one changed, another answer is possible.

No JVM.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.errors import SpecError


def fingerprint(remembered: Mapping[str, Any]) -> str:
    """A short, stable hash of plain values; the order of fields does not matter.

    SHA-256 over canonical JSON, 16 hex digits: enough that two declarations of one lake never meet by chance.
    """
    canonical = json.dumps(remembered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def suite_fingerprint(path: Path) -> str:
    """Of what a suite says: 16 hex digits that do not change with its layout or with the ids that GX deals out.

    Args:
        path: The suite, as Great Expectations' JSON.

    Raises:
        OSError: The file cannot be read.
        json.JSONDecodeError: It is not JSON.
    """
    return fingerprint(_without_ids(json.loads(path.read_text(encoding="utf-8"))))


def code_fingerprint(module_name: str) -> str:
    """Of the source of ``spark_jobs/<module_name>.py``: 16 hex digits. The module is found and read, not imported.

    Raises:
        SpecError: There is no such module.
    """
    spec = importlib.util.find_spec(f"spark_jobs.{module_name}") if module_name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise SpecError(f"there is no spark_jobs/{module_name}.py; write it, or correct the flow's transform")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:16]


def _without_ids(suite: Any) -> Any:
    """The ids stand beside a suite's name and beside an expectation's type; deeper, ``id`` may be a rule's own word."""
    if not isinstance(suite, dict):
        return suite
    bare = {name: value for name, value in suite.items() if name != "id"}
    if isinstance(suite.get("expectations"), list):
        bare["expectations"] = [_without_ids(expectation) for expectation in suite["expectations"]]
    return bare
