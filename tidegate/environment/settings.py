"""The table of settings: how each is named, what it means and how its text is read.

Longer than 300 lines: most of it is the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tidegate.advice import Edit
from tidegate.errors import SetupError
from tidegate.errors.object_storage import S3A_CLASSES
from tidegate.store.location import Location, parse_location

FILE = "tidegate.toml"
CONNECTION = "airflow-connection"
"""The kind of reference that only processes of Airflow resolve."""
IAM = "AWS_MSK_IAM"
"""The mechanism of Amazon MSK: OAUTHBEARER, whose tokens a client makes itself with the credentials of its process."""
_NAME = "<name>"
_CLUSTER = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting."""

    variable: str
    """``<NAME>`` in it stands for the name in its key."""
    meaning: str
    key: str = ""
    """In an environment of `tidegate.toml`; empty: only a variable. ``<name>`` in it stands for any name."""
    field: str = ""
    """Of `Environment`; empty: read elsewhere."""
    default: str = ""
    """``<project>`` stands for the project's folder."""
    without: str = "none"
    """What holds without the setting, where there is no default."""
    also: str = ""
    """Another variable that is read if this one is not set."""
    parse: Callable[[str, str, Path | None], Any] = lambda name, text, folder: text
    """Of its name for messages, its text, and the folder of the file (None: a variable or the default). Raises SetupError."""
    references: tuple[str, ...] = ()
    """The kinds of reference that the value may be, in place of a secret."""
    foreign: bool = False
    """The variable belongs to other programs too: it is judged by whoever uses it, and never passed on empty."""

    @property
    def named(self) -> bool:
        """Whether there may be several, each with a name."""
        return _NAME in self.key

    @property
    def grouped(self) -> bool:
        """Whether its field has key and text of each of several settings."""
        return self.field.endswith("_settings")

    def of(self, name: str) -> Setting:
        """The one of a name."""
        return replace(
            self, key=self.key.replace(_NAME, name), variable=self.variable.replace(_NAME.upper(), name.upper())
        )

    def key_name(self, key: str) -> str | None:
        """The name in a key of the file; None if the key is another one."""
        before, _, after = self.key.partition(_NAME)
        name = key[len(before) : len(key) - len(after)]
        return name if key == f"{before}{name}{after}" and _CLUSTER.fullmatch(name) else None

    def variable_name(self, variable: str) -> str | None:
        """The name in a variable; None if the variable is another one."""
        before, _, after = self.variable.partition(_NAME.upper())
        name = variable[len(before) : len(variable) - len(after)].lower()
        return name if variable == f"{before}{name.upper()}{after}" and _CLUSTER.fullmatch(name) else None

    def names(self, variable: str) -> bool:
        """Whether a variable is this setting's."""
        return variable in (self.variable, self.also) or (self.named and self.variable_name(variable) is not None)


def _location(name: str, text: str, folder: Path | None) -> Location:
    return parse_location(name, text if folder is None or "://" in text else str(folder / text))


class SourceLake(NamedTuple):
    """Where an environment has its tables and its files, for another one that reads them."""

    name: str
    lake: Location
    landing: Location


class SourceLakes(tuple[SourceLake, ...]):
    """The source of an environment, that of this one, and so on."""

    __slots__ = ()

    def __str__(self) -> str:
        return json.dumps([list(map(str, each)) for each in self]) if self else ""

    @classmethod
    def parse(cls, name: str, text: str, folder: Path | None) -> Self:
        """As `Setting.parse`, of what ``str`` gives."""
        try:
            return cls(
                SourceLake(each, *(_location(name, at, folder) for at in (lake, landing)))
                for each, lake, landing in json.loads(text)
            )
        except (ValueError, TypeError):
            says = "leave it out: it is written for jobs, from the source of the file"
            raise SetupError(f"{name} has no lakes of sources", Edit(says, "setting")) from None


