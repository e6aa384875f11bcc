"""The SELECT of a transform in SQL, parsed without Spark: what it reads and returns, and where in the file.

The statement stays as its file has it. The parser says what it is made of; what Spark gets are the text, or parts of it in their places.
Rules about it are in `tidegate.project.statement_rules`. Imported only for flows whose transform is SQL, because of its parser.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.advice import Advice, Edit
from tidegate.errors import SpecError, extras
from tidegate.errors.classification import raise_machine

# A project without SQL needs no parser; a DAG that has some says what to install.
extras.expect("sqlglot")

from sqlglot import Token  # noqa: E402
from sqlglot import TokenType as TokenType  # noqa: E402
from sqlglot import exp as exp  # noqa: E402
from sqlglot.dialects.dialect import Dialect  # noqa: E402
from sqlglot.errors import ParseError, TokenError  # noqa: E402

_OPENING = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE))
_PLACE = re.compile(r"Missing .* from \d+:(\d+)$")
_RULE = re.compile(r"rule:\s*(.*)")
_RULE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SAYS_RULE = "a rule is named by a comment of the form `-- rule: lower_case_name`"


@dataclass(frozen=True)
class Projection:
    """What a SELECT list has between two commas."""

    expression: exp.Expr
    text: str
    """Without its name, behind as many blanks and lines as precede it in the file; with its names if it makes several rows."""
    start: int
    """The place of its first character in the file."""

    @property
    def is_star(self) -> bool:
        """Whether it stands for all columns."""
        qualified = self.expression.this if isinstance(self.expression, exp.Column) else self.expression
        return isinstance(qualified, exp.Star)

    @property
    def excepted(self) -> frozenset[str]:
        """The columns that a star leaves out, in lower case."""
        star = self.expression if isinstance(self.expression, exp.Star) else self.expression.this
        return frozenset(each.name.lower() for each in star.args.get("except_") or ())

    @property
    def is_column(self) -> bool:
        """Whether it is a column, and nothing is computed."""
        return isinstance(self.expression.unalias(), exp.Column)

    @property
    def is_generator(self) -> bool:
        """Whether it makes several rows, or several columns, of one row."""
        calls_outer = re.match(r"\w+_outer\s*\(", self.text.lstrip(), re.IGNORECASE) is not None
        return calls_outer or isinstance(self.expression, exp.Aliases)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns; none for a star, and for what has no name."""
        if isinstance(self.expression, exp.Aliases):
            return tuple(each.name for each in self.expression.args["expressions"])
        named = isinstance(self.expression, (exp.Alias, exp.Column)) and not self.is_star
        return (self.expression.alias_or_name,) if named else ()


@dataclass(frozen=True)
class Condition:
    """One of the conditions that WHERE joins by AND."""

    text: str
    """Behind as many blanks and lines as precede it in the file."""
    start: int
    """The place of its first character in the file."""
    rule: str
    """The rule by which a row is filtered for which it does not hold."""


