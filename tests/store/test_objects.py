"""What an object store adds: answers that are lost, refusals, servers that are not safe, and objects of others."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.s3_server import S3Process
from tests.store.buckets import arrow_files, directly, new_store
from tests.store.proxy import S3Proxy, ServerFault
from tidegate.errors import SetupError, WriteConflictError
from tidegate.errors.classification import classify, is_transient, says_nothing_about_file
from tidegate.errors.object_storage import ANSWERS, BY_CODE, OTHER_ANSWER
from tidegate.store import objects
from tidegate.store.objects import ObjectStore


@pytest.fixture
def store(proxy: S3Proxy, s3_server: S3Process) -> ObjectStore:
    return new_store(s3_server, endpoint=proxy.endpoint)


def content(store: ObjectStore) -> dict[str, bytes]:
    return {entry.key: store.read(entry.key).data for entry in store.walk()}


def update(store: ObjectStore) -> None:
    store.put_if("a", b"new\n", store.read("a").tag)


OPERATIONS: dict[str, tuple[str, Callable[[ObjectStore], Any], Any, dict[str, bytes]]] = {
    "read": ("GET", lambda store: store.read("a").data, b"old\n", {"a": b"old\n"}),
    "open": ("GET", lambda store: store.open("a").read(), b"old\n", {"a": b"old\n"}),
    "list": ("GET", lambda store: [each.key for each in store.list()], ["a", "f"], {"a": b"old\n"}),
    "stat": ("HEAD", lambda store: store.stat("a").size, 4, {"a": b"old\n"}),
    "put": ("PUT", lambda store: store.put("a", b"new\n"), None, {"a": b"new\n"}),
    "put_if absent": (
        "PUT",
        lambda store: store.put_if("b", b"new\n", None) and None,
        None,
        {"a": b"old\n", "b": b"new\n"},
    ),
    "put_if the tag": ("PUT", update, None, {"a": b"new\n"}),
    "append": ("PUT", lambda store: store.append("a", b"new\n"), None, {"a": b"old\nnew\n"}),
    "append the first": ("PUT", lambda store: store.append("b", b"new\n"), None, {"a": b"old\n", "b": b"new\n"}),
    "delete": ("POST", lambda store: store.delete("a"), None, {}),
    "delete_folder": ("POST", lambda store: store.delete_folder("f"), None, {"a": b"old\n"}),
    "make_folder": ("PUT", lambda store: store.make_folder("g"), None, {"a": b"old\n"}),
}
"""Method of the request, operation, its result, and all contents afterwards, but for the folder f."""
FAULTS = [(500, "InternalError"), (503, "SlowDown"), (429, ""), (0, ""), (409, "ConditionalRequestConflict")]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_request_that_fails_for_the_moment_has_its_effect_once(
    store: ObjectStore, proxy: S3Proxy, operation: str
) -> None:
    """Also where it had its effect, and only the answer is lost: then another attempt finds that the condition does not hold."""
    method, act, expected, after = OPERATIONS[operation]
    for status, code in FAULTS:
        for late in (False, True) if status != 409 else (False,):
            store.delete("b")
            store.put("a", b"old\n")
            store.put("f/c", b"")
            fault = proxy.fail(ServerFault(method, status=status, code=code, after=late))
            assert act(store) == expected, (status, late)
            assert fault.fired
            assert {key: data for key, data in content(store).items() if key != "f/c"} == after, (status, late)
            assert store.exists("f") is (operation != "delete_folder")


def test_a_lost_answer_is_not_taken_for_success_when_another_writer_followed(
    store: ObjectStore, proxy: S3Proxy, s3_server: S3Process
) -> None:
    other = directly(store, s3_server)
    for theirs in (b"first", b"second"):
        tag = store.read("a").tag if store.exists("a") else None
        fault = proxy.fail(ServerFault("PUT", after=True, then=lambda theirs=theirs: other.put("a", theirs)))  # type: ignore[misc]
        with pytest.raises(WriteConflictError):
            store.put_if("a", b"ours", tag)
        assert fault.fired
        assert store.read("a").data == theirs


def test_an_answer_that_was_not_lost_is_believed(store: ObjectStore) -> None:
    """Whoever writes the same content: without a lost answer the condition decides."""
    store.put_if("a", b"same", None)
    with pytest.raises(WriteConflictError):
        store.put_if("a", b"same", None)


def test_a_line_whose_answer_was_lost_is_there_once_although_another_line_followed(
    store: ObjectStore, proxy: S3Proxy, s3_server: S3Process
) -> None:
    other = directly(store, s3_server)
    fault = proxy.fail(ServerFault("PUT", after=True, then=lambda: other.append("a", b"2\n")))
    store.append("a", b"1\n")
    assert fault.fired
    assert store.read("a").data == b"1\n2\n"
    fault = proxy.fail(ServerFault("PUT", then=lambda: other.append("a", b"3\n")))
    store.append("a", b"4\n")
    assert fault.fired
    assert store.read("a").data == b"1\n2\n3\n4\n"


@pytest.mark.parametrize("ignored", ["if-none-match", "if-match"])
def test_a_server_that_ignores_a_condition_is_refused_by_name(store: ObjectStore, proxy: S3Proxy, ignored: str) -> None:
    proxy.ignored_condition = ignored
    with pytest.raises(
        SetupError, match=f"(?i){store.server.name} wrote an object in spite of the condition {ignored}:"
    ):
        store.check()
    assert content(store) == {}


def test_a_server_that_honours_conditions_is_asked_once(store: ObjectStore, proxy: S3Proxy) -> None:
    for _ in range(3):
        store.check()
        ObjectStore(store.server, store.bucket, "elsewhere").check()
    assert len(proxy.requests) == 6
    assert store.list() == []


CODES = [
    (0, "", errno.ETIMEDOUT),
    (418, "Teapot", errno.EPROTO),
    (502, "", errno.EREMOTEIO),
    (404, "NoSuchBucket", errno.ENODEV),
]
CODES += [
    (int(codes[-1]) if codes[-1].isdigit() else 400, codes[0], getattr(errno, cause.errors[0]))
    for codes, cause in ANSWERS
    if codes[0] not in ("0", "NoSuchBucket", "InvalidName")
]


@pytest.mark.parametrize(("status", "code", "number"), CODES)
def test_a_refusal_says_what_it_means_where_and_what_to_do(
    proxy: S3Proxy, s3_server: S3Process, status: int, code: str, number: int
) -> None:
    store = new_store(s3_server, 0, endpoint=proxy.endpoint)
    acts: dict[str, Callable[[], object]] = {
        "read": lambda: store.read("a/b"),
        "write": lambda: store.put("a/b", b""),
        "list": lambda: store.list("a/b"),
        "delete": lambda: store.delete("a/b"),
    }
    for operation, act in acts.items():
        method = {"read": "GET", "write": "PUT", "list": "GET", "delete": "POST"}[operation]
        fault = proxy.fail(ServerFault(method, status=status, code=code))
        with pytest.raises(OSError, match=f"{store.prefix}/a/b: .*{store.server.name}") as refused:
            act()
        assert fault.fired
        error = classify(refused.value)
        assert (refused.value.errno, refused.value.filename) == (number, f"s3://{store.bucket}/{store.prefix}/a/b")
        assert str(error).startswith(f"cannot {operation} s3://{store.bucket}/{store.prefix}/a/b: ")
        cause = BY_CODE.get(code) or BY_CODE.get(str(status), OTHER_ANSWER)
        if status != 502:
            assert cause.meaning in str(error)
            assert str(error).endswith(f"{cause.next_step.says[1:]}.")
        assert (error.transient, error.exit_code) == ((True, 75) if is_transient(refused.value) else (False, 78))
        is_of_object = refused.value.errno in (errno.ENAMETOOLONG, errno.EEXIST, errno.EILSEQ)
        assert says_nothing_about_file(refused.value) == (not is_of_object), "landed files are not judged by the server"


def test_an_answer_404_of_another_code_than_that_of_a_missing_key_is_not_taken_for_one(s3_server: S3Process) -> None:
    store = new_store(s3_server, 0, AWS_ACCESS_KEY_ID="unknown")
    with pytest.raises(OSError, match="does not accept the credentials"):
        store.read("a")


def test_what_is_open_is_never_mixed_with_a_later_content(store: ObjectStore) -> None:
    size = 10 * 1024 * 1024
    store.put("a", b"1" * size)
    with store.open("a") as file:
        assert file.read(3) == b"111"
        file.seek(-3, 2)
        assert file.read() == b"111"
        file.seek(0)
        assert file.read() == b"1" * size
        file.seek(0)
        store.put("a", b"2" * size)
        with pytest.raises(OSError, match="changed meanwhile") as raised:
            file.read()
        assert raised.value.errno == errno.ESTALE


@pytest.mark.parametrize("page", range(1, 9))
def test_a_tree_of_one_request_has_only_folders_that_it_tells_as_a_whole(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    for key in ("a/1", "a/b-/2", "a/b/3", "a/b/4", "a/b/c/5", "a/d/6", "a/e"):
        store.put(key, b"")
    monkeypatch.setattr(objects, "_PAGE", page)
    tree = store.list_tree("a")
    assert {folder: [each.key for each in listed] for folder, listed in tree.items()} == {
        folder: [each.key for each in store.list(folder)] for folder in tree
    }
    assert len(tree) == (0, 0, 1, 1, 1, 3, 4, 5)[page - 1]


def test_signs_of_folders_that_others_leave_are_no_keys(store: ObjectStore, s3_server: S3Process) -> None:
    """S3A and Arrow write an empty object ``<folder>/``; obstore lists it without its last letter."""
    arrow_files(s3_server).create_dir(f"{store.bucket}/{store.prefix}/a/b")
    assert not store.exists("a")
    assert not store.exists("")
    store.put("a/b/c", b"")
    assert (store.exists("a"), content(store)) == (True, {"a/b/c": b""})
    store.move("a", "d")
    assert (store.exists("a"), content(store)) == (False, {"d/b/c": b""})
    store.delete_folder("d")
    assert (store.exists("d"), content(store)) == (False, {})


def test_an_object_whose_name_cannot_be_read_does_not_make_a_folder_look_empty(
    store: ObjectStore, s3_server: S3Process
) -> None:
    with arrow_files(s3_server).open_output_stream(f"{store.bucket}/{store.prefix}/a/b\nc") as file:
        file.write(b"1")
    with pytest.raises(
        OSError, match=f"{store.prefix}/a: an object below has a name with control characters"
    ) as raised:
        store.list("a")
    assert not is_transient(raised.value)


def test_nothing_of_the_credentials_is_in_a_text(s3_server: S3Process) -> None:
    canary = {name: f"{name}canary" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")}
    store = new_store(s3_server, 0, **canary)
    texts = [repr(store), repr(store.server), repr(store.server.credentials.get()), str(store.server.hadoop_settings)]
    assert set(canary.values()) <= set(store.options.values())
    for act in (lambda: store.read("a"), lambda: store.list("a"), lambda: store.put("a", b""), store.check):
        with pytest.raises(OSError, match="does not accept the credentials") as refused:
            act()
        error: BaseException | None = refused.value
        while error is not None:
            texts += [str(error), repr(error), str(classify(error))]
            error = error.__cause__ or error.__context__
    assert [text for text in texts if "canary" in text] == []


@pytest.mark.parametrize("size", [0, 5, 9 * 1024 * 1024])
def test_a_move_writes_over_nothing(store: ObjectStore, proxy: S3Proxy, s3_server: S3Process, size: int) -> None:
    """Also what another process makes between the look at the target and the copy."""
    other = directly(store, s3_server)
    store.put("a/b", b"1" * size)
    store.move("a", "c")
    assert content(store) == {"c/b": b"1" * size}
    fault = proxy.fail(
        ServerFault("PUT" if size < 10 else "POST", "d/b", status=503, then=lambda: other.put("d/b", b"x"))
    )
    with pytest.raises((OSError, WriteConflictError)):
        store.move("c", "d")
    assert fault.fired
    assert content(other) == {"c/b": b"1" * size, "d/b": b"x"}
