"""How a task fails: with its error message as the last lines of its log, and without a traceback.

Airflow logs every exception of a task with its traceback, which surrounds the message. Only of a SystemExit it logs nothing but
the exit code; whether it retries then is up to the task's retry policy (`tidegate.airflow.retry`). Before Airflow 3.3, which has none, an
error that a retry would not end has a traceback behind its message. An exception that is
neither a `TidegateError` nor an error of the machine is a bug and keeps its traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidegate.airflow import compat
from tidegate.errors import EX_SOFTWARE, UnexpectedError, classify

T = TypeVar("T")
P = ParamSpec("P")
CLEARING_HINT = 'Clear this task without the option "Only Failed"; that clears `run` too.'
"""The next step after the failure of a task that shows what `run` did."""


class TaskFailure(SystemExit):
    """Fails a task with a message. An `execute` with `plain_failures` logs it.

    Args:
        message: What failed and what to do next, one line for each of them; also the text of the exception in callbacks.
        retry: Whether the task's own retries apply; otherwise the task fails at once.
        exit_code: Of the error, as in ``tidegate run``; Airflow logs it.
    """

    def __init__(self, message: str, *, retry: bool = False, exit_code: int = EX_SOFTWARE) -> None:
        super().__init__(message)
        self.message = message
        self.retry = retry
        self.code = exit_code


def plain_failures(execute: Callable[Concatenate[Any, Any, P], T]) -> Callable[Concatenate[Any, Any, P], T]:
    """Decorates ``execute`` of an operator, and the method by which it goes on after a trigger.

    A `TidegateError`, or an error of the machine, fails the task as a `TaskFailure` does.
    """

    @functools.wraps(execute)
    def decorated(task: Any, context: Any, *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return execute(task, context, *arguments, **named)
        except TaskFailure as raised:
            failure = raised
        except Exception as raised:
            error = classify(raised)
            if isinstance(error, UnexpectedError) and error is not raised:
                raise
            failure = TaskFailure(error.message, retry=error.transient, exit_code=error.exit_code)
        for line in failure.message.splitlines():
            task.log.error("%s", line)
        if compat.ends(task, failure, context):
            raise compat.AirflowFailException(failure.message) from None
        raise failure

    decorated.plain_failures = True  # type: ignore[attr-defined]  # a test looks for it in every operator
    # Airflow gives the context by its name.
    return decorated  # type: ignore[return-value]