@dataclass(frozen=True)
class Statement:
    """A SELECT in a file of ``spark_jobs``."""

    name: str
    """The name of the file, as flows declare it: ``orders.sql``."""
    text: str = field(repr=False)
    tokens: Sequence[Token] = field(repr=False, compare=False)
    tree: exp.Query = field(repr=False, compare=False)

    @classmethod
    def read(cls, name: str, path: Path) -> Statement:
        """The statement of a file.

        Raises:
            SpecError: The file cannot be read or parsed, or is no SELECT; the message has the line and the column.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise_machine(error, f"transform {name!r}")
            raise SpecError(
                f"transform {name!r}: spark_jobs/{name} cannot be read: {error}", Edit("correct the file", "transform")
            ) from error
        return _parsed(name, text)

    def error(self, start: int, problem: str, advice: Advice) -> SpecError:
        """The error for what begins at a character of the file."""
        line, column = self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start)
        where = f"spark_jobs/{self.name} line {line}, column {column}"
        return SpecError(f"transform {self.name!r}: {where}: {problem}", advice)

    def start_of(self, node: exp.Expr) -> int:
        """The place of the first name, function or value in a part of the tree; 0 if it has none."""
        return min((each.meta["start"] for each in node.walk() if "start" in each.meta), default=0)

    def start_of_token(self, *kinds: TokenType) -> int | None:
        """The place of the first of these tokens; None if there is none."""
        return next((each.start for each in self.tokens if each.token_type in kinds), None)

    @property
    def relation(self) -> exp.Table | None:
        """The table of FROM, if it is one."""
        source = self.tree.args.get("from_")
        return source.this if source is not None and isinstance(source.this, exp.Table) else None

    @property
    def alias(self) -> str:
        """The name by which columns of the table of FROM are qualified."""
        return "" if self.relation is None else str(self.relation.alias_or_name)

    @property
    def own_names(self) -> frozenset[str]:
        """The names that WITH gives to parts of the statement, in lower case."""
        return frozenset(each.alias.lower() for each in self.tree.find_all(exp.CTE))

    @property
    def end_of_with(self) -> int:
        """The place behind WITH, if it begins with it; else 0."""
        return self.tokens[0].end + 1 if self.tokens[0].token_type is TokenType.WITH else 0

    @property
    def tables(self) -> Iterator[exp.Table]:
        """Each table that it names, without those of WITH."""
        hinted = {id(each) for hint in self.tree.find_all(exp.Hint) for each in hint.find_all(exp.Table)}
        for each in self.tree.find_all(exp.Table):
            if id(each) not in hinted and (each.db or each.name.lower() not in self.own_names):
                yield each

    @functools.cached_property
    def projections(self) -> tuple[Projection, ...]:
        """The parts of the SELECT list. Of several SELECTs that are put together, those of the first."""
        top = list(_outside_parentheses(self.tokens))
        first = next((index for index, each in top if each.token_type is TokenType.SELECT), None)
        if first is None:
            raise self.error(0, "its SELECT is in parentheses", Edit("write it without them", "transform"))
        last = next((index for index, _ in top if index > first and self._ends_list(index)), len(self.tokens))
        ends = [index for index, each in top if first < index < last and each.token_type is TokenType.COMMA]
        bounds = zip([first, *ends], [*ends, last], strict=True)
        spans = [self.tokens[begin + 1 : end] for begin, end in bounds]
        while spans and spans[0] and spans[0][0].token_type in (TokenType.DISTINCT, TokenType.ALL, TokenType.HINT):
            spans[0] = spans[0][1:]
        if not all(spans) or len(spans) != len(self.tree.selects):
            raise self.error(
                self.tokens[last - 1].start,
                "an expression is missing before or after a comma of the SELECT list",
                Edit("write it, or remove the comma", "transform"),
            )
        return tuple(map(self._projection, self.tree.selects, spans))

    @functools.cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of WHERE, with the names of their rules.

        Raises:
            SpecError: A comment does not name a rule as it should.
        """
        top = list(_outside_parentheses(self.tokens))
        where = next((index for index, each in top if each.token_type is TokenType.WHERE), None)
        spans = [] if where is None else [self.tokens[where:]]
        if where is not None and not any(index > where and each.token_type is TokenType.OR for index, each in top):
            cuts = [where, *self._ands(top, where), len(self.tokens)]
            spans = [self.tokens[begin:end] for begin, end in itertools.pairwise(cuts)]
        before = self.tokens if where is None else self.tokens[:where]
        if stray := next((each for each in before if any(map(_RULE.match, _comments(each)))), None):
            raise self.error(stray.start, _SAYS_RULE, Edit("write it beside a condition of WHERE", "transform"))
        # Each begins with WHERE or AND, at which a comment before the condition is.
        return tuple(
            Condition(self._padded(span[1:]), span[1].start, self._rule(span) or f"where_{number}")
            for number, span in enumerate(spans, start=1)
        )

    def _ends_list(self, index: int) -> bool:
        kind, before = self.tokens[index].token_type, self.tokens[index - 1].token_type
        # IS DISTINCT FROM begins nothing.
        return kind in (TokenType.UNION, TokenType.INTERSECT) or (
            kind is TokenType.FROM and before is not TokenType.DISTINCT
        )

    def _projection(self, expression: exp.Expr, span: Sequence[Token]) -> Projection:
        whole = span
        if isinstance(expression, exp.Alias):
            span = span[:-1]
            if span[-1].token_type is TokenType.ALIAS:
                span = span[:-1]
        made = Projection(expression, self._padded(span), span[0].start)
        return Projection(expression, self._padded(whole), span[0].start) if made.is_generator else made

    def _padded(self, span: Sequence[Token]) -> str:
        start, end = span[0].start, span[-1].end + 1
        return re.sub(r"[^\n]", " ", self.text[:start]) + self.text[start:end]

    def _ands(self, top: Sequence[tuple[int, Token]], where: int) -> Iterator[int]:
        """The places of those AND that join conditions, and are not of BETWEEN."""
        open_between = 0
        for index, each in top:
            if index > where and each.token_type is TokenType.BETWEEN:
                open_between += 1
            elif index > where and each.token_type is TokenType.AND:
                if not open_between:
                    yield index
                open_between = max(0, open_between - 1)

    def _rule(self, span: Sequence[Token]) -> str:
        named = [(each, match[1].strip()) for each in span for text in _comments(each) if (match := _RULE.match(text))]
        for token, name in named:
            if _RULE_NAME.fullmatch(name) is None or len(named) > 1:
                problem = f"{_SAYS_RULE}, once for a condition"
                raise self.error(token.start, problem, Edit("correct the comment", "transform"))
        return named[0][1] if named else ""


