"""A write without a condition may reach an object store after another process has written: none of the platform's does harm then.

A driver is stopped in the middle of a request, its leases are taken over, and it goes on. Each test holds a write back until another
process has done its own.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.schema_registry import SchemaRegistry
from tidegate import json_codec
from tidegate.checkpoints import lease, object_lease
from tidegate.checkpoints.landing_folder import MOVED_FILES, MovedFiles
from tidegate.checkpoints.note import AnyNote, Note, NoteLines, NumberedNotes
from tidegate.checkpoints.pending_jobs import CLAIM, WINDOWS
from tidegate.errors import LakeVersionError, LeaseLostError, WriteConflictError
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, PipelinePlace, Place, RunPlace
from tidegate.ops import plans
from tidegate.requests.request import fresh_id
from tidegate.schema import registry_schemas
from tidegate.status.notes import ALL_NOTES
from tidegate.store import Address, Content, Store
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.memory import MemoryStore

ROOT = Path(__file__).parents[2]
OWN_ID = "the key has the id of the attempt or of the request, which no other process has"
ONE_MACHINE = "the file is of this machine, which no object store delays"
NEW_NAME = "the key has a random number, and only the commit of a table names it"
SAME = "every writer writes the same content"
FOLDER = "the folder exists, as it did at the time of the write"
FINISHED = "only what no run writes again is deleted: numbers and refreshes are never given again"
TAGGED = "the content is true of the tags in it, whatever has been written since; what it lacks is read again"
PAGES = "an export that a person makes, which no run reads: the next export replaces it"
RECOVERY = "a recovery, which a person starts: what a late deletion takes of the new table, the next run finds missing in its log"
OWN_FILES = "only what this command has created is deleted, before any run reads it"
HARMLESS = {
    "checkpoints/lease.py: json_codec.write(Address.local(layout.lease_owner(resource)))": ONE_MACHINE,
    "cli/driver_log.py: address.put": OWN_ID,
    "cli/driver_log.py: log.kept.delete": ONE_MACHINE,
    "json_codec.py: address.put": "as the calls of json_codec.write, which are in this list",
    "kinds/snapshots/run.py: folder.make_folder": FOLDER,
    "ops/compaction.py: (address / name).put": NEW_NAME,
    "ops/contents.py: store.store.put": TAGGED,
    "ops/heartbeats.py: address.parent.make_folder": FOLDER,
    "ops/store.py: address.parent.make_folder": FOLDER,
    "ops/store.py: delta_log.entry(folder, version).put": ONE_MACHINE,
    "pages/site.py: old.delete": PAGES,
    "pages/site.py: page.put": PAGES,
    "pages/site.py: sheet.put": PAGES,
    "reports/report.py: json_codec.write(address)": OWN_ID,
    "requests/request.py: json_codec.write(RunPlace(layout, self.dag_id, self.run_key).request(self.request_id))": OWN_ID,
    "runs/state/run.py: json_codec.write(job.run.place.stored_state(job.flow.name))": OWN_ID,
    "runs/verify/run.py: json_codec.write(job.run.place.differences(job.flow.name))": OWN_ID,
    "scaffolding/pipeline_files.py: address.delete": OWN_FILES,
    "scaffolding/project_files.py: address.delete": ONE_MACHINE,
    "scaffolding/requirements_file.py: Address.local(project / FILE).put": ONE_MACHINE,
    "schema/registry_schemas.py: address.put": SAME,
    "spark/application.py: address.put": OWN_ID,
    "spark/batch/rewrite.py: json_codec.write(path)": OWN_ID,
    "spark/flow.py: job.place.staging.make_folder": FOLDER,
    "spark/job.py: place.checkpoint.make_folder": FOLDER,
    "spark/reprocessing/backfill.py: (pending_work.folder(job) / entry.name).delete_folder": FINISHED,
    "spark/reprocessing/recovery.py: path.move": RECOVERY,
    "spark/reprocessing/recovery.py: file.move": RECOVERY,
    "spark/reprocessing/swap.py: (folder / entry.name).delete_folder": FINISHED,
    "spark/reprocessing/undo.py: json_codec.write(path)": OWN_ID,
    "status/deployment.py: store.delete": OWN_ID,
    "probes/linked_table.py: delta_log.entry(links, 0).put": ONE_MACHINE,
}
"""Every call that writes or deletes without a condition, and why it does no harm when it is late; all others are `Store.put_if`, `append`,
or a commit of a Delta table. ``docs/adr/0061-late-writes-change-nothing.md`` says the same."""
WRITES = ("put", "delete", "delete_folder", "move", "make_folder")


class LateStore(InstrumentedStore):
    """Holds the first write back until another process has done its own.

    Args:
        store: The store that both write to.
        meanwhile: What the other process does.
        operations: The operations, one of which is held back.
    """

    def __init__(
        self, store: Store, meanwhile: Callable[[], object], operations: tuple[str, ...] = (*WRITES, "put_if")
    ) -> None:
        super().__init__(store)
        self._meanwhile, self._operations = meanwhile, operations
        self.was_late = False

    def _let_pass(self, operation: str) -> None:
        if operation in self._operations and not self.was_late:
            self.was_late = True
            self._meanwhile()

    def put(self, key: str, data: bytes) -> None:
        self._let_pass("put")
        super().put(key, data)

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        self._let_pass("put_if")
        return super().put_if(key, data, tag)

    def append(self, key: str, line: bytes) -> None:
        self._let_pass("append")
        super().append(key, line)

    def delete_folder(self, key: str) -> None:
        self._let_pass("delete_folder")
        super().delete_folder(key)

    def read(self, key: str) -> Content:
        content = super().read(key)
        self._let_pass("read")
        return content


def layout_of(store: Store) -> Layout:
    return Layout(Address(store), Address(MemoryStore()))


def place_in(store: Store) -> Place:
    return Place(layout_of(store), "orders", "silver", 2, 1)


def calls_in(path: Path) -> list[str]:
    calls = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            if node.func.attr in WRITES:
                calls.append(called)
            elif called == "json_codec.write":
                calls.append(f"{called}({ast.unparse(node.args[0])})")
    return calls


@pytest.mark.slow
def test_every_write_without_a_condition_is_listed_with_the_reason_why_it_may_be_late() -> None:
    package, calls = ROOT / "tidegate", Counter[str]()
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if not name.startswith(("store/", "testing/")):
            calls.update(f"{name}: {call}" for call in calls_in(path))
    assert calls == dict.fromkeys(HARMLESS, 1)


NOTES = [pytest.param(each, id=each.name) for each in ALL_NOTES]


def write(note: AnyNote, place: Place, text: str) -> None:
    """Write a note; what it says is not looked at."""
    if isinstance(note, NumberedNotes):
        note.write(place, 0, {"text": text})
    elif isinstance(note, NoteLines):
        note.append(place, {"text": text})
    else:
        cast(Note[Any, Any], note).write(place, {"text": text})


def clear(note: AnyNote, place: Place) -> None:
    if isinstance(note, NumberedNotes):
        note.clear(place, 0)
    else:
        cast(Note[Any, Any], note).clear(place)


@pytest.mark.parametrize("note", [each for each in NOTES if not isinstance(each.values[0], NoteLines)])
@pytest.mark.parametrize(
    ("late", "later"), [("write", "write"), ("write", "clear"), ("clear", "write"), ("absent", "write")]
)
def test_a_late_note_changes_nothing_that_a_later_holder_wrote(note: AnyNote, late: str, later: str) -> None:
    store = MemoryStore()
    place = place_in(store)
    if late != "absent":
        write(note, place, "before")

    def successor() -> None:
        write(note, place, "later") if later == "write" else clear(note, place)

    stale = LateStore(store, successor)
    with pytest.raises(WriteConflictError):
        clear(note, place_in(stale)) if late == "clear" else write(note, place_in(stale), "late")
    assert stale.was_late
    (content,) = {entry.key: store.read(entry.key).data for entry in store.walk()}.values()
    assert json_codec.decode(content, object) == ({"text": "later"} if later == "write" else None)


@pytest.mark.parametrize("note", [each for each in NOTES if isinstance(each.values[0], NoteLines)])
def test_a_late_line_of_a_note_is_one_more(note: NoteLines[Any, Any]) -> None:
    store = MemoryStore()
    write(note, place_in(LateStore(store, lambda: write(note, place_in(store), "later"), ("append",))), "late")
    lines = note.path(place_in(store)).read().data.splitlines()
    assert [json_codec.decode(line, object) for line in lines] == [{"text": "later"}, {"text": "late"}]


class Clock:
    """Time passes when a test says so."""

    now = 0.0

    def seconds(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_holder_that_was_stopped_after_it_read_a_note_does_not_write_it() -> None:
    store, clock = MemoryStore(), Clock()
    write(CLAIM, place_in(store), "before")

    def stop() -> None:
        clock.now += object_lease.TTL_SECONDS

    stale = LateStore(store, stop, ("read",))
    resource = lease.checkpoint_resource("orders", "silver")
    with object_lease.hold(layout_of(store), (resource,), what="a driver", clock=clock), pytest.raises(LeaseLostError):
        write(CLAIM, place_in(stale), "late")
    assert stale.was_late
    assert CLAIM.path(place_in(store)).read().data == json_codec.to_bytes({"text": "before"})


def test_the_number_of_a_cleared_note_is_not_given_again() -> None:
    place = place_in(MemoryStore())
    for number in range(11):
        WINDOWS.write(place, number, cast(Any, {}))
    for number in (10, 3):
        WINDOWS.clear(place, number)
    assert WINDOWS.numbers(place) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert WINDOWS.next_number(place) == 11
    assert WINDOWS.read(place, 10) is None


def test_files_that_moves_accept_together_are_all_noted() -> None:
    store = MemoryStore()

    def accept(place: Place, name: str) -> None:
        def with_file(known: MovedFiles | None) -> MovedFiles:
            return MovedFiles(times=(known.times if known is not None else {}) | {name: [1]})

        MOVED_FILES.update(place, with_file)

    stale = LateStore(store, lambda: accept(place_in(store), "later"))
    accept(place_in(stale), "late")
    assert stale.was_late
    assert MOVED_FILES.read(place_in(store)) == MovedFiles(times={"late": [1], "later": [1]})


def test_a_late_cut_of_the_plans_loses_none() -> None:
    store = MemoryStore()
    place = PipelinePlace(layout_of(store), "orders")
    plans.record_failure(place)
    place.plans.put(place.plans.read().data * 2 * plans.MAX_LINES)
    stale = LateStore(store, lambda: plans.record_failure(place), ("put_if",))
    plans.record_failure(PipelinePlace(layout_of(stale), "orders"))
    assert stale.was_late
    # The successor cut the file behind its own line, and the late plan appended its line to that.
    lines = place.plans.read().data.splitlines()
    assert len(lines) == plans.MAX_LINES + 1
    assert len(set(lines[-3:])) == 3


def test_a_late_process_does_not_set_the_format_of_a_lake_back() -> None:
    store = MemoryStore()
    newer = json_codec.to_bytes({"format": 2})
    stale = LateStore(store, lambda: layout_of(store).marker.put(newer))
    with pytest.raises(LakeVersionError):
        layout_of(stale).open()
    assert stale.was_late
    assert layout_of(store).marker.read().data == newer


def test_a_late_schema_of_the_registry_is_the_one_that_is_there() -> None:
    store = MemoryStore()
    with SchemaRegistry() as registry:
        number = registry.register({"type": "string"})

        def fetch(of: Store) -> object:
            return registry_schemas.fetch(registry.settings, PipelinePlace(layout_of(of), "orders").schemas, number)

        stale = LateStore(store, lambda: fetch(store))
        assert fetch(stale) == fetch(store)
    assert stale.was_late


def test_two_attempts_and_two_requests_have_no_file_in_common() -> None:
    layout = layout_of(MemoryStore())
    one, two = (AttemptPlace(layout, "orders", "run", fresh_id("a")) for _ in range(2))
    named = {name for name, member in vars(AttemptPlace).items() if not name.startswith("_") and callable(member)}
    assert {"sample", "differences", "stored_state", "undone_keys"} <= named
    for place in (one, two):
        files = [place.report, *(getattr(place, name)("silver") for name in named)]
        assert all(file.key.startswith(f"{place.folder.key}/") for file in files)
    assert one.folder != two.folder
    run = RunPlace(layout, "orders", "run")
    assert run.request(fresh_id("q")) != run.request(fresh_id("q"))


def test_late_deletions_leave_what_a_later_driver_derives() -> None:
    from tidegate.spark.reprocessing import backfill, swap

    store = MemoryStore()
    kept = ("v2-2/a", "v10-0/a")
    staging, windows = place_in(store).staging.parent, WINDOWS.folder(place_in(store))

    def successor() -> None:
        for key in kept:
            (staging / key).put(b"")
        (windows / "10.keys" / "a").put(b"")

    for key in ("v1-3/a", "v2-0/a", "v2-1/a"):
        (staging / key).put(b"")
    (windows / "1.keys" / "a").put(b"")
    # The one is stopped before it lists what it deletes, the other one in the middle of it.
    for stale in (LateStore(store, successor, ("delete_folder",)), store):
        job = cast(Any, SimpleNamespace(place=place_in(stale)))
        swap._delete_staging(job)
        backfill._remove_files(job, 1)
    assert sorted(entry.key for entry in staging.walk()) == sorted(f"{staging.key}/{key}" for key in kept)
    assert [entry.key for entry in windows.walk()] == [f"{windows.key}/10.keys/a"]


@pytest.mark.parametrize("has_file", [True, False])
def test_a_folder_that_is_made_late_takes_nothing_from_it(has_file: bool) -> None:
    store = MemoryStore()
    folder = place_in(store).checkpoint
    if has_file:
        (folder / "offsets" / "0").put(b"v1")
    before = list(store.walk())
    folder.make_folder()
    assert [entry.key for entry in store.walk()] == [entry.key for entry in before]
    assert folder.exists()
