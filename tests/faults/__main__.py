"""Applies the faults of ``faults.toml`` one at a time, runs the tests of the patched module, and prints which test fails.

``python -m tests.faults`` runs the tests of `make test`; ``--nightly`` adds the nightly tier. Each fault is patched into the
tree itself, so that every process of a test has it, and reverted afterwards. A run takes one to two hours.
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
"""Time limit for the tests of one fault."""


@dataclass(frozen=True)
class Outcome:
    """The result of the tests with one fault."""

    fault: str
    file: str
    caught_by: str
    """The first failed test; empty when all passed."""
    why: str
    """The error line of the failure."""
    seconds: int


def try_fault(fault: Fault, root: Path, *, nightly: bool) -> Outcome:
    """Run the tests of one fault, up to the first failure."""
    python = root / ".venv" / "bin" / "python"
    command = [str(python if python.exists() else sys.executable), "-m", "pytest", "-x", "-q", "--tb=short"]
    command += [*([] if nightly else ["-m", "not nightly"]), *fault.tests_in(root)]
    started = time.monotonic()
    with fault.applied_in(root):
        try:
            process = subprocess.run(
                command,
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(root)},
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            output = process.stdout + process.stderr
            if process.returncode not in (0, 1):
                raise SystemExit(f"pytest exited with {process.returncode} for fault {fault.name!r}:\n{output[-3000:]}")
        except subprocess.TimeoutExpired as timeout:
            output = f"FAILED {timeout.cmd[-1]}\nE   the tests did not end within {LIMIT_SECONDS} s"
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
    """Try the faults; the exit code is the number of faults that no test detected."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to patch and test")
    parser.add_argument("--only", default="", help="only faults whose name or file contains this text")
    parser.add_argument("--part", default="1/1", help="k/n: only every n-th fault, starting with the k-th")
    parser.add_argument("--nightly", action="store_true", help="also run the tests of the nightly tier")
    parser.add_argument(
        "--results",
        type=Path,
        help="append each outcome to this file as a line of JSON; faults that it contains are skipped",
    )
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
            f"{number:2}/{len(faults)} {outcome.seconds:4} s  {fault.name}: {outcome.caught_by or 'NOT DETECTED'}",
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
