"""An upgrade of the lake to the format that this version writes, by the migrations that lie between: ``tidegate upgrade``.

The order makes it safe to kill. While a driver holds a lease nothing begins. Then one conditional write gives the lake its new format with
a note that the upgrade is not complete: from then on an older Tidegate refuses the lake as a newer one, and this one refuses it until the
upgrade is complete. The leases are looked at again, because a run may have read the old format and taken its leases meanwhile. Each
change may be made twice, and a migration asks the lake which are still to be made; the note says which migrations are complete. The last
write removes it, and records who upgraded the lake, when and from which format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tidegate import __version__, json_codec
from tidegate.checkpoints import lease
from tidegate.errors import LeaseHeldError
from tidegate.lake import layout as of_layout
from tidegate.lake.layout import UPGRADE, Layout

_RESOURCE = "lake:upgrade"
"""The lease of the process that upgrades."""


@dataclass(frozen=True)
class LakeChange:
    """One change of what a lake has."""

    says: str
    """What it changes, with the key of it."""
    make: Callable[[], None]
    """May be called again after it was interrupted."""


@dataclass(frozen=True)
class Migration:
    """From the format before it to its own."""

    format: int
    says: str
    """What is different from this format on."""
    changes: Callable[[Layout], Iterator[LakeChange]]
    """The changes that a lake still lacks."""


MIGRATIONS: tuple[Migration, ...] = ()
"""One for each format after the first, in order. A migration stays: some lake still has the format before it."""


@dataclass(frozen=True, kw_only=True)
class UpgradePlan:
    """What an upgrade of a lake would do."""

    exists: bool
    format: int
    """What is complete: the lake's format, or that of the last complete migration of an upgrade that was interrupted."""
    target: int
    is_begun: bool
    """Whether an upgrade was interrupted."""
    migrations: tuple[Migration, ...]
    changes: tuple[LakeChange, ...]
    """Of the first migration; those of the others depend on it."""
    in_use: tuple[tuple[str, str], ...]
    """Each lease that is held, with a description of the process that holds it."""

    @property
    def is_needed(self) -> bool:
        """Whether the lake is to be changed."""
        return bool(self.migrations) or self.is_begun


def plan(layout: Layout) -> UpgradePlan:
    """What `upgrade` would do. Changes nothing.

    Raises:
        LakeVersionError: A newer Tidegate wrote the lake.
        OtherProjectError: It is another project's.
    """
    marker = layout.read_marker(any_format=True)
    values: dict[str, Any] = {"format": of_layout.LAKE_FORMAT} if marker is None else marker[0]
    complete = _complete(values)
    pending = _pending(complete)
    return UpgradePlan(
        exists=marker is not None,
        format=complete,
        target=of_layout.LAKE_FORMAT,
        is_begun=UPGRADE in values,
        migrations=pending,
        changes=tuple(pending[0].changes(layout)) if pending else (),
        in_use=tuple(_holders(layout)) if pending else (),
    )


def upgrade(layout: Layout, by: str, at: str) -> Iterator[LakeChange]:
    """Upgrade the lake: yields each change after it was made. Nothing if the lake has the format of this version, or does not exist.

    Args:
        by: Who does it.
        at: When.

    Raises:
        LeaseHeldError: A run is in progress, or another process upgrades the lake.
        LakeVersionError: As `plan`; so is OtherProjectError.
        WriteConflictError: Another process has written `lake.json` meanwhile.
    """
    marker = layout.read_marker(any_format=True)
    if marker is None or (UPGRADE not in marker[0] and not _pending(_complete(marker[0]))):
        return
    _expect_unused(layout)
    with lease.hold(layout, (_RESOURCE,), what=f"tidegate upgrade by {by}"):
        marker = layout.read_marker(any_format=True)
        assert marker is not None
        values, tag = marker
        before = values.get(UPGRADE, {}).get("from", values["format"])
        complete = _complete(values)

        def write(**more: Any) -> None:
            nonlocal values, tag
            kept = {name: value for name, value in values.items() if name != UPGRADE}
            values = {**kept, "format": of_layout.LAKE_FORMAT, "tidegate": __version__, **more}
            lease.expect_certain()
            tag = layout.marker.put_if((json_codec.encode(values) + "\n").encode(), tag)

        write(**{UPGRADE: {"from": before, "complete": complete}})
        _expect_unused(layout)
        for migration in _pending(complete):
            for change in migration.changes(layout):
                lease.expect_certain()
                change.make()
                yield change
            write(**{UPGRADE: {"from": before, "complete": migration.format}})
        done = {"from": before, "to": of_layout.LAKE_FORMAT, "by": by, "at": at, "tidegate": __version__}
        write(upgrades=[*values.get("upgrades", ()), done])


def _complete(values: dict[str, Any]) -> int:
    return int(values[UPGRADE]["complete"] if UPGRADE in values else values["format"])


def _pending(complete: int) -> tuple[Migration, ...]:
    return tuple(each for each in MIGRATIONS if each.format > complete)


def _expect_unused(layout: Layout) -> None:
    for resource, holder in _holders(layout):
        raise LeaseHeldError(resource, holder)


def _holders(layout: Layout) -> Iterator[tuple[str, str]]:
    """Each lease that is held, with its holder, except that of an upgrade."""
    suffix = ".lock" if layout.root.store.is_local else ".json"
    for entry in (layout.root / "leases").list():
        resource = unquote(entry.name.removesuffix(suffix))
        if entry.name.endswith(suffix) and not entry.name.endswith(".owner.json") and resource != _RESOURCE:
            holder = lease.holder(layout, resource)
            if holder is not None:
                yield resource, holder
