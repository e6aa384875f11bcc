"""A driver that runs the pipeline `acts` again and again in one JVM, while system calls of Python and Java are refused.

It answers requests, one JSON object a line (``refuse``: call, kind of file and error, or null), each with one line: a file lands, the job
runs as ``tidegate run`` starts it, and the tables are compared with `tests.acts.oracle`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.acts import project
from tests.acts.lake import Lake, Prepared, land
from tests.acts.oracle import World
from tests.deployment import Deployment
from tests.refused_calls import Call, RefusedCalls
from tidegate.cli.run import print_report
from tidegate.lake.place import AttemptPlace
from tidegate.processes import exit_now
from tidegate.reports import run_result
from tidegate.reports.report import RunReport
from tidegate.requests import launch
from tidegate.requests.request import fresh_id
from tidegate.spark import run_pipeline
from tidegate.spark.driver.session import build_session
from tidegate.store import Address
from tidegate.testing.session import SMALL_DATA_CONF

PROJECT = Path(__file__).parents[2]


def main() -> None:
    root, library, control = map(Path, sys.argv[1:])
    calls = RefusedCalls(library, control, root)
    answers = os.fdopen(os.dup(1), "w")
    deployment = Deployment.make(root, PROJECT)
    _write_output_to(root.parent / "driver.log")
    _start_session(deployment, root)
    with project.loaded(root / "code") as job:
        served = _Served(deployment, calls, Prepared(deployment, job.SENT, root / "copies"))
        for line in sys.stdin:
            print(json.dumps(served.answer(**json.loads(line))), file=answers, flush=True)


def _start_session(deployment: Deployment, root: Path) -> None:
    """A session whose local files are below the root as well."""
    (root / "local").mkdir()
    environment = dataclasses.replace(deployment.environment, project=PROJECT)
    conf = launch.submit_conf(environment, small=True) | SMALL_DATA_CONF | {"spark.local.dir": str(root / "local")}
    conf["spark.driver.extraJavaOptions"] += f" -Djava.io.tmpdir={root / 'local'}"
    build_session(environment, "tidegate refused calls", conf)


def _write_output_to(path: Path) -> None:
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)


@dataclasses.dataclass
class _Served:
    deployment: Deployment
    calls: RefusedCalls
    prepared: Prepared
    world: World = dataclasses.field(default_factory=World)
    landed: int = 0

    def answer(self, *, refuse: tuple[str, str, str] | None, flows: list[str]) -> dict[str, Any]:
        """Land a file and run; exit code and output of the run, how many calls were refused, and the flows whose tables are wrong."""
        land(self.deployment, self.world, self.landed)
        self.landed += 1
        self.world.run(flows)
        log = self.calls.control.with_name("run.log")
        _write_output_to(log)
        code = self._run(flows, refuse, log)
        sys.stdout.flush()
        sys.stderr.flush()
        lake = Lake(self.prepared, 0)
        expected = self.world.contents()
        return {
            "code": code,
            "out": log.read_text("utf-8"),
            "refused": self.calls.refused(),
            "calls": [dataclasses.astuple(call) for call in self.calls.calls()],
            "wrong": [flow for flow in flows if lake.contents(flow) != expected[flow]],
        }

    def _run(self, flows: list[str], refuse: tuple[str, str, str] | None, log: Path) -> int:
        request, attempt, layout = self.deployment.request("acts", flows), fresh_id("a"), self.deployment.layout
        arguments = launch.arguments(request, request.write(layout), attempt)
        os.environ.update(self.deployment.environment.variables())
        self.calls.allow()
        with self.calls.refuse(Call(*refuse[:2]), refuse[2]) if refuse else contextlib.nullcontext():
            returned = run_pipeline.main(arguments)
        report = RunReport.read(AttemptPlace(layout, request.dag_id, request.run_key, attempt).report)
        print_report(report, returned, Address.local(log))
        return run_result.exit_code(report, returned, Address.local(log))


if __name__ == "__main__":
    main()
    exit_now(0)
