"""What the check of a transform's plan found: whether its rows follow the sources as ``keys`` and ``on`` say.

A small file beside the checkpoints, which `plan` reads without a JVM. It holds for one content of the transform's modules and one
declaration of the sources; after a change of either the transform is not checked yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.checkpoints.note import Note
from tidegate.errors import UndeclaredDependenceError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.project import fingerprints, transform_code
from tidegate.project.resolution import ResolvedFlow
from tidegate.reports.report import now

_RULES = 2
"""Raised when the check finds what it did not find before: then every transform is checked again."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the check found."""

    fingerprint: str = ""
    """`fingerprint_of` the flow."""
    problem: str = ""
    """Why the transform is refused; then ``table``, ``missing`` and ``declares`` are those of the error."""
    table: str = ""
    missing: tuple[str, ...] = ()
    declares: str = ""
    doubts: tuple[str, ...] = ()
    """What the check could not follow: each what the transform does."""
    at: str = field(default_factory=now)
    """The instant, in UTC, as ISO 8601."""

    def error(self, version: int) -> UndeclaredDependenceError | None:
        """Why the transform is refused, as an error; None if it is not.

        Args:
            version: The declared checkpoint version.
        """
        if not self.problem:
            return None
        return UndeclaredDependenceError(self.problem, self.table, self.missing, self.declares, version)

    def summary(self) -> str:
        """For plans."""
        if self.problem:
            return self.problem
        if self.doubts:
            return f"it cannot be checked whether its rows follow every change of the sources: the transform {' and '.join(self.doubts)}"
        return "its rows follow every change of the sources, by the plan of the transform"


DERIVATION: Note[Finding, FlowPlace] = Note(
    name="derivation",
    file="derivation.json",
    content=Finding,
    says="what the check of the transform's plan found",
    absent="the plan is not checked yet; so it is also if the code or the sources are others than those that were checked",
    written="a batch, when it checks the plan",
)

NOT_CHECKED = "it is not checked yet whether its rows follow every change of the sources; the next batch checks the plan of the transform"


def fingerprint_of(resolved: ResolvedFlow) -> str:
    """The fingerprint of what a finding is about; empty for flows that are not checked.

    Raises:
        OSError: A file of the transform cannot be read.
    """
    flow = resolved.flow
    if flow.transform is None or resolved.code is None or flow.kind.stateful or not flow.kind.follows_feed:
        return ""
    return fingerprints.fingerprint(
        {
            "code": fingerprints.code_fingerprint(*transform_code.files(flow.transform)),
            "feeds": [feed.identity() for feed in flow.feeds],
            "target": flow.target.remembered(),
            "rules": _RULES,
        }
    )


def record(layout: Layout, resolved: ResolvedFlow, finding: Finding) -> None:
    """Record a finding in place of an earlier one; the caller holds the flow's lease."""
    DERIVATION.write(resolved.place(layout), finding)


def recorded(layout: Layout, resolved: ResolvedFlow) -> Finding | None:
    """The finding about the present code and declaration; None if they are not checked yet."""
    finding = DERIVATION.read(resolved.place(layout))
    return finding if finding is not None and finding.fingerprint == fingerprint_of(resolved) else None


def check_recorded(layout: Layout, resolved: ResolvedFlow) -> None:
    """Refuse what an earlier run found.

    Raises:
        UndeclaredDependenceError: The present code depends on rows that the present declaration does not name.
    """
    finding = recorded(layout, resolved)
    error = None if finding is None else finding.error(resolved.flow.checkpoint_version)
    if error is not None:
        raise error


def summary(layout: Layout, resolved: ResolvedFlow) -> str:
    """What is known of the flow, for plans; empty for flows that are not checked, and for a flow of rows without doubts."""
    if not fingerprint_of(resolved):
        return ""
    finding = recorded(layout, resolved)
    if not resolved.flow.kind.has_groups and (finding is None or not finding.doubts):
        return ""
    return NOT_CHECKED if finding is None else finding.summary()
