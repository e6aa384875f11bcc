"""The root of the error tree, the exit codes of errors, and the two errors that belong to no area.

Commands, the job and Airflow's tasks have one table of exit codes (those above 63 are of ``sysexits.h``).
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tidegate.advice import Advice, Edit, Either, OutsideAct, with_advice

EX_USAGE = os.EX_USAGE
EX_DATAERR = os.EX_DATAERR
EX_SOFTWARE = os.EX_SOFTWARE
EX_TEMPFAIL = os.EX_TEMPFAIL
EX_CONFIG = os.EX_CONFIG
EX_DIFFERS = 3
"""A verification found a difference. No code of ``sysexits.h``, which begin at 64."""
EX_BROKEN_PIPE = 1
"""The same code as Typer's for a closed pipe."""


@dataclass(frozen=True)
class ExitCode:
    """An exit code, when a process ends with it, and what to do then."""

    number: int
    meaning: str
    next_step: Advice | None = None


EXIT_CODES = (
    ExitCode(0, "success, or nothing to do"),
    ExitCode(EX_BROKEN_PIPE, "the reader of the output closed the pipe (`| head`)"),
    ExitCode(
        EX_DIFFERS,
        "`tidegate verify` or `tidegate diff` found a difference",
        OutsideAct(
            "a message of verify names the command that derives the rows again; of diff, judge the rows that it names"
        ),
    ),
    ExitCode(
        EX_USAGE,
        "wrong usage: an unknown pipeline, flow or option",
        Edit("correct the command; `--help` lists the options", "request"),
    ),
    ExitCode(
        EX_DATAERR,
        "a gate, a contract or a transform that raises refused a batch, a rewrite would delete or quarantine too many rows, or a "
        "source no longer has the data that comes next, or that a recovery reads again; the target is unchanged",
        OutsideAct("correct what the message names, or accept it with the command of the message"),
    ),
    ExitCode(
        EX_SOFTWARE,
        "a job crashed without a report, rows have no disposition, or a bug in Tidegate",
        OutsideAct(
            "run again: nothing is written twice; if it comes back, report it with the file that the message names"
        ),
    ),
    ExitCode(
        EX_TEMPFAIL,
        "transient: a source is unreachable, a lease is held, a disk is full, memory or open files ran out, or storage does not answer",
        OutsideAct("remove the cause that the message names, and run again; Airflow tries again by itself"),
    ),
    ExitCode(
        EX_CONFIG,
        "a person must correct a declaration, a suite, a checkpoint, a source, a permission or this machine",
        OutsideAct("correct what the message names, then run again"),
    ),
    *(
        ExitCode(
            128 + number,
            f"stopped by {number.name}{keys}",
            OutsideAct("run again: the next run finishes the pending batch"),
        )
        for number, keys in (
            (signal.SIGHUP, ""),
            (signal.SIGINT, " (Ctrl-C)"),
            (signal.SIGTERM, ", or cancelled on a cluster"),
        )
    ),
)
"""Of commands, of the job and of Airflow's tasks."""

_KILLED = (
    "SIGKILL, possibly by the kernel because memory ran out",
    Either(
        OutsideAct("free memory"), Edit("lower driver_memory of the pipeline, or TIDEGATE_DRIVER_MEMORY", "setting")
    ),
)
JVM_EXIT_CODES = (
    ExitCode(50, "an exception in a thread of Spark that nothing caught", OutsideAct("see the job's log")),
    ExitCode(
        52, "Spark was out of memory", Edit("raise driver_memory of the pipeline, or TIDEGATE_DRIVER_MEMORY", "setting")
    ),
    ExitCode(
        53,
        "Spark could not create its temporary folder",
        OutsideAct("free space in SPARK_LOCAL_DIRS (or /tmp), or give the job's user permission to write there"),
    ),
    ExitCode(
        56,
        "the process stood still, because it or its machine was suspended, or had no CPU time, for longer than Spark waits for its own "
        "heartbeat",
        OutsideAct("run again: a rerun continues where it ended, and writes nothing twice"),
    ),
    ExitCode(137, *_KILLED),
    ExitCode(-9, *_KILLED),
)
"""With which a JVM ends by itself (`SparkExitCode` and `ExecutorExitCode` of Spark, and signals); a command then ends with 70."""


def of_tidegate(number: int) -> ExitCode | None:
    """What an exit code of a command or of the job means; None for a code that neither has."""
    return next((each for each in EXIT_CODES if each.number == number), None)


def of_jvm(number: int) -> ExitCode | None:
    """What an exit code of a JVM that ended by itself means; None for any other code."""
    return next((each for each in JVM_EXIT_CODES if each.number == number), None)


class TidegateError(Exception):
    """The base class of all errors. Terminal unless a subclass sets ``transient``.

    Args:
        problem: What is wrong, in one sentence: without a full stop if the advice is to follow as a clause.
        advice: What to do about it.
    """

    transient: ClassVar[bool] = False
    exit_code: ClassVar[int] = EX_SOFTWARE

    def __init__(self, problem: str, advice: Advice | None = None) -> None:
        self.say(problem, advice)
        super().__init__(self.message)

    def say(self, problem: str, advice: Advice | None) -> None:
        """Set the message."""
        self.problem = problem
        self.advice = advice
        self.message = with_advice(problem, advice)
        self.args = (self.message,)

    def naming(self, flow: str) -> Self:
        """The error, with the name of its flow in front unless its message has it."""
        if repr(flow) not in self.problem:
            self.say(f"flow {flow!r}: {self.problem}", self.advice)
        return self

    def attributes(self) -> dict[str, Any]:
        """The public attributes of the error, without those that make its message."""
        made = ("message", "problem", "advice")
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name not in made}


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
