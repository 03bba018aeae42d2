"""The words of a command line, and the simple commands that they make, as a shell would read them.

It reads the text alone: what variables, files and programs would make of it is not known.
Source: X-35, D-43.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KEYWORDS = frozenset(
    {"then", "do", "else", "if", "elif", "while", "until", "!", "{", "}", "coproc",
     "-exec", "-execdir", "-ok", "-okdir"}
)  # fmt: skip
"""Words that are followed by a new command."""

EXPANDED = re.compile(r"\$(?:\{\w+(?::?[-=]([^{}]*))?\}|\w+)")
"""A variable, with the text that stands for it if it is not set."""


@dataclass(frozen=True, slots=True)
class Simple:
    """One command of a command line: a program and its arguments."""

    before: str
    """The operator before it."""
    words: Sequence[str]
    after: str
    """The operator after it."""
    text: str = ""
    """Its input, if that is written behind `<<<`."""

    @property
    def program(self) -> str:
        """Program name in lower case, without its folder."""
        return program_name(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> Sequence[str]:
        """Words after the program name."""
        return self.words[1:]


def tokenize(command: str) -> list[str]:
    """Splits a command into unquoted words and runs of operators.

    Raises:
        ValueError: a quote is not closed.
    """
    plain = re.sub(r"\$(?=['\"])", "", command.replace("\r", "\n"))  # `$'…'` is a word like `'…'`
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def split_commands(tokens: Sequence[str]) -> Iterator[Simple]:
    """Yields the simple commands, without their redirections but for the text of `<<<`."""
    before = text = ""
    words: list[str] = []
    redirection = ""
    for index, token in enumerate(tokens):
        is_operator = token != "" and not token.strip(";&|()<>\n")
        redirects = is_operator and token.strip("&|") != "" and set(token) <= set("<>&|")
        if redirects and "(" not in "".join(tokens[index + 1 : index + 2]):
            redirection = token
            if words and re.fullmatch(r"\d+|\{\w+\}", words[-1]):  # as in `2>` or `{fd}>`
                words.pop()
        elif is_operator or (token in KEYWORDS and not (token == "!" and words)):
            yield Simple(before, _strip_assignments(words), token, text)
            before, words, redirection, text = token, [], "", ""
        elif redirection:
            text = token if redirection == "<<<" else text
            redirection = ""
        else:
            words.append(token)
    yield Simple(before, _strip_assignments(words), "", text)


def _strip_assignments(words: Sequence[str]) -> Sequence[str]:
    """Returns the words after leading assignments such as `X=1`."""
    start = next((i for i, word in enumerate(words) if not re.match(r"\w+=", word)), len(words))
    return words[start:]


def program_name(word: str) -> str:
    """The program that a word names, in lower case, without its folder; no variable is set."""
    plain = EXPANDED.sub(lambda found: found[1] or "", word).strip("`")
    name = plain.rpartition("/")[2].lower().removesuffix(".exe")
    return "mkfs" if name.startswith("mkfs.") else name
