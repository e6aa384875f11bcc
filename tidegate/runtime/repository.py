"""Fetches pinned jars into the cache of this user: from Maven Central, from a mirror, or from a folder where there is no network.

``TIDEGATE_MAVEN_REPOSITORY`` names a mirror by its URL or a folder by its path; jars lie in the folder as in a repository, or
side by side. Proxies and passwords of a mirror are those of the environment (``HTTPS_PROXY``, ``~/.netrc``). Each jar is written
below a temporary name, compared with its checksum, and renamed: processes that fetch at once, or are killed, harm nobody.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import netrc
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import SetupError
from tidegate.formatting import count, size
from tidegate.runtime import job_environment, paths
from tidegate.runtime.jars import Jar

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_MAVEN2 = re.compile(rb"https://[\w./-]+/maven2")
"""A constant of that class."""
_SETTING = "TIDEGATE_MAVEN_REPOSITORY"
_ATTEMPTS = 3
_SILENCE_SECONDS = 60.0
"""A connection on which nothing arrives for so long counts as broken."""
_LEFT_OVER_SECONDS = 86_400
"""An older temporary folder was left by a process that was killed."""
_CHUNK = 1 << 16


class _UnavailableError(Exception):
    """The repository does not deliver a jar; its text says why."""


class _BrokenError(_UnavailableError):
    """A connection broke, so that another attempt may succeed."""


def fetch(lacking: Sequence[Jar], say: Callable[[str], None] = log.info, *, python: Path | None = None) -> int:
    """Put jars into the cache. Each is there as soon as it is verified, so another attempt downloads less.

    Args:
        lacking: The jars; files that are there are replaced.
        say: Shows a line of progress.
        python: The Python of the jobs, by default that of this process: its Spark knows Maven Central.

    Returns:
        How many jars these are.

    Raises:
        SetupError: A jar cannot be fetched or has another checksum, the setting names no repository, or the cache cannot be written.
    """
    if not lacking:
        return 0
    folder = paths.cache_dir() / "jars"
    problems = []
    with paths.writing(folder), _temporary(folder) as part, _source(python) as retrieve:
        say(f"fetching {count(len(lacking), 'jar')} ({size(sum(jar.size for jar in lacking))}) into {folder}")
        for number, jar in enumerate(lacking, start=1):
            say(f"  {number}/{len(lacking)} {jar.coordinate} ({size(jar.size)})")
            try:
                retrieve(jar, part)
            except _BrokenError as error:
                # The other jars would fail too, each after several time-outs.
                problems.append(f"{jar.coordinate} could not be fetched: {error}")
                break
            except _UnavailableError as error:
                problems.append(f"{jar.coordinate} could not be fetched: {error}")
                continue
            jar.path.parent.mkdir(parents=True, exist_ok=True)
            part.replace(jar.path)
    if problems:
        raise SetupError(
            f"{'; '.join(problems)}.",
            Either(
                OutsideAct("if the network is the cause, try again (HTTPS_PROXY sets a proxy)"),
                Edit(f"set {_SETTING} to the URL of a mirror, or to a folder that has the jars", "setting"),
                OutsideAct("if a checksum is wrong repeatedly, find out who changed the jar"),
            ),
        )
    return len(lacking)


def central(python: Path | None = None) -> str:
    """The URL of Maven Central as the Spark of the jobs has it: Ivy is in Spark, for ``spark-submit --packages``.

    Args:
        python: As for `fetch`.

    Raises:
        SetupError: There is no Spark, or it has no Ivy.
    """
    for ivy in (job_environment.spark_home(python) / "jars").glob("ivy-*.jar"):
        with zipfile.ZipFile(ivy) as classes:
            if url := _MAVEN2.search(classes.read(_RESOLVER)):
                return url[0].decode()
    raise SetupError(
        "the Spark of the jobs has no Ivy, which names Maven Central",
        Edit(f"set {_SETTING} to the URL of a Maven repository, or to a folder that has the jars", "setting"),
    )


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """A path for one file in the cache, not in /tmp, so that a jar moves to its place with one rename."""
    for left in folder.glob(".fetch-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_OVER_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder, ignore_cleanup_errors=True) as scratch:
        yield Path(scratch) / "part"


@contextlib.contextmanager
def _source(python: Path | None) -> Iterator[Callable[[Jar, Path], None]]:
    """A function that writes a jar to a path and raises `_UnavailableError` if it cannot."""
    chosen = os.environ.get(_SETTING) or central(python)
    if Path(chosen).is_absolute():
        yield lambda jar, part: _copy(jar, Path(chosen), part)
        return
    # Imported here: only a machine that lacks jars needs it.
    import httpx

    # It would log each URL, which may contain a password.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        urlsplit(chosen)
        url = httpx.URL(chosen.rstrip("/") + "/")
    except (ValueError, httpx.InvalidURL):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise SetupError(
            f"{_SETTING} is neither the URL of a Maven repository nor an absolute path",
            Edit("set one such as https://mirror.example.com/maven or /opt/jars, or unset it", "setting"),
        )
    # Mirrors redirect to the storage that has their files. What arrives is compared with the checksum in any case.
    headers = {"Accept-Encoding": "identity"}
    with httpx.Client(timeout=_SILENCE_SECONDS, follow_redirects=True, auth=_login(url), headers=headers) as client:
        yield lambda jar, part: _download(jar, client, url, part)


def _login(url: httpx.URL) -> httpx.Auth | None:
    """User and password of ``~/.netrc``, unless the URL has its own."""
    import httpx

    if not url.username:
        try:
            return httpx.NetRCAuth(os.environ.get("NETRC") or str(Path("~/.netrc").expanduser()))
        except netrc.NetrcParseError as error:
            log.warning("%s is not used: line %s cannot be parsed", error.filename, error.lineno)
        except (OSError, RuntimeError):
            pass
    return None


def _path_of(jar: Jar) -> str:
    """The path of a jar in a Maven repository."""
    group, artifact, version = jar.coordinate.split(":")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{jar.file_name}"


def _copy(jar: Jar, folder: Path, part: Path) -> None:
    for path in (folder / _path_of(jar), folder / jar.file_name):
        try:
            with path.open("rb") as file:
                _write(jar, iter(lambda: file.read(_CHUNK), b""), part)
            return
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.filename != str(path):
                raise
            raise _UnavailableError(f"{path} cannot be read ({error.strerror})") from None
        except _BrokenError as error:
            raise _UnavailableError(f"{path}: {error}") from None
    raise _UnavailableError(f"{folder} has no {jar.file_name}, neither there nor in {_path_of(jar)}")


def _download(jar: Jar, client: httpx.Client, url: httpx.URL, part: Path) -> None:
    for attempt in range(1, _ATTEMPTS):
        try:
            return _try(jar, client, url, part)
        except _BrokenError as error:
            log.warning("attempt %d of %d to download %s failed: %s", attempt, _ATTEMPTS, jar.coordinate, error)
            time.sleep(attempt)
    return _try(jar, client, url, part)


def _try(jar: Jar, client: httpx.Client, url: httpx.URL, part: Path) -> None:
    import httpx

    try:
        with client.stream("GET", url.join(_path_of(jar))) as answer:
            if answer.status_code >= 500 or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                raise _BrokenError(f"the repository answers with {answer.status_code}")
            if answer.status_code != httpx.codes.OK:
                raise _UnavailableError(f"the repository answers with {answer.status_code}")
            _write(jar, answer.iter_bytes(_CHUNK), part)
    except httpx.HTTPError as error:
        raise _BrokenError(str(error) or type(error).__name__) from None


def _write(jar: Jar, chunks: Iterator[bytes], part: Path) -> None:
    """Write the bytes of a jar, and refuse others.

    Raises:
        _BrokenError: They are fewer.
        _UnavailableError: They are more, or have another checksum.
    """
    digest, written = hashlib.sha256(), 0
    with part.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            written += len(chunk)
            if written > jar.size:
                raise _UnavailableError(f"it has more than its {jar.size} bytes")
        # Before the rename: after a power failure, a file under the final name must be complete.
        file.flush()
        os.fsync(file.fileno())
    if written < jar.size:
        raise _BrokenError(f"it ended after {written} of {jar.size} bytes")
    if (checksum := digest.hexdigest()) != jar.sha256:
        raise _UnavailableError(f"it has sha256 {checksum}, not {jar.sha256}")
