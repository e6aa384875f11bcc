"""A schema registry of the settings: its address, and who asks it. It has references to secrets and no secret, unless the URL has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidegate.advice import Edit, OutsideAct
from tidegate.environment import references
from tidegate.errors import SetupError

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, kw_only=True)
class RegistryServer:
    """A schema registry. Every request follows the references again, so a new password or certificate holds from the next one on."""

    cluster: str = ""
    """The cluster of Kafka whose own registry it is; empty: that of all clusters without one."""
    url: str
    """With user and password, if there is no ``user``."""
    user: str = ""
    password: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    """References, as of a cluster of Kafka. Python reads certificate and key from files alone."""

    def __post_init__(self) -> None:
        url, owner = urlsplit(self.url), f"the schema registry{f' of cluster {self.cluster}' if self.cluster else ''}"
        if (self.user or self.password) and (url.username is not None or not self.user):
            which = "a password and no user" if url.username is None else "two users, one in its URL"
            says = f"set {self.setting('url')} without a user, and {self.setting('user')}"
            raise SetupError(f"{owner} has {which}", Edit(says, "setting"))
        if bool(self.certificate) != bool(self.key) or (self.key_password and not self.key):
            says = f"set {self.setting('certificate')} and {self.setting('key')}, or neither"
            raise SetupError(f"{owner} has one of a certificate and its key", Edit(says, "setting"))
        if url.scheme == "http" and (self.ca or self.certificate):
            names = [self.setting(each) for each in ("ca", "certificate", "key")]
            says = f"write https in {self.setting('url')}, or leave out {', '.join(names)}"
            raise SetupError(f"{owner} has certificates, and the URL begins with http", Edit(says, "setting"))

    def setting(self, name: str) -> str:
        """The key of a setting in `tidegate.toml`, of the URL with its variable."""
        if not self.cluster:
            return f"registry.{name}" + (" (TIDEGATE_REGISTRY)" if name == "url" else "")
        if name == "url":
            return f"kafka.{self.cluster}.registry (TIDEGATE_KAFKA__{self.cluster.upper()}__REGISTRY)"
        return f"kafka.{self.cluster}.registry_{name}"

    @property
    def address(self) -> str:
        """The URL without user and password, for messages and the cache."""
        url = urlsplit(self.url)
        return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")

    def credentials(self) -> tuple[str, str] | None:
        """User and password; None for none. Raises SetupError: the password is not where its reference says."""
        url = urlsplit(self.url)
        if not self.user:
            return None if url.username is None else (unquote(url.username), unquote(url.password or ""))
        return self.user, references.resolve(self.setting("password"), self.password) if self.password else ""

    def tls(self) -> ssl.SSLContext:
        """What a connection trusts and shows.

        Raises:
            SetupError: A certificate or a key is not where its reference says, or cannot be read.
        """
        import ssl

        # The certificates of the system, which may contain those of a company, unless it has an authority of its own.
        authorities = references.resolve(self.setting("ca"), self.ca) if self.ca else None
        name = self.setting("key_password")
        word = references.resolve(name, self.key_password) if self.key_password else ""
        try:
            context = ssl.create_default_context(cadata=authorities)
            if self.certificate:
                certificate, key = (each.removeprefix("file:") for each in (self.certificate, self.key))
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(certificate, key, password=lambda: word)
        except (ssl.SSLError, OSError, ValueError) as error:
            what = f"{self.setting('certificate')}, {self.setting('key')} or {self.setting('ca')}"
            raise SetupError(
                f"{what} cannot be read ({getattr(error, 'reason', None) or type(error).__name__})",
                OutsideAct(f"check the files, that both belong together, and {name}"),
            ) from None
        return context
