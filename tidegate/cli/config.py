"""``tidegate config``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson
from tidegate.environment import Environment, selection
from tidegate.environment.project_file import SelectedEnvironment
from tidegate.environment.settings import SETTINGS, Effective, Setting, effective
from tidegate.errors import SetupError

_PASSWORD = re.compile(r"//[^/@\s]*@")
"""User and password in a URL."""


@dataclass(frozen=True)
class _Shown:
    """One setting with its value, and where that is written."""

    setting: Setting
    value: str | None
    origin: str
    """``file``, ``variable``, ``default`` or ``unset``."""
    place: str
    """The line or the variable; otherwise empty."""


def config(*, as_json: AsJson = False) -> None:
    """Show every setting that holds, and where it comes from: a line of tidegate.toml, a variable, or the default. Starts no JVM.

    Secrets are shown as the references that the settings are. Nothing is read but the file.
    """
    variables = dict(os.environ)
    # Raises what is wrong with a value.
    environment = project.read()
    folder, selected = selection(variables)
    shown = [_project(environment, variables, selected), *_rows(environment, variables, selected)]
    if as_json:
        console.print_json(
            {
                "format": 1,
                "project": str(folder.absolute()),
                "file": str(selected.file.toml.path.absolute()) if selected is not None else None,
                "environment": environment.name or None,
                "environments": list(selected.file.environments) if selected is not None else [],
                "settings": [_json_of(each) for each in shown],
            }
        )
        return
    console.print_table(("setting", "value", "from"), [_row(each) for each in shown])


def _project(environment: Environment, variables: dict[str, str], selected: SelectedEnvironment | None) -> _Shown:
    setting = SETTINGS[0]
    folder = str(environment.project.absolute())
    if variables.get(setting.variable):
        return _Shown(setting, folder, "variable", setting.variable)
    return (
        _Shown(setting, folder, "file", str(selected.file.toml.path))
        if selected
        else _Shown(setting, folder, "default", "")
    )


def _rows(environment: Environment, variables: dict[str, str], selected: SelectedEnvironment | None) -> list[_Shown]:
    holding: dict[str, list[Effective]] = {}
    for each in effective(variables, {} if selected is None else selected.values):
        declared = next(setting for setting in SETTINGS if setting.names(each.setting.variable))
        holding.setdefault(declared.variable, []).append(each)
    rows = []
    for setting in SETTINGS[1:]:
        if setting.field == "name" and selected is not None and not variables.get(setting.variable):
            rows.append(_Shown(setting, selected.name or None, "file", selected.why))
        elif setting.variable in holding:
            rows += [_shown(environment, each, selected) for each in holding[setting.variable]]
        elif not setting.named and (setting.key or setting.field):
            rows.append(_Shown(setting, None, "unset", ""))
    return rows


def _shown(environment: Environment, each: Effective, selected: SelectedEnvironment | None) -> _Shown:
    value = _PASSWORD.sub("//…@", _value(environment, each))
    if each.variable:
        return _Shown(each.setting, value, "variable", each.variable)
    if each.key and selected is not None:
        return _Shown(each.setting, value, "file", f"{selected.file.toml.path}:{selected.line(each.key)}")
    return _Shown(each.setting, value, "default", "")


def _value(environment: Environment, each: Effective) -> str:
    """As it is used, for example with its whole path."""
    try:
        checked = each.setting.parse(each.setting.key, each.text, environment.project) if each.setting.foreign else None
    except SetupError:
        # What is wrong may be a secret.
        return "…"
    return str(checked or each.value(environment.project)) if each.setting.field else each.text


def _row(shown: _Shown) -> tuple[str, str, str]:
    name = shown.setting.key or shown.setting.variable
    return name, "" if shown.value is None else shown.value, shown.place or shown.origin


def _json_of(shown: _Shown) -> dict[str, object]:
    setting = shown.setting
    return {
        "key": setting.key or None,
        "variable": setting.variable,
        "value": shown.value,
        "from": shown.origin,
        "at": shown.place or None,
        "reference": bool(setting.references),
    }
