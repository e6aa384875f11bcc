"""The environment of one reading of lake and landing zone, whose stores read each key once (`ReadOnceStore`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tidegate.environment import Environment
from tidegate.store import Store
from tidegate.store.location import Location
from tidegate.store.once import ReadOnceStore

_FOLDERS = {"checkpoints": 3, "quarantine": 2, "late": 2, "heartbeats": 2, "staging": 2, "leases": 1}
"""Folders of a lake of which most of what a reading asks for is missing: notes of a flow, tables that not every flow has, and leases."""
_TREES = {"checkpoints": 4, "reports": 2}
"""The checkpoints of a version, and the reports of a pipeline. Not checkpoints with the notes, which are asked for earlier: the logs of
tables are listed in between, so that these have no batch that the checkpoint lacks."""


class _ReadOnce:
    """One store for each root, which reads once."""

    def __init__(self, store_of: Callable[[Location], Store], lake: Location) -> None:
        self._store_of, self._lake = store_of, lake
        self._stores: dict[Location, ReadOnceStore] = {}

    def __call__(self, root: Location) -> Store:
        return self._stores.setdefault(root, self._made(root))

    def _made(self, root: Location) -> ReadOnceStore:
        store = self._store_of(root)
        return ReadOnceStore(store, _FOLDERS, _TREES, {"reports"}) if root == self._lake else ReadOnceStore(store)

    def forget(self) -> None:
        for store in self._stores.values():
            store.forget()


def of_proof(store: Store) -> ReadOnceStore:
    """The store of a reading that proves the tables of one flow: it asks for the log of a table, not whether there is one."""
    return ReadOnceStore(store, {name: _FOLDERS[name] for name in ("checkpoints", "staging")}, _TREES)


def once(environment: Environment) -> Environment:
    """The environment for one reading; an environment of one as it is."""
    if isinstance(environment.store_of, _ReadOnce):
        return environment
    return dataclasses.replace(environment, store_of=_ReadOnce(environment.store_of, environment.lake_at))


def forget(environment: Environment) -> None:
    """Free what a reading has read, for one that is kept."""
    if isinstance(environment.store_of, _ReadOnce):
        environment.store_of.forget()
