"""Every error that Tidegate raises on purpose: one tree, terminal or transient.

A *terminal* error needs a person: running again changes nothing. A *transient* error heals by waiting, so the
retry policy of Airflow tries again. The class says which, and which exit code a command ends with (``sysexits.h``);
public attributes carry the data, and the message says what the person should do next.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.report import Verdict

EX_USAGE = os.EX_USAGE
EX_DATAERR = os.EX_DATAERR
EX_SOFTWARE = os.EX_SOFTWARE
EX_TEMPFAIL = os.EX_TEMPFAIL
EX_CONFIG = os.EX_CONFIG


class TidegateError(Exception):
    """The root of the tree. Terminal unless a class says otherwise.

    Args:
        message: What is wrong and what to do about it, in one or two sentences.
    """

    transient: ClassVar[bool] = False
    exit_code: ClassVar[int] = EX_SOFTWARE

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def attributes(self) -> dict[str, Any]:
        """The public data of the error, without the message."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "message"}


class SetupError(TidegateError):
    """Something that this machine must have is missing or does not fit (Java, jars, an Airflow home)."""

    exit_code = EX_CONFIG


class MissingJavaError(SetupError):
    """There is no Java on this machine, or one that is too old."""


class NoAnswerError(SetupError):
    """The API server of the project's Airflow does not answer, or not yet."""

    transient = True
    exit_code = EX_TEMPFAIL


class RequestError(TidegateError):
    """A person asked for something that does not exist or does not fit together."""

    exit_code = EX_USAGE


class SpecError(TidegateError):
    """A declaration, a transform or a suite is wrong; nothing was run."""

    exit_code = EX_CONFIG


