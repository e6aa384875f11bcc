"""A small fault in the product: a patch of a line or two, the tests of the patched module, and the test that detected it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("faults.toml")
OUTCOMES = Path(__file__).with_name("outcomes.jsonl")


@dataclass(frozen=True)
class Fault:
    """One entry of ``faults.toml``; the fields are explained there."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def patched(self, text: str) -> str:
        """The module's text with the fault.

        Raises:
            ValueError: The module does not contain the old text exactly once.
        """
        times = text.count(self.old)
        if times != 1:
            raise ValueError(
                f"fault {self.name!r}: its old text occurs {times} times in {self.file}; correct faults.toml"
            )
        return text.replace(self.old, self.new)

    @contextmanager
    def applied_in(self, root: Path) -> Iterator[None]:
        """Apply the fault in the tree at ``root``, and revert it at the end."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        path.write_text(self.patched(text), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def tests_in(self, root: Path) -> list[str]:
        """The tests to run, in this order: those of the module, those of the entry, those of the module's package."""
        module = Path(self.file)
        mirror = Path("tests", *module.parts[1:]) if module.parts[0] == "tidegate" else Path("tests", *module.parts)
        folders = [folder for folder in mirror.parents if folder not in (Path("tests"), Path())]
        candidates = [
            str(mirror.with_name(f"test_{module.name}")),
            *self.tests,
            *map(str, folders),
        ]
        return [path for path in dict.fromkeys(candidates) if (root / path).exists()]


def load() -> list[Fault]:
    """All faults of the table."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["fault"]
    return [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


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


def outcomes(path: Path | None) -> list[Outcome]:
    """The outcomes in a file, a line of JSON each; none when there is no file."""
    if path is None or not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
