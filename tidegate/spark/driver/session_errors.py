"""The error for a session that a cluster refused to start, or could not be asked for: Spark itself says only which call failed.

When a session starts, there is no data yet, so the text of Spark's exceptions quotes none.
"""

from __future__ import annotations

import re

from pyspark import SparkConf

from tidegate.advice import Advice, OutsideAct
from tidegate.errors import MachineUnavailableError, SetupError
from tidegate.spark.driver.failures import causes, of_executors

_WHAT = "the session"
_LONGEST = 300
"""Characters of a reason."""
_UNREACHABLE = re.compile(r"^java\.net\.(?:Connect|UnknownHost|SocketTimeout|NoRouteToHost|Socket)Exception\b")
_KUBERNETES = re.compile(
    r"Failure executing: (\w+) at: \S*?/namespaces/([^/\s]+)/(\w+)\S* Message: (.{1,1000}?)\.?(?: Received status|$)",
    re.DOTALL,
)
"""Method, namespace and resource of a request that the API server refused, and its answer."""
_GAVE_UP = "Spark context stopped while waiting for backend"
"""Spark has logged why, with the text of exceptions, which the driver's log does not have."""


def of_session(error: Exception) -> Exception:
    """The error for a session that did not start; any other exception than one of a cluster is returned as it is."""
    known = of_executors(error, _WHAT)
    texts = [str(cause.toString()) for cause in causes(error)]
    master = str(SparkConf().get("spark.master")) if texts else "local"
    if known is not error or master.startswith("local"):
        return known
    if any(_UNREACHABLE.search(text) for text in texts):
        return MachineUnavailableError(
            f"{_WHAT}: the cluster of the master {master} does not answer ({_line(texts[-1])})",
            OutsideAct("see whether it runs and whether spark.master names it, then run again"),
        )
    answer = texts[-1]
    if _GAVE_UP in answer:
        return SetupError(
            f"{_WHAT}: the cluster of the master {master} started no executor, and Spark gave up",
            OutsideAct(
                "see why in the events of the cluster (a right to create pods, a quota, an image), then run again"
            ),
        )
    if refused := next((match for text in texts if (match := _KUBERNETES.search(text))), None):
        answer = f"{refused[1]} of {refused[3]} in the namespace {refused[2]}: {refused[4]}"
    return SetupError(
        f"{_WHAT}: the cluster of the master {master} refuses the application: {_line(answer)}", _advice(answer)
    )


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _advice(answer: str) -> Advice:
    if "forbidden" in answer.lower():
        return OutsideAct(
            "give the account of the driver that right: deploy/helm/files/driver.yaml has all that it needs"
        )
    if "unauthorized" in answer.lower():
        return OutsideAct("renew the token of the driver's account (KUBECONFIG), then run again")
    return OutsideAct("correct what it names in the settings of the cluster, then run again")
