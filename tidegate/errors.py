"""Every error that Tidegate raises on purpose: one tree, terminal or transient.

A *terminal* error needs a person: a retry fails the same way. A *transient* error may go away, so Airflow's retry policy
tries again. The class defines which of the two it is and the exit code of a command (``sysexits.h``). Public attributes
carry the data of the error; the message says what to do next.
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
EX_DIFFERS = 3
"""A verification found a difference. No code of ``sysexits.h``, which begin at 64."""


class TidegateError(Exception):
    """The base class of all errors. Terminal unless a subclass sets ``transient``.

    Args:
        message: What is wrong and what to do about it, in one or two sentences.
    """

    transient: ClassVar[bool] = False
    exit_code: ClassVar[int] = EX_SOFTWARE

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def attributes(self) -> dict[str, Any]:
        """The public attributes of the error, without the message."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "message"}


class SetupError(TidegateError):
    """A prerequisite of this machine is missing or has the wrong version (Java, jars, an Airflow home)."""

    exit_code = EX_CONFIG


class MissingJavaError(SetupError):
    """Java is not installed on this machine, or is too old."""


class AirflowUnavailableError(SetupError):
    """The API server of the project's Airflow does not respond, or not yet."""

    transient = True
    exit_code = EX_TEMPFAIL


class RequestError(TidegateError):
    """A request names something that does not exist, or its parameters contradict each other."""

    exit_code = EX_USAGE


class SpecError(TidegateError):
    """A declaration, a transform or a suite is invalid; nothing was run."""

    exit_code = EX_CONFIG


