"""What a person does next, as data: a command, an edit, an act outside of Tidegate, or several of them.

Errors, states, alert rules and exit codes have an `Advice` and no free text, so that tests can check each command against the
parser, and follow commands and edits on the lake that gave them. Every surface shows `Advice.text`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Place = Literal["declaration", "transform", "suite", "setting", "request"]
"""What an edit changes: a file in ``pipelines/``, ``spark_jobs/`` or ``expectations/``, an environment variable or a connection,
or the options of the command that was refused."""

_PLAIN = re.compile(r"[\w@%+=:,./{}-]+")


@dataclass(frozen=True)
class Advice:
    """What to do next."""

    @property
    def text(self) -> str:
        """As a clause: without a capital and without a full stop."""
        raise NotImplementedError

    def parts(self) -> Iterator[Command | Edit | OutsideAct]:
        """Its commands, edits and acts, in order."""
        raise NotImplementedError

    def map(self, change: Callable[[str], str]) -> Advice:
        """The same with each of its texts changed."""
        raise NotImplementedError

    def after(self, words: str) -> Advice:
        """The same, with its clause after these words."""
        raise NotImplementedError

    def of(self, pipeline: str, flow: str) -> Advice:
        """With the names for ``{pipeline}`` and ``{flow}``, as the tables of states and alert rules write them."""
        return self.map(lambda text: text.replace("{pipeline}", pipeline).replace("{flow}", flow))

    def without(self, *arguments: str) -> Advice | None:
        """Without the ways that need the command with these first arguments; None if none is left."""
        return None if any(isinstance(each, Command) and each.begins(*arguments) for each in self.parts()) else self


@dataclass(frozen=True)
class _One(Advice):
    """Advice that is one act, with a clause in which ``{}`` stands for what is written."""

    says: str

    @property
    def written(self) -> str:
        """What a person types; empty for an act outside."""
        return ""

    @property
    def text(self) -> str:
        """The clause."""
        return self.says.replace("{}", self.written)

    def parts(self) -> Iterator[Command | Edit | OutsideAct]:
        """Itself."""
        assert isinstance(self, (Command, Edit, OutsideAct))
        yield self

    def after(self, words: str) -> Advice:
        """The same, with its clause after these words."""
        return replace(self, says=f"{words} {self.says}")

    def map(self, change: Callable[[str], str]) -> Advice:
        """The same with its clause changed."""
        return replace(self, says=change(self.says))


@dataclass(frozen=True)
class Command(_One):
    """A command line that can be run as it is. ``…`` stands for a text that only a person knows, as a reason."""

    argv: tuple[str, ...]

    @classmethod
    def tidegate(cls, *arguments: object, says: str = "{}") -> Command:
        """A command of the command line ``tidegate``."""
        return cls(says, ("tidegate", *map(str, arguments)))

    @classmethod
    def make(cls, target: str, says: str = "{}") -> Command:
        """A target of the project's Makefile."""
        return cls(says, ("make", target))

    @property
    def written(self) -> str:
        """As it is typed into a shell."""
        return " ".join(map(_quoted, self.argv))

    def begins(self, *arguments: str) -> bool:
        """Whether the arguments after the program are these, or begin with them."""
        return self.argv[1 : 1 + len(arguments)] == arguments

    def map(self, change: Callable[[str], str]) -> Command:
        """The same with its clause and its arguments changed."""
        return Command(change(self.says), tuple(map(change, self.argv)))


@dataclass(frozen=True)
class Edit(_One):
    """A change of something that the user wrote.

    Without a value a person decides it, by what the clause says.
    """

    place: Place
    field: str = ""
    value: object = None

    @property
    def written(self) -> str:
        """The field with its value, as in the declaration."""
        return f"{self.field}={self.value!r}"


@dataclass(frozen=True)
class OutsideAct(_One):
    """Something that a person does outside of Tidegate and of the project: restores a file, starts a server, asks a producer."""


@dataclass(frozen=True, init=False)
class _Several(Advice):
    """Several ways, or steps."""

    ways: tuple[Advice, ...]

    def __init__(self, *ways: Advice) -> None:
        object.__setattr__(self, "ways", ways)

    def parts(self) -> Iterator[Command | Edit | OutsideAct]:
        """Those of each, in order."""
        for each in self.ways:
            yield from each.parts()

    def after(self, words: str) -> Advice:
        """The same, with the first clause after these words."""
        return type(self)(self.ways[0].after(words), *self.ways[1:])

    def map(self, change: Callable[[str], str]) -> Advice:
        """The same with the texts of each changed."""
        return type(self)(*(each.map(change) for each in self.ways))


class Then(_Several):
    """One after the other."""

    @property
    def text(self) -> str:
        """The clauses of all."""
        text = self.ways[0].text
        for before, way in zip(self.ways, self.ways[1:], strict=False):
            if _says_what_is_shown(before) or _says_what_is_shown(way):
                text += f"; {way.text}"
            else:
                text = _joined([text, way.text], "then")
        return text


class Either(_Several):
    """Any one of them."""

    @property
    def text(self) -> str:
        """The clauses of all."""
        return _joined([each.text for each in self.ways], "or")

    def without(self, *arguments: str) -> Advice | None:
        """Without the ways that need the command; the only one that is left by itself."""
        left = [way for each in self.ways if (way := each.without(*arguments)) is not None]
        return None if not left else left[0] if len(left) == 1 else Either(*left)


def new_version(version: int | None = None, says: str = "set {} in the declaration") -> Edit:
    """The edit by which the next run derives a table again behind staging.

    Args:
        version: The present checkpoint version; None where it is not known: the clause says "raise checkpoint_version".
        says: The clause.
    """
    return Edit(says, "declaration", "checkpoint_version", None if version is None else version + 1)


def recover_command(*table: str) -> Command:
    """The command that derives again what damage has reached, of a table and what stands on it, or of the whole lake."""
    return Command.tidegate("recover", *table, says="derive again what the damage has reached: {}")


def with_advice(problem: str, advice: Advice | None) -> str:
    """A problem and what to do about it, as one message: as a sentence of its own if the problem is a whole sentence."""
    if advice is None:
        return problem
    text = advice.text
    if not problem.endswith((".", "!", "?")):
        return f"{problem}; {text}"
    if not next(advice.parts()).says.startswith("{}"):
        text = text[:1].upper() + text[1:]
    return f"{problem} {text}{'' if text.endswith(('.', '?')) else '.'}"


def _says_what_is_shown(way: Advice) -> bool:
    """Whether the clause is a sentence about a command, such as "`tidegate lag shop` shows what waits", and no imperative."""
    return isinstance(way, Command) and re.match(r"`?\{\}`? \w", way.says) is not None


def _joined(texts: list[str], word: str) -> str:
    mark = ";" if any(", " in text or "; " in text for text in texts[:-1]) else ","
    return f"{mark} {word} ".join(texts)


def _quoted(argument: str) -> str:
    if _PLAIN.fullmatch(argument):
        return argument
    return f'"{argument}"' if not set(argument) & set('"$`\\!') else shlex.quote(argument)
