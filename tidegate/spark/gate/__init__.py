"""The gate: judges every batch with Great Expectations before it is written.

One suite, two uses: the rows that break a rule are flagged by GX's own unexpected conditions, in the pass that is made
anyway; and GX says of the whole batch whether it may pass. Severity decides about rows, ``mostly`` about the batch.
"""

from tidegate.spark.gate.gate import SuiteGate, warm_up
from tidegate.spark.gate.suite import Rule, Suite, load_suite
from tidegate.spark.gate.surroundings import Surroundings

__all__ = ["Rule", "Suite", "SuiteGate", "Surroundings", "load_suite", "warm_up"]