class FieldError(SpecError):
    """One field of a declaration has a value that is not allowed.

    Args:
        owner: The declared object, for example ``Flow 'silver'``.
        field: The name of the field.
        value: The declared value; the error keeps its ``repr``.
        allowed: Description of the allowed values.
    """

    def __init__(self, owner: str, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{owner}: {field}={value!r} is not allowed; allowed: {allowed}")
        self.owner = owner
        self.field = field
        self.value = repr(value)
        self.allowed = allowed


class DeclarationConflictError(SpecError):
    """The declaration contradicts data that is already in the lake (a renamed flow, keys that the source no longer has)."""


class CheckpointError(TidegateError):
    """A checkpoint cannot be used in its present state."""

    exit_code = EX_CONFIG


class CheckpointIncompatibleError(CheckpointError):
    """The declaration changed in a way that this checkpoint version cannot follow.

    Args:
        flow: The flow's name.
        version: The checkpoint version recorded in the lake.
        changed: Field name to (recorded value, declared value).
    """

    def __init__(self, flow: str, version: int, changed: dict[str, tuple[Any, Any]]) -> None:
        changes = "; ".join(f"{name}: {old!r} -> {new!r}" for name, (old, new) in sorted(changed.items()))
        super().__init__(
            f"flow {flow!r}: checkpoint v{version} was made with another declaration ({changes}). "
            f"Either revert the change, or set checkpoint_version={version + 1} in the declaration: "
            f"the next run then rebuilds the table behind staging; readers never see it empty."
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
        steps: Sequence[str],
        breaks: Sequence[str],
    ) -> None:
        super().__init__(flow, version, changed)
        numbered = " ".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        readers = f" Flows that read the table and may break: {', '.join(breaks)}." if breaks else ""
        self.message = (
            f"flow {flow!r}: checkpoint v{version} is incompatible with the declared schema ({'; '.join(descriptions)}). "
            f"Revert the change, or: {numbered}{readers}"
        )
        self.args = (self.message,)
        self.breaks = tuple(breaks)


class CheckpointCorruptError(CheckpointError):
    """A file of Spark's checkpoint cannot be read, or the checkpoint is behind the tables that were written from it."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class StateLostError(CheckpointCorruptError):
    """A file of the state of a stateful flow is missing or damaged, and Spark cannot make the state from other files."""


class StateSchemaChangedError(CheckpointError):
    """The state of a stateful flow has another schema, or another operator, than its transform has now. Nothing was written."""


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
            f"flow {flow!r}: batch {batch_id} is in its table, made by transform {transform!r} as it was before spark_jobs/{module}.py was "
            f"edited, but a crash left its state unfinished. Put the earlier code back for one run, which finishes the batch; or set "
            f"checkpoint_version={version + 1}, which derives the table again with today's code"
        )
        self.flow = flow
        self.batch_id = batch_id


class LateRowsDroppedError(TidegateError):
    """Spark dropped rows of a stateful flow as older than the watermark. Nothing was written for the batch.

    The flow below splits late rows off by the same rule, so this is a bug, or someone wrote to the source.

    Args:
        flow: The flow's name.
        batch_id: The batch.
        dropped: The number of rows.
        source: The source table.
    """

    def __init__(self, flow: str, batch_id: int, dropped: int, source: str) -> None:
        super().__init__(
            f"flow {flow!r}, batch {batch_id}: Spark dropped {dropped:,} of the rows of {source!r} as older than the watermark; nothing "
            f"was written. The flow that writes {source!r} keeps late rows out of it, so either something else wrote to the table (its "
            "history says what), or this is a bug: report it with the run's report. To go on, raise checkpoint_version: the table is "
            "derived again from all rows"
        )
        self.flow = flow
        self.batch_id = batch_id
        self.dropped = dropped


_RETRY_BATCH = "run the flow again: it tries the same batch again"


class RefusedError(TidegateError):
    """A batch was refused: nothing of it was written, and it waits until something changes."""

    exit_code = EX_DATAERR

    def waits_for(self) -> dict[str, Any]:
        """The batch, and what has to change before another attempt may pass; stored beside the checkpoint for `plan`."""
        raise NotImplementedError


class GateRefusedError(RefusedError):
    """A critical expectation refused the batch: the target is unchanged, and the next run tries the same batch again."""

    def __init__(self, verdict: Verdict) -> None:
        failed = ", ".join(result.summary() for result in verdict.refusing())
        next_step = _RETRY_BATCH if verdict.is_batch else "run the backfill again: the table is unchanged"
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} refused by suite {verdict.suite!r}: {failed}. "
            f"Correct the suite, the transform or the data at its source, then {next_step}."
        )
        self.verdict = verdict

    def waits_for(self) -> dict[str, Any]:
        """A change of the suite, or of the transform's module."""
        return {
            "batch_id": self.verdict.batch_id,
            "suite_fingerprint": self.verdict.suite_fingerprint,
            "code_fingerprint": self.verdict.code_fingerprint,
        }


class BatchHeldError(RefusedError):
    """A statistic of the batch breaks its rule: the target is unchanged, and the batch waits for a person.

    Args:
        pipeline: The pipeline's name.
        verdict: The refusal, with a result for each declared statistic.
        statistics_fingerprint: Of the declared statistics.
        takes_out: Whether the batch can be sent to quarantine.
    """

    def __init__(self, pipeline: str, verdict: Verdict, *, statistics_fingerprint: str, takes_out: bool = True) -> None:
        failed = ", ".join(result.summary() for result in verdict.refusing())
        command = f"{pipeline} {verdict.flow} --reason …"
        take = "" if not takes_out else f", send it to quarantine (tidegate quarantine take {command})"
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} held: {failed}. Let it pass (tidegate quarantine accept {command}){take}, or "
            f"correct the statistic or the transform, then {_RETRY_BATCH}."
        )
        self.verdict = verdict
        self.statistics_fingerprint = statistics_fingerprint

    def waits_for(self) -> dict[str, Any]:
        """A decision, or a change of the declared statistics or of the transform's module."""
        return {
            "batch_id": self.verdict.batch_id,
            "statistics_fingerprint": self.statistics_fingerprint,
            "code_fingerprint": self.verdict.code_fingerprint,
        }


