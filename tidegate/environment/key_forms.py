"""The forms of a client's private key in PEM, and which of them Java's client of Kafka reads. librdkafka reads all of them.

Java's client reads PKCS #8 with a key of RSA, EC or DSA (Kafka's ``DefaultSslEngineFactory``). Of encrypted ones, Java before 21 reads only
PKCS #12's algorithms: before that, ``EncryptedPrivateKeyInfo.getAlgName`` returns the bare name PBES2, for which there is no factory.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

_PEM = re.compile(r"-----BEGIN (?:(\w+) )?PRIVATE KEY-----\s(.*?)-----END", re.DOTALL)
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
_ALGORITHMS = tuple(
    bytes.fromhex(each) for each in ("06092a864886f70d010101", "06072a8648ce3d0201", "06072a8648ce380401")
)
"""The object identifiers of RSA, EC and DSA, as in the header of a key (RFC 5208)."""
_HEADER_BYTES = 64
_OLDEST_WITH_PBES2 = 21
_CONVERT = "openssl pkcs8 -topk8 -in <key> -out <new key>"
_OLD_ENCRYPTION = "-v1 PBE-SHA1-3DES"


@dataclass(frozen=True)
class Unreadable:
    """Why Java's client does not read a key, and what makes it one that it reads."""

    why: str
    command: str
    """Of a shell; empty if only another key helps."""


def unreadable(pem: str, java: int | None = None) -> Unreadable | None:
    """Why Java's client of Kafka does not read a key; None if it does.

    Args:
        pem: The text of the key, of which nothing is in the answer.
        java: The version of Java; None where it is not known yet, so that only what no Java reads is an answer.
    """
    block = _PEM.search(pem)
    if block is None:
        return Unreadable("has no private key in PEM", _CONVERT + " -inform DER -nocrypt")
    kind, lines = block[1], block[2]
    if kind not in (None, "ENCRYPTED"):
        hidden = f" {_OLD_ENCRYPTION}" if "Proc-Type: 4,ENCRYPTED" in lines else " -nocrypt"
        return Unreadable(f"has a key in the form of {kind} alone, not in PKCS #8", _CONVERT + hidden)
    try:
        header = base64.b64decode("".join(lines.split()), validate=True)[:_HEADER_BYTES]
    except ValueError:
        return Unreadable("has a private key that is damaged", "")
    if kind is None and not any(each in header for each in _ALGORITHMS):
        return Unreadable("has a key of another algorithm than RSA, EC and DSA", "")
    if kind is not None and _PBES2 in header and java is not None and java < _OLDEST_WITH_PBES2:
        return Unreadable(
            f"has a key that is encrypted by PBES2, which Java {java} does not read", f"{_CONVERT} {_OLD_ENCRYPTION}"
        )
    return None
