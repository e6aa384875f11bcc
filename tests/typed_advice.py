"""``scripts/typed_advice.py`` as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load() -> Any:
    """The module."""
    path = Path(__file__).parents[1] / "scripts/typed_advice.py"
    spec = importlib.util.spec_from_file_location("typed_advice", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
