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

    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.kinds.kind import Parts
    from tidegate.spark.reprocessing.reingest import Piece
    from tidegate.window import Window


class Files(Kind):
    """Files of a landing folder. A batch lists files; which ones, `tidegate.spark.batch.work.Work.listed_files` says."""

    def read_stream(self, context: FlowContext) -> DataFrame:
        """Paths; the batch opens the files."""
        return sources.files_stream(context, _source(context))

    def split(self, context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
        """Good files are appended, bad ones refused."""
        return raw.split_files(context, batch, batch_id, decision)

    def parts(self, context: FlowContext, window: Window, earlier: Sequence[Piece]) -> Iterator[Parts]:
        """The files that were changed in the window, ordered by modification time."""
        source = _source(context)
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

    def read_piece(self, context: FlowContext, piece: Piece) -> DataFrame:
        """No rows: the batch opens the files of the piece."""
        return context.spark.range(0)

    def returned(self, rules: Mapping[str, Any], entries: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        """By path, because a corrected file has another modification time than its entry."""
        by_path = {name.rpartition("@")[0]: broken for name, broken in rules.items()}
        paths = {entry["_row_id"]: entry["_row_id"].rpartition("@")[0] for entry in entries}
        return {name: by_path[path] for name, path in paths.items() if path in by_path}


def _source(context: FlowContext) -> FileSource:
    assert isinstance(context.flow.source, FileSource)
    return context.flow.source


KIND = Files()
