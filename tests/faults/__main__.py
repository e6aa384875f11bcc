"""Applies the faults of ``faults.toml`` one at a time, runs the tests of the patched module, and prints which test fails.

``python -m tests.faults`` runs the tests of `make test`; ``--nightly`` adds the nightly tier. Each fault is patched into the
tree itself, so that every process of a test has it, and reverted afterwards. The test that detected a fault last time
(``outcomes.jsonl``) runs first, so a run takes about an hour. ``--record`` replaces the outcomes and the table in README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.faults.fault import OUTCOMES, Fault, Outcome, load, outcomes

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 1800
"""Time limit for the tests of one fault."""
_TEMPORARY = re.compile(r"/\S*?/?pytest-of-[^/\s]+/pytest-\d+")
"""Folders of this machine in the text of an error."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
HEAD = """# Faults and the tests that detect them

`python -m tests.faults --record` writes this table: each fault of [faults.toml](faults.toml), and the first test of
`make test` that fails with it. CONTRIBUTING.md, "Faults", says how to add one.

| fault | module | detected by |
|---|---|---|
"""


def try_fault(fault: Fault, root: Path, *, nightly: bool, first: str = "") -> Outcome:
    """Run the tests of one fault, up to the first failure.

    Args:
        first: The test to run before all others.
    """
    started = time.monotonic()
    with fault.applied_in(root):
        # A single test is collected in a moment, a folder is not.
        output = _run([first], root, fault.name, nightly=nightly) if (root / first.partition("::")[0]).is_file() else ""
        if not _FAILED.search(output):
            output = _run(fault.tests_in(root), root, fault.name, nightly=nightly)
    failed = _FAILED.search(output)
    reasons: list[str] = re.findall(r"^E\s+(.+)$", output, re.MULTILINE)
    return Outcome(
        fault=fault.name,
        file=fault.file,
        caught_by=failed[1] if failed else "",
        why=_TEMPORARY.sub("<tmp>", reasons[0])[:200] if reasons and failed else "",
        seconds=round(time.monotonic() - started),
    )


def _run(tests: list[str], root: Path, fault: str, *, nightly: bool) -> str:
    """The output of pytest, up to the first failure."""
    python = root / ".venv" / "bin" / "python"
    command = [str(python if python.exists() else sys.executable), "-m", "pytest", "-x", "-q", "--tb=short"]
    # Else pytest runs a folder alone, and not one of its files first.
    command.append("--keep-duplicates")
    command += [*([] if nightly else ["-m", "not nightly"]), *tests]
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
    except subprocess.TimeoutExpired:
        return f"FAILED {tests[-1]}\nE   the tests did not end within {LIMIT_SECONDS} s"
    output = process.stdout + process.stderr
    if process.returncode not in (0, 1):
        raise SystemExit(f"pytest exited with {process.returncode} for fault {fault!r}:\n{output[-3000:]}")
    return output


def table(recorded: list[Outcome]) -> str:
    """The table of all faults, in Markdown."""
    detected = {outcome.fault: _test(outcome) for outcome in recorded}
    rows = (
        f"| {fault.name} | `{fault.file.removeprefix('tidegate/')}` | {detected.get(fault.name, 'not tried yet')} |\n"
        for fault in load()
    )
    return HEAD + "".join(rows)


def _test(outcome: Outcome) -> str:
    """The name of the test without its parameters, which may contain ``|``."""
    return f"`{outcome.caught_by.removeprefix('tests/').partition('[')[0]}`" if outcome.caught_by else "no test"


def main() -> int:
    """Try the faults; the exit code is the number of faults that no test detected, or that have no outcome."""
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
    parser.add_argument(
        "--record", action="store_true", help="record the outcomes of --results in tests/faults; try nothing"
    )
    arguments = parser.parse_args()
    # `timeout` reverts the fault, too, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    first, step = map(int, arguments.part.split("/"))
    faults = [fault for fault in load() if arguments.only in f"{fault.name} {fault.file}"][first - 1 :: step]
    done = {outcome.fault for outcome in outcomes(arguments.results)}
    if arguments.record:
        return _record(outcomes(arguments.results))
    detected = {outcome.fault: outcome.caught_by for outcome in outcomes(OUTCOMES)}
    missed = 0
    for number, fault in enumerate(faults, start=1):
        if fault.name in done:
            continue
        known = detected.get(fault.name, "").partition("[")[0]  # its parameters may have changed
        outcome = try_fault(fault, arguments.root, nightly=arguments.nightly, first=known)
        missed += not outcome.caught_by
        print(
            f"{number:2}/{len(faults)} {outcome.seconds:4} s  {fault.name}: {outcome.caught_by or 'NOT DETECTED'}",
            flush=True,
        )
        if arguments.results:
            with arguments.results.open("a", encoding="utf-8") as results:
                results.write(json.dumps(asdict(outcome)) + "\n")
    return missed


def _record(results: list[Outcome]) -> int:
    """Write the outcomes and their table in the order of ``faults.toml``; returns the number of faults without an outcome."""
    by_name = {outcome.fault: outcome for outcome in [*outcomes(OUTCOMES), *results]}
    recorded = [by_name[fault.name] for fault in load() if fault.name in by_name]
    OUTCOMES.write_text("".join(f"{json.dumps(asdict(outcome))}\n" for outcome in recorded), encoding="utf-8")
    OUTCOMES.with_name("README.md").write_text(table(recorded), encoding="utf-8")
    return len(load()) - len(recorded)


if __name__ == "__main__":
    sys.exit(main())
