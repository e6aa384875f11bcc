"""``scripts/typed_advice.py`` as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

_NAME = "typed_advice"


def load() -> Any:
    """The module, which the generator of the reference imports by the same name."""
    if _NAME not in sys.modules:
        path = Path(__file__).parents[1] / f"scripts/{_NAME}.py"
        spec = importlib.util.spec_from_file_location(_NAME, path)
        assert spec is not None and spec.loader is not None
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NAME])
    return sys.modules[_NAME]
