"""Certificates for brokers and clients, and the authorities that sign them.

python -m devstack.certificates FOLDER NAME…    an authority, and a certificate for each host name, once
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority of its own, with certificates in files of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key, authority=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, host: str = "localhost", days: int = 30, password: str = "", own_key: bool = False
    ) -> Path:
        """A file with a certificate and its key; with ``<name>.crt`` and ``<name>.key`` beside it. Negative days: expired.

        With the key of the authority, and its name, the certificate is self-signed.
        """
        key = self.key if own_key else ec.generate_private_key(ec.SECP256R1())
        certificate = self.certify(key, name, host=host, days=days)
        hidden = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        kind = serialization.PrivateFormat.PKCS8
        written = key.private_bytes(serialization.Encoding.PEM, kind, hidden)
        (self.folder / f"{name}.crt").write_bytes(certificate)
        (self.folder / f"{name}.key").write_bytes(written)
        both = self.folder / f"{name}.pem"
        both.write_bytes(written + certificate)
        return both

    def certify(self, key: Any, name: str = "client", *, host: str = "localhost", days: int = 30) -> bytes:
        """A certificate of a key, as PEM."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._sign(subject, key, host=host, days=days).public_bytes(serialization.Encoding.PEM)

    def _sign(
        self,
        subject: x509.Name,
        key: Any,
        *,
        authority: bool = False,
        host: str = "localhost",
        days: int = 30,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 60 * _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if not authority:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def main(folder: Path, hosts: list[str]) -> None:
    """Create ``authority.pem`` and a certificate for each host; a folder that has them stays as it is."""
    if (folder / "authority.pem").exists():
        return
    authority = Authority(folder, "authority")
    for host in hosts:
        authority.issue(host, host=host, days=825)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
