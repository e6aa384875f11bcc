"""Tidegate's own expectations, in Great Expectations' form: report, documents and split treat them like every other.

Importing this registers them. It imports Great Expectations, which takes seconds.
"""

from tidegate.spark.gate.own.drift import (
    ExpectColumnMeanToBeNearEarlierBatches,
    ExpectColumnNullShareToBeNearEarlierBatches,
    ExpectTableRowCountToBeNearEarlierBatches,
)
from tidegate.spark.gate.own.freshness import ExpectColumnToBeFresh
from tidegate.spark.gate.own.reference import ExpectColumnValuesToBeInTable

__all__ = [
    "ExpectColumnMeanToBeNearEarlierBatches",
    "ExpectColumnNullShareToBeNearEarlierBatches",
    "ExpectColumnToBeFresh",
    "ExpectColumnValuesToBeInTable",
    "ExpectTableRowCountToBeNearEarlierBatches",
]
