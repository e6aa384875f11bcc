"""Many files that arrive for one run: the memory of its driver, the JVM and Python, on this machine.

What the JVM's heap has is asked after a full collection, every few seconds, so that garbage does not count.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cost import Sampler, role_of
from tidegate.runtime import java

PROJECT = Path(__file__).parents[2]
SIZES = (10_000, 30_000, 60_000)
_FOLDER = 1000
"""Files in a folder of a day."""
_FILES_A_BATCH = 10_000
_PAUSE_SECONDS = 3.0
_DECLARATION = f"""
from tidegate.spec import FileSource, Flow, Pipeline, Table

pipeline = Pipeline(name="arrivals", flows=(
    Flow(name="bronze", source=FileSource(path="arrivals", format="csv", schema="a INT", max_files_per_trigger={_FILES_A_BATCH}),
         target=Table("bronze.arrivals")),
))
"""


def measure() -> dict[str, Any]:
    """The peaks of one run at each number of files."""
    points = []
    for size in SIZES:
        points.append(_measured(size))
        print(f"  {size:,} files: {points[-1]}", flush=True)
    return {"points": points, "files_a_batch": _FILES_A_BATCH}


def _measured(size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
        folder = Path(temporary)
        for package, name, text in (("pipelines", "arrivals", _DECLARATION), ("spark_jobs", "nothing", "")):
            (folder / package).mkdir()
            (folder / package / "__init__.py").touch()
            (folder / package / f"{name}.py").write_text(text)
        for day in range(0, size, _FOLDER):
            own = folder / "landing" / "arrivals" / f"day={day // _FOLDER:06}"
            own.mkdir(parents=True)
            for number in range(_FOLDER):
                (own / f"part-{day + number:08}.csv").write_bytes(b"a\n1\n")
        variables = {
            "TIDEGATE_PROJECT": folder,
            "TIDEGATE_LAKE": folder / "lake",
            "TIDEGATE_LANDING": folder / "landing",
        }
        environment = {**os.environ, **{name: str(path) for name, path in variables.items()}}
        return {"files": size, **_run(folder / "run.log", environment)}


def _run(log: Path, environment: dict[str, str]) -> dict[str, Any]:
    heap = [0]
    started = time.monotonic()
    with log.open("wb") as output, Sampler(role_of) as sampler:
        command = [str(PROJECT / ".venv" / "bin" / "tidegate"), "run", "arrivals"]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        thread = threading.Thread(target=_watch_heap, args=(process, heap))
        thread.start()
        code = process.wait()
        thread.join()
    if code:
        shutil.copy(log, "scale-arrivals.log")
        raise SystemExit(f"the run exited with {code}; see its log scale-arrivals.log")
    return {
        "heap": max(heap),
        "jvm": sampler.peaks["JVM"],
        "python": sampler.peaks["driver"],
        "processor": sum(sampler.processor().values()),
        "wall": time.monotonic() - started,
    }


def _watch_heap(run: subprocess.Popen[bytes], heap: list[int]) -> None:
    """Collect the bytes of the driver's heap that are in use, until a run ends."""
    jcmd = java.find().executable.resolve().with_name("jcmd")
    while run.poll() is None:
        time.sleep(_PAUSE_SECONDS)
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in psutil.Process(run.pid).children(recursive=True):
                if "org.apache.spark.deploy.SparkSubmit" in each.cmdline():
                    answer = subprocess.run(
                        [str(jcmd), str(each.pid), "GC.class_histogram"], capture_output=True, text=True, check=False
                    )
                    total = [line.split() for line in answer.stdout.splitlines() if line.startswith("Total")]
                    heap += [int(words[2]) for words in total]
