"""Checkpoints and state that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.advice import Advice, Edit, Either, new_version
from tidegate.errors.error import EX_CONFIG, TidegateError

_REVERT = Edit("revert the change", "declaration")


class CheckpointError(TidegateError):
    """A checkpoint cannot be used in its present state."""

    exit_code = EX_CONFIG


class CheckpointIncompatibleError(CheckpointError):
    """The declaration changed in a way that this checkpoint version cannot follow.

    Args:
        flow: The flow's name.
        version: The checkpoint version recorded in the lake.
        changed: Field name to (recorded value, declared value).
        again: The edits by which the next run derives the table again; without keys, into another table.
    """

    def __init__(
        self, flow: str, version: int, changed: dict[str, tuple[Any, Any]], *, again: Advice | None = None
    ) -> None:
        changes = "; ".join(f"{name}: {old!r} -> {new!r}" for name, (old, new) in sorted(changed.items()))
        super().__init__(
            f"flow {flow!r}: checkpoint v{version} was made with another declaration ({changes}).",
            Either(_REVERT, again or new_version(version)),
        )
        self.flow = flow
        self.version = version
        self.changed = changed


class SchemaChangedError(CheckpointIncompatibleError):
    """The declared schema lost a field, or changed its type, since a checkpoint version was created.

    Args:
        flow: The flow that parses records with this schema.
        version: The checkpoint version.
        changed: Field name to (recorded type, declared type).
        descriptions: One phrase per change, for the message.
        steps: What to do, in order.
        breaks: ``<pipeline>/<flow>`` of the flows that read the flow's table.
    """

    def __init__(
        self,
        flow: str,
        version: int,
        changed: dict[str, tuple[Any, Any]],
        *,
        descriptions: Sequence[str],
        steps: Advice,
        breaks: Sequence[str],
    ) -> None:
        super().__init__(flow, version, changed)
        readers = f" Flows that read the table and may break: {', '.join(breaks)}." if breaks else ""
        self.say(
            f"flow {flow!r}: checkpoint v{version} is incompatible with the declared schema ({'; '.join(descriptions)}).{readers}",
            Either(_REVERT, steps),
        )
        self.breaks = tuple(breaks)


class CheckpointCorruptError(CheckpointError):
    """A file of Spark's checkpoint cannot be read, or the checkpoint is behind the tables that were written from it."""

    def __init__(self, problem: str, advice: Advice | None = None, *, path: str) -> None:
        super().__init__(problem, advice)
        self.path = path


class StateLostError(CheckpointCorruptError):
    """A file of the state of a stateful flow is missing or damaged, and Spark cannot make the state from other files."""


class StateSchemaChangedError(CheckpointError):
    """The state of a stateful flow has another schema or operator than its transform has now, or a format that is not safe in a bucket.

    Nothing was written.
    """


class StateCodeChangedError(CheckpointError):
    """The table has a batch of a stateful flow that other code made than today's, and its state was not stored.

    Continuing would store the state of today's code beside results of the other: both would disagree for ever.

    Args:
        flow: The flow's name.
        batch_id: The batch.
        version: The checkpoint version.
        transform: Its name.
    """

    def __init__(self, flow: str, batch_id: int, version: int, transform: str) -> None:
        module = transform.partition(":")[0]
        super().__init__(
            f"flow {flow!r}: batch {batch_id} is in its table, made by transform {transform!r} as it was before spark_jobs/{module}.py, or "
            "a file there that it uses, was edited, but a crash left its state unfinished.",
            Either(
                Edit("put the earlier code back for one run, which finishes the batch", "transform"),
                new_version(version, "set {}, which derives the table again with today's code"),
            ),
        )
        self.flow = flow
        self.batch_id = batch_id
