"""What an executor lacks is an error of its machine, with the text that Spark gives to it; no row is refused for it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import py4j
import pyspark
import pytest
from pyspark.sql import functions as F

from tests.spark.driver.pythons import of_another_version, without_packages
from tidegate.errors import MissingJavaError, SetupError
from tidegate.spark.driver import executors
from tidegate.spark.driver.failures import of_executors, translate, value_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

PROJECT = Path(__file__).parents[3]
REPORTS = """\
Executor added: app-1/0 on worker-1 (127.0.0.1:7078) with 1 core(s)
Executor updated: app-1/0 is now FAILED (Error running executor: java.io.IOException: Cannot run program "/opt/java/bin/java" \
(in directory "/opt/work/app-1/0"): error=2, No such file or directory)
Application has been killed. Reason: Master removed our application: FAILED
"""


def missing(folder: Path) -> Path:
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    ("python", "lacks"),
    [
        (of_another_version, f"has Python 3.99, and the driver has Python 3.{sys.version_info.minor}: "),
        (missing, "cannot run {folder}/bin/python"),
        (without_packages, "does not have the package of "),
    ],
)
def test_an_executor_that_lacks_something_is_named_with_what_it_lacks(
    spark: SparkSession, python: Callable[[Path], Path], lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(value: int) -> int:
        import msgspec

        return len(msgspec.__name__) + value

    # The executor of a local session, too, starts the Python that a function names.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python(tmp_path / "other")))
    for package in (pyspark, py4j):
        folder = Path(str(package.__file__)).parent
        (tmp_path / folder.name).symlink_to(folder)
    path = os.pathsep.join(map(str, (tmp_path, PROJECT)))
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", path)
    # As for the session of a cluster.
    monkeypatch.setattr(executors, "_followed", None)
    executors.follow()
    with pytest.raises(Exception, match=r".") as raised:
        spark.range(1).select(F.udf(use, "int")("id")).collect()
    assert value_error(raised.value) is None
    error = translate(raised.value, what="flow 'silver'", checkpoint="c")
    assert isinstance(error, SetupError)
    assert not error.transient
    executor = re.escape("flow 'silver': the executor on ") + r"[\w.]+ "
    assert re.match(executor + re.escape(lacks.format(folder=tmp_path / "other")), error.message), error.message


def test_whatever_fails_in_an_application_that_its_master_removed_is_explained_by_the_reports_of_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executors, "_followed", (REPORTS, ""))
    null = 'Cannot invoke "SparkEnv.driverTmpDir()" because the return value of "SparkEnv$.get()" is null'
    error = of_executors(ValueError(null), "the session")
    assert isinstance(error, MissingJavaError)
    assert "the session: the worker on 127.0.0.1 cannot run /opt/java/bin/java" in error.message


def test_the_log_says_which_executor_was_lost_and_not_what_its_output_quotes(spark: SparkSession) -> None:
    name = f"tests.{executors._SCHEDULERS[0]}"
    losses = executors._Kept.of((name,), "WARN", pattern=executors._FIRST_LINE, shown=False)
    losses.attach()
    assert spark._jvm is not None
    logger = spark._jvm.org.apache.logging.log4j.LogManager.getLogger(name)
    logger.info("Adding task set 7.0")
    logger.error(
        "Lost executor 1 on node-1: Container container_1_2 was killed. Exit status: 137.\nLast 4096 bytes of stderr: canary"
    )
    (line,) = str(losses).splitlines()
    assert line.endswith(
        "ERROR TaskSchedulerImpl: Lost executor 1 on node-1: Container container_1_2 was killed. Exit status: 137."
    )
