"""Which file an address may name: one that lies in a folder and is of a kind that pages are made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Suffix to content type; nothing else is handed out of a lake. Its reports need no script, and one that lay there would run."""
OF_PAGES = {**KINDS, ".js": "text/javascript; charset=utf-8"}
"""The same for what the pages themselves bring along."""


def find(folder: Path, path: str, kinds: Mapping[str, str] = KINDS) -> tuple[Path, str] | None:
    """The file and its content type; None when there is none, or it lies elsewhere.

    Args:
        folder: What it must lie in, symbolic links followed.
        path: What the address says behind the folder; a folder stands for its ``index.html``.
        kinds: Suffix to content type.
    """
    try:
        root = folder.resolve(strict=True)
        found = (root / path).resolve(strict=True)
        if found.is_dir():
            found = (found / "index.html").resolve(strict=True)
    except (OSError, ValueError):
        # ValueError: a NUL in it.
        return None
    kind = kinds.get(found.suffix)
    if kind is None or not found.is_relative_to(root) or not found.is_file():
        return None
    return found, kind
