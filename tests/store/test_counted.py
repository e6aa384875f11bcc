"""What is counted as sent to an object store is what its server gets."""

from __future__ import annotations

from collections import Counter

from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tests.store.proxy import S3Proxy, ServerFault, received
from tidegate.store.counted import SENT


def test_each_request_counts_also_one_that_is_sent_again_and_each_page(s3_server: S3Process) -> None:
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        store, before = new_store(s3_server, endpoint=proxy.endpoint), Counter(SENT.count())
        for key in (
            "tables/a/_delta_log/0.crc",
            "checkpoints/p/f/v1.json",
            "checkpoints/p/f/v1/0/state/0/1",
            "lake.json",
        ):
            fault = proxy.fail(ServerFault("PUT", status=503, code="SlowDown"))
            store.put(key, b"1")
            assert fault.fired
            assert store.read(key).data == b"1"
            assert store.stat(key).size == 1
        with store.open("lake.json") as content:
            assert content.read() == b"1"
        assert not store.exists("missing")
        for number in range(1001):
            store.put(f"many/{number}", b"")
        assert len(store.list("many")) == 1001
        assert sum(map(len, store.list_tree("many", whole=True).values())) == 1001
        store.move("lake.json", "moved.json")
        store.delete_folder("many")
        assert Counter(SENT.count()) - before == received(proxy.requests)
