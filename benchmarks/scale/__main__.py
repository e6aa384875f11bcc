"""``python -m benchmarks.scale NAME…``: measure; ``page`` makes the page of the results."""

from __future__ import annotations

import argparse
import importlib
import json
import time

from benchmarks.scale.page import RESULTS, write_page

NAMES = ("files", "arrivals", "history", "pipelines", "executors")


def main() -> None:
    """Measure each name, write its results, then the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("names", nargs="+", choices=(*NAMES, "page"))
    for name in parser.parse_args().names:
        print(f"{name}:", flush=True)
        if name == "page":
            write_page()
            continue
        started = time.monotonic()
        result = importlib.import_module(f"benchmarks.scale.{name}").measure()
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
