"""Flows that a pipeline does not declare any more, and what the lake has of them, until a person decides. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate import formatting
from tidegate.advice import Advice, Command, Edit, Either
from tidegate.checkpoints import checkpoint, overrides, progress
from tidegate.checkpoints.overrides import Override
from tidegate.errors import TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.sources.tables.measure import rows_and_bytes
from tidegate.spec import Pipeline


@dataclass(frozen=True, kw_only=True)
class RemovedFlow:
    """A flow that ran, and is not declared any more."""

    place: Place
    """Its last checkpoint."""
    target: str
    """The table that it wrote."""
    rows: int | None
    """Of the table; None if it has none, cannot be read, or is written by another flow now."""
    stopped: str
    """Where it stopped: ``v1/0 after batch 41``."""

    @property
    def kept(self) -> Override | None:
        """The decision to keep what it left; None if nobody has decided since it ran last."""
        return overrides.kept(self.place, self.stopped)

    def summary(self) -> str:
        """``orders_silver: silver.orders with 3 rows, checkpoint v1/0 after batch 41``."""
        rows = "" if self.rows is None else f" with {formatting.count(self.rows, 'row')}"
        return f"{self.place.flow}: {self.target}{rows}, checkpoint {self.stopped}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "pipeline": self.place.pipeline,
            "flow": self.place.flow,
            "target": self.target,
            "rows": self.rows,
            "checkpoint": self.stopped,
        }


def removed_flows(
    layout: Layout, pipeline: Pipeline, declared: Mapping[str, Pipeline | TidegateError]
) -> tuple[RemovedFlow, ...]:
    """The flows of a pipeline that ran and are not declared any more; none as long as a table of its list is not valid.

    Args:
        layout: The lake.
        pipeline: The pipeline.
        declared: Every pipeline of the project by name, or the error of its file.
    """
    if pipeline.invalid_tables:
        # It is unknown which flows they are to have.
        return ()
    own = {flow.name for flow in pipeline.flows}
    places = [each for each in PipelinePlace(layout, pipeline.name).flows_with_checkpoints() if each.flow not in own]
    written = {f.target.name for each in declared.values() if isinstance(each, Pipeline) for f in each.flows}
    return tuple(each for place in places if (each := _removed_flow(place, written)) is not None)


def _removed_flow(of_flow: FlowPlace, written: set[str]) -> RemovedFlow | None:
    try:
        versions = checkpoint.versions(of_flow)
        if not versions:
            return None
        place = checkpoint.current(of_flow, max(versions))
        target = str(versions[max(versions)].remembered["target"])
        batch = progress.read(place.checkpoint).last_committed
        rows = None if target in written else rows_and_bytes(of_flow.layout.table(target))[0]
    except TidegateError:
        # What a removed flow left must not stop the others.
        return RemovedFlow(
            place=of_flow.of_version(0), target="a table that cannot be read", rows=None, stopped="unknown"
        )
    stopped = f"v{place.version}/{place.refresh} " + (
        "before its first batch" if batch is None else f"after batch {batch}"
    )
    return RemovedFlow(place=place, target=target, rows=rows, stopped=stopped)


def undecided(
    layout: Layout, pipeline: Pipeline, declared: Mapping[str, Pipeline | TidegateError]
) -> tuple[RemovedFlow, ...]:
    """The `removed_flows` about which nobody has decided."""
    return tuple(each for each in removed_flows(layout, pipeline, declared) if each.kept is None)


def advice(removed: Sequence[RemovedFlow]) -> Advice:
    """What to do about some of them, all of one pipeline."""
    flows = [each.place.flow for each in removed]
    return Either(
        Command.tidegate(
            "flow", "keep", removed[0].place.pipeline, *flows, "--reason", "…", says="keep it as it is: `{}`"
        ),
        Edit("declare them again: they go on where they stopped", "declaration"),
    )


def lines(removed: Sequence[RemovedFlow]) -> list[str]:
    """Lines of text for messages; empty for none."""
    if not removed:
        return []
    them = "it" if len(removed) == 1 else "they"
    return [
        f"{formatting.count(len(removed), 'flow is', 'flows are')} not declared any more, and all that {them} wrote is still there",
        *(f"  {each.summary()}" for each in removed),
        f"Next: {advice(removed).text}.",
    ]
