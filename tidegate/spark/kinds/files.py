"""Landing flows of files: each file is read once, completely, into bronze."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.probes import files
from tidegate.spark.batch import raw
from tidegate.spark.intake import sources
from tidegate.spark.kinds.kind import Kind
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tidegate.spark.context import FlowContext
    from tidegate.spark.kinds.kind import Entries
    from tidegate.spark.reprocessing.reingest import Piece
    from tidegate.window import Window


def _parts(context: FlowContext, window: Window, earlier: Sequence[Piece]) -> Iterator[Mapping[str, Any]]:
    """The files that were changed in the window, ordered by modification time."""
    source = context.flow.source
    assert isinstance(source, FileSource)
    done = {(path, modified) for piece in earlier for path, modified in piece.files.items()}
    landed = files.list_files(context.layout.landing(source.path), source.glob).files
    pending = sorted(
        (file.modified_ms, file.path)
        for file in files.modified_within(landed, window)
        if (file.path, file.modified_ms) not in done
    )
    for start in range(0, len(pending), source.max_files_per_trigger):
        part = pending[start : start + source.max_files_per_trigger]
        yield {"files": {path: modified for modified, path in part}}


def _returned(rules: Mapping[str, Any], entries: Entries) -> Mapping[str, Any]:
    """By path, because a corrected file has another modification time than its entry."""
    by_path = {name.rpartition("@")[0]: broken for name, broken in rules.items()}
    paths = {entry["_row_id"]: entry["_row_id"].rpartition("@")[0] for entry in entries}
    return {name: by_path[path] for name, path in paths.items() if path in by_path}


KIND = Kind(
    read_stream=sources.files_stream,
    split=raw.split_files,
    parts=_parts,
    # The batch opens the files.
    read_piece=lambda context, _: context.spark.range(0),
    returned=_returned,
)
