"""Tidegate's custom expectations for Great Expectations; suites use them like built-in ones.

Importing this module registers them. It imports Great Expectations, which takes seconds.
"""

from tidegate.spark.gate.custom.freshness import ExpectColumnToBeFresh
from tidegate.spark.gate.custom.reference import ExpectColumnValuesToBeInTable

__all__ = ["ExpectColumnToBeFresh", "ExpectColumnValuesToBeInTable"]