def _program(name: str, text: str, folder: Path | None) -> Path:
    # Without following links: a Python of a virtual environment is one.
    path = Path(text) if folder is None else (folder / text).absolute()
    if not path.is_absolute():
        raise SetupError(
            f"{name}={text!r} is not an absolute path", Edit("set one such as /opt/jobs/bin/python", "setting")
        )
    return path


def _memory(name: str, text: str, folder: Path | None) -> str:
    del folder
    if not re.fullmatch(r"[1-9]\d*[kmgtKMGT]?", text):
        raise SetupError(f"{name}={text!r} is no size of a heap", Edit("set one such as 2g or 1500m", "setting"))
    return text


def _count(name: str, text: str, folder: Path | None) -> str:
    del folder
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise SetupError(f"{name}={text!r} is not a whole number from 1", Edit("set a number such as 4", "setting"))
    return text


def _line(name: str, text: str, folder: Path | None) -> str:
    del folder
    if not text.isprintable() or text != text.strip():
        raise SetupError(f"{name}={text!r} is no program", Edit("set one such as /opt/jobs/bin/python", "setting"))
    return text


def _path_of_file(name: str, text: str, folder: Path | None) -> str:
    del name
    return text if folder is None or "://" in text else str((folder / text).absolute())


def _server_url(name: str, text: str, folder: Path | None) -> str:
    del folder
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(
            f"{name}={text!r} is not the URL of a server", Edit("set one such as http://spark:18080", "setting")
        )
    return text.rstrip("/")


def _reference(*kinds: str) -> Callable[[str, str, Path | None], str]:
    def parse(name: str, text: str, folder: Path | None) -> str:
        kind, _, what = text.partition(":")
        if kind not in kinds or not what.strip():
            # The text may be the secret itself.
            raise SetupError(
                f"{name} is not a reference to a secret",
                Edit(f"write {' or '.join(f'{each}:…' for each in kinds)} in place of a value", "setting"),
            )
        return f"file:{((folder or Path()) / what).absolute()}" if kind == "file" else text

    return parse


def _credentials(name: str, text: str, folder: Path | None) -> str:
    if folder is not None and text not in S3A_CLASSES and not re.fullmatch(rf"{CONNECTION}:\S+", text):
        raise SetupError(
            f"{name} is no source of credentials",
            Edit(f"write one of {', '.join(S3A_CLASSES)}, or {CONNECTION}:…", "setting"),
        )
    return text


def _choice(*allowed: str) -> Callable[[str, str, Path | None], str]:
    def parse(name: str, text: str, folder: Path | None) -> str:
        del folder
        if text not in allowed:
            raise SetupError(f"{name}={text!r} is none of them", Edit(f"write one of {', '.join(allowed)}", "setting"))
        return text

    return parse


def _plain(name: str, text: str, folder: Path | None) -> str:
    """A text that Java's client gets within quotes."""
    del folder
    if not re.fullmatch(r"[^\x00-\x1f\"\\$]+", text):
        says = "write it without quotes, backslashes, '$' and control characters"
        raise SetupError(f"{name}={text!r} is no name for Kafka", Edit(says, "setting"))
    return text


_SECRETS = ("env", "file", CONNECTION)
_SECURITY = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", IAM)


def _of_cluster(
    key: str,
    meaning: str,
    *,
    parse: Callable[[str, str, Path | None], str] = lambda name, text, folder: text,
    references: tuple[str, ...] = (),
    without: str = "none",
) -> Setting:
    return Setting(
        variable=f"TIDEGATE_KAFKA__<NAME>__{key.upper()}",
        meaning=meaning,
        key=f"kafka.{_NAME}.{key}",
        field="kafka_settings",
        without=without,
        parse=_reference(*references) if references else parse,
        references=references,
    )


