"""Small contents of a lake in a bucket that plans read, kept in one object: what still has its tag is not read again. Starts no JVM.

The tag is the server's, and a listing tells it, so what is kept is never taken for something newer (docs/adr/0059). A pipeline's plans and
jobs write the object, without a lock: whatever it has is true of the tags in it.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.store import Content
from tidegate.store.once import ReadOnceStore

if TYPE_CHECKING:
    from tidegate.environment import Environment

log = logging.getLogger("tidegate")

_Kept = dict[str, tuple[str, str]]
"""Tag and text by the key in the lake."""


def known(environment: Environment, pipeline: str) -> Environment:
    """The environment of a reading whose store knows what was kept for a pipeline."""
    environment = read_once.once(environment)
    place = PipelinePlace(Layout.of(environment), pipeline)
    if (store := _store(place)) is not None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            kept = json_codec.decode(store.read(place.contents.key).data, _Kept)
            store.known = {**store.known, **{key: Content(text.encode(), tag) for key, (tag, text) in kept.items()}}
    return environment


def keep(environment: Environment, pipeline: str) -> None:
    """Keep what the store of a reading has read, unless it is kept. An I/O error is logged: it only makes the next plan slower.

    Args:
        environment: That of the reading.
    """
    place = PipelinePlace(Layout.of(environment), pipeline)
    if (store := _store(place)) is None:
        return
    read = dict(store.contents)
    if all(key in store.known and store.known[key].tag == content.tag for key, content in read.items()):
        return
    kept: _Kept = {}
    for key, content in read.items():
        try:
            kept[key] = content.tag, content.data.decode()
        except UnicodeDecodeError:
            continue
    try:
        store.store.put(place.contents.key, json_codec.encode(kept).encode())
    except OSError as error:
        log.warning("what the plan has read could not be kept: %s", error.strerror or type(error).__name__)


def _store(place: PipelinePlace) -> ReadOnceStore | None:
    """The store of a reading, where listings tell tags."""
    store = place.layout.root.store
    return store if isinstance(store, ReadOnceStore) and not store.is_local else None
