"""The cost of reading a landed CSV file: this project's reader compared with Python's strict parser and DuckDB.

``python benchmarks/read_files.py`` writes all flights of 2013 (336,776 records, 20 fields) into one file, plain and with every
text in quotes, and reads it repeatedly on one core, with each reader in turn. This project's reader decompresses, decodes,
hashes and splits into records and fields. The output is records per second of processor time (median and range of the rounds)
and the ratio to Python's parser.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from demo import flights_feed
from tidegate.formats.delimited import splitter
from tidegate.formats.reader import FileReader
from tidegate.spec import Dialect
from tidegate.store import Address


def ours(path: Path) -> int:
    """The number of records, each split into its fields."""
    split = splitter(Dialect())
    reader = FileReader(Address.local(path), 0, "csv", Dialect())
    count = sum(split(text) is not None for _, text in reader)
    assert reader.checked.problem is None
    return count


def python(path: Path) -> int:
    """The same with `csv.reader`, which computes neither line numbers nor hashes."""
    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.reader(file, strict=True)) - 1


def engine(path: Path) -> int:
    """The same with DuckDB and one thread, all fields as text."""
    with duckdb.connect(config={"threads": 1}) as connection:
        row = connection.execute(
            f"SELECT max(columns(*)), count(*) FROM read_csv('{path}', all_varchar=true)"
        ).fetchone()
        assert row is not None
        return int(row[-1])


READERS: dict[str, Callable[[Path], int]] = {"tidegate": ours, "csv": python, "duckdb": engine}


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        for name in ("plain", "quoted"):
            path = Path(folder, f"{name}.csv")
            records = [record for day in flights_feed.days().values() for record in day]
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(
                    file, list(records[0]), quoting=csv.QUOTE_ALL if name == "quoted" else csv.QUOTE_MINIMAL
                )
                writer.writeheader()
                writer.writerows(records)
            speeds: dict[str, list[float]] = {reader: [] for reader in READERS}
            for round_ in range(rounds + 1):
                for reader, read in READERS.items():
                    started = time.process_time()
                    count = read(path)
                    assert count == len(records), (reader, count)
                    if round_:
                        speeds[reader].append(count / (time.process_time() - started))
            peer = statistics.median(speeds["csv"])
            for reader, each in speeds.items():
                median = statistics.median(each)
                print(
                    f"{name:<7} {reader:<9} {median:>10,.0f} records/s ({min(each):,.0f} to {max(each):,.0f}), "
                    f"{median / peer:.2f} times csv"
                )


if __name__ == "__main__":
    main()
