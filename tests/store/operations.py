"""One operation after the other on a local store, in a process whose system calls fail: lines of JSON in, lines of JSON out."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from tidegate.store import LocalStore

FOLDER = "f"
OLD, NEW = b"old\n", b"new\n"
OPERATIONS: dict[str, Any] = {
    "read": lambda store: store.read("f/a").data,
    "open": lambda store: _read(store.open("f/a")),
    "put": lambda store: store.put("f/a", NEW),
    "put where no folder is": lambda store: store.put("g/a", NEW),
    "put_if absent": lambda store: store.put_if("f/b", NEW, None) and b"",
    "put_if the tag": lambda store: store.put_if("f/a", NEW, store.read("f/a").tag) and b"",
    "append": lambda store: store.append("f/a", NEW),
    "delete": lambda store: store.delete("f/a"),
    "delete_folder": lambda store: store.delete_folder("f"),
    "make_folder": lambda store: store.make_folder("h/i"),
    "move": lambda store: store.move("f", "h/f"),
    "list": lambda store: b" ".join(b"%s %d" % (each.key.encode(), each.size) for each in store.list("f")),
    "stat": lambda store: b"%d" % store.stat("f/a").size,
    "exists": lambda store: b"%d" % store.exists("f/a"),
}


def fill(store: LocalStore) -> None:
    """The keys before each operation."""
    for key in ("f/a", "f/c/d"):
        store.put(key, OLD)


def _read(file: Any) -> bytes:
    with file:
        return bytes(file.read())


def main() -> None:
    """Serve."""
    for line in sys.stdin:
        root, name = json.loads(line)
        try:
            result = OPERATIONS[name](LocalStore(Path(root))) or b""
            answer: dict[str, Any] = {"result": base64.b64encode(result).decode()}
        except OSError as error:
            answer = {"error": error.errno, "file": str(error.filename)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
