"""Every error that Tidegate raises on purpose: one tree, terminal or transient.

A *terminal* error needs a person: a retry fails the same way. A *transient* error may go away, so Airflow's retry policy
tries again. The class defines which of the two it is and the exit code of a command (``sysexits.h``). Public attributes
carry the data of the error; the message says what to do next.
"""

from __future__ import annotations

from tidegate.errors.causes import AirflowUnavailableError as AirflowUnavailableError
from tidegate.errors.causes import LakeUnwritableError as LakeUnwritableError
from tidegate.errors.causes import MachineError as MachineError
from tidegate.errors.causes import MachineUnavailableError as MachineUnavailableError
from tidegate.errors.causes import MissingJavaError as MissingJavaError
from tidegate.errors.causes import SettingsError as SettingsError
from tidegate.errors.causes import SetupError as SetupError
from tidegate.errors.checkpoints import CheckpointCorruptError as CheckpointCorruptError
from tidegate.errors.checkpoints import CheckpointError as CheckpointError
from tidegate.errors.checkpoints import CheckpointIncompatibleError as CheckpointIncompatibleError
from tidegate.errors.checkpoints import SchemaChangedError as SchemaChangedError
from tidegate.errors.checkpoints import StateCodeChangedError as StateCodeChangedError
from tidegate.errors.checkpoints import StateLostError as StateLostError
from tidegate.errors.checkpoints import StateSchemaChangedError as StateSchemaChangedError
from tidegate.errors.classification import classify as classify
from tidegate.errors.declarations import DeclarationConflictError as DeclarationConflictError
from tidegate.errors.declarations import FieldError as FieldError
from tidegate.errors.declarations import RequestError as RequestError
from tidegate.errors.declarations import SpecError as SpecError
from tidegate.errors.declarations import UndeclaredDependenceError as UndeclaredDependenceError
from tidegate.errors.error import EX_CONFIG as EX_CONFIG
from tidegate.errors.error import EX_DATAERR as EX_DATAERR
from tidegate.errors.error import EX_DIFFERS as EX_DIFFERS
from tidegate.errors.error import EX_SOFTWARE as EX_SOFTWARE
from tidegate.errors.error import EX_TEMPFAIL as EX_TEMPFAIL
from tidegate.errors.error import EX_USAGE as EX_USAGE
from tidegate.errors.error import StoppedError as StoppedError
from tidegate.errors.error import TidegateError as TidegateError
from tidegate.errors.error import UnexpectedError as UnexpectedError
from tidegate.errors.lake import DamagedFileError as DamagedFileError
from tidegate.errors.lake import LakeVersionError as LakeVersionError
from tidegate.errors.lake import LateRowsDroppedError as LateRowsDroppedError
from tidegate.errors.lake import LeaseHeldError as LeaseHeldError
from tidegate.errors.lake import LeaseLostError as LeaseLostError
from tidegate.errors.lake import LedgerImbalanceError as LedgerImbalanceError
from tidegate.errors.lake import LossNotAcceptedError as LossNotAcceptedError
from tidegate.errors.lake import NotRecoveredError as NotRecoveredError
from tidegate.errors.lake import OtherProjectError as OtherProjectError
from tidegate.errors.lake import TableDiffersError as TableDiffersError
from tidegate.errors.lake import TableInDoubtError as TableInDoubtError
from tidegate.errors.lake import TableUnreadableError as TableUnreadableError
from tidegate.errors.lake import WriteConflictError as WriteConflictError
from tidegate.errors.refusals import BatchHeldError as BatchHeldError
from tidegate.errors.refusals import ContractRefusedError as ContractRefusedError
from tidegate.errors.refusals import GateRefusedError as GateRefusedError
from tidegate.errors.refusals import RefusedError as RefusedError
from tidegate.errors.refusals import RewriteRefusedError as RewriteRefusedError
from tidegate.errors.refusals import TransformRefusedError as TransformRefusedError
from tidegate.errors.runs import RunCancelledError as RunCancelledError
from tidegate.errors.runs import RunReplacedError as RunReplacedError
from tidegate.errors.sources import GapError as GapError
from tidegate.errors.sources import MovedLandingFolderError as MovedLandingFolderError
from tidegate.errors.sources import NotDeliveredError as NotDeliveredError
from tidegate.errors.sources import OffsetsExpiredError as OffsetsExpiredError
from tidegate.errors.sources import OtherClusterError as OtherClusterError
from tidegate.errors.sources import SinkError as SinkError
from tidegate.errors.sources import SinkUnavailableError as SinkUnavailableError
from tidegate.errors.sources import SourceError as SourceError
from tidegate.errors.sources import SourceRewrittenError as SourceRewrittenError
from tidegate.errors.sources import SourceUnavailableError as SourceUnavailableError
from tidegate.errors.sources import TopicReplacedError as TopicReplacedError