class FieldError(SpecError):
    """One field of a declaration has a value that is not allowed.

    Args:
        owner: What is declared, for example ``Flow 'silver'``.
        field: The name of the field.
        value: The value that was given.
        allowed: What would be allowed, in words.
    """

    def __init__(self, owner: str, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{owner}: {field}={value!r} is not allowed; allowed: {allowed}")
        self.owner = owner
        self.field = field
        self.value = repr(value)
        self.allowed = allowed


class SpecDriftError(SpecError):
    """The declaration no longer fits what the lake holds (a renamed flow, keys that left the source)."""


class CheckpointError(TidegateError):
    """A checkpoint cannot be used as it is."""

    exit_code = EX_CONFIG


class CheckpointIncompatibleError(CheckpointError):
    """The declaration changed in a way that this checkpoint version cannot follow.

    Args:
        flow: The flow's name.
        version: The checkpoint version that the lake remembers.
        changed: Field name to (remembered, declared).
    """

    def __init__(self, flow: str, version: int, changed: dict[str, tuple[Any, Any]]) -> None:
        told = "; ".join(f"{name}: {old!r} -> {new!r}" for name, (old, new) in sorted(changed.items()))
        super().__init__(
            f"flow {flow!r}: checkpoint v{version} remembers another declaration ({told}). "
            f"Either take the change back, or set checkpoint_version={version + 1} in the declaration: "
            f"the next run then derives the table anew and nobody sees it empty."
        )
        self.flow = flow
        self.version = version
        self.changed = changed


class SchemaChangedError(CheckpointIncompatibleError):
    """The declared schema lost or changed a field since a checkpoint version began.

    Args:
        flow: The flow that parses with it.
        version: The checkpoint version.
        changed: Field name to (remembered, declared) type.
        told: The changes, as people read them.
        steps: What to do, in order.
        breaks: ``<pipeline>/<flow>`` of those that read the flow's table.
    """

    def __init__(
        self,
        flow: str,
        version: int,
        changed: dict[str, tuple[Any, Any]],
        *,
        told: Sequence[str],
        steps: Sequence[str],
        breaks: Sequence[str],
    ) -> None:
        super().__init__(flow, version, changed)
        numbered = " ".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        readers = f" Who reads the table, and may rely on it: {', '.join(breaks)}." if breaks else ""
        self.message = (
            f"flow {flow!r}: checkpoint v{version} cannot follow the schema ({'; '.join(told)}). "
            f"Take the change back, or: {numbered}{readers}"
        )
        self.args = (self.message,)
        self.breaks = tuple(breaks)


class CheckpointCorruptError(CheckpointError):
    """A file of the checkpoint cannot be read, or the checkpoint is older than the tables it fed."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class GateRefusedError(TidegateError):
    """A critical expectation refused the batch: the target is untouched and the same batch waits."""

    exit_code = EX_DATAERR

    def __init__(self, verdict: Verdict) -> None:
        broken = ", ".join(result.told() for result in verdict.refusing())
        then = (
            "run the flow again: the same batch waits" if verdict.is_batch else "replay again: the table is as it was"
        )
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.called} refused by suite {verdict.suite!r}: {broken}. "
            f"Mend the suite, the transform or the data at its source, then {then}."
        )
        self.verdict = verdict

    def attributes(self) -> dict[str, Any]:
        """The verdict, as plain values."""
        return {"verdict": self.verdict.to_json()}


_BATCH_WAITS = ("batch", "run the flow again: the same batch waits")


class ContractRefusedError(TidegateError):
    """A frozen contract refused a batch: nothing of it was written, and it waits until a person answers.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        batch_id: The batch.
        drift: The name of the drift: the same for the same changes.
        changes: What the batch brings, as people read it.
        declared: Fingerprint of the schema and the contract that refused it.
        breaks: ``<pipeline>/<flow>`` of those who read the flow's table and may rely on what changed.
        is_replay: Whether quarantined entries brought it: then no batch waits.
    """

    exit_code = EX_DATAERR

    def __init__(
        self,
        pipeline: str,
        flow: str,
        batch_id: int,
        *,
        drift: str,
        changes: Sequence[str],
        declared: str,
        breaks: Sequence[str] = (),
        is_replay: bool = False,
    ) -> None:
        what, then = ("replay", "replay again: its entries are open as before") if is_replay else _BATCH_WAITS
        risk = f" It may break {', '.join(breaks)}." if breaks else ""
        super().__init__(
            f"flow {flow!r}: {what} {batch_id} refused by its frozen contract: {'; '.join(changes)}.{risk} Answer the run of DAG "
            f"schema_approval for drift {drift}, or run: tidegate contract answer {pipeline} {drift} evolve (or quarantine). "
            f"Then {then}."
        )
        self.pipeline = pipeline
        self.flow = flow
        self.batch_id = batch_id
        self.drift = drift
        self.changes = tuple(changes)
        self.declared = declared
        self.breaks = tuple(breaks)


class SourceError(TidegateError):
    """A source is not what the declaration says: no such folder or topic, a file that cannot be read."""

    exit_code = EX_CONFIG


class OffsetsExpiredError(SourceError):
    """The source no longer holds what the checkpoint wants to read next; data would be lost silently."""

    exit_code = EX_DATAERR


class GapError(OffsetsExpiredError):
    """The topic no longer holds messages that the checkpoint would read next; a person may give them up by name.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        topic: The topic's name.
        lost: By partition, the first and the last offset that is gone.
    """

    def __init__(self, pipeline: str, flow: str, topic: str, lost: dict[int, tuple[int, int]]) -> None:
        named = " ".join(f"{partition}:{first}-{last}" for partition, (first, last) in sorted(lost.items()))
        super().__init__(
            f"topic {topic} no longer holds what flow {flow!r} reads next: offsets {named} (partition:first-last) were deleted "
            "at the broker before they were read. Have their producer send them again, or give them up: "
            f'tidegate flow accept-gap {pipeline} {flow} {named} --reason "…"; reading then goes on behind them.'
        )
        self.topic = topic
        self.lost = {str(partition): list(offsets) for partition, offsets in sorted(lost.items())}


class TopicReplacedError(SourceError):
    """The topic was deleted and made anew: its offsets begin again and name other messages.

    Args:
        flow: The flow's name.
        version: The checkpoint version that reads the old topic.
        topic: The topic's name.
        known: Kafka's id of the topic that the checkpoint reads.
        found: The id of the topic that is there now.
    """

    def __init__(self, flow: str, version: int, topic: str, *, known: str, found: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and made anew: checkpoint v{version} of flow {flow!r} reads the topic with id {known}, the "
            f"broker has one with id {found}. Set checkpoint_version={version + 1} in the declaration: the new topic is read from "
            "its beginning, and what the table holds of the old one stays. What the old one still held is gone and must come "
            "from its producer again."
        )
        self.topic = topic
        self.known = known
        self.found = found


class OtherClusterError(SourceError):
    """Another Kafka cluster answers than the one that the checkpoint reads.

    Args:
        flow: The flow's name.
        version: The checkpoint version.
        topic: The topic's name.
        bootstrap: Where the cluster was asked for.
        known: The id of the cluster that the checkpoint reads.
        found: The id of the cluster that answers.
    """

    def __init__(self, flow: str, version: int, topic: str, *, bootstrap: str, known: str, found: str) -> None:
        super().__init__(
            f"another Kafka cluster answers at {bootstrap}: checkpoint v{version} of flow {flow!r} reads topic {topic} of cluster "
            f"{known}, this is cluster {found}. Let TIDEGATE_KAFKA name the brokers of the first. If the topic has moved for good, "
            f"set checkpoint_version={version + 1} in the declaration: the topic of the new cluster is read from its beginning."
        )
        self.topic = topic
        self.known = known
        self.found = found


class SourceUnavailableError(SourceError):
    """A source does not answer now. Try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class LedgerImbalanceError(TidegateError):
    """Rows went in that have no fate, or more than one. Nothing was written for this batch.

    Args:
        flow: The flow's name.
        batch_id: The batch.
        counts: The ledger line that does not balance.
        message: What to look at.
    """

    def __init__(self, flow: str, batch_id: int, counts: dict[str, Any], message: str) -> None:
        super().__init__(f"flow {flow!r}, batch {batch_id}: {message}")
        self.flow = flow
        self.batch_id = batch_id
        self.counts = counts


class LakeVersionError(TidegateError):
    """The lake was made by a newer Tidegate than this one."""

    exit_code = EX_CONFIG


class LakeUnwritableError(TidegateError):
    """The lake's storage does not take what we write (full, read-only). What was committed stays as it is."""

    transient = True
    exit_code = EX_TEMPFAIL


class SinkConflictError(TidegateError):
    """Another commit got in between. Nothing was written; try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class LeaseHeldError(TidegateError):
    """Another driver, command or maintenance run works on this checkpoint or table.

    Args:
        resource: What is held, for example ``table silver.flights``.
        holder: Who holds it, as far as it is known.
    """

    transient = True
    exit_code = EX_TEMPFAIL

    def __init__(self, resource: str, holder: str) -> None:
        super().__init__(f"{resource} is held by {holder}; wait for it to end, or stop it, and try again.")
        self.resource = resource
        self.holder = holder


class UnexpectedError(TidegateError):
    """Something that nobody foresaw. Of a job, ``failure-<flow>.txt`` beside the run report has the whole of it."""


class StoppedError(TidegateError):
    """Somebody stopped the command.

    Args:
        number: The signal; the exit code is 128 and this number.
    """

    def __init__(self, number: int) -> None:
        super().__init__("stopped. Nothing is half done: the next run finishes the batch in hand.")
        self.exit_code = 128 + number  # type: ignore[misc]  # of this signal, not of the class
