"""Maps URL paths to files: only files inside a given folder and of an allowed type are served."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Suffix to media type of the files that are served from a lake. No scripts: the policy would allow a script from there to run."""
ASSET_TYPES = {**MEDIA_TYPES, ".js": "text/javascript; charset=utf-8"}
"""The same for the assets of the pages themselves."""


def find(folder: Path, path: str, media_types: Mapping[str, str] = MEDIA_TYPES) -> tuple[Path, str] | None:
    """The file of a URL path and its media type; None when there is no such file, or it is outside the folder.

    Args:
        folder: The file must be inside it after symbolic links are resolved.
        path: Relative to the folder; a directory stands for its ``index.html``.
        media_types: Suffix to media type of the allowed files.
    """
    try:
        root = folder.resolve(strict=True)
        file = (root / path).resolve(strict=True)
        if file.is_dir():
            file = (file / "index.html").resolve(strict=True)
    except (OSError, ValueError):
        # ValueError: the path contains a NUL.
        return None
    media_type = media_types.get(file.suffix)
    if media_type is None or not file.is_relative_to(root) or not file.is_file():
        return None
    return file, media_type
