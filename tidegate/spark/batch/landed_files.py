"""Reads the landed files of a batch; a file on which the reading itself fails is found by halves and leaves the others as they are.

The reader reports what is wrong with a file as its problem. What ends a worker or raises in it fails Spark's whole job, and the
exception does not say which file it was: a decoder that crashes, an error in a library, memory that a damaged length asks for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidegate.advice import Command, Either
from tidegate.errors import MachineError, TidegateError, UnexpectedError
from tidegate.lake.file_id import FileId
from tidegate.spark.driver.failures import translate
from tidegate.spark.intake import landing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job
    from tidegate.spec import FileSource

RULE = "reader_failure"
"""The rule of a file on which the reading itself fails, while others can be read."""
READINGS = 200
"""The maximum number of readings in search of such files. One among a thousand needs ten to twenty."""
T = TypeVar("T")


def read(
    job: Job, spark: SparkSession, files: list[FileId], source: FileSource, batch: landing.BatchValues
) -> landing.FileBatch:
    """As `landing.read_files`; a file that fails the reading has the problem `RULE`.

    Raises:
        MachineError: The machine refuses to read, and a file is known with which it does; the advice has the command that skips it.
        TidegateError: The files cannot be read for another reason, or all of them fail.
    """

    def attempt(part: Sequence[FileId]) -> landing.FileBatch:
        return landing.read_files(spark, list(part), source, batch, job.persisted)

    def failure_of(part: Sequence[FileId]) -> TidegateError | None:
        try:
            attempt(part)
        except Exception as error:
            return translate(error, what="reading files", checkpoint=str(job.place.checkpoint))
        return None

    try:
        return attempt(files)
    except Exception as error:
        failure = translate(error, what=f"flow {job.flow.name!r}", checkpoint=str(job.place.checkpoint))
        machine = failure if isinstance(failure, MachineError) else None
        if machine is not None and machine.path in {file.path for file in files}:
            raise _with_skip(job, source, machine, machine.path) from error
        memory = machine if machine is not None and machine.error == "ENOMEM" else None
        # The control is a file that does not exist: if it cannot be read either, no file is the cause.
        if not (memory or isinstance(failure, UnexpectedError)) or failure_of([FileId("/nonexistent", 0)]) is not None:
            raise
        failing = isolate(files, lambda part: failure_of(part) is not None, READINGS)
        if memory and failing:
            # It says more about the machine than about the file, which is not judged by it.
            raise _with_skip(job, source, memory, failing[0].path) from error
        if not failing or (len(failing) == len(files) > 1):
            raise
    rest = attempt([file for file in files if file not in failing])
    problems = [landing.unread_file(job.place.layout.landing_root, file, RULE) for file in failing]
    return dataclasses.replace(rest, files=[*rest.files, *problems])


def isolate(items: Sequence[T], fails: Callable[[Sequence[T]], bool], most: int) -> list[T]:
    """The items, of some that fail together, that fail alone; empty if they are not known after ``most`` evaluations.

    If the left half of items that fail does not, the right half does and is not evaluated, down to a single item.
    """
    alone: list[T] = []
    evaluations, stack = 0, [(0, len(items))]
    while stack:
        start, end = stack.pop()
        if end - start == 1:
            alone.append(items[start])
            continue
        if evaluations + 2 > most:
            return []
        middle = (start + end) // 2
        left = fails(items[start:middle])
        right = not left or fails(items[middle:end])
        evaluations += 1 + left
        stack += [(middle, end)] if right else []
        stack += [(start, middle)] if left else []
    return alone


def _with_skip(job: Job, source: FileSource, failure: MachineError, path: str) -> MachineError:
    """The error of the machine about one file, with the command that skips it."""
    name = path.removeprefix(f"{job.place.layout.landing(source.path)}/")
    skip = Command.tidegate(
        *("flow", "skip", job.place.pipeline, job.flow.name, name, "--reason", "…"),
        says="if it stays so, send this file to quarantine unread: {}",
    )
    advice = skip if failure.advice is None else Either(failure.advice, skip)
    problem = failure.problem if path in failure.problem else f"{failure.problem} (file {path})"
    return type(failure)(problem, advice, path=path, operation="read", error=failure.error)
