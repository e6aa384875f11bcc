"""Gives a user of SCRAM-SHA-512 a password, as an administrator with a certificate.

python -m devstack.kafka_users SERVERS CERTIFICATES USER PASSWORD_FILE
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SECONDS = 60.0
_ITERATIONS = 4096


def set_password(options: Mapping[str, Any], user: str, password: str) -> None:
    """Create the user or change its password.

    Args:
        options: Of a client of librdkafka, as an administrator.
        user: Its name.
        password: The new one.

    Raises:
        KafkaException: The brokers do not answer within a minute, or refuse.
    """
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack these classes
    info = kinds.ScramCredentialInfo(kinds.ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    change = kinds.UserScramCredentialUpsertion(user, info, password.encode())
    client = kinds.AdminClient(dict(options))  # it ends with the name, and its requests with it
    changes = client.alter_user_scram_credentials([change], request_timeout=_SECONDS)
    changes[user].result(_SECONDS)


def of_administrator(servers: str, certificates: Path) -> dict[str, str]:
    """Options for the listener of the brokers, which asks for a certificate: ``authority.pem`` and ``admin.*`` of a folder."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates / "authority.pem"),
        "ssl.certificate.location": str(certificates / "admin.crt"),
        "ssl.key.location": str(certificates / "admin.key"),
    }


if __name__ == "__main__":
    own = of_administrator(sys.argv[1], Path(sys.argv[2]))
    set_password(own, sys.argv[3], Path(sys.argv[4]).read_text(encoding="utf-8"))
