"""A flow's quarantine as a real Delta table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.cli.project import append, quarantined
from tidegate.store import Address


@pytest.fixture
def table(folder: Address) -> Address:
    """Five open rows of three days, two of which break `between(amount)`, and a file."""
    path = folder / "quarantine" / "orders" / "silver"
    rows = [
        quarantined(f"a#{number}", ["between(amount)"] if number < 2 else ["malformed_line"], {"line": number}, "x")
        | {"quarantined_at": datetime(2026, 1, 5 + number // 2, 10, tzinfo=UTC)}
        for number in range(5)
    ]
    append(path, [*rows, quarantined("b.gz@1", ["corrupt_compression"], {"path": "b.gz"}, "", level="file")])
    return path
