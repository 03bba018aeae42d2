"""The help pages of all commands, as pieces of text that a terminal shows in colour.

Source: product.md "Notebook" and "Command line"; issue "Teaching and documentation".
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TextIO, TypeAlias

from axe_nb.commands.examples import ABOUT, EXAMPLES
from axe_nb.commands.options import OPTION_GROUPS, Face, Option
from axe_nb.commands.table import Command

Kind = Literal["plain", "heading", "name", "code", "note"]

Page: TypeAlias = Sequence[tuple[Kind, str]]
"""(kind, text) of each piece."""

MAX_WIDTH = 100
"""Columns of the widest page; longer lines are hard to read."""

MIN_WIDTH = 24
"""Columns of the narrowest column of text."""

MAX_LEFT = 32
"""Columns of the longest name that has its meaning beside it."""

OTHER_OPTIONS = "Options"
"""Heading of options without a group, and of those of a page that has only one group."""

ANSI = {"heading": "**", "name": "cyan", "code": "green", "note": "brightblack"}
"""Kind of text → its colour, in the words of Pygments; legible on light and dark."""


def join(page: Page) -> str:
    """Returns the page without colours."""
    return "".join(text for _, text in page)


def paint(page: Page, stream: TextIO | None) -> str:
    """Returns the page for a stream: in colour on a terminal, unless NO_COLOR is set."""
    if stream is None or not stream.isatty() or not _wants_colour():
        return join(page)
    from pygments import format as render
    from pygments.formatters.terminal import TerminalFormatter
    from pygments.token import Token

    kinds = {kind: getattr(Token, kind.title()) for kind in ("plain", *ANSI)}
    scheme = {Token: ("", "")} | {kinds[kind]: (colour, colour) for kind, colour in ANSI.items()}
    tokens = ((kinds[kind], text) for kind, text in page)
    return str(render(tokens, TerminalFormatter(colorscheme=scheme)))


def _wants_colour() -> bool:
    """False with NO_COLOR (no-color.org), and on terminals that know no colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return os.name != "nt" or bool(os.environ.get("WT_SESSION"))


def make_page(command: Command, face: Face, usage: str) -> Page:
    """Makes the page of one command.

    Args:
        command: the command.
        face: the interface that it is typed in.
        usage: its usage line; one with too many options for a line is shortened.
    """
    line = " ".join(usage.split())
    if len(f"usage: {line}") > _get_width():
        line = command.use(face).replace(
            command.program(face), f"{command.program(face)} [OPTIONS]"
        )
    about = ABOUT.get(command.program(face), (f"{command.help[:1].upper()}{command.help[1:]}.",))
    return [
        *_begin(line, about),
        *_list_sections(_group_options(command, face)),
        *_list_examples(command.program(face)),
        *_list_unavailable(command, face),
    ]


def make_overview(
    usage: str, groups: Mapping[str, Mapping[str, str]], program: str, end: str
) -> Page:
    """Makes the page of several commands.

    Args:
        usage: the usage line.
        groups: heading → usage of each command → what it does.
        program: what the commands begin with.
        end: the last sentence.
    """
    return [
        *_begin(usage, ABOUT[program]),
        *_list_sections(groups),
        *_list_examples(program),
        ("plain", "\n"),
        *_fold(end),
    ]


def _begin(usage: str, about: Iterable[str]) -> Iterator[tuple[Kind, str]]:
    """Yields the usage line and the paragraphs below it."""
    yield "heading", "usage: "
    yield "plain", f"{usage}\n"
    for paragraph in about:
        yield "plain", "\n"
        yield from _fold(paragraph)


def _list_sections(groups: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[Kind, str]]:
    """Yields the sections: names beside their meanings, which begin in the same column."""
    lengths = [len(name) for rows in groups.values() for name in rows]
    left = max((length for length in lengths if length <= MAX_LEFT), default=0) + 4
    for heading, rows in groups.items():
        yield "heading", f"\n{heading}\n"
        for name, meaning in rows.items():
            lines = _wrap(meaning, _get_width() - left)
            if len(name) + 4 > left:
                lines.insert(0, "")
            yield "name", f"  {name}".ljust(left if lines[0] else 0)
            yield "plain", "\n".join([lines[0], *(f"{'':{left}}{line}" for line in lines[1:]), ""])


def _list_examples(program: str) -> Iterator[tuple[Kind, str]]:
    """Yields the pieces of the examples; a comment cannot stand above a cell magic."""
    yield "heading", "\nExamples\n"
    for number, (about, code) in enumerate(EXAMPLES[program]):
        sentence = f"{about}:" if code.startswith("%%") else f"# {about}"
        yield "note", f"{'' if number == 0 else chr(10)}  {sentence}\n"
        yield "code", f"{textwrap.indent(code, '  ')}\n"


def _get_width() -> int:
    """Returns the columns of a page."""
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def _fold(text: str) -> Iterator[tuple[Kind, str]]:
    yield "plain", "\n".join([*_wrap(text, _get_width()), ""])


def _wrap(text: str, width: int) -> list[str]:
    """Wraps a text at spaces, on the narrowest terminals at MIN_WIDTH columns."""
    return textwrap.wrap(text, max(width, MIN_WIDTH), break_on_hyphens=False)


def _group_options(command: Command, face: Face) -> dict[str, dict[str, str]]:
    """Heading → name of an argument or option → its meaning."""
    options = command.options_of(face)
    arguments = {one.metavar: _format_meaning(one) for one in options if not one.flags}
    flagged = [option for option in options if option.flags]
    used = [group for group in OPTION_GROUPS if any(one.group == group for one in flagged)]
    groups: dict[str, dict[str, str]] = {"Arguments": arguments}
    for option in sorted(flagged, key=lambda one: used.index(one.group) if one.group else 0):
        heading = option.group if len(used) > 1 else OTHER_OPTIONS
        groups.setdefault(heading, {})[_format_name(option)] = _format_meaning(option)
    if face == "command":
        last = list(groups)[-1] if flagged else OTHER_OPTIONS
        groups.setdefault(last, {})["-h, --help"] = "show this help"
    return {heading: rows for heading, rows in groups.items() if rows}


def _format_name(option: Option) -> str:
    return f"{', '.join(option.flags)} {option.metavar}".strip()


def _format_meaning(option: Option) -> str:
    """The help of an option, with its choices before the default."""
    about, default, rest = option.help.partition(" (default")
    chosen = f": {', '.join(option.choices)}" if option.choices else ""
    return f"{about}{chosen}{default}{rest}"


def _list_unavailable(command: Command, face: Face) -> Iterable[tuple[Kind, str]]:
    """Yields the note on options of other interfaces."""
    notes = [
        f"{option.flag} ({option.instead[face].removeprefix('no: ').replace('`', '')})"
        for option in command.options
        if option.flags and face not in option.faces and face in option.instead
    ]
    if notes:
        yield "plain", "\n"
        yield from _fold(f"Not available here: {', '.join(notes)}.")
