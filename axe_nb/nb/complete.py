"""Tab completion for `%%axe`, `%axe` and `%%axe_agent`: agents, flags, models, commands, names.

IPython's custom matchers are used: its older hooks break words at hyphens (jupyter-facts §6).
Source: product.md "Notebook" (Tab completes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    from axe_nb.commands.options import Face, Option
    from axe_nb.commands.table import Command

LINE = re.compile(r"\s*(?P<magic>%%axe_agent|%%axe_grid|%%axe|%axe)\s+(?P<rest>.*)\Z", re.DOTALL)
"""A line with a magic, up to the cursor."""

BODY = re.compile(
    r"(?:[ \t]*\n|%%(?!axe)\w.*\n)*%%(?P<magic>axe_agent|axe_grid|axe)\b(?P<rest>.*)\n"
)
"""The beginning of a cell up to its body; other magics and blank lines may stand above ours."""

ACTIVE = re.compile(r"[\s{}$'\"\\]")
"""Characters that would make a name more than one word, or that IPython expands: the name of a file
may be hostile."""

OTHER = re.compile(r"%%(?!axe\b|axe_agent\b|axe_grid\b)")
"""A cell magic that may stand above ours, as %%time does."""


@context_matcher(identifier="axe_nb", priority=1000)  # type: ignore[untyped-decorator]  # IPython's own gap
def matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Completions at the cursor, if it is on the line of one of our magics or in its body."""
    above = context.full_text.split("\n")[: context.cursor_line]
    text = "\n".join([*above, context.text_until_cursor])
    # may import the core, when Tab is first pressed
    offered = _complete_line(context.text_until_cursor, above)
    if offered is None and (head := BODY.match(text)):
        offered = _complete_body(head, text, context.full_text[len(text) :])
    if offered is None:
        return {"completions": []}
    written, texts = offered
    return {
        "completions": [
            SimpleCompletion(text=text, type="option" if text.startswith("-") else "value")
            for text in texts
        ],
        "suppress": True,
        "matched_fragment": written,
    }


def install(shell: InteractiveShell) -> None:
    """Adds the matcher; twice is harmless."""
    if shell.Completer is not None and matcher not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(matcher)


def uninstall(shell: InteractiveShell) -> None:
    """Removes the matcher."""
    if shell.Completer is not None and matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)


def _complete_line(line: str, above: Sequence[str]) -> tuple[str, list[str]] | None:
    """The partial word at the cursor on the line of a magic, and its completions.

    Args:
        line: the line, up to the cursor.
        above: the lines above it: with text there, a cell magic is text too.
    """
    found = LINE.match(line)
    if found is None:
        return None
    magic = found["magic"]
    if magic != "%axe" and any(one.strip() and not OTHER.match(one) for one in above):
        return None
    words = found["rest"].split()
    word = "" if found["rest"][-1:].isspace() or not words else words.pop()
    offered = _list_completions(magic, words, word)
    if offered is None:
        return None
    fragment = word.rpartition(",")[2]
    plain = (text for text in offered if text.isprintable() and not ACTIVE.search(text))
    return fragment, [text for text in plain if text.startswith(fragment)]


def _complete_body(head: re.Match[str], above: str, below: str) -> tuple[str, list[str]] | None:
    """The partial word at the cursor in the body of a cell magic, and its completions.

    Args:
        head: the lines down to the magic.
        above: the cell up to the cursor.
        below: the cell behind it.
    """
    if head["magic"] == "axe_agent":
        from axe_nb.nb.toml_offers import list_toml_offers

        return list_toml_offers(above[head.end() :], below)
    if re.search(r"\s--raw(?!\S)", head["rest"]):
        return None
    from axe_nb.nb.name_offers import list_names_in_braces

    return list_names_in_braces(above[head.end() :])


def _list_completions(magic: str, words: list[str], word: str) -> Iterable[str] | None:
    """All completions at the cursor; None to leave them to IPython, as for files.

    Args:
        magic: as it is written.
        words: those before the one at the cursor.
        word: the one at the cursor, as far as it is written.
    """
    from axe_nb.commands.grid_command import GRID
    from axe_nb.commands.table import AGENT_CELL, RUN, commands_of

    if magic == "%%axe_agent":
        return _complete_command(AGENT_CELL, "cell", words, word)
    if magic == "%%axe_grid":
        return _complete_command(GRID, "cell", words, word)
    if magic == "%%axe":
        return _complete_command(RUN, "cell", words, word)
    commands = commands_of("line")
    if not words:
        return commands
    verb, *words = words
    return _complete_command(commands[verb], "line", words, word) if verb in commands else ()


def _complete_command(
    command: Command, face: Face, words: list[str], word: str
) -> Iterable[str] | None:
    options = command.options_of(face)
    if command.is_verbatim:
        return _list_values(options[0], word)
    by_flag = {flag: option for option in options for flag in option.flags}
    before = by_flag.get(words[-1]) if words else None
    if before is not None and before.metavar and not word.startswith("-"):
        return _list_values(before, word)
    given = sum(
        not named.startswith("-") and not (flag in by_flag and by_flag[flag].metavar)
        for flag, named in zip(["", *words], words, strict=False)
    )
    arguments = [option for option in options if not option.flags][given:]
    is_flag = word.startswith("-") or not arguments or not arguments[0].offers
    return by_flag if is_flag else _list_values(arguments[0], word)


def _list_values(option: Option, word: str) -> Iterable[str] | None:
    """Values of an option or argument; None = files, which IPython completes.

    Args:
        option: the option.
        word: its value, as far as it is written.
    """
    from axe_nb.commands.table import commands_of
    from axe_nb.nb import name_offers, offers
    from axe_nb.recording.modes import MODES

    match option.offers:
        case "agents":
            return name_offers.list_agents()
        case "models":
            return name_offers.list_models()
        case "variables":
            return name_offers.list_variables()
        case "outputs":
            return name_offers.list_outputs(word)
        case "places":
            return offers.list_places(word, name_offers.list_variables())
        case "runs":
            return offers.list_runs(word, name_offers.list_variables())
        case "past agents":
            return offers.list_past_agents()
        case "cassettes":
            return offers.list_cassettes(word)
        case "modes":
            return MODES
        case "tools":
            return name_offers.list_tools()
        case "parameters":
            return ("temperature=", "max_tokens=")
        case "prompt variables":
            return name_offers.list_prompt_variables()
        case "expectations":
            return name_offers.list_expectations()
        case "breaks":
            return offers.list_breaks(name_offers.list_agents(), name_offers.list_tools())
        case "commands":
            return commands_of("line")
        case "files":
            return None
        case "":
            return option.choices
