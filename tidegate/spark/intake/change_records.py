"""Takes the change out of a record: whether it deletes a row, or is none.

What cannot be a change of a row breaks a rule for the record as a whole, as text that cannot be parsed does.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.formats.envelopes import NO_VALUE
from tidegate.spec import ChangeRecords


def with_changes(texts: DataFrame, changes: ChangeRecords, operation: str | None) -> DataFrame:
    """Add ``_deletes`` and ``_filters`` to split records, and break the rule ``operation(…)`` where a record is no change.

    Args:
        texts: One text per field, ``_raw`` and ``_malformed``.
        operation: The column with the text of the operation; None if records have none.
    """
    readable, value = F.col(hidden.MALFORMED).isNull(), F.col(operation) if operation is not None else F.lit(None)
    none = F.lit(None).cast("string")
    has_none = F.col(hidden.RAW).isNull() | F.coalesce(F.col(hidden.MALFORMED) == NO_VALUE, F.lit(False))
    named = F.lit("operation(unknown)")
    for text, name in changes.refused.items():
        named = F.when(value == text, F.lit(f"operation({name})")).otherwise(named)
    known = F.coalesce(value.isin(*changes.writes, *changes.deletes), F.lit(False)) if operation else F.lit(True)
    skips, empty_deletes = changes.no_value == "skip", F.lit(changes.no_value == "delete")
    # A message without value may have a key that cannot be read.
    of_key = F.when(F.col(hidden.MALFORMED) != NO_VALUE, F.col(hidden.MALFORMED))
    of_none = {"skip": none, "refuse": F.lit(NO_VALUE), "delete": of_key}[changes.no_value]
    malformed = F.when(has_none, of_none).when(readable & ~known, named).otherwise(F.col(hidden.MALFORMED))
    deletes = (
        readable & F.coalesce(value.isin(*changes.deletes), F.lit(False)) | has_none & of_key.isNull() & empty_deletes
    )
    filters = F.when(has_none, F.lit(NO_VALUE)) if skips else none
    return texts.withColumns({hidden.DELETES: deletes, hidden.FILTERS: filters, hidden.MALFORMED: malformed})
