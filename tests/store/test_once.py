"""One reading of a store asks for each thing once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.store.memory_buckets import MemoryBuckets
from tidegate.store import Store
from tidegate.store.instrumented import Fault, InstrumentedStore
from tidegate.store.location import BucketFolder
from tidegate.store.memory import MemoryStore
from tidegate.store.once import ReadOnceStore


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


def test_what_a_folder_was_listed_without_is_missing_with_all_below_it(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted)
    store.list("a")
    counted.requests.clear()
    for key in ("a/c", "a/d/e"):
        with pytest.raises(FileNotFoundError, match=key):
            store.read(key)
        assert not store.exists(key)
        assert store.list(key) == []
    assert store.stat("a/b").size == 1
    assert counted.requests == {}
    assert store.read("a/b").data == b"1"


def test_a_folder_of_which_most_is_missing_is_listed_first(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted, folders={"a": 2})
    assert [store.exists(key) for key in ("a/x/1", "a/x/2", "a/x/3/4", "c/1")] == [False] * 4
    assert counted.keys == {("put", "a/b"): 1, ("list", "a/x"): 1, ("stat", "c/1"): 1}


def test_a_tree_answers_for_its_folders(counted: InstrumentedStore) -> None:
    for key in ("a/b2/c/1", "a/b2/d/2"):
        counted.put(key, b"")
    counted.requests.clear()
    store = ReadOnceStore(counted, trees={"a": 2})
    assert [entry.name for entry in store.list("a/b2")] == ["c", "d"]
    assert not store.exists("a/b2/e/3")
    assert store.read("a/b").data == b"1", "a content has no tree"
    assert counted.requests["list_tree"] == 2
    assert counted.requests["list"] + counted.requests["stat"] == 0


def test_a_folder_that_was_listed_with_contents_exists() -> None:
    buckets = MemoryBuckets()
    bucket = buckets(BucketFolder("bucket"))
    bucket.put("a/b/c", b"1")
    store = ReadOnceStore(bucket, trees={"a": 1}, whole={"a"})
    buckets.requests.clear()
    assert store.stat("a").kind == store.stat("a/b").kind == "folder"
    assert store.stat("a/b").modified_ns == bucket.stat("a/b/c").modified_ns
    assert not store.exists("a/d")
    assert buckets.requests[0][0] == "LIST" and len(buckets.requests) == 2


def test_what_is_made_of_a_key_is_made_once_until_it_is_forgotten(counted: InstrumentedStore) -> None:
    store, made = ReadOnceStore(counted), iter(range(9))
    assert [store.once("a", lambda: next(made)) for _ in range(2)] == [0, 0]
    store.forget("a")
    assert store.once("a", lambda: next(made)) == 1
    assert [counted.once("a", lambda: next(made)) for _ in range(2)] == [2, 3]


def test_a_folder_that_cannot_be_listed_is_no_obstacle(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted, folders={"a": 1})
    refused = counted.fail(Fault("list", PermissionError(13, "Permission denied", "a")))
    assert store.read("a/b").data == b"1"
    assert refused.fired


def test_what_is_forgotten_is_asked_for_again_with_all_below_it(counted: InstrumentedStore) -> None:
    store = ReadOnceStore(counted, folders={"a": 1})
    everything(store)
    for key in ("a/b", "a/d", "c"):
        counted.put(key, b"2")
    store.forget("a")
    assert (store.read("a/b").data, store.exists("a/d"), store.exists("c")) == (b"2", True, False)


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


def test_a_content_that_has_its_tag_is_not_read_again() -> None:
    buckets = MemoryBuckets()
    bucket = buckets(BucketFolder("bucket"))
    contents = {"a/same": b"1", "a/changed": b"1", "a/large": b"1" * 100_000, "b/unlisted": b"1"}
    for key, data in contents.items():
        bucket.put(key, data)
    first = ReadOnceStore(bucket, folders={"a": 1})
    assert {key: first.read(key).data for key in contents} == contents
    assert first.contents.keys() == {"a/same", "a/changed"}, (
        "no listing told the tag of the other, and a large one is not kept"
    )
    bucket.put("a/changed", b"2")
    second = ReadOnceStore(bucket, folders={"a": 1})
    second.known = {**first.contents, "b/unlisted": first.read("b/unlisted")}
    buckets.requests.clear()
    assert {key: second.read(key).data for key in contents} == {**contents, "a/changed": b"2"}
    assert [key for kind, key in buckets.requests if kind == "GET"] == ["a/changed", "a/large", "b/unlisted"]
    assert second.contents["a/same"].tag == first.contents["a/same"].tag
