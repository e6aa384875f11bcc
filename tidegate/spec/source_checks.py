"""Checks of what sources of several kinds declare."""

from __future__ import annotations

import re

from tidegate.errors import FieldError
from tidegate.schema.contract import Contract
from tidegate.spec.checks import fits
from tidegate.spec.formats import Formats

_SIZE = re.compile(r"[1-9][0-9]*[kmg]")


def in_bytes(size: str) -> int:
    """Convert a declared size to bytes: ``256m`` is 256 times 1024 times 1024."""
    return int(size[:-1]) << 10 * ("kmg".index(size[-1]) + 1)


def check_size(declared: object, size: object) -> None:
    """Refuse a size that `in_bytes` cannot convert."""
    if not fits(_SIZE, size):
        raise FieldError(type(declared).__name__, "max_bytes_per_trigger", size, "a size such as '256m' or '1g'")


def check_contract(declared: object, contract: object, schema: str) -> None:
    """Refuse what is no contract, or one that does not fit the schema."""
    owner = type(declared).__name__
    if not isinstance(contract, Contract):
        raise FieldError(owner, "contract", contract, "a Contract, as in Contract(mode='freeze')")
    contract.check_fits(owner, schema)


def check_formats(declared: object, formats: object, schema: str, kind: str) -> None:
    """Refuse what are no formats, or formats that records of this kind cannot have."""
    owner = type(declared).__name__
    if not isinstance(formats, Formats):
        raise FieldError(owner, "formats", formats, "Formats, as in Formats(decimal_comma=True)")
    if formats.decimal_comma and kind != "csv":
        # JSON numbers have a decimal point: 1.234 would become 1234.
        raise FieldError("Formats", "decimal_comma", True, f"False, because the numbers of {kind} have a point")
    formats.check_fits(owner, schema)
