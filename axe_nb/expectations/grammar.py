"""The language of expectations: a text becomes clauses, before anything is sent.

Source: product.md "Runs are recordings"; D-67.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

from axe_nb.errors import ConfigError
from axe_nb.expectations.clause import (
    OF_KIND,
    OPERATORS,
    ORDERING,
    Clause,
    Condition,
    Step,
    Subject,
    Test,
    Value,
    find_advice,
)
from axe_nb.expectations.table import MEASURES, Kind, Measure
from axe_nb.patterns import compile_pattern
from axe_nb.text import nearest, one_line, quote

if TYPE_CHECKING:
    import regex

MAX_CHARS = 10_000
"""Characters of all expectations of a run."""

MAX_SHOWN = 80
"""Characters of an expectation in messages."""

_TOKEN = re.compile(
    r"""
    (?P<pattern> /(?:\\.|[^/\\])*/ )
    | (?P<string> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' )
    | (?P<number> -?\$?\d{1,18}(?:_\d{1,3})*(?:\.\d{1,18})?[^\W\d_]* )
    | (?P<kind> (?:agent|tool):(?=["'\w]) )
    | (?P<name> [^\W\d] (?: [\w.-] | \[ (?: \d{1,9} | "[^"]*" ) \] | / (?=\w) | (?<=\w):(?=\w) )* )
    | (?P<operator> [=!<>~]+ )
    | (?P<mark> [;,()] )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"(-?)(\$?)([\d_.]+)([^\W\d_]*)")
_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\["([^"]*)"\]""")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the language."""

    kind: str
    """Name of its group in `_TOKEN`; empty = the end."""
    text: str
    start: int


def parse(text: str) -> tuple[Clause, ...]:
    """Parses expectations separated by semicolons.

    Raises:
        ConfigError: the text is not valid; the message names the place in it.
    """
    if not isinstance(text, str):
        raise ConfigError(f"expectations must be text, not {type(text).__name__}")
    if len(text) > MAX_CHARS:
        raise ConfigError(f"the expectations have more than {MAX_CHARS:,} characters")
    parser = _Parser(text)
    clauses = []
    while parser.token.kind:
        if not parser.take(";"):
            clauses.append(parser.clause())
    if not clauses:
        raise ConfigError("no expectation given", hint="for example turns <= 6; no write_file")
    return tuple(clauses)


class _Parser:
    """A parser by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._start = 0
        """Position at which the current clause begins."""
        self._tokens = list(self._scan())
        self._at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def take(self, *texts: str) -> bool:
        """Passes the next token if it is one of these marks, words or operators."""
        found = self.token.text in texts and self.token.kind in ("mark", "name", "operator")
        self._at += found
        return found

    def clause(self) -> Clause:
        self._start = self.token.start
        is_negated = is_bare = False
        while self.token.kind == "name" and self.token.text in ("not", "no"):
            is_bare = self.token.text == "no"
            is_negated = not is_negated
            self._at += 1
        subjects = [self._subject()]
        joint = next((word for word in ("then", "and") if self.take(word)), "")
        while joint and (len(subjects) < 2 or self.take(joint)):
            subjects.append(self._subject())
        if joint and any(subject.measure for subject in subjects):
            self._fail(f"{joint} takes agents and tools")
        has_test = not (is_bare or joint)
        test = self._test(subjects[0].measure) if has_test else Test()
        may_be_parallel = joint == "and" or (has_test and not subjects[0].measure)
        is_parallel = may_be_parallel and self._take_parallel()
        if joint == "and" and not is_parallel:
            self._fail(
                "`and` joins only what runs in parallel", hint="write a and b, parallel; else a; b"
            )
        if self.token.kind and self.token.text != ";":
            self._fail("expected ; or the end", hint=self._advise_end(is_bare))
        words = one_line(self._text[self._start : self.token.start], MAX_SHOWN)
        return Clause(
            words=words, is_negated=is_negated, subjects=tuple(subjects), test=test,
            is_parallel=is_parallel,
        )  # fmt: skip

    def _take_parallel(self) -> bool:
        if self.token.text != "," or self._tokens[self._at + 1].text != "parallel":
            return False
        self._at += 2
        return True

    def _advise_end(self, is_bare: bool) -> str:
        if self.token.text == ",":
            following = self._tokens[self._at + 1]
            if following.kind == "number":
                return "write 5000 or 5k"
            if following.text == "parallel":
                return "parallel follows a count of an agent or a tool, as in researcher >= 2"
            near = nearest(following.text, ["parallel"])
            return f"did you mean {near}?" if near else "separate expectations with ;"
        if is_bare and self.token.text in OPERATORS:
            return "put not before the comparison"
        if near := nearest(self.token.text, ("then", "contains")):
            return f"did you mean {near}?"
        return "separate expectations with ; and put : after the name of a result"

    def _subject(self) -> Subject:
        kind: Literal["", "agent", "tool"] = ""
        if self.token.kind == "kind":
            kind = "agent" if self.token.text == "agent:" else "tool"
            self._at += 1
        token = self._next("name", "string", problem="expected an agent, a tool or a measure")
        if token.kind == "string":
            return Subject(name=_unquote(token.text), kind=kind, conditions=self._conditions())
        path = _split(token.text)
        measure = None if kind else _find_measure(token.text, path)
        if measure is None:
            return Subject(name=token.text, kind=kind, conditions=self._conditions())
        if self.token.text == "(":
            self._fail("only agents and tools take conditions")
        return Subject(name=token.text, measure=measure, path=path[1:])

    def _conditions(self) -> tuple[Condition, ...]:
        if not self.take("("):
            return ()
        found = []
        while True:
            token = self._next("name", "string", problem="expected an argument or a measure")
            quoted = token.kind == "string"
            path = (_unquote(token.text),) if quoted else _split(token.text)
            found.append(Condition(path=path, test=self._test(None, name=str(path[0]))))
            if self.take(")"):
                return tuple(found)
            if not self.take(","):
                self._fail("expected , or )")

    def _test(self, measure: Measure | None, *, name: str = "") -> Test:
        """The comparison here, if there is one.

        Args:
            measure: the measure on the left; None = a count, or a condition.
            name: name of the condition; empty = there is none.
        """
        token = self.token
        if token.kind != "operator" and token.text != "contains":
            return Test()
        if token.text not in OPERATORS:
            near = {"=": "==", "=<": "<=", "=>": ">=", "=~": "~", "<>": "!="}.get(token.text, "")
            hint = f"did you mean {near}?" if near else f"use one of {' '.join(OPERATORS)}"
            self._fail("unknown operator", hint=hint)
        kind: Kind = measure.kind if measure else "data" if name else "number"
        fits = OF_KIND[kind]
        if token.text not in fits:
            self._fail(f"expected one of {' '.join(fits)}", hint=self._advise_measure(kind))
        self._at += 1
        measured = measure or MEASURES.get(name)
        value_token = self.token
        value = self._value(token.text, kind, measured.units if measured else {})
        test = Test(operator=token.text, value=value)
        if measure and (advice := find_advice(measure, test)):
            self._fail("unknown value", value_token, hint=advice)
        return test

    def _advise_measure(self, kind: str) -> str:
        """The next step after an operator for texts, such as that of a mistyped measure."""
        name = self._tokens[self._at - 1].text
        near = nearest(name, [n for n, m in MEASURES.items() if m.kind != kind])
        return f"did you mean {near}?" if near and near != name else ""

    def _value(self, operator: str, kind: Kind, units: Mapping[str, float]) -> Value:
        if operator in ("~", "!~"):
            token = self._next("pattern", problem="expected a pattern, as in /42/")
            return Value(text=token.text, pattern=self._compile(token))
        if kind == "number" or (operator in ORDERING and kind == "list"):
            return self._number(self._next("number", problem="expected a number"), units)
        token = self._next("number", "string", "name", problem="expected a value")
        if token.kind == "number" and kind != "text":
            return self._number(token, units)
        text = _unquote(token.text) if token.kind == "string" else token.text
        return Value(text=text, is_bare=token.kind == "name")

    def _number(self, token: Token, units: Mapping[str, float]) -> Value:
        found = _NUMBER.fullmatch(token.text)
        assert found is not None
        sign, dollar, digits, unit = found.groups()
        unit = dollar + unit
        if unit and unit not in units:
            known = f"known here: {', '.join(units)}" if units else "write it without a unit"
            self._fail(f"unknown unit {quote(unit)}", token, hint=known)
        plain = float(digits) if "." in digits else int(digits)
        factor = units[unit] if unit else 1
        return Value(text=token.text, number=-plain * factor if sign else plain * factor)

    def _compile(self, token: Token) -> regex.Pattern[str]:
        try:
            return compile_pattern(token.text[1:-1])
        except ConfigError as error:
            self._fail(f"invalid pattern: {error}", token, hint=error.hint)

    def _next(self, *kinds: str, problem: str) -> Token:
        token = self.token
        if token.kind not in kinds:
            self._fail(problem)
        self._at += 1
        return token

    def _scan(self) -> Iterator[Token]:
        at = 0
        while at < len(self._text):
            if self._text[at].isspace():
                at += 1
                continue
            found = _TOKEN.match(self._text, at)
            if found is None:
                unclosed = {"/": "close the pattern with /", '"': "close the text with a quote"}
                hint = unclosed.get(self._text[at].replace("'", '"'), "")
                self._fail("not understood", Token("", "", at), hint=hint)
            yield Token(found.lastgroup or "", found[0], at)
            if found[0] == ";":
                self._start = found.end()
            at = found.end()
        yield Token("", "", len(self._text))

    def _fail(self, problem: str, token: Token | None = None, *, hint: str = "") -> NoReturn:
        """Raises the error for a token; None = the next one."""
        start = (token or self.token).start
        rest = one_line(self._text[start:].strip(), 40)
        where = f"at `{rest}`" if rest else "at the end"
        clause = one_line(self._text[self._start :].strip(), MAX_SHOWN)
        raise ConfigError(f"invalid expectation `{clause}`: {problem}, {where}", hint=hint)


def _find_measure(word: str, path: tuple[Step, ...]) -> Measure | None:
    if path[0] == "data":
        return MEASURES["data"]
    return MEASURES.get(word)


def _split(path: str) -> tuple[Step, ...]:
    steps = _STEP.finditer(path)
    return tuple(
        int(found[2]) if found[2] else found[1] if found[1] is not None else found[3]
        for found in steps
    ) or (path,)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
