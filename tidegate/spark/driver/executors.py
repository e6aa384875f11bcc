"""What executors of a cluster lack, and the end of an application by its master: errors of a machine, whatever row a task evaluated.

Spark's text of an exception of Python does not name the machine, and of an executor that could not be started no task says anything. So of
what Spark logs, the driver keeps which tasks were lost on which machine, without the exceptions, and what a standalone master reports of
executors; the reports are in its log, too. The log of a driver on any cluster has which executors were lost, and why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import MachineUnavailableError, MissingJavaError, SetupError, TidegateError
from tidegate.spark.driver import executor_wait

_TASKS = "org.apache.spark.scheduler.TaskSetManager"
_BEGINNING = 200
"""So many characters of a log line are kept: the exception of a task, which quotes data, comes behind its machine."""
_LOGGERS = (
    "org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)
"""They log what a standalone master reports of executors, with no text of a task."""
_SCHEDULERS = (
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.scheduler.cluster.YarnScheduler",
    "org.apache.spark.HeartbeatReceiver",
)
"""They log which executors were lost, when nothing takes a task, and which executors are not heard of; YARN has a scheduler of its own."""
_FIRST_LINE = r"%d{yy/MM/dd HH:mm:ss} %p %c{1}: %replace{%m}{(?s)\n.*}{}%n"
"""The other lines of what YARN says of a container are the end of its output, which may quote data."""
_STOPPED = re.compile(
    r"Master removed our application|stopped SparkContext|SparkContext was shut down|cluster scheduler:"
)
_CANCELLED = re.compile(r"Job \d+ cancelled")
_ADDED = re.compile(r"Executor added: (\S+) on \S+ \(([^)\s]+):\d+\)")
_ENDED = re.compile(r"Executor updated: (\S+) is now (?:FAILED|EXITED) \(([^\n]*)\)")
_NO_MASTER = "All masters are unresponsive"
_REMOVED = "Master removed our application"
"""After ten executors that ended while none worked (``spark.deploy.maxExecutorRetries``)."""
_LOST = re.compile(r"\bLost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor \S+\)")
_VERSIONS = re.compile(r"Python in worker has different version: (\d+\.\d+) than that in driver: (\d+\.\d+)")
_PROGRAM = re.compile(r'Cannot run program "([^"\n]{1,500})"[^\n]*No such file or directory')
_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([\w.]{1,200})'", re.MULTILINE)
_PACKAGE = re.compile(r"\b([\w.]{1,100} >= [\d.]{1,20}) must be installed")

_PYTHON = Edit("set spark.executor_python (TIDEGATE_EXECUTOR_PYTHON) to a Python that it has", "setting")


@dataclass(frozen=True)
class _Kept:
    """What some loggers of the JVM log."""

    loggers: Sequence[str]
    level: str
    """From which on."""
    shown: bool
    """Whether the driver's log has the lines, too."""
    writer: Any
    appender: Any

    @classmethod
    def of(cls, loggers: Sequence[str], level: str, *, pattern: str, shown: bool, writer: Any = None) -> _Kept:
        names: Any = SparkContext._jvm
        core, writer = names.org.apache.logging.log4j.core, writer or names.java.io.StringWriter()
        # Without the text of exceptions, which quotes data.
        layout = core.layout.PatternLayout.newBuilder().withPattern(pattern).withAlwaysWriteExceptions(False).build()
        builder = core.appender.WriterAppender.newBuilder().setTarget(writer).setLayout(layout)
        # Log4j ignores a second appender of one name.
        appender = builder.setName(f"tidegate-{writer.hashCode()}").build()
        appender.start()
        return cls(loggers, level, shown, writer, appender)

    def attach(self) -> None:
        log4j = SparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # the JVM is there
        for each in self.loggers:
            log4j.core.config.Configurator.setLevel(each, log4j.Level.toLevel(self.level))
            logger = log4j.LogManager.getLogger(each)
            logger.addAppender(self.appender)
            logger.setAdditive(self.shown)

    def __str__(self) -> str:
        return str(self.writer.toString())


_followed: tuple[_Kept, _Kept] | None = None
"""What the master has reported in this application, and the lost tasks."""
_losses: _Kept | None = None
"""What the log says of lost executors."""


def follow() -> None:
    """Keep what is lost, and why, from now on. The JVM must be there; after Spark has configured its logging, call it again."""
    global _followed, _losses
    if _followed is None:
        _followed = (
            _Kept.of(_LOGGERS, "INFO", pattern="%m%n", shown=True),
            _Kept.of((_TASKS,), "WARN", pattern=f"%.-{_BEGINNING}m%n", shown=False),
        )
    if _losses is None:
        java: Any = SparkContext._jvm.java  # type: ignore[union-attr]  # the JVM is there
        output = java.io.PrintWriter(java.lang.System.err, True)
        _losses = _Kept.of(_SCHEDULERS, "WARN", pattern=_FIRST_LINE, shown=False, writer=output)
    for each in (*_followed, _losses):
        each.attach()


def lacking(text: str, what: str) -> TidegateError | None:
    """The error for what an executor of a cluster lacks; None for any other failure.

    Args:
        text: Spark's, with that of all causes.
        what: Names the work in the message, for example ``flow 'silver'``.
    """
    if _followed is None:
        return None
    if _CANCELLED.search(text) and (error := executor_wait.cancelled(what)) is not None:
        return error
    reports, tasks = _followed
    # Of an application that was removed while its session began, Spark says only that something is null.
    if _STOPPED.search(text) or _REMOVED in str(reports):
        return _end_of_application(str(reports), what)
    versions, program = _VERSIONS.search(text), _PROGRAM.search(text)
    package = _MODULE.search(text) or _PACKAGE.search(text)
    lost = _LOST.findall(str(tasks)) if versions or program or package else ()
    if not lost:
        # The driver raised it.
        return None
    executor = f"{what}: the executor on {lost[-1]}"
    if versions:
        return SetupError(
            f"{executor} has Python {versions[1]}, and the driver has Python {versions[2]}: Spark needs the same minor version",
            Either(OutsideAct(f"install Python {versions[2]} there"), _PYTHON),
        )
    if program:
        return SetupError(f"{executor} cannot run {program[1]}", Either(OutsideAct("install it there"), _PYTHON))
    assert package is not None
    return SetupError(
        f"{executor} does not have the package of {package[1]}",
        Either(OutsideAct("install it in the environment of the executors"), _PYTHON),
    )


def _end_of_application(reports: str, what: str) -> TidegateError | None:
    """The error for an application that the cluster has ended, by the reports of its master."""
    if _NO_MASTER in reports:
        return MachineUnavailableError(f"{what}: the master of the cluster does not answer", OutsideAct("run again"))
    ended = _ENDED.findall(reports)
    if _REMOVED not in reports or not ended:
        return None
    executor, reason = ended[-1]
    node = dict(_ADDED.findall(reports)).get(executor, "a machine of the cluster")
    if program := _PROGRAM.search(reason):
        return MissingJavaError(
            f"{what}: the worker on {node} cannot run {program[1]}, so that no executor starts",
            OutsideAct("install Java there, and start the worker again"),
        )
    return SetupError(
        f"{what}: executors end as soon as they start; the last one, on {node}: {reason[:200]}",
        OutsideAct("look into its log in the work folder of the worker"),
    )
