"""The gate: judges every batch with Great Expectations (GX) before it is written.

A suite is used twice. Rows that break a rule are flagged with GX's unexpected conditions, without an extra pass over the
data. Then GX validates the whole batch. Severity decides about rows, ``mostly`` about the batch.
"""

from tidegate.spark.gate.gate import SuiteGate, warm_up
from tidegate.spark.gate.lake_context import LakeContext
from tidegate.spark.gate.rules import Rule
from tidegate.spark.gate.suite import Suite, load_suite

__all__ = ["LakeContext", "Rule", "Suite", "SuiteGate", "load_suite", "warm_up"]
