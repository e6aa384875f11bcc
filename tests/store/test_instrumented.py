"""Faults, latency and counts of a store."""

from __future__ import annotations

import errno
import time

import pytest

from tidegate.store.instrumented import Fault, InstrumentedStore
from tidegate.store.memory import MemoryStore


def refusal() -> OSError:
    return OSError(errno.EIO, "refused")


def test_a_fault_before_the_effect_leaves_the_old_content_and_one_after_it_the_new_one() -> None:
    store = InstrumentedStore(MemoryStore())
    store.put("a", b"old")
    fault = store.fail(Fault("put", refusal(), call=2))
    store.put("a", b"first")
    with pytest.raises(OSError, match="refused"):
        store.put("a", b"second")
    assert fault.fired
    assert store.read("a").data == b"first"
    store.fail(Fault("put", refusal(), after=True))
    with pytest.raises(OSError, match="refused"):
        store.put("a", b"third")
    assert store.read("a").data == b"third"
    store.put("a", b"fourth")


def test_a_fault_may_be_of_one_key_and_of_one_operation() -> None:
    store = InstrumentedStore(MemoryStore())
    fault = store.fail(Fault("read", refusal(), key="b"))
    for key in ("a", "b"):
        store.put(key, b"")
    store.read("a")
    assert not fault.fired
    with pytest.raises(OSError, match="refused"):
        store.read("b")


def test_requests_are_counted_and_delayed() -> None:
    store = InstrumentedStore(MemoryStore(), latency=0.01)
    begun = time.monotonic()
    store.put("a/b/c", b"")
    assert store.exists("a")
    assert len(list(store.walk())) == 1
    assert time.monotonic() - begun >= 0.05
    assert store.requests == {"put": 1, "stat": 1, "list": 3}
