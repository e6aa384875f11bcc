"""The lakes of the sources of an environment, from `tidegate.toml`: jobs get them as a variable."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.advice import Edit
from tidegate.environment.project_file import DECLARED, SelectedEnvironment, has, normal
from tidegate.environment.settings import SourceLake, SourceLakes
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
    file, own, sources = selected.file, normal(lake), list[SourceLake]()
    path = ("environments", selected.name, "source")
    name = selected.values.get("source")
    while name:
        root, landing, _ = file.roots(name)
        if has(root, own) or has(own, root):
            what = f"environment {selected.name!r} is its own source: {name!r} has the lake {root}, too"
            raise file.error(what, Edit("set TIDEGATE_LAKE to another address, or unset it", "setting"), path)
        source = file.values(name)
        for key in ("s3.endpoint", "s3.region") if isinstance(root, BucketFolder) else ():
            given = any(variables.get(each) for each in (DECLARED[key].variable, DECLARED[key].also))
            if not given and source.get(key) != selected.values.get(key):
                what = f"{key} of environment {selected.name!r} is not that of {name!r}, whose tables it reads"
                raise file.error(
                    what, Edit(f"a process has one server of buckets: set {key} in [common]", "setting"), path
                )
        sources.append(SourceLake(name, root, landing))
        name = source.get("source")
    return SourceLakes(sources)
