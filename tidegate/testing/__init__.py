"""Helpers for the tests of pipelines: transforms and gates on a few rows, whole histories in a lake of the test, random kills.

They run the platform's own code in this process, with one Spark session (`session`). See docs/guides/test-a-pipeline.md; the
fixture ``lake`` is in `tidegate.testing.fixtures`.
"""

from tidegate.testing.kills import kill_at_random
from tidegate.testing.lake import Lake
from tidegate.testing.rows import Judged, judge_rows, transform_rows
from tidegate.testing.session import session

__all__ = ["Judged", "Lake", "judge_rows", "kill_at_random", "session", "transform_rows"]
