"""The file of a project that says which Tidegate its jobs and tests have."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate import __version__
from tidegate.store import Address

FILE = "requirements.txt"
_PIN = re.compile(r"^(tidegate(?:\[[^\]\n]*\])?==)([^\s;#]+)", re.MULTILINE)


def other_versions(project: Path) -> list[str]:
    """The requirements that name another version of Tidegate than this one; none if there is no such file."""
    return [line[0] for line in _PIN.finditer(_text(project)) if line[2] != __version__]


def name_this_version(project: Path) -> None:
    """Let these requirements name this version, and change nothing else of the file."""
    text = _text(project)
    Address.local(project / FILE).put(_PIN.sub(rf"\g<1>{__version__}", text).encode(errors="surrogateescape"))


def _text(project: Path) -> str:
    try:
        return Address.local(project / FILE).read().data.decode(errors="surrogateescape")
    except FileNotFoundError:
        return ""