class TransformRefusedError(RefusedError):
    """The transform raises on rows of the batch that cannot go to quarantine, because they are too many, or make a group.

    Args:
        verdict: The refusal, with a result for each class of exception.
        transform: Its name.
        raised: The classes of the exceptions: error conditions of Spark, types of Python exceptions.
        problem: Why the rows do not go to quarantine, as the rest of a sentence.
        remedy: What a person can do, as a clause without full stop.
        share: The declared `transform_error_share`.
    """

    def __init__(
        self, verdict: Verdict, *, transform: str, raised: Sequence[str], problem: str, remedy: str, share: float | None
    ) -> None:
        next_step = _RETRY_BATCH if verdict.is_batch else "repeat it: nothing was written"
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} refused: transform {transform!r} raises {', '.join(raised)} {problem}. "
            f"{remedy}, then {next_step}."
        )
        self.verdict = verdict
        self.transform = transform
        self.raised = tuple(raised)
        self.transform_error_share = share

    def waits_for(self) -> dict[str, Any]:
        """A change of the transform's module, or of the declared share."""
        return {
            "batch_id": self.verdict.batch_id,
            "code_fingerprint": self.verdict.code_fingerprint,
            "transform_error_share": self.transform_error_share,
        }


class ContractRefusedError(RefusedError):
    """A frozen contract refused a batch: nothing of it was written, and it waits until a person answers.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        batch_id: The refused batch or replay.
        schema_change_id: Hash over the changes: the same changes have the same id.
        changes: One phrase per change in the batch.
        declared: Fingerprint of the schema and the contract that refused it.
        breaks: ``<pipeline>/<flow>`` of the flows that read the flow's table and may depend on a changed field.
        is_replay: Whether a replay of quarantined entries was refused: then no batch waits.
    """

    def __init__(
        self,
        pipeline: str,
        flow: str,
        batch_id: int,
        *,
        schema_change_id: str,
        changes: Sequence[str],
        declared: str,
        breaks: Sequence[str] = (),
        is_replay: bool = False,
    ) -> None:
        what = "replay" if is_replay else "batch"
        next_step = "replay again: its entries are still open" if is_replay else _RETRY_BATCH
        risk = f" It may break {', '.join(breaks)}." if breaks else ""
        super().__init__(
            f"flow {flow!r}: {what} {batch_id} refused by its frozen contract: {'; '.join(changes)}.{risk} Answer the run of DAG "
            f"schema_approval for schema change {schema_change_id}, or run: tidegate contract answer {pipeline} "
            f"{schema_change_id} evolve (or quarantine). Then {next_step}."
        )
        self.pipeline = pipeline
        self.flow = flow
        self.batch_id = batch_id
        self.schema_change_id = schema_change_id
        self.changes = tuple(changes)
        self.declared = declared
        self.breaks = tuple(breaks)

    def waits_for(self) -> dict[str, Any]:
        """An answer, or a change of the declared schema or contract."""
        return {"batch_id": self.batch_id, "schema_change_id": self.schema_change_id, "declared": self.declared}


class RewriteRefusedError(TidegateError):
    """A backfill, a full refresh or a new version would delete or refuse more rows than its limits allow: the table is unchanged.

    Args:
        flow: The flow's name.
        what: What was refused, for example ``backfill 3 of 2013-01-01``.
        impact: The counts of its rows.
        reasons: One phrase per exceeded limit, to follow "it would".
        correct: What to do if the numbers are wrong, as a phrase.
        accept: The command that accepts the numbers.
    """

    exit_code = EX_DATAERR

    def __init__(
        self, flow: str, what: str, *, impact: dict[str, int], reasons: Sequence[str], correct: str, accept: str
    ) -> None:
        super().__init__(
            f"flow {flow!r}: {what} refused before it changed a row of the table: it would {' and '.join(reasons)}. "
            f"Correct the transform, the suite or the data, then {correct}. Or accept exactly these numbers: {accept} (in Airflow: "
            "the field accept of the form)"
        )
        self.flow = flow
        self.what = what
        self.impact = impact
        self.reasons = tuple(reasons)


