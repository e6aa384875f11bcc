"""Where a store is: what `TIDEGATE_LAKE` and `TIDEGATE_LANDING` name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.advice import Edit
from tidegate.errors import SetupError
from tidegate.store.address import Address
from tidegate.store.local import LocalStore
from tidegate.store.store import Store

if TYPE_CHECKING:
    from tidegate.store.s3 import S3Server

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_.=+-]+(/[A-Za-z0-9_.=+-]+)*")
"""What every reader of addresses takes as it is, Spark, delta-rs and DuckDB included."""
_MISSING = {
    **dict.fromkeys(("abfs", "abfss", "az", "azure", "adl", "wasb", "wasbs"), "Azure's storage"),
    **dict.fromkeys(("gs", "gcs"), "Google's storage"),
    **dict.fromkeys(("hdfs", "viewfs", "webhdfs"), "HDFS"),
}


@dataclass(frozen=True)
class BucketFolder:
    """A folder of keys in a bucket."""

    bucket: str
    prefix: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (f"s3://{self.bucket}", self.prefix)))


Location = Path | BucketFolder
"""A folder of the local file system, or of a bucket."""


def parse_location(name: str, value: str) -> Location:
    """The location that a setting names.

    Args:
        name: The setting, for messages.
        value: A path, a URL ``file:///…``, or ``s3://<bucket>/<prefix>`` (also ``s3a://``).

    Raises:
        SetupError: There is no store for it.
    """
    scheme, separator, rest = value.partition("://")
    if not separator:
        return Path(value).absolute()
    if scheme == "file" and rest.startswith("/"):
        return Path(rest)
    if scheme in ("s3", "s3a"):
        return _bucket_folder(name, value, rest)
    what = _MISSING.get(scheme, f"storage of the kind {scheme!r}")
    raise SetupError(
        f"{name}={_shown(value)!r}: {what} is not supported. It needs a store with conditional writes (tidegate/store), and a log store of "
        "Delta that commits with them",
        Edit("set a local or mounted POSIX path, or s3://<bucket>/<prefix>", "setting"),
    )


def _bucket_folder(name: str, value: str, rest: str) -> BucketFolder:
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    is_prefix = not prefix or (_PREFIX.fullmatch(prefix) and not {".", ".."} & {*prefix.split("/")})
    if not (_BUCKET.fullmatch(bucket) and is_prefix):
        raise SetupError(
            f"{name}={_shown(value)!r} is not s3://<bucket>/<prefix>, with a bucket of lower-case letters, digits, '.' and '-', and a "
            "prefix of letters, digits and '_.=+-/'",
            Edit("set another bucket or prefix", "setting"),
        )
    return BucketFolder(bucket, prefix)


def _shown(value: str) -> str:
    """A location for messages, without the key that Hadoop once took from it (``s3a://<key>:<secret>@<bucket>``)."""
    return re.sub(r"//.*@", "//…@", value)


class Stores:
    """Makes the store of a location.

    Args:
        variables: The environment, which has server and credentials of buckets; by default that of the process.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = variables
        self._server: S3Server | None = None

    def __call__(self, location: Location) -> Store:
        """The store of a location."""
        if isinstance(location, Path):
            # Spark reports normal paths, of files that it lists and of files of tables.
            return LocalStore(Path(os.path.normpath(location)))
        return self._of_bucket(location.bucket, location.prefix)

    def address(self, uri: str) -> Address:
        """A file, by its `Address.uri`, in whichever store it is."""
        scheme, separator, rest = uri.partition("://")
        if not separator or uri.startswith("/"):
            return Address.local(Path(uri))
        assert scheme == "s3", uri
        bucket, _, key = rest.partition("/")
        return Address(self._of_bucket(bucket), key)

    def _of_bucket(self, bucket: str, prefix: str = "") -> Store:
        # The client of buckets is for lakes and landing zones in one.
        from tidegate.store.objects import ObjectStore

        return ObjectStore(self.server, bucket, prefix)

    @property
    def server(self) -> S3Server:
        """The server of all buckets.

        Raises:
            SetupError: The environment does not describe one.
        """
        if self._server is None:
            from tidegate.store.s3 import S3Server

            self._server = S3Server(os.environ if self._variables is None else self._variables)
        return self._server
