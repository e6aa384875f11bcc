"""The settings of a deployment, from variables, from `tidegate.toml` and from defaults; never from a run's input.

A variable overrides the file, and the file the default. An empty variable counts as unset. The roots of lake and landing zone are each
a path or ``s3://<bucket>/<prefix>``. Relative paths begin at the folder of the file, those of variables at the working directory.

`SETTINGS` declares each setting once. A job gets all of them as variables, and reads no file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tidegate.advice import Edit
from tidegate.environment.settings import FILE, SETTINGS, SourceLakes, effective
from tidegate.errors import SetupError
from tidegate.store import Store
from tidegate.store.location import Location, Stores

if TYPE_CHECKING:
    from tidegate.environment.clusters import Cluster
    from tidegate.environment.project_file import SelectedEnvironment
    from tidegate.environment.registry import RegistryServer

_PACKAGE_FOLDER = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The settings of one deployment."""

    project: Path
    lake_at: Location
    landing_at: Location
    kafka: str
    master: str
    driver_memory: str
    connection: str
    alerts: str
    name: str = ""
    """Which environment of the file it is."""
    project_name: str = ""
    source: str = ""
    source_lakes: SourceLakes = field(default_factory=SourceLakes)
    """Those of the environment that it reads tables of, first."""
    written: frozenset[str] = frozenset()
    """The tables of the flows that a run is about; not a setting."""
    kafka_settings: tuple[tuple[str, str], ...] = ()
    """Key and text of each setting of clusters of Kafka but the default one's servers."""
    registry_settings: tuple[tuple[str, str], ...] = ()
    """Key and text of each setting of the schema registry of all clusters without their own."""
    resource_settings: tuple[tuple[str, str], ...] = ()
    """Key and text of each value that applications request whose pipeline declares no other in its `tidegate.spec.Resources`."""
    spark_history: str | None = None
    job_python: Path = Path(sys.executable)
    """The Python of the environment in which jobs run, which has PySpark; a process without it may start them."""
    pool: str = ""
    s3_endpoint: str = ""
    s3_region: str = ""
    s3_credentials: str = ""
    store_of: Callable[[Location], Store] = field(default_factory=Stores, compare=False, repr=False)
    """Makes the store of the lake or of the landing zone from its root."""

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Read the settings.

        Args:
            variables: Used in place of ``os.environ``.

        Raises:
            SetupError: A location is of a kind for which there is no store, or a value is invalid.
            SettingsError: The same of a value in `tidegate.toml`, or what `selection` raises.
        """
        given = os.environ if variables is None else variables
        project, selected = selection(given)
        values: dict[str, Any] = {"name": given.get("TIDEGATE_ENV", "") if selected is None else selected.name}
        buckets: dict[str, str] = {}
        for each in effective(given, {} if selected is None else selected.values):
            name = each.setting.field
            if each.setting.grouped:
                values[name] = (*values.get(name, ()), (each.setting.key, each.value(project)))
            elif name not in ("", "project", "name"):
                values[name] = each.value(project)
            if each.setting.foreign and each.key:
                buckets[each.setting.variable] = each.text
        if selected is not None and selected.values.get("source"):
            from tidegate.environment import source_lakes

            values["source_lakes"] = source_lakes.of(selected, values["lake_at"], given)
        stores = Stores({**given, **buckets} if buckets else variables)
        return cls(project=project, store_of=stores, **values)

    @property
    def lake(self) -> Path:
        """The folder of a local lake; for programs on this machine. Raises TypeError for another one."""
        return _folder(self.lake_at)

    @property
    def landing(self) -> Path:
        """The folder of local landing zones; as `lake`."""
        return _folder(self.landing_at)

    def cluster(self, name: str) -> Cluster:
        """The cluster of Kafka of a name.

        Raises:
            SetupError: There is none, or its settings do not fit together.
        """
        from tidegate.environment.clusters import DEFAULT, Cluster

        start = f"kafka.{name}."
        own = {
            key.removeprefix(start): text
            for key, text in self.kafka_settings
            if key.startswith(start) and not key.startswith(f"{start}registry")
        }
        servers = own.pop("servers", self.kafka if name == DEFAULT else "")
        if not servers:
            says = f"set {start}servers (TIDEGATE_KAFKA__{name.upper()}), or correct the name in the declaration"
            raise SetupError(f"there is no cluster {name!r} of Kafka in the settings", Edit(says, "setting"))
        made = Cluster(name=name, servers=servers, settings=tuple(own.items()))
        return replace(made, region=self.s3_region, credentials=self.s3_credentials) if made.uses_iam else made

    def schema_registry(self, cluster: str) -> RegistryServer | None:
        """The schema registry of a cluster: its own, else that of all clusters; None without one.

        Raises:
            SetupError: The settings of the registry do not fit together.
        """
        start = f"kafka.{cluster}.registry"
        own = {key.removeprefix(start): text for key, text in self.kafka_settings if key.startswith(start)}
        shared = {key.removeprefix("registry."): text for key, text in self.registry_settings}
        if not (own or shared.get("url")):
            return None
        from tidegate.environment.registry import RegistryServer

        if not own:
            return RegistryServer(**shared)
        if not (url := own.pop("", "")):
            says = f"set {start}, or leave out {', '.join(start + name for name in own)}"
            raise SetupError(
                f"cluster {cluster} has no registry of its own, and settings of one", Edit(says, "setting")
            )
        return RegistryServer(cluster=cluster, url=url, **{name.removeprefix("_"): text for name, text in own.items()})

    def writing(self, tables: Iterable[str]) -> Self:
        """The environment of a run that writes these tables: they are not read in the lake of a source."""
        return replace(self, written=self.written | frozenset(tables)) if self.source_lakes else self

    def variables(self) -> dict[str, str]:
        """The variables from which a child process reads the same environment, and no file."""
        written = {"TIDEGATE_COMPLETE": "yes"}
        for setting in SETTINGS:
            value = getattr(self, setting.field) if setting.field else None
            if setting.named:
                names = ((setting.key_name(key), text) for key, text in value or ())
                written |= {setting.of(name).variable: text for name, text in names if name}
            elif setting.grouped:
                written[setting.variable] = dict(value or ()).get(setting.key, "")
            elif setting.field and (value or not setting.foreign):
                written[setting.variable] = "" if value is None else str(value)
        return written


def _folder(location: Location) -> Path:
    if not isinstance(location, Path):
        raise TypeError(f"{location} is not in the local file system")
    return location


def selection(variables: Mapping[str, str]) -> tuple[Path, SelectedEnvironment | None]:
    """The project's folder, and the environment that is selected in its file; None without a file.

    Raises:
        SettingsError: The file is invalid, or does not have the environment.
    """
    folder = variables.get("TIDEGATE_PROJECT")
    if variables.get("TIDEGATE_COMPLETE"):
        return Path(folder or _PACKAGE_FOLDER), None
    project = Path(folder) if folder else next(_with_file(), _PACKAGE_FOLDER)
    if (project / FILE).exists():
        from tidegate.environment import project_file

        return project, project_file.read(project / FILE).select(variables)
    for name in ("TIDEGATE_ENV", "TIDEGATE_SOURCE"):
        if variables.get(name):
            raise SetupError(
                f"{name}={variables[name]!r} names an environment, and {project} has no {FILE}",
                Edit(f"unset it, or set TIDEGATE_PROJECT to the folder of a {FILE}", "setting"),
            )
    return project, None


def _with_file() -> Iterator[Path]:
    """The working directory and those above that have a file, the nearest first."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return
    yield from (folder for folder in (here, *here.parents) if os.path.isfile(folder / FILE))  # noqa: PTH113
