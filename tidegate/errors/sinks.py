"""Sinks that do not accept changes."""

from __future__ import annotations

from tidegate.advice import Advice
from tidegate.errors.error import EX_CONFIG, EX_TEMPFAIL, TidegateError


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
