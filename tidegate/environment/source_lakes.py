"""The lakes of the sources of an environment, from `tidegate.toml`: jobs get them as a variable."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.advice import Edit
from tidegate.environment.project_file import DECLARED, SelectedEnvironment, contains, normal
from tidegate.environment.settings import FILE, SourceLake, SourceLakes
from tidegate.errors import RequestError
from tidegate.store.location import BucketFolder, Location


def of(selected: SelectedEnvironment, lake: Location, variables: Mapping[str, str]) -> SourceLakes:
    """Where the source of an environment has its tables, and the source of that one, and so on.

    Args:
        selected: The environment.
        lake: Its lake, which a variable may have set.
        variables: Those of the process, which hold for all environments.

    Raises:
        SettingsError: The lake of a source is its own, or on another server of buckets.
    """
    sources, name = list[SourceLake](), selected.values.get("source")
    while name:
        sources.append(_lake(selected, name, lake, variables))
        name = selected.file.values(name).get("source")
    return SourceLakes(sources)


def named(name: str, selected: SelectedEnvironment | None, lake: Location, variables: Mapping[str, str]) -> SourceLakes:
    """Where another environment has its tables, also if it is no source.

    Args:
        name: That environment.
        selected: The own one; None without a file.
        lake: The own lake.
        variables: As for `of`.

    Raises:
        SettingsError: As `of`.
        RequestError: There is no such environment.
    """
    others = () if selected is None else tuple(each for each in selected.file.environments if each != selected.name)
    if selected is None or name not in others:
        what = (
            f"{name!r} is this environment"
            if selected is not None and name == selected.name
            else f"there is no environment {name!r}"
        )
        says = f"{FILE} has {', '.join(others)}" if others else f"declare another one in {FILE}"
        raise RequestError(what, Edit(says, "request"))
    return SourceLakes([_lake(selected, name, lake, variables)])


def _lake(selected: SelectedEnvironment, name: str, lake: Location, variables: Mapping[str, str]) -> SourceLake:
    file, own = selected.file, normal(lake)
    path = ("environments", selected.name, "source")
    root, landing, _ = file.roots(name)
    if contains(root, own) or contains(own, root):
        what = f"environment {selected.name!r} is its own source: {name!r} has the lake {root}, too"
        raise file.error(what, Edit("set TIDEGATE_LAKE to another address, or unset it", "setting"), path)
    source = file.values(name)
    for key in ("s3.endpoint", "s3.region") if isinstance(root, BucketFolder) else ():
        given = any(variables.get(each) for each in (DECLARED[key].variable, DECLARED[key].also))
        if not given and source.get(key) != selected.values.get(key):
            what = f"{key} of environment {selected.name!r} is not that of {name!r}, whose tables it reads"
            raise file.error(what, Edit(f"a process has one server of buckets: set {key} in [common]", "setting"), path)
    return SourceLake(name, root, landing)