def _of_registries(
    variable: str, meaning: str, *, references: tuple[str, ...] = (), without: str = "none"
) -> tuple[Setting, Setting]:
    """A setting of the registry of all clusters, and of a cluster's own."""
    key = variable.partition("REGISTRY_")[2].lower() or "url"
    common = Setting(
        variable=variable,
        meaning=meaning,
        key=f"registry.{key}",
        field="registry_settings",
        without=without,
        parse=_reference(*references) if references else Setting.parse,
        references=references,
    )
    name = variable.removeprefix("TIDEGATE_").lower()
    what = "URL of the cluster's own schema registry" if key == "url" else f"as `{common.key}`, of that registry"
    return common, _of_cluster(name, what, references=references, without="`registry.url`" if key == "url" else without)


def _of_spark(
    variable: str, meaning: str, parse: Callable[[str, str, Path | None], str], without: str = "Spark's default"
) -> Setting:
    """What an application requests: most of it may be declared by a pipeline, by a field of the same name in its `Resources`."""
    key = f"spark.{variable.removeprefix('TIDEGATE_').lower()}"
    return Setting(variable=variable, meaning=meaning, key=key, field="resource_settings", without=without, parse=parse)


_REGISTRIES = (
    *_of_registries(
        "TIDEGATE_REGISTRY", "URL of a schema registry for Kafka values, of all clusters without their own"
    ),
    *_of_registries("TIDEGATE_REGISTRY_USER", "user of the registry", without="the one in the URL, if there is one"),
    *_of_registries("TIDEGATE_REGISTRY_PASSWORD", "reference to that user's password", references=_SECRETS),
    *_of_registries(
        "TIDEGATE_REGISTRY_CA",
        "reference to the certificates that sign that of the registry, as PEM",
        references=_SECRETS,
        without="those of the system",
    ),
    *_of_registries(
        "TIDEGATE_REGISTRY_CERTIFICATE",
        "file with the certificate of the client for mutual TLS, as PEM",
        references=("file",),
    ),
    *_of_registries("TIDEGATE_REGISTRY_KEY", "file with the key of that certificate, as PEM", references=("file",)),
    *_of_registries("TIDEGATE_REGISTRY_KEY_PASSWORD", "reference to the password of that key", references=_SECRETS),
)

