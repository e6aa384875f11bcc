"""Searches files and tables for data values, which may only be in tables and in the quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace


def contains_any(content: bytes | str, texts: Iterable[str]) -> bool:
    """Whether the content contains any of the texts, ignoring case."""
    text = (content.decode("utf-8", "replace") if isinstance(content, bytes) else content).lower()
    return any(each.lower() in text for each in texts)


def files_containing(folder: Path, texts: Iterable[str], *, excluding: Iterable[Path] = ()) -> set[str]:
    """The files below a folder that contain any of the texts.

    Args:
        folder: Searched recursively; the result is relative to it.
        texts: Compared ignoring case.
        excluding: Files and folders that may contain them.
    """
    allowed, texts = tuple(excluding), tuple(texts)
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and not any(path.is_relative_to(other) for other in allowed)
        and contains_any(path.read_bytes(), texts)
    }


def tables_containing(layout: Layout, pipeline: str, texts: Iterable[str]) -> set[str]:
    """The platform's tables of a pipeline that contain any of the texts. Their rows are read, because Parquet is compressed."""
    from deltalake import DeltaTable

    texts = tuple(texts)
    tables = {log.parent for log in Path(PipelinePlace(layout, pipeline).ops("ledger").parent).glob("*/_delta_log")}
    assert tables, f"{pipeline} has no ledger"
    return {
        path.name for path in tables if contains_any(str(DeltaTable(str(path)).to_pyarrow_table().to_pylist()), texts)
    }
