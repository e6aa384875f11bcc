"""The layout of the lake and the landing zone; `tidegate.lake.place` has those of a pipeline and of a flow.

::

    <lake>/lake.json                                            version of the lake's format, and whose lake it is
           tables/<layer>/<table>/                              Delta
           quarantine/<pipeline>/<flow>/                        Delta: quarantine entries with their reasons
           late/<pipeline>/<flow>/                              Delta: rows that came later than the watermark's delay
           heartbeats/<pipeline>/<flow>/                        Delta: times by which the clock moved the watermark of a flow
           staging/<pipeline>/<flow>/v<N>-<refresh>/            Delta: a full refresh before its swap
           checkpoints/<dag_id>/<flow>/                         notes about the flow, its versions and its checkpoints
           checkpoints/<dag_id>/<flow>/v<N>/<refresh>/          Spark's: offsets, commits, sources, state
           aside/<time>/<folder of a table>/                    what a recovery could not read of a table
           .locks/                                              one empty file per key that is updated by its tag
           leases/                                              per lease one empty file, and one that names its holder; in a
                                                                bucket one object
           reports/<dag_id>/<run_key>/<id>.request.json         the request of a run
           reports/<dag_id>/<run_key>/application.json          which application of a cluster runs the run
           reports/<dag_id>/<run_key>/<attempt>/                report.json; sample-<flow>.json, undo-<flow>.json: keys of rows
           docs/<pipeline>/                                     pages that `tidegate docs` exported (HTML)
           _ops/<pipeline>/{ledger,verdicts,evolution}/         Delta: ledger lines, verdicts, schema changes
           _ops/<pipeline>/{progress,alerts}/                   Delta: Spark's progress of each batch, history of alerts
           _ops/<pipeline>/attempts/                            Delta: requests of each attempt to object stores, if there are any
           _ops/<pipeline>/plans.jsonl                          results of `plan`, one line of JSON each
           _ops/<pipeline>/contents.json                        small contents that plans read, with their tags; only in a bucket
           _ops/<pipeline>/more_contents.json                   likewise those that only a status or alerts read
           _ops/<pipeline>/schemas/<id>.json                    writers' schemas from the schema registry
    <landing>/<source>/                                         files as they arrive
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegate import __version__
from tidegate.advice import Command, Edit
from tidegate.environment import Environment
from tidegate.errors import LakeVersionError, OtherProjectError, SetupError, WriteConflictError
from tidegate.store import Address, Store
from tidegate.store.location import Location, Stores

LAKE_FORMAT = 1
_NEW: dict[str, Any] = {"format": LAKE_FORMAT, "tidegate": __version__}
"""What a new lake says of itself: a format, and the version that gave it that."""
UPGRADE = "upgrade"
"""What `lake.json` has as long as an upgrade to its format is not complete (`tidegate.ops.upgrade`)."""


@dataclass(frozen=True)
class Owner:
    """Whose a lake is."""

    project: str = ""
    """Its name; empty: a project without a file of settings."""
    environment: str = ""

    def __str__(self) -> str:
        of = f"environment {self.environment!r} of " if self.environment else ""
        return f"{of}project {self.project!r}"


@dataclass(frozen=True)
class Layout:
    """All addresses of one lake and one landing zone."""

    root: Address
    """The folder of everything in the lake."""
    landing_root: Address
    """The folder of everything in the landing zone."""
    owner: Owner = Owner()
    """Whose the lake has to be."""
    source: Layout | None = None
    """The lake, only to be read, of the environment whose tables are read where this one has none."""
    written: frozenset[str] = frozenset()
    """The tables that this run writes: they are of this lake, also before they exist."""

    @classmethod
    def of(cls, environment: Environment) -> Layout:
        """The layout of an environment."""
        owner, store_of = Owner(environment.project_name, environment.name), environment.store_of
        own = cls._of(environment.lake_at, environment.landing_at, store_of, owner)
        if not environment.source_lakes:
            return own
        from tidegate.store.read_only import ReadOnlyStore

        source: Layout | None = None
        for each in reversed(environment.source_lakes):
            lake, landing = (Address(ReadOnlyStore(store_of(root))) for root in (each.lake, each.landing))
            source = cls(lake, landing, Owner(environment.project_name, each.name), source)
        return replace(own, source=source, written=environment.written)

    @classmethod
    def local(cls, lake: Path, landing: Path) -> Layout:
        """The layout of a lake and a landing zone in local folders."""
        return cls._of(lake, landing, Stores())

    @classmethod
    def _of(
        cls, lake: Location, landing: Location, store_of: Callable[[Location], Store], owner: Owner = Owner()
    ) -> Layout:
        return cls(Address(store_of(lake)), Address(store_of(landing)), owner)

    @property
    def marker(self) -> Address:
        """Says which format the lake has and by which version, and whose it is; absent until the lake is opened for the first time."""
        return self.root / "lake.json"

    def landing(self, source_path: str) -> Address:
        """The folder in which a file source's files arrive."""
        return self.landing_root / source_path

    def table(self, name: str) -> Address:
        """A Delta table, by its ``<layer>.<table>`` name."""
        layer, _, table = name.partition(".")
        return self.root / "tables" / layer / table

    def of_table(self, name: str) -> Layout:
        """The lake in which a table is read: this one, or the nearest source that has it while this one has not."""
        if self.source is None or name in self.written:
            return self
        return next((each for each in self._lakes() if each._has_table(name)), self)

    def read_table(self, name: str) -> Address:
        """A Delta table to be read, in whichever lake; as `table` where this lake has no source."""
        return self.of_table(name).table(name)

    def _has_table(self, name: str) -> bool:
        return (self.root / self.table(name).key / "_delta_log").exists()

    def _lakes(self) -> Iterator[Layout]:
        lake: Layout | None = self
        while lake is not None:
            yield lake
            lake = lake.source

    def delta_tables(self) -> dict[str, Address]:
        """The Delta tables that exist, by the names under which they are queried.

        ``<layer>.<table>``, ``quarantine.<pipeline>.<flow>``, likewise ``late`` and ``heartbeats``, and ``ops.<pipeline>.<table>``.
        Those in staging are left out, and those of sources.
        """
        folders = {
            "": "tables",
            "quarantine.": "quarantine",
            "late.": "late",
            "heartbeats.": "heartbeats",
            "ops.": "_ops",
        }
        return {
            f"{prefix}{layer.name}.{table.name}": self.root / table.key
            for prefix, folder in folders.items()
            for layer in (self.root / folder).list()
            if layer.is_folder
            for table in (self.root / layer.key).list()
            if (self.root / table.key / "_delta_log").exists()
        }

    def readable_tables(self) -> dict[str, Address]:
        """As `delta_tables`, with the tables of flows that are read in sources."""
        above = {} if self.source is None else self.source.readable_tables()
        return {name: table for name, table in above.items() if name.count(".") == 1} | self.delta_tables()

    def aside(self, table: Address, at: str) -> Address:
        """Where a recovery puts what cannot be read of a table, as files that are kept; no table of that name is queried."""
        return self.root / "aside" / at / table.key

    def lease(self, resource: str) -> Path:
        """The empty file that is locked. Only the lock may open it in the committing process: closing it would release the lock."""
        return Path(self.root / "leases" / f"{quote(resource, safe='')}.lock")

    def lease_record(self, resource: str) -> Address:
        """The lease of a lake that is not in a local folder, which has no locks (`tidegate.checkpoints.object_lease`)."""
        return self.root / "leases" / f"{quote(resource, safe='')}.json"

    def lease_owner(self, resource: str) -> Path:
        """The last holder of a lease, as JSON, beside the locked file."""
        return Path(self.root / "leases" / f"{quote(resource, safe='')}.owner.json")

    def open(self) -> None:
        """Create the lake if it does not exist, else check it. A lake that is nobody's becomes this project's.

        Raises:
            LakeVersionError: As `check`; so is OtherProjectError.
            SetupError: As `Store.check`, for a lake that does not exist.
        """
        self._check_source()
        marker = self.read_marker()
        if marker is None:
            self.root.writable.check()
        elif not self.owner.project or "project" in marker[0]:
            return
        values, tag = marker or (_NEW, None)
        try:
            self._write_marker(values, tag)
        except WriteConflictError:
            # Another process has created it meanwhile, perhaps of another project.
            self.check()

    def check(self) -> bool:
        """Whether the lake exists.

        Raises:
            LakeVersionError: A newer Tidegate wrote it or the lake of a source, or one of them has to be upgraded.
            OtherProjectError: It is another project's, or of another environment.
            SetupError: The lake of a source is.
        """
        self._check_source()
        return self.read_marker() is not None

    def _check_source(self) -> None:
        if self.source is None:
            return
        try:
            self.source.check()
        except OtherProjectError as error:
            name, root = self.source.owner.environment, self.source.root
            raise SetupError(
                f"environment {self.owner.environment!r} reads tables of {name!r}, and the lake at {root} is that of {error.owner}",
                Edit(f"set the lake of {name!r} to its own, or name another source", "setting"),
            ) from None

    def claim(self, by: str, at: str, reason: str) -> Owner:
        """Record that the lake is this project's from now on; returns whose it was.

        Raises:
            LakeVersionError: As `check`.
            WriteConflictError: Another process writes the same.
        """
        values, tag = self.read_marker(any_owner=True) or (_NEW, None)
        before = _owner(values)
        claim = {"by": by, "at": at, "reason": reason, "project": before.project, "environment": before.environment}
        self._write_marker({**values, "claims": [*values.get("claims", ()), claim]}, tag)
        return before

    def _write_marker(self, values: dict[str, Any], tag: str | None) -> None:
        own = {"project": self.owner.project, "environment": self.owner.environment} if self.owner.project else {}
        self.marker.put_if((json.dumps({**values, **own}) + "\n").encode(), tag)

    def read_marker(self, *, any_owner: bool = False, any_format: bool = False) -> tuple[dict[str, Any], str] | None:
        """What the lake says of itself, and its tag; None if it does not exist.

        Args:
            any_owner: Whether it may be another project's.
            any_format: Whether it may have an older format, or one to which it is not yet upgraded as a whole.

        Raises:
            LakeVersionError: As `check`; so is OtherProjectError.
        """
        try:
            content = self.marker.read()
        except FileNotFoundError:
            return None
        values: dict[str, Any] = json.loads(content.data)
        lake_format = int(values["format"])
        if lake_format > LAKE_FORMAT:
            version: str | None = values.get("tidegate")
            wanted = ("--upgrade", "tidegate") if version is None else (f"tidegate>={version}",)
            raise LakeVersionError(
                f"the lake at {self.root} has format {lake_format}; this Tidegate, {__version__}, reads formats up to {LAKE_FORMAT}",
                Command("upgrade Tidegate with `{}`", ("pip", "install", *wanted)),
            )
        if (lake_format < LAKE_FORMAT or UPGRADE in values) and not any_format:
            has = "is not upgraded as a whole to" if UPGRADE in values else "has"
            raise LakeVersionError(
                f"the lake at {self.root} {has} format {lake_format}; this Tidegate, {__version__}, needs format {LAKE_FORMAT}",
                Command.tidegate("upgrade", says="see with `{}` what it changes, and let it"),
            )
        owner = _owner(values)
        if owner.project and owner != self.owner and not any_owner:
            raise OtherProjectError(
                str(self.root), str(owner), str(self.owner) if self.owner.project else "", owner.environment
            )
        return values, content.tag


def _owner(values: dict[str, Any]) -> Owner:
    return Owner(values.get("project") or "", values.get("environment") or "")


def run_key(run_id: str) -> str:
    """The folder name of a run: a readable slug of its id, and 8 hex digits of a hash that keep two ids apart."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")[:60] or "run"
    return f"{slug}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
