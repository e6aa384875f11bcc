"""Strikes: a fault at the n-th crossing of a step that writes, whichever it is.

A step is crossed twice: right before and right after it. `CROSSINGS` are the steps of micro-batches, jobs and swaps, and every
single write to a table or to a file beside a checkpoint. An ``error`` is an exception that the product catches; an ``abort`` is one
that nothing catches and leaves the lake as a SIGKILL would (`tests.fault_points`). A ``step`` sets the clock, and the run goes on.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from tests.fault_points import Abort, aborting
from tidegate.store import Address

CROSSINGS = {
    "tidegate.spark.batch.micro_batch": ("decide", "split_batch", "write_quarantine", "write_target", "record_batch"),
    "tidegate.spark.batch.ledger": ("record_batch", "record_verdict"),
    "tidegate.spark.batch.quarantine": ("append", "apply_backfill"),
    "tidegate.spark.lake.writes": ("append", "upsert", "replace_groups", "swap", "replace_table", "merge", "put_back"),
    "tidegate.spark.reprocessing.replay": ("claim", "process_claim", "return_entries"),
    "tidegate.spark.reprocessing.backfill": ("_prepare", "_run", "_remove_files"),
    "tidegate.spark.reprocessing.pending_work": ("write", "drop", "settle"),
    "tidegate.spark.reprocessing.undo": ("_run",),
    "tidegate.spark.reprocessing.swap": ("swap_in", "finish"),
    "tidegate.spark.flow": ("_prepare", "_drain"),
    "tidegate.quarantine.claims": ("create", "mark_returned", "settle", "release"),
    "tidegate.quarantine.decision": ("retire",),
    "tidegate.quarantine.lifecycle": ("close",),
    "tidegate.checkpoints.checkpoint": ("write_sidecar", "record_refresh_origin"),
    "tidegate.json_codec": ("write",),
    "tidegate.ops.ledger": ("record",),
}
"""Functions by module, as their callers look them up."""
_RELIED_ON_NEVER = {"reports", "leases"}
"""Folders whose files are no crossings: a report is written again after each step, and says nothing that is relied on."""
Kind = Literal["error", "abort", "step"]


class StruckError(Exception):
    """The fault of a strike of kind ``error``."""


@dataclass
class Strike:
    """One fault; `at` says where it struck, empty if the run ended before."""

    crossing: int
    kind: Kind
    at: str = ""
    crossed: int = 0
    step: Callable[[], object] = lambda: None
    """Sets the clock, in a strike of that kind."""
    raised: list[BaseException] = field(default_factory=list)

    @contextlib.contextmanager
    def struck(self, spark: Any, lake: Path) -> Iterator[None]:
        """Strike the run in this context. An abort ends the context; an error is in the run's report, or raised by it."""
        if self.kind == "step":
            with self._armed(self.step):
                yield
        elif self.kind == "error":
            with self._armed(self._fail), contextlib.suppress(StruckError):
                yield
        else:
            with aborting(lambda act: self._armed(lambda: act(None)), lake, spark, must_abort=False):
                yield

    def _fail(self) -> None:
        raise StruckError(self.at)

    @contextlib.contextmanager
    def _armed(self, act: Callable[[], Any]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, functions in CROSSINGS.items():
                module = importlib.import_module(name)
                for function in functions:
                    stack.enter_context(patch.object(module, function, self._counted(module, function, act)))
            yield

    def _counted(self, module: Any, name: str, act: Callable[[], Any]) -> Callable[..., Any]:
        original = getattr(module, name)
        place = f"{module.__name__.removeprefix('tidegate.')}.{name}"

        def cross(when: str) -> None:
            self.crossed += 1
            if self.crossed == self.crossing:
                self.at = f"{when} {place}"
                act()

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], Address) and not _RELIED_ON_NEVER.isdisjoint(args[0].uri.split("/")):
                return original(*args, **kwargs)
            cross("before")
            result = original(*args, **kwargs)
            cross("after")
            return result

        return counted


__all__ = ["Abort", "Kind", "Strike", "StruckError"]
