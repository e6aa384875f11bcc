"""Contents of a store as files of this machine, for programs that read no other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.store.address import Address

_AT_ONCE = 8


@contextmanager
def local_files(addresses: Sequence[Address]) -> Iterator[list[Path]]:
    """The file of each address: its own in a local store, else a copy, which is deleted at the end.

    Raises:
        FileNotFoundError: What is to be copied is not there. Of a local store nothing is opened.
    """
    if all(address.store.is_local for address in addresses):
        yield [Path(address) for address in addresses]
        return
    with TemporaryDirectory(prefix="tidegate-") as folder:
        files = [Path(folder) / str(number) for number in range(len(addresses))]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(_copy, addresses, files))
        yield files


def _copy(address: Address, file: Path) -> None:
    with address.open() as content, file.open("wb") as copy:
        shutil.copyfileobj(content, copy)
