"""Makes the faults of ``faults.toml`` one by one, runs the tests that look at each, and says which test notices it.

``python -m tests.faults`` tries what `make test` runs; ``--nightly`` adds the nightly tier. Each fault is patched into the
tree itself, so that every process which a test starts has it, and taken out again. One run takes an hour or two.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.fault import Fault, load

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 1800
"""For the tests of one fault."""


@dataclass(frozen=True)
class Outcome:
    """What the tests said of one fault."""

    fault: str
    file: str
    caught_by: str
    """The first test that failed; empty when none did."""
    why: str
    """The line of the failure that says what was wrong."""
    seconds: int


def try_fault(fault: Fault, root: Path, *, nightly: bool) -> Outcome:
    """Run the tests of one fault, up to the first that fails."""
    python = root / ".venv" / "bin" / "python"
    command = [str(python if python.exists() else sys.executable), "-m", "pytest", "-x", "-q", "--tb=short"]
    command += [*([] if nightly else ["-m", "not nightly"]), *fault.tests_in(root)]
    started = time.monotonic()
    with fault.made_in(root):
        try:
            run = subprocess.run(
                command,
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(root)},
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            output = run.stdout + run.stderr
            if run.returncode not in (0, 1):
                raise SystemExit(f"pytest ended with {run.returncode} for fault {fault.name!r}:\n{output[-3000:]}")
        except subprocess.TimeoutExpired as stopped:
            output = f"FAILED {stopped.cmd[-1]}\nE   the tests did not end within {LIMIT_SECONDS} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    reasons: list[str] = re.findall(r"^E\s+(.+)$", output, re.MULTILINE)
    return Outcome(
        fault=fault.name,
        file=fault.file,
        caught_by=failed[1] if failed else "",
        why=reasons[0][:200] if reasons and failed else "",
        seconds=round(time.monotonic() - started),
    )


def main() -> int:
    """Try the faults; the exit code is the number of those that no test noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree whose product and tests are tried")
    parser.add_argument("--only", default="", help="only faults whose name or file holds this text")
    parser.add_argument("--part", default="1/1", help="k/n: only every n-th fault, from the k-th on")
    parser.add_argument("--nightly", action="store_true", help="run the tests of the nightly tier too")
    parser.add_argument("--results", type=Path, help="a file to which each outcome is appended as a line of JSON")
    arguments = parser.parse_args()
    first, step = map(int, arguments.part.split("/"))
    faults = [fault for fault in load() if arguments.only in f"{fault.name} {fault.file}"][first - 1 :: step]
    done = {json.loads(line)["fault"] for line in _lines(arguments.results)}
    missed = 0
    for number, fault in enumerate(faults, start=1):
        if fault.name in done:
            continue
        outcome = try_fault(fault, arguments.root, nightly=arguments.nightly)
        missed += not outcome.caught_by
        print(
            f"{number:2}/{len(faults)} {outcome.seconds:4} s  {fault.name}: {outcome.caught_by or 'NOT NOTICED'}",
            flush=True,
        )
        if arguments.results:
            with arguments.results.open("a", encoding="utf-8") as results:
                results.write(json.dumps(asdict(outcome)) + "\n")
    return missed


def _lines(path: Path | None) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
