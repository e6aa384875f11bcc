"""One reading of a store asks for each thing once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidegate.store import InstrumentedStore, MemoryStore, ReadOnceStore, Store
from tidegate.store.instrumented import Fault


@pytest.fixture
def counted() -> InstrumentedStore:
    store = InstrumentedStore(MemoryStore())
    store.put("a/b", b"1")
    store.requests.clear()
    return store


def everything(store: Store) -> tuple[object, ...]:
    exists = [store.exists(key) for key in ("a", "a/b", "c")]
    with pytest.raises(FileNotFoundError):
        store.read("c")
    return store.read("a/b").data, [entry.key for entry in store.list("a")], store.stat("a/b").revision, exists


def test_each_thing_is_asked_for_once_also_what_is_missing(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted)
    first = everything(store)
    assert first == everything(store)
    assert counted.requests == {"read": 2, "list": 1, "stat": 3}


def test_what_others_write_meanwhile_does_not_change_the_reading(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted)
    before = everything(store)
    counted.put("a/b", b"2")
    counted.put("a/d", b"")
    counted.put("c", b"")
    assert everything(store) == before
    assert ReadOnceStore(counted).read("a/b").data == b"2"


def test_a_write_through_it_is_seen(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted)
    everything(store)
    store.put("c", b"3")
    assert store.read("c").data == b"3"
    assert [entry.key for entry in store.list()] == ["a", "c"]


def test_an_error_is_not_an_answer(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted)
    counted.fail(Fault("read", PermissionError(13, "Permission denied", "a/b")))
    with pytest.raises(PermissionError):
        store.read("a/b")
    assert store.read("a/b").data == b"1"


def test_threads_that_ask_at_the_same_time_share_one_request(counted: InstrumentedStore) -> None:
    store, counted.latency, start = ReadOnceStore(counted), 0.1, threading.Barrier(8)

    def read(_: int) -> bytes:
        start.wait()
        return store.read("a/b").data

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(read, range(8))) == {b"1"}
    assert counted.requests == {"read": 1}
