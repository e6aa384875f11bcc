"""A session that a cluster refuses, or that cannot reach one, is an error that names the cluster, with its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from tidegate.errors import MachineUnavailableError, SetupError, TidegateError
from tidegate.spark.driver import session_errors
from tidegate.spark.driver.session_errors import of_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

WATCH = (
    "Received 403 on websocket. Failure executing: GET at: https://k8s:6443/api/v1/namespaces/etl/pods?labelSelector=a%3Db&watch=true."
    " Message: Forbidden."
)
CREATE = (
    "Failure executing: POST at: https://k8s:6443/api/v1/namespaces/etl/pods. Message: pods is forbidden: User"
    ' "system:serviceaccount:etl:nobody" cannot create resource "pods" in API group "" in the namespace "etl". Received status:'
    " Status(apiVersion=v1, code=403)"
)
TOKEN = WATCH.replace("403", "401").replace("Forbidden", "Unauthorized")


@pytest.fixture
def raised(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Py4JJavaError]:
    """Makes the exception of a session on a cluster, of its Java exceptions: class and text, the outermost first."""
    monkeypatch.setattr(session_errors, "SparkConf", lambda: {"spark.master": "k8s://https://k8s:6443"})
    jvm: Any = spark._jvm

    def make(*texts: tuple[str, str]) -> Py4JJavaError:
        made = None
        for name, text in reversed(texts):
            cause, made = made, getattr(jvm.java, name)(text)
            if cause is not None:
                made.initCause(cause)
        with pytest.raises(Py4JJavaError) as error:
            jvm.java.util.concurrent.CompletableFuture.failedFuture(made).join()
        exception: Py4JJavaError = error.value
        return exception

    return make


@pytest.mark.parametrize(
    ("text", "answer", "advice"),
    [
        (WATCH, "GET of pods in the namespace etl: Forbidden", "driver.yaml"),
        (CREATE, 'POST of pods in the namespace etl: pods is forbidden: User "system:', "driver.yaml"),
        (TOKEN, "GET of pods in the namespace etl: Unauthorized", "renew the token"),
        ("User ada cannot submit to unknown queue: night", "unknown queue: night", "correct what it names"),
    ],
)
def test_a_refusal_has_what_the_cluster_said_and_what_to_do(
    raised: Callable[..., Py4JJavaError], text: str, answer: str, advice: str
) -> None:
    error = of_session(raised(("lang.IllegalStateException", text)))
    assert isinstance(error, SetupError) and not error.transient
    assert "the cluster of the master k8s://https://k8s:6443 refuses the application: " in error.message
    assert answer in error.message and advice in str(error)


def test_spark_that_gave_up_is_a_refusal_without_a_reason(raised: Callable[..., Py4JJavaError]) -> None:
    error = of_session(raised(("lang.IllegalStateException", "Spark context stopped while waiting for backend")))
    assert isinstance(error, SetupError)
    assert "started no executor, and Spark gave up" in error.message and "events of the cluster" in str(error)


def test_a_cluster_that_does_not_answer_is_asked_again(raised: Callable[..., Py4JJavaError]) -> None:
    refused = ("net.ConnectException", "Connection refused")
    error = of_session(raised(("lang.RuntimeException", "An error has occurred."), ("io.IOException", "a"), refused))
    assert isinstance(error, MachineUnavailableError) and error.transient
    assert "k8s://https://k8s:6443 does not answer (java.net.ConnectException: Connection refused)" in error.message


def test_another_exception_and_one_of_this_machine_stay(
    raised: Callable[..., Py4JJavaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ValueError("no master")
    assert of_session(other) is other
    known = TidegateError("known")
    assert of_session(known) is known
    error = raised(("lang.IllegalStateException", WATCH))
    monkeypatch.setattr(session_errors, "SparkConf", lambda: {"spark.master": "local[2]"})
    assert of_session(error) is error
