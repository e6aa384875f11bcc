"""Refuses identifiers with a retired word: private language, or a term that docs/glossary.md replaced.

``python scripts/retired_words.py`` checks all Python files of the project, lists such names, and then exits with 1.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

NAMES = {
    "asked": "request, requested",
    "came": "what the value is",
    "found": "what the value is: matches, existing, entries",
    "heard": "what the value is: events, progress",
    "held": "what the value is: existing, lease, entries",
    "said": "output, text",
    "seen": "what the value is: paths, snapshot",
    "taken": "what the value is: claim, used",
    "told": "what the value is: summary, text, payload, output",
    "turn": "leased_flow",
}
"""Names that say nothing alone; as a part of a longer name (``LeaseHeldError``, ``not_found``) they are plain."""

WORDS = {
    "anew": "again",
    "drift": "schema_change, statistic",
    "ending": "exit",
    "fate": "disposition",
    "fates": "dispositions",
    "mended": "repaired, corrected",
    "nobody": "none",
    "rederivation": "backfill",
    "rederive": "backfill",
    "reenter": "replay",
    "reentry": "replay",
    "standing": "flow_status",
    "stranger": "other_writer",
    "strangers": "other_writers",
    "telling": "what the value is: log_lines, description",
    "wherever": "what the value is",
    "whom": "what the value is",
    "wording": "formatting",
}
"""Words that no name may hold, with what to write in their place."""


def retired_word(name: str) -> str | None:
    """The retired word of an identifier, or None."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)]
    if len(words) == 1 and words[0] in NAMES:
        return words[0]
    return next((word for word in words if word in WORDS), None)


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a module defines or uses, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute():
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name


def check(path: str, source: str) -> Iterator[str]:
    """A line for each retired word in a file's identifiers and in its own name."""
    for line, name in sorted({(1, Path(path).stem), *identifiers(ast.parse(source))}):
        word = retired_word(name)
        # The name of a test is a sentence.
        if word is not None and not name.startswith("test_"):
            yield f"{path}:{line}: {name!r} has the retired word {word!r}; write: {NAMES.get(word) or WORDS[word]}"


def main() -> int:
    """Check all Python files in git, or new and not ignored."""
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, text=True)
    files = {path: ROOT / path for path in listed.splitlines() if (ROOT / path).exists()}
    problems = [line for path, file in files.items() for line in check(path, file.read_text(encoding="utf-8"))]
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