def _comments(token: Token) -> list[str]:
    return [each.strip() for each in token.comments]


def _outside_parentheses(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """The tokens with their numbers that are not within parentheses, brackets or a CASE."""
    opened: list[TokenType] = []
    for index, each in enumerate(tokens):
        kind = each.token_type
        # A field of a struct may be named `end`.
        is_field = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        ends_case = kind is TokenType.END and not is_field and opened[-1:] == [TokenType.CASE]
        if opened and (kind in _CLOSING or ends_case):
            opened.pop()
        if not opened:
            yield index, each
        if kind in _OPENING or (kind is TokenType.CASE and not is_field):
            opened.append(kind)


@functools.lru_cache(maxsize=256)
def _parsed(name: str, text: str) -> Statement:
    dialect = Dialect.get_or_raise("spark")
    unread = Statement(name, text, (), exp.Select())
    correct = Edit("correct it", "transform")
    try:
        tokens = dialect.tokenize(text)
    except TokenError as error:
        if place := _PLACE.search(str(error.__cause__)):
            raise unread.error(int(place[1]), "a quote is not closed", correct) from None
        raise unread.error(max(text.rfind("/*"), 0), "a comment is not closed", correct) from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    one = Edit("write one SELECT", "transform")
    if not tokens:
        raise unread.error(0, "there is no SELECT", one)
    if tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH):
        raise unread.error(tokens[0].start, f"it begins with {tokens[0].text}, not with SELECT", one)
    if semicolon := next((each for each in tokens if each.token_type is TokenType.SEMICOLON), None):
        raise unread.error(semicolon.start, "a second statement begins after this semicolon", one)
    try:
        (tree,) = dialect.parser().parse(tokens, text)
    except ParseError as error:
        first = error.errors[0]
        ended = [each.end for each in tokens if _line_and_column(text, each.end) == (first["line"], first["col"])]
        token = next((each for each in tokens if each.end in ended), tokens[-1])
        raise unread.error(token.start, f"it cannot be parsed at {token.text!r}", correct) from None
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        raise unread.error(tokens[0].start, "it is not one SELECT", one)
    return Statement(name, text, tokens, tree)


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
