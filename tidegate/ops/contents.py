"""Small contents of a lake in a bucket that are read often, kept in objects: what still has its tag is not read again. Starts no JVM.

The tag is the server's, and a listing tells it, so what is kept is never taken for something newer (docs/adr/0059). A pipeline's plans and
jobs write the objects, without a lock: whatever they have is true of the tags in them. What plans need is in one, what else a status
or alerts need in another.
"""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.errors import TidegateError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.lake.place import MORE_CONTENTS, PipelinePlace
from tidegate.probes import delta_table
from tidegate.store import Content
from tidegate.store.once import ReadOnceStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline
    from tidegate.store import Address

log = logging.getLogger("tidegate")

_Kept = dict[str, tuple[str, bytes]]
"""Tag and content by the key in the lake."""
_of_tables: dict[str, dict[str, Content]] = {}
"""What this process knows of own tables, by the folder that they are in."""


def of_tables(folder: Address) -> dict[str, Content]:
    """What this process knows of the own tables in a folder, by key: what was kept, and what it has read and written itself since."""
    if folder.uri not in _of_tables:
        _of_tables[folder.uri] = _kept(folder / MORE_CONTENTS)
    return _of_tables[folder.uri]


def known(environment: Environment, pipeline: str, *, more: bool = False) -> Environment:
    """The environment of a reading whose store knows what was kept for a pipeline.

    Args:
        more: Whether it is more than a plan.
    """
    environment = read_once.once(environment)
    place = PipelinePlace(Layout.of(environment), pipeline)
    if (store := _store(place)) is not None:
        for address in (place.contents, place.more_contents)[: 1 + more]:
            _know(store, address)
    return environment


def read_in(environment: Environment) -> dict[str, Content]:
    """What a reading has read, or known before, by key."""
    store = Layout.of(environment).root.store
    return {**store.known, **store.contents} if isinstance(store, ReadOnceStore) else {}


def keep(environment: Environment, pipeline: str) -> None:
    """Keep what the store of a reading has read for a plan, unless it is kept.

    An I/O error is logged: it only makes the next plan slower.

    Args:
        environment: That of the reading.
    """
    place = PipelinePlace(Layout.of(environment), pipeline)
    if (store := _store(place)) is not None:
        _keep(place.contents, store, store.contents, store.known)


def keep_more(environment: Environment, resolved: ResolvedPipeline) -> None:
    """Read what a status and alerts read of tables beside what a plan does, and keep it likewise."""
    layout = Layout.of(environment)
    place = PipelinePlace(layout, resolved.pipeline.name)
    if (store := _store(place)) is None:
        return
    of_plan = dict(store.contents)
    _know(store, place.more_contents)
    kept = dict(store.known)
    store.known = {**kept, **of_tables(place.more_contents.parent)}
    reads = [partial(delta_table.find_small, place.ops(name)) for name in ("ledger", "progress")]
    # Nobody but the next append reads these.
    reads += [partial(delta_table.find_log, place.ops(name)) for name in ("verdicts", "attempts")]
    for each in resolved.flows:
        tables = each.place(layout).quarantine, layout.table(each.flow.target.name)
        reads += [partial(delta_table.find_log, table) for table in tables]
    for read in reads:
        # A table that cannot be read is found by who needs it.
        with contextlib.suppress(TidegateError, OSError):
            read()
    more = {key: content for key, content in store.contents.items() if of_plan.get(key) != content}
    _keep(place.more_contents, store, more, kept)


def _know(store: ReadOnceStore, address: Address) -> None:
    store.known = {**store.known, **_kept(address)}


def _kept(address: Address) -> dict[str, Content]:
    with contextlib.suppress(FileNotFoundError, ValueError):
        kept = json_codec.decode(address.read().data, _Kept)
        return {key: Content(data, tag) for key, (tag, data) in kept.items()}
    return {}


def _keep(address: Address, store: ReadOnceStore, read: Mapping[str, Content], kept: Mapping[str, Content]) -> None:
    if all(key in kept and kept[key].tag == content.tag for key, content in read.items()):
        return
    made: _Kept = {key: (content.tag, content.data) for key, content in read.items()}
    try:
        store.store.put(address.key, json_codec.encode(made).encode())
    except OSError as error:
        log.warning("what the plan has read could not be kept: %s", error.strerror or type(error).__name__)


def _store(place: PipelinePlace) -> ReadOnceStore | None:
    """The store of a reading, where listings tell tags."""
    store = place.layout.root.store
    return store if isinstance(store, ReadOnceStore) and not store.is_local else None
