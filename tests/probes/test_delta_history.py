"""The history of a table is proven from its log: what others may do to it, what puts it in doubt, and what is lost."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from tidegate.errors import TableUnreadableError
from tidegate.lake.table_history import Doubt, Position, Proof
from tidegate.probes import delta_history, delta_log
from tidegate.probes.delta_history import Follower
from tidegate.store import Address

pytestmark = pytest.mark.slow

OWNER = "shop/silver/"
FOLLOWER = Follower(table="silver.orders", owner=OWNER)
READER = Follower(table="bronze.orders", owner=OWNER, follows_changes=False)


@dataclass
class Written:
    """A small table, and what each of its commits means, kept by hand and not read from its log."""

    path: Address
    meanings: list[str] = field(default_factory=list)
    batch: int = -1
    row: int = 0

    def own(self) -> None:
        self.batch += 1
        metadata = json.dumps({"app_id": f"{OWNER}v1/0", "batch_id": self.batch})
        commit = CommitProperties(
            custom_metadata={"userMetadata": metadata}, app_transactions=[Transaction(f"{OWNER}v1/0", self.batch)]
        )
        self._append(commit_properties=commit)
        self.meanings.append("own")

    def append(self) -> None:
        self._append()
        self.meanings.append("append")

    def delete(self) -> None:
        self._act("change", lambda table: table.delete(f"id = {self._any_id(table)}"))

    def update(self) -> None:
        self._act("change", lambda table: table.update(updates={"v": "v + 1"}, predicate=f"id = {self._any_id(table)}"))

    def merge(self) -> None:
        def merge(table: DeltaTable) -> None:
            merger = table.merge(self._rows(), "t.id = s.id", source_alias="s", target_alias="t")
            merger.when_not_matched_insert_all().execute()

        self._act("change", merge)

    def overwrite(self) -> None:
        write_deltalake(str(self.path), self._rows(), mode="overwrite")
        self.meanings.append("break")

    def restore(self) -> None:
        table = DeltaTable(str(self.path))
        older = max(table.version() - 2, 0)
        if set(DeltaTable(str(self.path), version=older).file_uris()) != set(table.file_uris()):
            self._act("break", lambda table: table.restore(older))

    def optimize(self) -> None:
        self._act("harmless", lambda table: table.optimize.compact())

    def vacuum(self) -> None:
        self._act("harmless", lambda table: table.vacuum(retention_hours=1000, dry_run=False))

    def set_property(self) -> None:
        self._act(
            "harmless",
            lambda table: table.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"}),
        )

    def add_column(self) -> None:
        name = f"c{len(self.meanings)}"
        self._act("harmless", lambda table: table.alter.add_columns([Field(name, PrimitiveType("string"))]))

    def lose(self, entries: int) -> None:
        """The newest entries of the log are lost, with their checksums."""
        for _ in range(min(entries, len(self.meanings) - 1)):
            self.meanings.pop()
            delta_log.entry(self.path, len(self.meanings)).delete()

    def position(self, version: int) -> Position:
        return delta_history.position(self.path, version)

    def _act(self, meaning: str, act: Callable[[DeltaTable], Any]) -> None:
        table = DeltaTable(str(self.path))
        before = table.version()
        act(table)
        self.meanings += [meaning] * (DeltaTable(str(self.path)).version() - before)

    def _append(self, **more: Any) -> None:
        feed = None if self.path.exists() else {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(self.path), self._rows(), mode="append", schema_mode="merge", configuration=feed, **more)

    def _rows(self) -> pa.Table:
        self.row += 1
        return pa.table({"id": [self.row], "v": [float(self.row)]})

    @staticmethod
    def _any_id(table: DeltaTable) -> int:
        ids = table.to_pyarrow_table(columns=["id"])["id"].to_pylist()
        return int(ids[0]) if ids else 0


@pytest.fixture
def written(tmp_path: Path) -> Written:
    table = Written(Address.local(tmp_path / "orders"))
    table.own()
    table.own()
    return table


def doubt(result: Proof | Doubt | None) -> Doubt:
    assert isinstance(result, Doubt)
    return result


def proof(result: Proof | Doubt | None) -> Proof:
    assert isinstance(result, Proof)
    return result


@pytest.mark.parametrize("act", ["optimize", "vacuum", "set_property", "add_column", "own"])
def test_commits_without_a_change_of_rows_and_those_of_the_writer_pass(written: Written, act: str) -> None:
    known = written.position(1)
    getattr(written, act)()
    result = proof(delta_history.prove(written.path, known, FOLLOWER))
    assert (result.position.version, result.foreign) == (len(written.meanings) - 1, ())
    assert (result.position.app_id, result.position.batch_id) == (f"{OWNER}v1/0", written.batch)


@pytest.mark.parametrize(
    ("act", "operation"), [("append", "WRITE"), ("delete", "DELETE"), ("update", "UPDATE"), ("merge", "MERGE")]
)
def test_changed_rows_are_followed_and_named_with_operation_and_time(
    written: Written, act: str, operation: str
) -> None:
    known = written.position(1)
    getattr(written, act)()
    (commit,) = proof(delta_history.prove(written.path, known, FOLLOWER)).foreign
    assert (commit.version, commit.operation, commit.at_ms is not None) == (2, operation, True)
    assert f"{operation} of silver.orders by another writer (version 2, 20" in commit.summary()
    for_reader = delta_history.prove(written.path, known, READER)
    assert (for_reader.reason if isinstance(for_reader, Doubt) else "") == ("" if act == "append" else "not followed")


@pytest.mark.parametrize(("act", "operation"), [("restore", "RESTORE"), ("overwrite", "WRITE")])
def test_a_replaced_version_is_in_doubt_until_the_writer_stands_by_it(
    written: Written, act: str, operation: str
) -> None:
    written.own()
    known = written.position(2)
    getattr(written, act)()
    written.own()
    reason = doubt(delta_history.prove(written.path, known, FOLLOWER))
    assert (reason.reason, reason.version, reason.operation) == ("rewritten", 3, operation)
    stands_by_it = Follower(table="silver.orders", owner=OWNER, vouched=3)
    assert [each.version for each in proof(delta_history.prove(written.path, known, stands_by_it)).foreign] == [3]
    only_reads = Follower(table="silver.orders", owner=OWNER, vouched=3, follows_changes=False)
    assert doubt(delta_history.prove(written.path, known, only_reads)).reason == "not followed"


def test_a_renamed_or_retyped_column_and_a_feed_that_is_switched_off_are_in_doubt(written: Written) -> None:
    known, entry = written.position(1), delta_log.entry(written.path, 2)
    metadata = next(action for kind, action in delta_log.actions(written.path, 0) or () if kind == "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]
    variants: list[dict[str, Any]] = [
        {"schemaString": json.dumps({"type": "struct", "fields": [{**fields[0], "name": "renamed"}, fields[1]]})},
        {"schemaString": json.dumps({"type": "struct", "fields": [{**fields[0], "type": "string"}, fields[1]]})},
        {"schemaString": json.dumps({"type": "struct", "fields": fields[:1]})},
        {"configuration": {}},
        {"id": "another"},
    ]
    for changed in variants:
        info = {"commitInfo": {"operation": "RENAME COLUMN", "timestamp": 1}}
        entry.put(("".join(json.dumps(line) + "\n" for line in (info, {"metaData": {**metadata, **changed}}))).encode())
        assert doubt(delta_history.prove(written.path, known, FOLLOWER)).reason == "rewritten", changed
        # Its feed cannot be read across it, whoever stands by it.
        vouched = Follower(table="silver.orders", owner=OWNER, vouched=9)
        assert doubt(delta_history.prove(written.path, known, vouched)).reason == "rewritten", changed


def test_a_lost_entry_is_noticed_before_and_after_its_number_is_taken(written: Written) -> None:
    written.own()
    known = written.position(2)
    written.lose(1)
    assert doubt(delta_history.prove(written.path, known, FOLLOWER)).reason == "lost"
    written.own()
    replaced = doubt(delta_history.prove(written.path, known, FOLLOWER))
    assert (replaced.reason, replaced.version) == ("replaced", 2)
    assert proof(delta_history.prove(written.path, written.position(1), FOLLOWER)).position.version == 2


def test_a_checksum_or_a_checkpoint_without_its_entry_is_a_lost_entry(written: Written) -> None:
    known = written.position(1)
    written.own()
    for suffix in (".crc", ".checkpoint.parquet"):
        left = Path(delta_log.entry(written.path, 2)).with_suffix(suffix)
        left.write_bytes(b"{}")
        Path(delta_log.entry(written.path, 2)).rename(written.path / "entry")
        assert doubt(delta_history.prove(written.path, known, FOLLOWER)).reason == "lost"
        assert doubt(delta_history.prove(written.path, None, FOLLOWER)).reason == "lost"
        Path(written.path / "entry").rename(delta_log.entry(written.path, 2))
        left.unlink()


@pytest.mark.parametrize("content", ["", "\n", '{"commitInfo":{}}\n{"add":', "\0" * 64, "[]"])
@pytest.mark.parametrize("read", [True, False])
def test_an_entry_that_is_torn_or_empty_is_named(written: Written, content: str, read: bool) -> None:
    known, entry = written.position(1 if read else 0), delta_log.entry(written.path, 1)
    entry.put(content.encode())
    for position in (known, None):
        with pytest.raises(TableUnreadableError, match=re.escape(str(entry))):
            delta_history.prove(written.path, position, FOLLOWER)


@pytest.mark.parametrize("known", [0, 1])
def test_a_missing_entry_in_the_middle_is_lost_and_not_cleaned(written: Written, known: int) -> None:
    written.own()
    position = written.position(known)
    delta_log.entry(written.path, 1).delete()
    result = doubt(delta_history.prove(written.path, position, FOLLOWER))
    assert (result.reason, result.version) == ("lost", 1)


@pytest.mark.parametrize("content", [None, "", '{"commitInfo":{}}\n{"add":'])
def test_an_older_entry_that_is_lost_or_torn_is_named(written: Written, content: str | None) -> None:
    written.own()
    position, entry = written.position(2), delta_log.entry(written.path, 1)
    entry.delete() if content is None else entry.put(content.encode())
    for known in (position, None):
        with pytest.raises(TableUnreadableError, match=re.escape(str(entry))):
            delta_history.prove(written.path, known, FOLLOWER)


def test_an_older_entry_that_a_checkpoint_has_is_not_needed(written: Written) -> None:
    written.own()
    DeltaTable(str(written.path)).create_checkpoint()
    delta_log.entry(written.path, 1).put(b"")
    assert proof(delta_history.prove(written.path, written.position(2), FOLLOWER)).position.version == 2


def test_a_batch_without_its_transaction_is_torn(written: Written) -> None:
    """An entry that was cut at the end of a line can be parsed."""
    known, entry = written.position(0), delta_log.entry(written.path, 1)
    lines = entry.read().data.splitlines(keepends=True)
    entry.put(b"".join(line for line in lines if not line.startswith(b'{"txn"')))
    with pytest.raises(TableUnreadableError, match="lacks the transaction of its batch"):
        delta_history.prove(written.path, known, FOLLOWER)


def test_an_entry_that_delta_has_cleaned_is_proven_by_the_transaction(written: Written) -> None:
    known = written.position(1)
    for _ in range(3):
        written.own()
    DeltaTable(str(written.path)).create_checkpoint()
    for version in range(4):
        delta_log.entry(written.path, version).delete()
    assert proof(delta_history.prove(written.path, known, FOLLOWER)).position.version == 4
    ahead = Position(version=1, digest=known.digest, app_id=known.app_id, batch_id=9)
    assert doubt(delta_history.prove(written.path, ahead, FOLLOWER)).reason == "no proof"
    of_others = Position(version=1, digest=known.digest, app_id="shop/other/v1/0", batch_id=0)
    assert doubt(delta_history.prove(written.path, of_others, FOLLOWER)).reason == "no proof"


def test_properties_that_were_set_before_delta_cleaned_the_log_are_known_by_their_operation(written: Written) -> None:
    known = written.position(1)
    written.set_property()
    DeltaTable(str(written.path)).create_checkpoint()
    for version in range(2):
        delta_log.entry(written.path, version).delete()
    assert proof(delta_history.prove(written.path, known, FOLLOWER)).position.version == 2
    entry = delta_log.entry(written.path, 2)
    entry.put((entry.read().data.decode().replace("SET TBLPROPERTIES", "CHANGE COLUMN")).encode())
    assert doubt(delta_history.prove(written.path, known, FOLLOWER)).reason == "rewritten"


def test_a_deleted_table_is_in_doubt_only_if_it_was_known(written: Written) -> None:
    known = written.position(1)
    written.path.delete_folder()
    assert doubt(delta_history.prove(written.path, known, FOLLOWER)).reason == "lost"
    assert delta_history.prove(written.path, None, FOLLOWER) is None


ACTS = (
    "own",
    "own",
    "append",
    "delete",
    "update",
    "merge",
    "overwrite",
    "restore",
    "optimize",
    "vacuum",
    "set_property",
)


@pytest.mark.parametrize("seed", range(12))
def test_random_acts_are_judged_as_a_list_of_them_says(tmp_path: Path, seed: int) -> None:
    """The oracle is the list of acts, and copies of the log before each: it never reads what the entries say."""
    rng = random.Random(seed)
    table = Written(Address.local(tmp_path / "orders"))
    table.own()
    known: list[tuple[Position, list[str]]] = []
    for _ in range(14):
        known.append((table.position(len(table.meanings) - 1), list(map(str, _bytes(table)))))
        act = rng.choice((*ACTS, "lose"))
        table.lose(rng.randint(1, 2)) if act == "lose" else getattr(table, act)()
        present = list(map(str, _bytes(table)))
        for position, then in known:
            later = table.meanings[position.version + 1 :]
            for follower, harmful in ((FOLLOWER, {"break"}), (READER, {"break", "change"})):
                is_prefix = present[: len(then)] == then
                expected = is_prefix and not harmful & set(later)
                assert isinstance(delta_history.prove(table.path, position, follower), Proof) == expected, (act, later)


def _bytes(table: Written) -> list[bytes]:
    return [delta_log.entry(table.path, version).read().data for version in range(len(table.meanings))]