SETTINGS = (
    Setting(
        variable="TIDEGATE_PROJECT",
        meaning="the project's folder",
        field="project",
        without=f"the nearest folder with a `{FILE}`, from the working directory upwards; else the folder of this package",
    ),
    Setting(
        variable="TIDEGATE_ENV",
        meaning=f"the environment of `{FILE}`; also `--env`",
        field="name",
        without="`default` of the file, or its only one",
    ),
    Setting(
        variable="TIDEGATE_PROJECT_NAME",
        meaning="the name of the project, the same wherever its folder is; at the top of the file",
        key="project",
        field="project_name",
    ),
    Setting(
        variable="TIDEGATE_LAKE",
        meaning="root of tables, checkpoints, reports",
        key="lake",
        field="lake_at",
        default="<project>/.data/lake",
        parse=_location,
    ),
    Setting(
        variable="TIDEGATE_LANDING",
        meaning="root of the file landing zones",
        key="landing",
        field="landing_at",
        default="<project>/.data/landing",
        parse=_location,
    ),
    Setting(
        variable="TIDEGATE_SOURCE",
        meaning="another environment of the file, whose tables this one reads",
        key="source",
        field="source",
    ),
    Setting(
        variable="TIDEGATE_SOURCE_LAKES",
        meaning="lake and landing zone of that environment, and of its own source; written for jobs",
        field="source_lakes",
        parse=SourceLakes.parse,
    ),
    Setting(
        variable="TIDEGATE_KAFKA",
        meaning="bootstrap servers of the cluster of sources and sinks that name none",
        key="kafka.default.servers",
        field="kafka",
        default="127.0.0.1:9092",
    ),
    Setting(
        variable="TIDEGATE_KAFKA__<NAME>",
        meaning="bootstrap servers of another cluster, by its name",
        key="kafka.<name>.servers",
        field="kafka_settings",
    ),
    _of_cluster(
        "security", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", parse=_choice(*_SECURITY), without="PLAINTEXT"
    ),
    _of_cluster("mechanism", f"of SASL: {', '.join(_MECHANISMS)}", parse=_choice(*_MECHANISMS)),
    _of_cluster("user", "user of SASL, or the id of the client for a token", parse=_plain),
    _of_cluster("password", "reference to that user's password, or to the client's secret", references=_SECRETS),
    _of_cluster("token_url", "URL at which OAUTHBEARER gets a token", parse=_server_url),
    _of_cluster("scope", "scope of the token", parse=_plain),
    _of_cluster(
        "ca",
        "reference to the certificates that sign those of the brokers, as PEM",
        references=_SECRETS,
        without="those of the system",
    ),
    _of_cluster(
        "certificate", "reference to the certificate of the client for mutual TLS, as PEM", references=_SECRETS
    ),
    _of_cluster("key", "reference to the key of that certificate, as PEM (PKCS #8)", references=_SECRETS),
    _of_cluster("key_password", "reference to the password of that key", references=_SECRETS),
    _of_cluster("options", "further options of the clients: `name=value`, with commas between them"),
    *_REGISTRIES,
    Setting(
        variable="TIDEGATE_MASTER",
        meaning="Spark master of `tidegate run`",
        key="spark.master",
        field="master",
        default="local[2]",
    ),
    Setting(
        variable="TIDEGATE_DRIVER_MEMORY",
        meaning="heap of the driver",
        key="spark.driver_memory",
        field="driver_memory",
        default="2g",
        parse=_memory,
    ),
    _of_spark("TIDEGATE_DRIVER_CORES", "cores of a driver on a cluster", _count),
    _of_spark("TIDEGATE_EXECUTORS", "executors of a run on a cluster; with `spark.dynamic`, at most", _count),
    _of_spark("TIDEGATE_EXECUTOR_MEMORY", "heap of an executor", _memory),
    _of_spark(
        "TIDEGATE_EXECUTOR_CORES", "cores of an executor", _count, "on a standalone cluster 1, if there are `executors`"
    ),
    _of_spark(
        "TIDEGATE_DYNAMIC",
        "executors are started and ended with the tasks that wait",
        _choice("true", "false"),
        "`false`",
    ),
    _of_spark("TIDEGATE_EXECUTOR_PYTHON", "Python of executors, as their machines name it", _line, "`job.python`"),
    _of_spark(
        "TIDEGATE_EXECUTOR_WAIT",
        "seconds after which a run fails as transient, and is tried again, while its cluster gives it no executor",
        _count,
        "`600`",
    ),
    _of_spark("TIDEGATE_POD_TEMPLATE", "file with the template of Kubernetes' pods", _path_of_file, "none"),
    Setting(
        variable="TIDEGATE_SPARK_HISTORY",
        meaning="URL of a Spark history server that pages link to",
        key="spark.history",
        field="spark_history",
        without="no link",
        parse=_server_url,
    ),
    Setting(
        variable="TIDEGATE_JOB_PYTHON",
        meaning="Python of the environment in which jobs run",
        key="job.python",
        field="job_python",
        without="the Python of the process that starts them",
        parse=_program,
    ),
    Setting(
        variable="TIDEGATE_CONNECTION",
        meaning="Airflow connection by which DAGs submit jobs",
        key="airflow.connection",
        field="connection",
        default="spark_default",
    ),
    Setting(
        variable="TIDEGATE_POOL",
        meaning="Airflow pool of the tasks that submit jobs",
        key="airflow.pool",
        field="pool",
        without="Airflow's default",
    ),
    Setting(
        variable="TIDEGATE_ALERTS",
        meaning="the connection of Airflow that notifications of alerts go to",
        key="alerts",
        field="alerts",
        default=f"{CONNECTION}:tidegate_alerts",
        parse=_reference(CONNECTION),
        references=(CONNECTION,),
    ),
    Setting(
        variable="AWS_ENDPOINT_URL_S3",
        also="AWS_ENDPOINT_URL",
        meaning="URL of the server of buckets",
        key="s3.endpoint",
        field="s3_endpoint",
        without="AWS, in the region",
        parse=lambda name, text, folder: text if folder is None else _server_url(name, text, folder),
        foreign=True,
    ),
    Setting(
        variable="AWS_REGION",
        also="AWS_DEFAULT_REGION",
        meaning=f"region of the buckets, and of clusters of Kafka with {IAM}",
        key="s3.region",
        field="s3_region",
        without="`us-east-1`",
        foreign=True,
    ),
    Setting(
        variable="TIDEGATE_S3_CREDENTIALS",
        meaning="where the credentials of buckets, and of such clusters, come from, see below",
        key="s3.credentials",
        field="s3_credentials",
        without="the first source that is configured",
        parse=_credentials,
        foreign=True,
    ),
    Setting(
        variable="TIDEGATE_SECRET__<NAME>",
        meaning="set for a job: the secret of a setting that names a connection of Airflow",
    ),
    Setting(
        variable="TIDEGATE_MAVEN_REPOSITORY",
        meaning="Maven repository: a URL, or a folder with jars",
        without="Maven Central",
    ),
    Setting(
        variable="TIDEGATE_CACHE",
        meaning="jars and class data archives of this user",
        without="`$XDG_CACHE_HOME/tidegate`, or `~/.cache/tidegate`",
    ),
    Setting(variable="TIDEGATE_PART_OF", meaning="set by `make up` for its processes, which `make down` ends by it"),
    Setting(
        variable="TIDEGATE_COMPLETE",
        meaning=f"set for the processes that Tidegate starts: all settings are variables, and no `{FILE}` is read",
    ),
)
"""Every setting, in the order in which they are shown."""
_ALONE = frozenset(each.key for each in SETTINGS)


