"""Gives a user of SCRAM-SHA-512 a password, as an administrator with a certificate.

python -m devstack.kafka_users SERVERS CERTIFICATES USER PASSWORD_FILE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_SECONDS = 60.0
_ITERATIONS = 4096


def set_password(servers: str, certificates: Path, user: str, password: str) -> None:
    """Create the user or change its password.

    Args:
        servers: The listener of the brokers, which asks for a certificate.
        certificates: A folder with ``authority.pem`` and ``admin.pem``.
        user: Its name.
        password: The new one.

    Raises:
        KafkaException: The brokers do not answer within a minute, or refuse.
    """
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack these classes
    client = admin.AdminClient(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates / "authority.pem"),
            "ssl.certificate.location": str(certificates / "admin.crt"),
            "ssl.key.location": str(certificates / "admin.key"),
        }
    )
    info = kinds.ScramCredentialInfo(kinds.ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    change = kinds.UserScramCredentialUpsertion(user, info, password.encode())
    changes = client.alter_user_scram_credentials([change], request_timeout=_SECONDS)
    changes[user].result(_SECONDS)


if __name__ == "__main__":
    set_password(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]).read_text(encoding="utf-8"))
