"""`tidegate.toml`, in the project's folder: its environments, checked as a whole.

At the top are ``project``, the name of the project, and ``default``, the environment that is used if none is selected. The table
``[common]`` has settings of all environments, ``[environments.dev]`` those of the environment `dev`, which override them.

Every environment is checked, also if another one is selected, so that a wrong key is an error before somebody needs it.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

from tidegate.advice import Advice, Edit
from tidegate.environment import toml_document
from tidegate.environment.settings import SETTINGS, Effective, Setting
from tidegate.environment.toml_document import Keys, TomlDocument, kind, leaves
from tidegate.errors import SettingsError, SetupError
from tidegate.store.location import BucketFolder, Location

_TOP = ("project", "default", "common", "environments")
_ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WITH_PASSWORD = re.compile(r"//[^/@\s]*:[^/@\s]*@")
"""A URL with a user and a password."""
DECLARED = {setting.key: setting for setting in SETTINGS if setting.key and setting.key != "project"}
"""The settings that an environment may have, by key."""


@dataclass(frozen=True)
class SelectedEnvironment:
    """One environment of a file."""

    file: ProjectFile
    name: str
    """Empty: the file declares none."""
    values: Mapping[str, str]
    """The texts that the file has for it, by key."""
    why: str
    """What selected it."""

    def line(self, key: str) -> int:
        """The line of a key of `values`."""
        if key == "project":
            return self.file.toml.line("project")
        return self.file.line_of_setting(self.name, key)


@dataclass(frozen=True)
class ProjectFile:
    """A file that is valid."""

    toml: TomlDocument

    @property
    def environments(self) -> tuple[str, ...]:
        """Their names, in the order of the file."""
        return tuple(self.toml.values.get("environments", ()))

    def select(self, variables: Mapping[str, str]) -> SelectedEnvironment:
        """The environment that ``TIDEGATE_ENV`` names, else the default, else the only one.

        Raises:
            SettingsError: There is none of that name, or several and no default.
        """
        name, why = variables.get("TIDEGATE_ENV") or "", "TIDEGATE_ENV"
        if name and name not in self.environments:
            raise self.error(f"TIDEGATE_ENV={name!r} is no environment of this file", self._nearest(name), ())
        if not name and "default" in self.toml.values:
            name, why = self.toml.values["default"], f"{self.toml.path}:{self.toml.line('default')}"
        elif not name:
            if len(self.environments) > 1:
                says = f"add default = {self.environments[0]!r} at the top, or set TIDEGATE_ENV"
                raise self.error("there are several environments, and no default", Edit(says, "setting"), ())
            name, why = (*self.environments, "")[0], "the only one"
        values = self.values(name)
        if source := variables.get("TIDEGATE_SOURCE"):
            values["source"] = source
            self._check_sources({**self._sources(), name: source}, "TIDEGATE_SOURCE")
        return SelectedEnvironment(self, name, values, why)

    def values(self, environment: str) -> dict[str, str]:
        """What the file has for an environment, by key."""
        own = self.toml.values.get("environments", {}).get(environment, {})
        return {
            "project": self.toml.values["project"],
            **{
                ".".join(path): text
                for table in (self.toml.values.get("common", {}), own)
                for path, text in leaves(table)
            },
        }

    def line_of_setting(self, environment: str, key: str) -> int:
        """The line of a setting of an environment, its own or the common one."""
        own = ("environments", environment, *key.split("."))
        return self.toml.line(*own) if own in self.toml.lines else self.toml.line("common", *key.split("."))

    def check(self) -> None:
        """Check every key and every value.

        Raises:
            SettingsError: One is wrong.
        """
        for key, value in self.toml.values.items():
            if key not in _TOP:
                raise self.error(f"{key!r} is no key at the top of the file", self._place_of(key), (key,))
            wanted = dict if key in ("common", "environments") else str
            if not isinstance(value, wanted):
                raise self.error(f"{key} is {kind(value)}", Edit(f"write {_WRITTEN[wanted]}", "setting"), (key,))
        name = self.toml.values.get("project", "")
        if not _PROJECT.fullmatch(name):
            guess = re.sub(r"[^A-Za-z0-9._-]+", "-", self.toml.path.parent.name).strip("-._") or "name"
            what = f"project={name!r} is no name" if name else "the project has no name"
            says = f"write project = '{guess}' at the top, of letters, digits, '.', '_' and '-'"
            raise self.error(what, Edit(says, "setting"), ("project",))
        tables = {(*path,): table for path, table in self._tables()}
        for path, table in tables.items():
            self._check_table(path, table)
        if (default := self.toml.values.get("default", "")) and default not in self.environments:
            raise self.error(
                f"default={default!r} is no environment of this file", self._nearest(default), ("default",)
            )
        self._check_sources(self._sources())
        self._check_roots()

    def _tables(self) -> Iterator[tuple[Keys, Any]]:
        yield ("common",), self.toml.values.get("common", {})
        for name, table in self.toml.values.get("environments", {}).items():
            path = ("environments", name)
            if not _ENVIRONMENT.fullmatch(name):
                says = "write letters, digits, '_' and '-' only"
                raise self.error(f"{name!r} is no name of an environment", Edit(says, "setting"), path)
            if not isinstance(table, dict):
                says = f"write [environments.{name}] and its settings below"
                raise self.error(f"environments.{name} is {kind(table)}", Edit(says, "setting"), path)
            yield path, table

    def _check_table(self, path: Keys, table: Mapping[str, Any]) -> None:
        for inner, text in leaves(table):
            key = ".".join(inner)
            setting = _setting(key)
            if setting is None:
                advice = _nearest_key(key, self.values(path[-1]) if path[0] == "environments" else ())
                raise self.error(f"there is no setting {key!r}", advice, (*path, *inner))
            if not isinstance(text, str) or not text.strip():
                what = "is empty" if isinstance(text, str) else f"is {kind(text)}"
                says = f"write {key} = '…', or leave it out"
                raise self.error(f"{key} {what}", Edit(says, "setting"), (*path, *inner))
            if _WITH_PASSWORD.search(text):
                says = f"leave user and password out{_instead(key)}"
                raise self.error(f"{key} has a password in it", Edit(says, "setting"), (*path, *inner))
            try:
                Effective(setting, text, key=key).value(self.toml.path.parent)
            except SetupError as error:
                raise self.error(error.problem, error.advice, (*path, *inner)) from None

    def _sources(self) -> dict[str, str]:
        return {name: source for name in self.environments if (source := self.values(name).get("source"))}

    def _check_sources(self, sources: Mapping[str, str], variable: str = "") -> None:
        """Refuse environments that do not exist as a source, and those that read themselves, also by way of others."""
        for name, source in sources.items():
            path = () if variable else ("environments", name, "source")
            if source not in self.environments:
                what = f"{variable or 'source'}={source!r} is no environment of this file"
                raise self.error(what, self._nearest(source), path)
            way = [name]
            while (following := sources.get(way[-1])) and following not in way:
                way.append(following)
            if following == name:
                what = f"environment {name!r} is its own source"
                what += f", by way of {', '.join(way[1:])}" if len(way) > 1 else ""
                says = (
                    f"set {variable} to another one, or unset it" if variable else "name another one, or leave it out"
                )
                raise self.error(what, Edit(says, "setting"), path)

    def _check_roots(self) -> None:
        """Refuse a lake that two environments have, or that is in another one or in its own landing zone."""
        roots = {name: self.roots(name) for name in self.environments}
        for name, (lake, landing, _) in roots.items():
            if lake == landing:
                says = "give each an address of its own"
                raise self.error(
                    f"lake and landing zone of {name!r} are both {lake}", Edit(says, "setting"), self._lake(name)
                )
        for (one, (lake, _, server)), (other, (second, _, other_server)) in combinations(roots.items(), 2):
            if server == other_server and (contains(lake, second) or contains(second, lake)):
                what = f"environments {one!r} and {other!r} have one lake, {lake}"
                if lake != second:
                    what = f"the lakes of the environments {one!r} and {other!r} are in each other, {lake} and {second}"
                says = f"set environments.{other}.lake to another address"
                raise self.error(what, Edit(says, "setting"), self._lake(other))

    def roots(self, environment: str) -> tuple[Location, Location, str]:
        """Lake and landing zone of an environment, and its server of buckets."""
        values, project = self.values(environment), self.toml.path.parent
        lake, landing = (
            Effective(DECLARED[key], values.get(key, DECLARED[key].default), key=key if key in values else "").value(
                project
            )
            for key in ("lake", "landing")
        )
        return normal(lake), normal(landing), values.get("s3.endpoint", "")

    def _lake(self, environment: str) -> Keys:
        own = ("environments", environment, "lake")
        return own if own in self.toml.lines else ("common", "lake") if ("common", "lake") in self.toml.lines else own

    def _place_of(self, key: str) -> Advice:
        """Where a key belongs that is at the top."""
        if any(each == key or each.startswith(f"{key}.") for each in DECLARED):
            return Edit(f"move {key} into [common] or into the [environments.…] that have it", "setting")
        nearest = difflib.get_close_matches(key, _TOP, 1, 0.4)
        return Edit(f"write {nearest[0]}" if nearest else f"there are {', '.join(_TOP)}", "setting")

    def _nearest(self, name: str) -> Advice:
        """The nearest name of an environment."""
        if not self.environments:
            return Edit(f"add [environments.{name}]", "setting")
        nearest = difflib.get_close_matches(name, self.environments, 1, 0.4)
        others = f"there are {', '.join(self.environments)}"
        return Edit(f"write {nearest[0]}; {others}" if nearest else others, "setting")

    def error(self, what: str, advice: Advice | None, path: Keys) -> SettingsError:
        """An error that names the line of a key."""
        return SettingsError(what, advice, file=self.toml.path, line=self.toml.line(*path))


def read(path: Path) -> ProjectFile:
    """A file that is valid.

    Raises:
        SettingsError: It is not, or cannot be read.
    """
    return _checked(toml_document.read(path))


@lru_cache(maxsize=16)
def _checked(document: TomlDocument) -> ProjectFile:
    file = ProjectFile(document)
    file.check()
    return file


def _setting(key: str) -> Setting | None:
    """The setting of a key."""
    if key in DECLARED:
        return DECLARED[key]
    for each in DECLARED.values():
        name = each.key_name(key) if each.named else None
        # Otherwise a typing error would be the name of another one.
        if name and (name == "default" or not difflib.get_close_matches(name, ["default"], 1, 0.7)):
            return each.of(name)
    return None


def _nearest_key(key: str, others: Iterable[str]) -> Advice:
    """The nearest valid key that the environment does not have yet."""
    keys = [each for each in DECLARED if each not in others]
    inner = [each for each in keys if each.startswith(f"{key}.")]
    nearest = inner or difflib.get_close_matches(key, keys, 1, 0.4)
    if not nearest:
        last = key.rpartition(".")[2]
        nearest = [each for each in keys if each.rpartition(".")[2] == last]
    return Edit(f"write {' or '.join(nearest)}" if nearest else "see `tidegate config` for all settings", "setting")


def _instead(key: str) -> str:
    """Where a password in a URL goes."""
    own = key.startswith("kafka.") and key.endswith(".registry")
    if key != "registry.url" and not own:
        return ""
    start = f"{key}_" if own else "registry."
    return f"; {start}user has the user, and {start}password a reference to the password"


_WRITTEN = {dict: "a table", str: "a text in quotes"}


def normal(location: Location) -> Location:
    """The location without ``..``, as stores have it."""
    return location if isinstance(location, BucketFolder) else Path(os.path.normpath(location))


def contains(folder: Location, location: Location) -> bool:
    """Whether a location is a folder or in it."""
    if isinstance(folder, BucketFolder) and isinstance(location, BucketFolder):
        return f"{location}/".startswith(f"{folder}/")
    return isinstance(folder, Path) and isinstance(location, Path) and location.is_relative_to(folder)