class TableDiffersError(TidegateError):
    """A verification found rows of a table that differ from what its sources make. Nothing was written.

    Args:
        flow: The flow's name.
        target: The name of its table.
        counts: What differs, as a phrase.
        remedy: What makes the table right again, as a sentence.
    """

    exit_code = EX_DIFFERS

    def __init__(self, flow: str, target: str, counts: str, remedy: str) -> None:
        super().__init__(
            f"flow {flow!r}: table {target!r} differs from its sources: {counts}. The differences are of someone who wrote to the table, "
            f"of edited code, or of a bug: `tidegate ledger` has the commits of Tidegate, the table's history all. {remedy}"
        )
        self.flow = flow
        self.target = target


class SourceError(TidegateError):
    """A source does not match its declaration: the folder or topic does not exist, or a file cannot be read."""

    exit_code = EX_CONFIG


class SourceRewrittenError(SourceError):
    """Rows of the source of a stateful flow were changed or deleted: what was derived from them cannot be taken back from state.

    Args:
        flow: The flow's name.
        source: The source table.
        version: The checkpoint version.
    """

    exit_code = EX_DATAERR

    def __init__(self, flow: str, source: str, version: int) -> None:
        super().__init__(
            f"flow {flow!r}: rows of its source {source!r} were changed or deleted, but its state remembers what they were; nothing was "
            f"written. Set checkpoint_version={version + 1} in the declaration: the table is derived again from the present rows"
        )
        self.flow = flow
        self.source = source


class OffsetsExpiredError(SourceError):
    """The source has deleted the offsets that the checkpoint would read next; continuing would lose data silently."""

    exit_code = EX_DATAERR


class GapError(OffsetsExpiredError):
    """The broker has deleted messages that the checkpoint would read next; a person may accept the gap.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        topic: The topic's name.
        lost: Partition to the first and the last deleted offset.
    """

    def __init__(self, pipeline: str, flow: str, topic: str, lost: dict[int, tuple[int, int]]) -> None:
        offsets = " ".join(f"{partition}:{first}-{last}" for partition, (first, last) in sorted(lost.items()))
        super().__init__(
            f"topic {topic} has lost messages that flow {flow!r} reads next: offsets {offsets} (partition:first-last) were "
            "deleted at the broker before they were read. Have the producer send them again, and accept the gap: "
            f'tidegate flow accept-gap {pipeline} {flow} {offsets} --reason "…"; the flow then reads on after it.'
        )
        self.topic = topic
        self.lost = {str(partition): list(bounds) for partition, bounds in sorted(lost.items())}


class TopicReplacedError(SourceError):
    """The topic was deleted and created again: its offsets restart and identify other messages.

    Args:
        flow: The flow's name.
        version: The checkpoint version that reads the old topic.
        topic: The topic's name.
        expected: Kafka's id of the topic that the checkpoint reads.
        actual: The id of the topic that exists now.
    """

    def __init__(self, flow: str, version: int, topic: str, *, expected: str, actual: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and created again: checkpoint v{version} of flow {flow!r} reads the topic with id {expected}, "
            f"the broker has one with id {actual}. Set checkpoint_version={version + 1} in the declaration: the new topic is read "
            "from its beginning, and rows from the old one stay in the table. Messages of the old topic that were not read are lost; "
            "have the producer send them again."
        )
        self.topic = topic
        self.expected = expected
        self.actual = actual


