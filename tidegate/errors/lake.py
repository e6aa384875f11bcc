"""Tables, files and leases of the lake."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then, new_version, recover_command
from tidegate.errors.error import EX_CONFIG, EX_DATAERR, EX_DIFFERS, EX_TEMPFAIL, TidegateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.lake.table_history import Doubt


class OtherProjectError(TidegateError):
    """The lake is another project's, or of another environment. Nothing was read or written.

    Args:
        lake: Its address.
        owner: Whose it is.
        own: Who this process is; empty for a project without a file of settings.
        environment: The environment of the owner.
    """

    exit_code = EX_CONFIG

    def __init__(self, lake: str, owner: str, own: str, environment: str) -> None:
        select = Edit("set TIDEGATE_PROJECT to the folder of that project", "setting")
        if own:
            select = Edit(f"select {owner}, or set another lake", "setting")
        moved = Command.tidegate("claim", "--reason", "…", says="if the lake is to be this project's from now on: {}")
        super().__init__(
            f"the lake at {lake} is that of {owner}, and this is {own or 'a project without a name'}",
            Either(select, moved) if own else select,
        )
        self.lake = lake
        self.owner = owner
        self.environment = environment


class LedgerImbalanceError(TidegateError):
    """Some input rows have no disposition, or more than one. Nothing was written for this batch.

    Args:
        flow: The flow's name.
        batch_id: The batch.
        counts: The ledger line that does not balance.
        problem: What does not balance.
        advice: What to do about it.
    """

    def __init__(
        self, flow: str, batch_id: int, counts: dict[str, Any], problem: str, advice: Advice | None = None
    ) -> None:
        super().__init__(f"flow {flow!r}, batch {batch_id}: {problem}", advice)
        self.flow = flow
        self.batch_id = batch_id
        self.counts = counts


class LateRowsDroppedError(TidegateError):
    """Spark dropped rows of a stateful flow as older than the watermark. Nothing was written for the batch.

    The flow below splits late rows off by the same rule, so this is a bug, or someone wrote to the source.

    Args:
        flow: The flow's name.
        batch_id: The batch.
        dropped: The number of rows.
        source: The source table.
    """

    def __init__(self, flow: str, batch_id: int, dropped: int, source: str) -> None:
        super().__init__(
            f"flow {flow!r}, batch {batch_id}: Spark dropped {dropped:,} of the rows of {source!r} as older than the watermark; nothing "
            f"was written. The flow that writes {source!r} keeps late rows out of it, so either something else wrote to the table (its "
            "history says what), or this is a bug.",
            Then(
                OutsideAct("report it with the run's report"),
                new_version(says="to go on, raise checkpoint_version: the table is derived again from all rows"),
            ),
        )
        self.flow = flow
        self.batch_id = batch_id
        self.dropped = dropped


class TableDiffersError(TidegateError):
    """A verification found rows of a table that differ from what its sources make. Nothing was written.

    Args:
        flow: The flow's name.
        target: The name of its table.
        counts: What differs, as a phrase.
        remedy: What makes the table right again.
    """

    exit_code = EX_DIFFERS

    def __init__(self, flow: str, target: str, counts: str, remedy: Advice) -> None:
        super().__init__(
            f"flow {flow!r}: table {target!r} differs from its sources: {counts}. The differences are of someone who wrote to the table, "
            "of edited code, or of a bug: the ledger has the commits of Tidegate, the table's history all.",
            remedy,
        )
        self.flow = flow
        self.target = target


class TableInDoubtError(TidegateError):
    """A table that the flow reads or writes does not have the history that is known of it. Nothing was written.

    Args:
        doubt: What is known about it.
        flow: The flow that stops.
        known_by: ``<pipeline>/<flow>`` of the flow that knows the history: the one that stops, or the one that writes its source.
        is_own: Whether it is the flow that stops, so that a new checkpoint of it ends the doubt.
        way_out: What makes right again what was derived, or read, with another history.
    """

    exit_code = EX_DATAERR

    def __init__(self, doubt: Doubt, *, flow: str, known_by: str, is_own: bool, way_out: Advice) -> None:
        others = "" if is_own else f" (known by flow {known_by}, which writes it)"
        if doubt.reason == "not followed":
            meaning, advice = "which the flow cannot follow, because it reads added rows only", way_out
        else:
            meaning = "so what was derived from it is not known to be right"
            advice = Either(OutsideAct("put back what the table had, from a backup"), way_out)
        super().__init__(
            f"flow {flow!r}: the history of table {doubt.table!r} is in doubt{others}: {doubt.what}, {meaning}. Nothing was written.",
            advice,
        )
        self.flow = flow
        self.table = doubt.table
        self.reason = doubt.reason
        self.version = doubt.version
        self.operation = doubt.operation
        self.at_ms = doubt.at_ms
        self.known_by = known_by
        self.is_own = is_own


class LossNotAcceptedError(TidegateError):
    """A recovery would go on without what a table had and no source has any more, and nobody has accepted it. Nothing was changed.

    Args:
        losses: Pipeline, flow, what is lost, and the name by which it is accepted.
        table: The table that was to be recovered; None for all.
    """

    exit_code = EX_DATAERR

    def __init__(self, losses: Sequence[tuple[str, str, str, str]], table: str | None = None) -> None:
        what = "; ".join(f"{pipeline}/{flow}: {each}" for pipeline, flow, each, _ in losses)
        accept = [part for pipeline, *_, name in losses for part in ("--accept", f"{pipeline}/{name}")]
        super().__init__(
            f"no source has any more: {what}. Nothing was changed.",
            Either(
                OutsideAct("put it back, from a backup or an archive"),
                Command.tidegate("recover", *((table,) if table else ()), *accept, says="recover without it: {}"),
            ),
        )
        self.losses = [name for *_, name in losses]


class NotRecoveredError(TidegateError):
    """After a recovery something is still damaged.

    Args:
        damages: What, as sentences.
    """

    exit_code = EX_DATAERR

    def __init__(self, damages: Sequence[str]) -> None:
        super().__init__(
            f"still damaged: {'; '.join(damages)}.",
            Then(
                OutsideAct("correct what the lines of its flow above say"),
                Command.tidegate("recover", says="go on: {}"),
            ),
        )


class DamagedFileError(TidegateError):
    """A file in the lake does not have the content that Tidegate writes.

    Args:
        path: The file.
        problem: What does not fit.
        repair: What to do about it.
    """

    exit_code = EX_CONFIG

    def __init__(self, path: object, problem: str, repair: Advice) -> None:
        super().__init__(f"{path} is damaged: {problem}.", repair)
        self.path = str(path)


class TableUnreadableError(TidegateError):
    """A file of a table is missing, torn or unreadable, so that nobody can say what the table holds. Nothing was written to it.

    Flows that read or write the table stop; all others go on.

    Args:
        table: The address of the table.
        file: That of the file, in the table's folder.
        problem: What is wrong with it, as the rest of a sentence: ``is empty``.
    """

    exit_code = EX_CONFIG

    def __init__(self, table: object, file: object, problem: str) -> None:
        name, remedy = _table_name(PurePath(str(table)))
        super().__init__(
            f"table {name} cannot be read: {file} {problem}. Flows that read or write the table stop, the others go on.",
            Either(OutsideAct("put the file back from a backup or a snapshot of the storage"), remedy),
        )
        self.table = name
        self.file = str(file)
        self.damage = problem


_RECOVERED = ("tables", "quarantine", "late", "heartbeats", "staging")
"""The folders of the lake with tables that a recovery makes readable again."""


def _table_name(path: PurePath) -> tuple[str, Advice]:
    """The name under which a table is queried (`tidegate.lake.layout`), and what makes it readable again."""
    parts = path.parts
    folder = next((part for part in reversed(parts[:-1]) if part in (*_RECOVERED, "_ops")), "")
    names = parts[len(parts) - parts[::-1].index(folder) :] if folder else parts[-1:]
    prefix = {"tables": (), "_ops": ("ops",)}.get(folder, (folder,) if folder else ())
    name = ".".join((*prefix, *names))
    if folder == "_ops":
        lost = "without one, move the table's folder away: what it recorded of earlier runs is lost, and later runs begin a new table"
        return name, OutsideAct(lost)
    return name, recover_command(*((name,) if folder == "tables" else ()))


class LakeVersionError(TidegateError):
    """The lake was written by a newer Tidegate than this one, or has an older format and has to be upgraded."""

    exit_code = EX_CONFIG


class WriteConflictError(TidegateError):
    """A concurrent commit conflicts with this one. Nothing was written; try again."""

    transient = True
    exit_code = EX_TEMPFAIL


class LeaseLostError(TidegateError):
    """A process cannot be certain any more that it holds a lease, so it stops before its next write. What was committed stays.

    Args:
        resource: The leased resource.
        seconds: How long ago its last renewal began.
        is_taken: Whether another process is known to have taken it.
    """

    transient = True
    exit_code = EX_TEMPFAIL

    def __init__(self, resource: str, seconds: int, is_taken: bool) -> None:
        why = "another process has taken it" if is_taken else f"it was last renewed {seconds} seconds ago"
        super().__init__(
            f"the lease of {resource} is lost: {why}. The process stops before its next write.",
            Then(
                OutsideAct("see whether the process was paused, or the storage did not answer"), OutsideAct("try again")
            ),
        )
        self.resource = resource
        self.seconds = seconds
        self.is_taken = is_taken


class LeaseHeldError(TidegateError):
    """Another driver, command or maintenance run holds the lease of this checkpoint or table.

    Args:
        resource: The leased resource, for example ``table silver.flights``.
        holder: Description of the process that holds the lease.
    """

    transient = True
    exit_code = EX_TEMPFAIL

    def __init__(self, resource: str, holder: str) -> None:
        super().__init__(
            f"{resource} is held by {holder}",
            Then(OutsideAct("wait until it ends, or stop it"), OutsideAct("try again")),
        )
        self.resource = resource
        self.holder = holder
