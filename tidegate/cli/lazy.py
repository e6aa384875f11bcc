"""Commands whose modules are imported when they are used, so that a command does not wait for the imports of all others.

Click's pattern: https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
"""

from __future__ import annotations

import importlib
import os
from typing import Annotated, Any

import typer
import typer.core

from tidegate.advice import Edit
from tidegate.errors import RequestError

_HELP = "The environment of tidegate.toml; also TIDEGATE_ENV."
EnvironmentOption = Annotated[str | None, typer.Option("--env", metavar="NAME", help=_HELP)]


def select(environment: str | None) -> None:
    """Select the environment for this process, and for those that it starts.

    Raises:
        RequestError: This process was started with all settings as variables, which are those of another one.
    """
    if environment is not None:
        own = os.environ.get("TIDEGATE_ENV", "")
        if os.environ.get("TIDEGATE_COMPLETE") and environment != own:
            raise RequestError(
                f"the variables of this process have all settings of environment {own!r} (TIDEGATE_COMPLETE)",
                Edit("give the command in a shell without these variables", "request"),
            )
        os.environ["TIDEGATE_ENV"] = environment


class _LazyCommand(typer.core.TyperCommand):
    """Stands for a command in the list of its group; its callback returns the command itself."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """The context of the command itself, which is used to run it, to print its help and to complete its arguments."""
        assert self.callback is not None
        return self.callback().make_context(*args, **more)


def add(app: typer.Typer, name: str, text: str) -> None:
    """Add a command or a group, which is imported when it is run, completed, or its help is shown.

    Args:
        app: The group that gets it.
        name: Its name; the module of that name has a function of that name, or the group as ``app``.
        text: What the list of commands says: the beginning of the function's docstring, or the help of the group.
    """

    def load() -> Any:
        return _with_environment(imported())

    def imported() -> Any:
        module = importlib.import_module(f"tidegate.cli.{name}")
        loaded = getattr(module, "app", None)
        if loaded is None:
            loaded = typer.Typer(add_completion=False, rich_markup_mode=None)
            loaded.command(name)(getattr(module, name))
            return typer.main.get_command(loaded)
        group = typer.main.get_group(loaded)
        group.help = text
        return group

    app.command(name, cls=_LazyCommand, help=text)(load)


def _with_environment(command: Any) -> Any:
    """The command, and each one of a group, with the option ``--env`` that the whole command line has, so that it may come last."""
    for each in getattr(command, "commands", {}).values():
        _with_environment(each)
    if not hasattr(command, "commands"):
        command.params.append(_option())
    return command


def _option() -> Any:
    """The option, made by Typer, which gives no other way to make one for a command that exists."""
    only = typer.Typer(add_completion=False)

    @only.command()
    def hold(
        environment: Annotated[
            str | None, typer.Option("--env", hidden=True, expose_value=False, callback=select)
        ] = None,
    ) -> None:
        del environment

    return typer.main.get_command(only).params[0]
