"""A wall clock that a test sets, for a process of its own and the JVM that it starts: forth and back by minutes and days."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "HUNT_CLOCK"
"""Names the file with the seconds by which the clock is shifted; read by the preloaded library."""
COMPILER = shutil.which("cc")
MINUTE, DAY = 60, 86_400
STEPS = (-90 * DAY, -2 * DAY, -20 * MINUTE, -MINUTE, 0, MINUTE, 20 * MINUTE, 2 * DAY, 90 * DAY)
"""Seconds by which the clock may be wrong."""


@dataclass
class Clock:
    """The clock of the process, which `environment` has preloaded."""

    path: Path
    steps: list[int] = field(default_factory=list)

    @classmethod
    def of_process(cls) -> Clock | None:
        """The clock of this process; None if it has the machine's."""
        path = os.environ.get(VARIABLE)
        return None if path is None else cls(Path(path))

    def step(self, source: random.Random) -> int:
        """Set it to a random error, and return the error in seconds."""
        seconds = source.choice(STEPS)
        self.set(seconds)
        self.steps.append(seconds)
        return seconds

    def set(self, seconds: int) -> None:
        """Set its error."""
        # In place: the library has mapped the file.
        with self.path.open("r+b") as file:
            file.write(struct.pack("q", seconds))


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process that has such a clock. Its file and library are written to a folder."""
    assert COMPILER is not None
    library, path = folder / "clock.so", folder / "clock"
    path.write_bytes(struct.pack("q", 0))
    source = Path(__file__).with_name("clock.c")
    subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library), VARIABLE: str(path)}
