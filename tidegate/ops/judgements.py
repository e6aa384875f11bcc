"""Reads the verdicts about batches over all attempts, with every expectation. Starts no JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.ops import store
from tidegate.ops.query import query
from tidegate.place import PipelinePlace
from tidegate.report import ExpectationResult, Verdict

if TYPE_CHECKING:
    from tidegate.ops.journal import Line

_COLUMNS = ("flow", "batch_id", "app_id", "suite", "suite_fingerprint", "code_fingerprint", "outcome", "results")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A gate's verdict about a batch in one attempt."""

    at: datetime
    run_key: str
    verdict: Verdict

    @property
    def unmet(self) -> tuple[ExpectationResult, ...]:
        """The expectations that were not met."""
        return tuple(result for result in self.verdict.results if not result.success)


def read(place: PipelinePlace, lines: Sequence[Line]) -> dict[tuple[str, int], list[Judgement]]:
    """The judgements of each of these batches, by `Line.key`, the oldest first. A swap has none."""
    keys = {line.key for line in lines if not line.is_swap}
    if not keys:
        return {}
    ids, numbers = sorted({app_id for app_id, _ in keys}), [number for _, number in keys]
    path = place.ops("verdicts")
    ordering = store.ordering(path)
    rows = query(
        path,
        (*_COLUMNS, "run_key", *ordering),
        f"SELECT * FROM delta_table WHERE list_contains(?, app_id) ORDER BY {store.oldest_first(ordering)}",
        [ids],
        where=f"batch_id BETWEEN {min(numbers)} AND {max(numbers)}",
    )
    judgements: dict[tuple[str, int], list[Judgement]] = {}
    for row in rows:
        verdict = json_codec.from_plain(
            {**{name: row[name] for name in _COLUMNS}, "results": json.loads(row["results"])}, Verdict
        )
        judgement = Judgement(at=row["recorded_at"], run_key=row["run_key"], verdict=verdict)
        if (key := (verdict.app_id, verdict.batch_id)) in keys:
            judgements.setdefault(key, []).append(judgement)
    return judgements
