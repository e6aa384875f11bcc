"""Puts back what another run changed."""

from __future__ import annotations

from tidegate.spark.reprocessing.undo import undo_run
from tidegate.spark.runs import RunCode

RUN = RunCode(run=undo_run, dry_run=undo_run)
