"""What every store promises, on each of them; `test_refused_calls`, `test_updates` and `test_objects` have the rest."""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tidegate.errors import WriteConflictError
from tidegate.store import Address, LocalStore, Store
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.memory import MemoryStore
from tidegate.store.objects import ObjectStore
from tidegate.store.once import ReadOnceStore

KINDS: dict[str, Callable[[Path], Store]] = {
    "local": LocalStore,
    "memory": lambda _: MemoryStore(),
    "instrumented": lambda folder: InstrumentedStore(LocalStore(folder)),
    "read once": lambda folder: ReadOnceStore(LocalStore(folder)),
    "read once, listed first": lambda folder: ReadOnceStore(LocalStore(folder), {"a": 1, "b": 2}, {"a": 2, "c": 1}),
}
CONTROL = "a\nb"
NOT_UTF8 = "\udcff"
LONG = ("a" * 254, "ä" * 127)
UNUSUAL = ("a b", "ä", "a%2Fb", CONTROL, "*", "[a]", "-", "~", ".a", "a.", "a\\b", NOT_UTF8, "'\"", *LONG)


@pytest.fixture(params=[*KINDS, pytest.param("objects", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "objects":
        return new_store(request.getfixturevalue("s3_server"))
    return KINDS[request.param](tmp_path / "root")


def keys(store: Store, folder: str = "") -> dict[str, bytes]:
    return {entry.key: store.read(entry.key).data for entry in store.walk(folder)}


def shape(store: Store, folder: str = "") -> list[tuple[str, bool]]:
    return [(entry.key, entry.is_folder) for entry in store.list(folder)]


def test_a_tree_has_the_listings_of_its_folders(store: Store) -> None:
    for key in ("a/b", "a/c/d", "a/c/e/f", "a/c/e/g", "a-/b", "b/c"):
        store.put(key, b"")
    store.make_folder("a/empty")
    for root, whole in itertools.product(("a", "a/c", "b", "missing"), (False, True)):
        tree = store.list_tree(root, whole=whole)
        assert root in tree
        for folder, listed in tree.items():
            assert [each.revision for each in listed] == [each.revision for each in store.list(folder)]
        assert {folder: [each.key for each in listed] for folder, listed in tree.items()} == {
            folder: [each.key for each in store.list(folder)] for folder in tree
        }


def test_a_content_is_what_was_put_last_even_an_empty_one(store: Store) -> None:
    for data in (b"", b"\x00\xff" * 70_000, b"b"):
        store.put("a/b", data)
        assert store.read("a/b").data == data
        with store.open("a/b") as file:
            assert file.read() == data
        assert (store.stat("a/b").size, store.list("a")[0].size) == (len(data), len(data))
    assert store.stat("a/b").modified_ns == store.list("a")[0].modified_ns > 1_700_000_000 * 10**9


@pytest.mark.parametrize("act", ["read", "open", "stat"])
@pytest.mark.parametrize("key", ["a", "b/c/d", "c/d"])
def test_what_is_missing_is_missing_in_every_operation(store: Store, act: str, key: str) -> None:
    """Also below a key: c has a content, so c/d cannot exist."""
    store.put("c", b"")
    with pytest.raises(FileNotFoundError) as raised:
        getattr(store, act)(key)
    assert raised.value.filename == store.uri(key)
    assert not store.exists(key)


def test_what_is_missing_has_no_keys_and_may_be_deleted(store: Store) -> None:
    assert store.list("a/b") == list(store.walk("a")) == list(store.walk()) == []
    store.delete("a/b")
    store.delete_folder("a/b")
    with pytest.raises(FileNotFoundError):
        store.move("a", "b")
    assert store.list() == []


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\0"])
def test_a_text_that_is_no_key_is_refused(store: Store, key: str) -> None:
    of_keys = ["read", "open", "delete", "delete_folder"]
    for act in of_keys + (["stat", "list"] if key else []):
        with pytest.raises(ValueError, match="is not a key"):
            getattr(store, act)(key)
    with pytest.raises(ValueError, match="is not a key"):
        store.put(key, b"")


@pytest.mark.parametrize("name", UNUSUAL, ids=ascii)
def test_keys_may_have_unusual_names(store: Store, name: str) -> None:
    if isinstance(store, ObjectStore) and name in (CONTROL, NOT_UTF8):
        for act in (store.read, store.stat, store.list, store.delete, lambda key: store.put(key, b"")):
            with pytest.raises(OSError, match=store.bucket) as refused:
                act(name)
            assert refused.value.errno == errno.EILSEQ
        return
    if isinstance(store, ObjectStore) and name in LONG:
        name = name[:100]  # the server of the tests keeps an object as a file, whose draft has a longer name
    for key in (f"{name}/{name}", f"b/{name}"):
        store.put(key, key.encode("utf-8", "surrogateescape"))
        store.put_if(f"{key}2", b"", None)
        store.put_if(f"{key}2", b"1", store.read(f"{key}2").tag)
        assert store.read(key).data == key.encode("utf-8", "surrogateescape")
    assert sorted(keys(store)) == sorted([f"{name}/{name}", f"{name}/{name}2", f"b/{name}", f"b/{name}2"])
    store.delete(f"b/{name}")
    store.delete_folder(name)
    assert list(keys(store)) == [f"b/{name}2"]


def test_a_folder_lists_its_own_keys_and_folders_by_name(store: Store) -> None:
    for key in ("a/b/c", "a/b2", "a.b", "a/B", "b", "a/b/d/e"):
        store.put(key, b"")
    assert shape(store) == [("a", True), ("a.b", False), ("b", False)]
    assert shape(store, "a") == [("a/B", False), ("a/b", True), ("a/b2", False)]
    assert [entry.key for entry in store.walk("a/b")] == ["a/b/c", "a/b/d/e"]
    assert [entry.name for entry in store.list("a/b")] == ["c", "d"]
    assert store.stat("a").is_folder
    assert store.stat("").is_folder
    assert store.exists("a/b")
    assert store.stat("a").size == store.list()[0].size == 0


def test_a_key_is_not_also_a_folder(store: Store) -> None:
    if isinstance(store, ObjectStore):
        pytest.skip("an object store does not know what a folder is")
    store.put("a/b", b"1")
    for write in (store.put, store.append):
        with pytest.raises(IsADirectoryError):
            write("a", b"2")
        for key in ("a/b/c", "a/b/c/d"):
            with pytest.raises(NotADirectoryError):
                write(key, b"2")
    with pytest.raises(WriteConflictError):
        store.put_if("a", b"2", None)
    with pytest.raises(NotADirectoryError):
        store.put_if("a/b/c", b"2", None)
    with pytest.raises(NotADirectoryError):
        store.list("a/b")
    for act in ("read", "open", "delete"):
        with pytest.raises(IsADirectoryError):
            getattr(store, act)("a")
    store.delete_folder("a/b")
    assert keys(store) == {"a/b": b"1"}


def test_a_condition_holds_for_one_content_only(store: Store) -> None:
    first = store.put_if("a", b"1", None)
    assert store.read("a").tag == first
    for tag in (None, "other", ""):
        with pytest.raises(WriteConflictError, match="Nothing was written"):
            store.put_if("a", b"x", tag)
    with pytest.raises(WriteConflictError):
        store.put_if("b", b"x", first)
    assert store.put_if("a", b"2", first) == store.read("a").tag != first
    with pytest.raises(WriteConflictError):
        store.put_if("a", b"3", first)
    store.delete("a")
    with pytest.raises(WriteConflictError):
        store.put_if("a", b"3", first)
    assert keys(store) == {}


def test_what_is_open_stays_what_it_was(store: Store) -> None:
    store.put("a", b"first")
    with store.open("a") as before:
        store.put("a", b"other")
        assert before.read(2) == b"fi"
        before.seek(1)
        assert before.read() == b"irst"


def test_lines_are_appended(store: Store) -> None:
    for line in (b"1\n", b"22\n", b""):
        store.append("a/b", line)
    assert store.read("a/b").data == b"1\n22\n"


def test_a_key_or_a_folder_moves_to_a_free_one(store: Store) -> None:
    for key in ("a/b", "a/c/d", "e"):
        store.put(key, key.encode())
    for target in ("e", "a/c", "a/b"):
        with pytest.raises(FileExistsError):
            store.move("a/b" if target != "a/b" else "e", target)
    for source, target in (("a", "a/x"), ("a", "a"), ("a/b", "a")):
        with pytest.raises(ValueError, match="one of the two is in the other"):
            store.move(source, target)
    if not isinstance(store, ObjectStore):
        with pytest.raises(NotADirectoryError):
            store.move("a", "e/x")
    store.move("a", "x/y")
    store.move("e", "a/e")
    assert keys(store) == {"x/y/b": b"a/b", "x/y/c/d": b"a/c/d", "a/e": b"e"}


def test_a_folder_is_deleted_with_all_of_its_keys(store: Store) -> None:
    for key in ("a/b", "a/c/d", "ab"):
        store.put(key, b"")
    store.delete_folder("a")
    assert list(keys(store)) == ["ab"]
    store.put("a/b", b"again")
    assert keys(store, "a") == {"a/b": b"again"}


def test_a_folder_may_be_made_before_it_has_keys(store: Store) -> None:
    store.make_folder("a/b")
    store.make_folder("a/b")
    assert (shape(store), shape(store, "a"), shape(store, "a/b")) == ([("a", True)], [("a/b", True)], [])
    assert store.exists("a/b")
    assert keys(store) == {}
    store.put("a/b/c", b"1")
    store.make_folder("a/b")
    store.move("a/b", "d")
    assert keys(store) == {"d/c": b"1"}
    store.make_folder("e")
    store.delete_folder("e")
    assert not store.exists("e")
    if not isinstance(store, ObjectStore):
        for key in ("d/c", "d/c/f"):
            with pytest.raises(NotADirectoryError):
                store.make_folder(key)


def test_of_many_that_make_or_update_a_key_at_once_one_succeeds(store: Store) -> None:
    def succeeds(number: int, tag: str | None, barrier: threading.Barrier) -> bool:
        barrier.wait()
        try:
            store.put_if("a/b", str(number).encode(), tag)
        except WriteConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for attempt in range(20):
            tag = store.read("a/b").tag if attempt else None
            barrier = threading.Barrier(8)
            numbers = range(attempt * 8, attempt * 8 + 8)
            done = list(pool.map(lambda number, tag=tag, barrier=barrier: succeeds(number, tag, barrier), numbers))
            assert sum(done) == 1
            assert store.read("a/b").data == str(numbers[done.index(True)]).encode()


def test_of_many_that_change_a_content_each_change_and_each_line_stays(store: Store) -> None:
    """Lines are appended, and the content is changed, by four threads each."""
    address, barrier = Address(store, "a/b"), threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait()
        for each in range(5):
            line = b"%d %d\n" % (number, each)
            if number % 2:
                address.append(line)
            else:
                address.update(lambda before, line=line: (before or b"") + line)  # type: ignore[misc]

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(write, number) for number in range(8)]:
            done.result()
    expected = [b"%d %d" % (number, each) for number in range(8) for each in range(5)]
    assert sorted(address.read().data.splitlines()) == expected


@pytest.mark.slow
def test_while_keys_are_written_each_listing_has_whole_contents_of_what_was_there_before(store: Store) -> None:
    written = threading.Event()
    count = 30 if isinstance(store, ObjectStore) else 150

    def write() -> None:
        for number in range(count):
            store.put(f"a/{number:03}", b"x" * 5000)
            store.put("a/same", bytes([number]) * 5000)
            store.append("lines", b"x" * 99 + b"\n")
        written.set()

    store.put("a/before", b"")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(write), pool.submit(write)]
        known: set[str] = set()
        all_names = {"before", "same", *(f"{number:03}" for number in range(count))}
        while not written.is_set():
            names = [entry.name for entry in store.list("a")]
            assert names == sorted(names)
            assert "before" in names
            assert {entry.size for entry in store.list("a")} <= {0, 5000}
            assert known <= set(names) <= all_names
            known = set(names)
            if "same" in names:
                assert len(set(store.read("a/same").data)) == 1
        for each in both:
            each.result()
    assert len(store.list("a")) == count + 2
    assert store.read("lines").data == (b"x" * 99 + b"\n") * 2 * count


class StoreMachine(RuleBasedStateMachine):
    """Random operations on a store, with a dictionary as oracle. No key is a folder of another one."""

    kept = Bundle("kept")

    make = KINDS["local"]

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.store = type(self).make(Path(self.folder.name) / "root")
        self.oracle: dict[str, bytes] = {}

    _names = st.sampled_from(["a", "b", ".c", "d e"])
    _folders = st.lists(_names, min_size=0, max_size=2).map("/".join)
    _keys = st.tuples(_folders, st.sampled_from(["1", "2", "1.json"])).map(lambda parts: "/".join(filter(None, parts)))
    _data = st.binary(max_size=4)

    @initialize(target=kept)
    def first(self) -> str:
        return "missing"

    @rule(key=_keys, data=_data, target=kept)
    def put(self, key: str, data: bytes) -> str:
        self.store.put(key, data)
        self.oracle[key] = data
        return self.store.read(key).tag

    @rule(key=_keys, data=_data, tag=st.none() | kept)
    def put_if(self, key: str, data: bytes, tag: str | None) -> None:
        known = self.store.read(key).tag if key in self.oracle else None
        try:
            self.store.put_if(key, data, tag)
            assert tag == known
            self.oracle[key] = data
        except WriteConflictError:
            assert tag != known

    @rule(key=_keys, data=_data)
    def append(self, key: str, data: bytes) -> None:
        self.store.append(key, data)
        self.oracle[key] = self.oracle.get(key, b"") + data

    @rule(key=_keys)
    def delete(self, key: str) -> None:
        self.store.delete(key)
        self.oracle.pop(key, None)

    @precondition(lambda self: self.oracle)
    @rule(folder=_folders.filter(bool))
    def delete_folder(self, folder: str) -> None:
        self.store.delete_folder(folder)
        self.oracle = {key: data for key, data in self.oracle.items() if not key.startswith(f"{folder}/")}

    @rule(before=_keys, after=_keys)
    def move(self, before: str, after: str) -> None:
        if before == after:
            return
        try:
            self.store.move(before, after)
            assert after not in self.oracle
            self.oracle[after] = self.oracle.pop(before)
        except FileExistsError:
            assert after in self.oracle
        except FileNotFoundError:
            assert before not in self.oracle

    @rule(folder=_folders)
    def compare(self, folder: str) -> None:
        start = f"{folder}/" if folder else ""
        expected = {key: data for key, data in self.oracle.items() if key.startswith(start)}
        assert keys(self.store, folder) == expected
        names = [entry.name for entry in self.store.list(folder) if not entry.is_folder]
        assert names == sorted(key[len(start) :] for key in expected if "/" not in key[len(start) :])
        if expected:
            assert self.store.stat(folder).is_folder

    def teardown(self) -> None:
        self.compare("")
        if isinstance(self.store, LocalStore):
            files = {str(path.relative_to(self.store.root)) for path in self.store.root.rglob("*") if path.is_file()}
            assert {path for path in files if not path.startswith(".locks/")} == set(self.oracle)
        self.folder.cleanup()


def run_machine(make: Callable[[Path], Store], examples: int) -> None:
    machine = type("machine", (StoreMachine,), {"make": staticmethod(make)})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=25))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_random_operations_do_what_they_do_to_a_dictionary(kind: str) -> None:
    run_machine(KINDS[kind], 40)


def test_random_operations_on_objects_do_what_they_do_to_a_dictionary(s3_server: S3Process) -> None:
    run_machine(lambda _: new_store(s3_server), 8)
