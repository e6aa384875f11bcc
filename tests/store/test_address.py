"""A key in a store, as one value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.store import Address, LocalStore
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.memory import MemoryStore


def test_an_address_has_the_operations_of_its_store(tmp_path: Path) -> None:
    address = Address(LocalStore(tmp_path)) / "a" / "b/c.json"
    address.put(b"1")
    address.put_if(b"2", address.read().tag)
    address.append(b"3")
    with address.open() as file:
        assert (tmp_path / "a/b/c.json").read_bytes() == address.read().data == file.read() == b"23"
    assert (address.name, address.stem, address.parent.name) == ("c.json", "c", "b")
    assert [address.parent.at(entry) for entry in address.parent.list()] == [address]
    assert address.stat().size == 2
    address.move(address.parent / "d")
    assert not address.exists()
    (address.parent / "d").delete()
    address.parent.delete_folder()
    assert list(Address(LocalStore(tmp_path)).walk()) == []


def test_a_local_address_is_the_path_for_every_other_program(tmp_path: Path) -> None:
    for store in (LocalStore(tmp_path), InstrumentedStore(LocalStore(tmp_path))):
        address = Address(store) / "a"
        assert str(address) == address.uri == os.fspath(address) == str(Path(address)) == str(tmp_path / "a")
        assert address.options == {}


def test_an_address_elsewhere_has_no_path() -> None:
    with pytest.raises(TypeError, match=r"memory:///a is not in the local file system"):
        os.fspath(Address(MemoryStore()) / "a")


def test_addresses_are_equal_and_sorted_by_their_keys(tmp_path: Path) -> None:
    lake, same = Address(LocalStore(tmp_path)), Address(LocalStore(tmp_path))
    assert lake / "a/b" == same / "a" / "b"
    assert len({lake / "a", same / "a", lake / "b"}) == 2
    assert sorted([lake / "a.b", lake / "b", lake / "a/c"]) == [lake / "a/c", lake / "a.b", lake / "b"]
    assert lake / "a" != Address(MemoryStore()) / "a"
    with pytest.raises(ValueError, match="different stores"):
        (lake / "a").move(Address(MemoryStore()) / "a")