@dataclass(frozen=True)
class Effective:
    """A setting that holds, as text, and where it comes from."""

    setting: Setting
    text: str
    variable: str = ""
    """Which it comes from."""
    key: str = ""
    """Of the file, which it comes from; neither: the default."""
    name: str = ""
    """Of a setting with several."""

    def value(self, project: Path) -> Any:
        """What it means.

        Raises:
            SetupError: Nothing.
        """
        text = self.text if self.variable or self.key else self.text.replace("<project>", str(project))
        return self.setting.parse(self.variable or self.key, text, project if self.key else None)


def effective(variables: Mapping[str, str], written: Mapping[str, str]) -> Iterator[Effective]:
    """The settings that hold, with a field or not, in the order of `SETTINGS`; without those that have no value.

    Args:
        variables: The variables of the process.
        written: The texts of the file for the selected environment, by key.
    """
    # Each DAG reads the settings, and a process has a hundred other variables.
    given = [*(each for each in variables if each.startswith("TIDEGATE_")), *written]
    for declared in SETTINGS:
        for name, setting in _each(declared, given):
            variable = next((each for each in (setting.variable, setting.also) if variables.get(each)), "")
            if variable:
                yield Effective(setting, variables[variable], variable=variable, name=name)
            elif setting.key in written:
                yield Effective(setting, written[setting.key], key=setting.key, name=name)
            elif setting.default:
                yield Effective(setting, setting.default, name=name)


def _each(declared: Setting, given: list[str]) -> list[tuple[str, Setting]]:
    """The setting itself, or of one with several those that variables and keys name."""
    if not declared.named:
        return [("", declared)]
    names = {declared.key_name(each) or declared.variable_name(each) for each in given} - {None}
    # Where one is declared alone, it has a variable of another name.
    return [(name, own) for name in sorted(filter(None, names)) if (own := declared.of(name)).key not in _ALONE]
