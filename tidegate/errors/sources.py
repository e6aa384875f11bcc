"""Sources that do not match their declaration, lack data that is to be read, or do not respond, and sinks that do not accept changes."""

from __future__ import annotations

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then, new_version
from tidegate.errors.error import EX_CONFIG, EX_DATAERR, EX_TEMPFAIL, TidegateError


class SourceError(TidegateError):
    """A source does not match its declaration: the folder or topic does not exist, or a file cannot be read."""

    exit_code = EX_CONFIG


class NotDeliveredError(SourceError):
    """The folder or the topic of a source does not exist. For a flow that has read nothing yet, nothing was delivered yet.

    Args:
        what: The folder or the topic, with its name.
        correct: What a person corrects if it should exist: the words after "correct".
    """

    def __init__(self, what: str, correct: str) -> None:
        super().__init__(
            f"{what} does not exist", Either(OutsideAct("create it"), Edit(f"correct {correct}", "declaration"))
        )
        self.what = what


class MovedLandingFolderError(SourceError):
    """The landing folder is at another path than the files that the flow has read. All of its files would be read again.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        before: The folder of the files that the flow has read.
        now: The landing folder now.
    """

    def __init__(self, pipeline: str, flow: str, *, before: str, now: str) -> None:
        super().__init__(
            f"flow {flow!r} has read files below {before}, and its landing folder is {now}: all files there would be read again.",
            Either(
                Command.tidegate(
                    *("landing", "moved", pipeline, flow, "--accept", "--reason", "…"),
                    says="if the files were moved or copied, record it: {}; then only files that were not read yet are read "
                    "(without --accept it shows which)",
                ),
                Edit("set TIDEGATE_LANDING back to where the files were", "setting"),
            ),
        )
        self.before = before


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
            "written.",
            new_version(version, "set {} in the declaration: the table is derived again from the present rows"),
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
        prefix: What is before each partition in the command: the topic, if the flow reads several.
    """

    def __init__(
        self, pipeline: str, flow: str, topic: str, lost: dict[int, tuple[int, int]], *, prefix: str = ""
    ) -> None:
        offsets = " ".join(f"{prefix}{partition}:{first}-{last}" for partition, (first, last) in sorted(lost.items()))
        super().__init__(
            f"topic {topic} has lost messages that flow {flow!r} reads next: offsets {offsets} (partition:first-last) were "
            "deleted at the broker before they were read.",
            Then(
                OutsideAct("have the producer send them again"),
                Command.tidegate(
                    *("flow", "accept-gap", pipeline, flow, *offsets.split(), "--reason", "…"),
                    says="accept the gap: {}; the flow then reads on after it",
                ),
            ),
        )
        self.topic = topic
        self.lost = {str(partition): list(bounds) for partition, bounds in sorted(lost.items())}


class TopicReplacedError(SourceError):
    """The topic was deleted and created again: its offsets restart and identify other messages.

    Args:
        flow: The flow's name.
        version: The checkpoint version that reads the old topic.
        topic: The topic's name.
        cluster: Its cluster.
        expected: Kafka's id of the topic that the checkpoint reads.
        actual: The id of the topic that exists now.
    """

    def __init__(self, flow: str, version: int, topic: str, *, cluster: object, expected: str, actual: str) -> None:
        super().__init__(
            f"topic {topic} of {cluster} was deleted and created again: checkpoint v{version} of flow {flow!r} reads the topic with id "
            f"{expected}, the broker has one with id {actual}. Messages of the old topic that were not read are lost.",
            Then(
                new_version(
                    version,
                    "set {} in the declaration: the new topic is read from its start, and rows from the old one stay in the table",
                ),
                OutsideAct("have the producer send the lost messages again"),
            ),
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
        cluster: The cluster of the settings.
        expected: The id of the cluster that the checkpoint reads.
        actual: The id of the cluster that responds.
    """

    def __init__(self, flow: str, version: int, topic: str, *, cluster: object, expected: str, actual: str) -> None:
        super().__init__(
            f"another Kafka cluster responds at {cluster}: checkpoint v{version} of flow {flow!r} reads topic {topic} of cluster "
            f"{expected}, this is cluster {actual}.",
            Either(
                Edit("set TIDEGATE_KAFKA, or the servers of a named cluster, to the brokers of the first", "setting"),
                new_version(
                    version,
                    "if the topic has moved for good, set {} in the declaration: the topic of the new cluster is read from its start",
                ),
            ),
        )
        self.topic = topic
        self.expected = expected
        self.actual = actual


class SourceUnavailableError(SourceError):
    """A source does not respond at the moment. Try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class SinkError(TidegateError):
    """A sink does not accept the changes of a table: it does not exist, or refuses them. They wait, and tables go on.

    Args:
        flow: The flow's name.
        sink: The name of the sink, for example ``kafka.alerts``.
        problem: What it does not accept.
        advice: What to do about it.
    """

    exit_code = EX_CONFIG

    def __init__(self, flow: str, sink: str, problem: str, advice: Advice | None = None) -> None:
        super().__init__(
            f"flow {flow!r}: {sink} was not sent all changes: {problem}. The next run sends the same batch again.",
            advice,
        )
        self.flow = flow
        self.sink = sink


class SinkUnavailableError(SinkError):
    """A sink does not respond at the moment. The changes wait, and tables go on. Try again."""

    transient = True
    exit_code = EX_TEMPFAIL
