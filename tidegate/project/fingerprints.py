"""Short hashes of declarations, suites and transforms. When one has changed, a refused batch may pass.

Starts no JVM.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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


def code_fingerprint(*paths: Path) -> str:
    """Hash of the source of a transform's module, or modules, 16 hex digits. They are read, not imported.

    Raises:
        OSError: The file cannot be read.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def _without_ids(suite: Any) -> Any:
    """Remove ``id`` from the suite and from each expectation; deeper inside, ``id`` may be a parameter of a rule."""
    if not isinstance(suite, dict):
        return suite
    content = {name: value for name, value in suite.items() if name != "id"}
    if isinstance(suite.get("expectations"), list):
        content["expectations"] = [_without_ids(expectation) for expectation in suite["expectations"]]
    return content
