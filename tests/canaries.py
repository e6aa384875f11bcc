"""Searches what the platform wrote for values of the data, which belong into tables and into the quarantine only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidegate.layout import Layout


def quotes(content: bytes | str, texts: Iterable[str]) -> bool:
    """Whether any of the texts stands in there, in whatever case."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return any(each.lower() in text.lower() for each in texts)


def files_quoting(folder: Path, texts: Iterable[str], *, but: Iterable[Path] = ()) -> set[str]:
    """The files below a folder in which any of the texts stands.

    Args:
        folder: Searched with all that is below it; the result is relative to it.
        texts: In whatever case.
        but: Files and folders that may hold them.
    """
    allowed, texts = tuple(but), tuple(texts)
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and not any(path.is_relative_to(other) for other in allowed)
        and quotes(path.read_bytes(), texts)
    }


def tables_quoting(layout: Layout, pipeline: str, texts: Iterable[str]) -> set[str]:
    """Which of the platform's own tables of a pipeline hold any of the texts. Parquet is compressed: rows are read."""
    from deltalake import DeltaTable

    texts = tuple(texts)
    tables = {log.parent for log in layout.ops(pipeline, "ledger").parent.glob("*/_delta_log")}
    assert tables, f"{pipeline} has no ledger"
    return {path.name for path in tables if quotes(str(DeltaTable(str(path)).to_pyarrow_table().to_pylist()), texts)}
