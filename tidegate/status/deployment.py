"""Whether the parts that runs of this deployment need are there and answer, before the first run: ``tidegate doctor``.

Each part is checked as a run would use it: a key of the lake is created under a condition, updated with a stale one, and deleted; the
landing zones are listed; a declared topic is described. Nothing else is written, and no JVM is started.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Literal

from tidegate.advice import Command, Edit, OutsideAct
from tidegate.environment import Environment
from tidegate.environment.clusters import DEFAULT, Cluster
from tidegate.environment.settings import SETTINGS
from tidegate.errors import NotDeliveredError, SetupError, TidegateError, classify, extras
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.probes import kafka
from tidegate.project import resolution
from tidegate.requests import launch
from tidegate.runtime import archive, jars, java, job_environment, paths
from tidegate.schema import registry_schemas
from tidegate.spec import KafkaSink, KafkaSource, Pipeline
from tidegate.store import Store
from tidegate.store.location import BucketFolder, Location

_PREFIX = "TIDEGATE_"
_CLOCK_SECONDS = 30
"""A larger difference to the clock of the storage makes times of files and of batches contradict each other."""
_SECONDS = 5.0
_JOB_PACKAGES = ("pyspark", "delta-spark", "great-expectations")
"""Of the environment in which Spark jobs run."""


@dataclass(frozen=True, kw_only=True)
class CheckedPart:
    """One part of a deployment."""

    name: str
    state: Literal["ok", "failed", "unused"]
    detail: str
    """What the check observed, or what is wrong and what to do about it."""
    error: TidegateError | None = None


@dataclass(frozen=True)
class _Deployment:
    environment: Environment
    variables: Mapping[str, str]
    pipelines: tuple[Pipeline, ...]


def check(environment: Environment, variables: Mapping[str, str] | None = None) -> Iterator[CheckedPart]:
    """Check one part after the other; a part that fails does not hide the others.

    Args:
        environment: The deployment.
        variables: Its variables, by default those of the process.
    """
    resolved = resolution.load_all(environment.project).values()
    loaded = tuple(each.pipeline for each in resolved if not isinstance(each, TidegateError))
    broken = [each for each in resolved if isinstance(each, TidegateError)]
    deployment = _Deployment(environment, os.environ if variables is None else variables, loaded)
    yield _part("pipelines", lambda: _pipelines(loaded, broken))
    for name, function in _PARTS.items():
        yield _part(name, partial(function, deployment))


def _part(name: str, look: Callable[[], str | _Unused]) -> CheckedPart:
    try:
        detail = look()
    except Exception as raised:
        error = classify(raised)
        return CheckedPart(name=name, state="failed", detail=error.message, error=error)
    if isinstance(detail, _Unused):
        return CheckedPart(name=name, state="unused", detail=detail.why)
    return CheckedPart(name=name, state="ok", detail=detail)


@dataclass(frozen=True)
class _Unused:
    """Nothing needs a part."""

    why: str


def _pipelines(loaded: Iterable[Pipeline], broken: Iterable[TidegateError]) -> str:
    for error in broken:
        raise error
    names = [pipeline.name for pipeline in loaded]
    return f"{count(len(names), 'pipeline')}: {', '.join(names)}" if names else "no pipeline is declared yet"


def _settings(deployment: _Deployment) -> str:
    given = sorted(name for name in deployment.variables if name.startswith(_PREFIX))
    known = [setting.variable for setting in SETTINGS]
    for name in given:
        if not any(setting.names(name) for setting in SETTINGS):
            nearest = difflib.get_close_matches(name, known, 1, 0.4)
            says = f"rename it to {nearest[0]}, or unset it" if nearest else "unset it"
            raise SetupError(f"{name} is set, but no setting has this name", Edit(says, "setting"))
    environment = deployment.environment
    chosen = f"environment {environment.name}; " if environment.name else ""
    return chosen + (f"set: {', '.join(given)}" if given else "no variable is set")


def _packages(deployment: _Deployment) -> str:
    del deployment
    versions = {name: extras.installed_version(name) for name in ("tidegate", "deltalake", "duckdb")}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _jobs(deployment: _Deployment) -> str:
    job = job_environment.of(deployment.environment.job_python)
    absent = [name for name in _JOB_PACKAGES if name not in job.packages]
    if 0 < len(absent) < len(_JOB_PACKAGES):
        raise SetupError(
            f"{', '.join(absent)} is missing in {job.prefix} beside {', '.join(sorted({*_JOB_PACKAGES} - {*absent}))}",
            job.installing("tidegate[job]"),
        )
    submit = job.spark_submit
    versions = ", ".join(f"{name} {version}" for name, version in job.packages.items() if name in _JOB_PACKAGES)
    where = "this environment" if job.prefix == sys.prefix else job.prefix
    return f"{where}, Python {job.python_version}, {versions}, submits by {submit}"


def _airflow(deployment: _Deployment) -> str | _Unused:
    del deployment
    version = extras.installed_version("apache-airflow-core") or extras.installed_version("apache-airflow")
    if version is None:
        return _Unused("Airflow is not installed in this environment")
    extras.expect_range("apache-airflow", version, sys.prefix, (sys.executable, "-m", "pip", "install"))
    return f"Airflow {version}"


def _java(deployment: _Deployment) -> str:
    installed = java.find(deployment.variables, python=deployment.environment.job_python)
    return f"{installed.version} ({installed.executable})"


def _jars(deployment: _Deployment) -> str:
    project = deployment.environment.project
    wanted = jars.of_set(project, *launch.jar_sets(deployment.environment))
    if missing := jars.missing(wanted, verify=True):
        raise SetupError(
            f"{count(len(missing), 'jar')} of {len(wanted)} missing or damaged in {paths.cache_dir()}, such as {missing[0].file_name}",
            Command.tidegate("setup", says="run `{}`"),
        )
    with contextlib.suppress(SetupError):  # which are other parts: Java and the packages of jobs
        if archive.find(project, deployment.environment.job_python) is None:
            return f"all {len(wanted)} there; without a class data archive, jobs start in twice the time: `tidegate setup` makes one"
    return f"all {len(wanted)} there"


def _master(deployment: _Deployment) -> str:
    master = deployment.environment.master
    servers = re.findall(r"([\w.-]+|\[[\w:]+\]):(\d+)", master) if master.startswith("spark://") else []
    for host, port in servers:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
        except OSError as error:
            raise SetupError(
                f"the Spark master {host}:{port} does not answer: {error}",
                OutsideAct("start it, or correct TIDEGATE_MASTER"),
            ) from None
    answers = ", which answers" if servers else ""
    return f"{master}{answers}, driver with {deployment.environment.driver_memory}"


def _lake(deployment: _Deployment) -> str:
    environment = deployment.environment
    store = environment.store_of(environment.lake_at)
    store.check()
    Layout.of(environment).check()
    seconds = clock_difference(store)
    if abs(seconds) > _CLOCK_SECONDS:
        raise SetupError(
            f"the clock of {environment.lake_at} is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} that of this machine",
            OutsideAct("let both clocks be set by a time server"),
        )
    return f"{_described(environment, environment.lake_at)}, writable, its clock differs by {abs(seconds):.0f} s"


def clock_difference(store: Store) -> float:
    """By how many seconds the clock of the storage is ahead, at most by what a write takes wrong. Creates a key and deletes it."""
    key = f"_doctor-{secrets.token_hex(8)}"
    before = time.time()
    store.put_if(key, b"", None)
    try:
        after, written = time.time(), store.stat(key).modified_ns / 1e9
    finally:
        store.delete(key)
    # A store that keeps whole seconds cuts up to one.
    return min(0.0, written + 1 - before) + max(0.0, written - after)


def _landing(deployment: _Deployment) -> str:
    environment = deployment.environment
    entries = environment.store_of(environment.landing_at).list()
    return f"{_described(environment, environment.landing_at)}, {count(len(entries), 'folder or file', 'folders and files')}"


def _described(environment: Environment, location: Location) -> str:
    if not isinstance(location, BucketFolder):
        return str(location)
    store = environment.store_of(location)
    return f"{location} at {store.server.name} with credentials of the source {store.server.credentials.name!r}"  # type: ignore[attr-defined]


def _kafka(deployment: _Deployment) -> str | _Unused:
    used = sorted({each for pipeline in deployment.pipelines for each in _topics(pipeline)})
    if not used:
        return _Unused("no flow reads or writes a topic")
    return "; ".join(
        _topics_answer(deployment.environment.cluster(name), [topic for _, topic in topics])
        for name, topics in groupby(used, key=lambda each: each[0])
    )


def _topics_answer(cluster: Cluster, topics: list[str]) -> str:
    missing = []
    for topic in topics:
        try:
            kafka.topic_id(cluster, topic, _SECONDS)
        except NotDeliveredError:
            missing.append(topic)
    absent = f"; of them not created yet: {', '.join(missing)}" if missing else ""
    return f"{cluster} answers, {count(len(topics), 'topic')}: {', '.join(topics)}{absent}"


def _topics(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Cluster and name of each topic."""
    for flow in pipeline.flows:
        for end in (flow.source, flow.target):
            if isinstance(end, (KafkaSource, KafkaSink)):
                topics = end.topics if isinstance(end, KafkaSource) else (end.topic,)
                yield from ((end.cluster, each) for each in topics)


def _registry(deployment: _Deployment) -> str | _Unused:
    clusters = sorted({DEFAULT, *(cluster for each in deployment.pipelines for cluster, _ in _topics(each))})
    registries = dict.fromkeys(filter(None, map(deployment.environment.schema_registry, clusters)))
    if not registries:
        return _Unused("no schema registry is set")
    return "; ".join(f"{registry_schemas.check(each)} answers" for each in registries)


_PARTS: Mapping[str, Callable[[_Deployment], str | _Unused]] = {
    "settings": _settings,
    "Python packages": _packages,
    "environment of jobs": _jobs,
    "Airflow": _airflow,
    "Java": _java,
    "jars": _jars,
    "Spark master": _master,
    "lake": _lake,
    "landing zones": _landing,
    "Kafka": _kafka,
    "schema registry": _registry,
}
