"""What was refused: one class for each kind, with what has to change before another attempt may pass.

`tidegate.checkpoints.refusal` stores the refusal of a pending batch. Each class has a field that no other has, which says in
JSON which it is (`tidegate.json_codec.union`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GateRefusal:
    """A suite refused the batch: it is tried again with another suite or transform."""

    batch_id: int
    suite_fingerprint: str | None
    code_fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class HeldBatch:
    """A statistic holds the batch: it is tried again with other statistics or another transform, or when a person accepts it."""

    batch_id: int
    statistics_fingerprint: str
    code_fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class TransformRefusal:
    """The transform raises on the batch: it is tried again with another transform or another share of such rows."""

    batch_id: int
    code_fingerprint: str | None = None
    transform_error_share: float | None


@dataclass(frozen=True, kw_only=True)
class ContractRefusal:
    """A frozen contract refused the batch: it is tried again when a person has answered, or with another declaration."""

    batch_id: int
    schema_change_id: str
    declared: str
    """Fingerprint of the schema and the contract."""


Refusal = GateRefusal | HeldBatch | TransformRefusal | ContractRefusal