class OtherClusterError(SourceError):
    """The bootstrap servers belong to another Kafka cluster than the one that the checkpoint reads.

    Args:
        flow: The flow's name.
        version: The checkpoint version.
        topic: The topic's name.
        bootstrap: The bootstrap servers of the request.
        expected: The id of the cluster that the checkpoint reads.
        actual: The id of the cluster that responds.
    """

    def __init__(self, flow: str, version: int, topic: str, *, bootstrap: str, expected: str, actual: str) -> None:
        super().__init__(
            f"another Kafka cluster responds at {bootstrap}: checkpoint v{version} of flow {flow!r} reads topic {topic} of cluster "
            f"{expected}, this is cluster {actual}. Set TIDEGATE_KAFKA to the brokers of the first. If the topic has moved for good, "
            f"set checkpoint_version={version + 1} in the declaration: the topic of the new cluster is read from its beginning."
        )
        self.topic = topic
        self.expected = expected
        self.actual = actual


class SourceUnavailableError(SourceError):
    """A source does not respond at the moment. Try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class LedgerImbalanceError(TidegateError):
    """Some input rows have no disposition, or more than one. Nothing was written for this batch.

    Args:
        flow: The flow's name.
        batch_id: The batch.
        counts: The ledger line that does not balance.
        message: What to check.
    """

    def __init__(self, flow: str, batch_id: int, counts: dict[str, Any], message: str) -> None:
        super().__init__(f"flow {flow!r}, batch {batch_id}: {message}")
        self.flow = flow
        self.batch_id = batch_id
        self.counts = counts


class DamagedFileError(TidegateError):
    """A file in the lake does not have the content that Tidegate writes.

    Args:
        path: The file.
        problem: What does not fit.
        repair: What to do about it, as a sentence.
    """

    exit_code = EX_CONFIG

    def __init__(self, path: object, problem: str, repair: str) -> None:
        super().__init__(f"{path} is damaged: {problem}. {repair}")
        self.path = str(path)


class LakeVersionError(TidegateError):
    """The lake was written by a newer Tidegate than this one."""

    exit_code = EX_CONFIG


class LakeUnwritableError(TidegateError):
    """The lake's storage rejects writes (full, read-only). What was committed is unchanged."""

    transient = True
    exit_code = EX_TEMPFAIL


class WriteConflictError(TidegateError):
    """A concurrent commit conflicts with this one. Nothing was written; try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class SinkError(TidegateError):
    """A sink does not accept the changes of a table: it does not exist, or refuses them. They wait, and tables go on.

    Args:
        flow: The flow's name.
        sink: The name of the sink, for example ``kafka.alerts``.
        problem: What it does not accept, and what to do.
    """

    exit_code = EX_CONFIG

    def __init__(self, flow: str, sink: str, problem: str) -> None:
        super().__init__(
            f"flow {flow!r}: {sink} was not sent all changes: {problem}. The next run sends the same batch again."
        )
        self.flow = flow
        self.sink = sink


class SinkUnavailableError(SinkError):
    """A sink does not respond at the moment. The changes wait, and tables go on. Try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class LeaseHeldError(TidegateError):
    """Another driver, command or maintenance run holds the lease of this checkpoint or table.

    Args:
        resource: The leased resource, for example ``table silver.flights``.
        holder: Description of the process that holds the lease.
    """

    transient = True
    exit_code = EX_TEMPFAIL

    def __init__(self, resource: str, holder: str) -> None:
        super().__init__(f"{resource} is held by {holder}; wait until it ends, or stop it; then try again.")
        self.resource = resource
        self.holder = holder


class UnexpectedError(TidegateError):
    """An exception that is not a `TidegateError`. For a job, ``failure-<flow>.txt`` beside the run report has the traceback."""


class StoppedError(TidegateError):
    """A signal stopped the command.

    Args:
        number: Of the signal; the exit code is 128 + ``number``.
    """

    def __init__(self, number: int) -> None:
        super().__init__("stopped. Every commit is atomic: the next run finishes the pending batch.")
        self.exit_code = 128 + number  # type: ignore[misc]  # of this signal, not of the class
