"""Tab behind `%%axe`, `%axe` and `%%axe_agent`: agents, flags, models, sub-commands, names.

IPython's custom matchers are used: its older hooks break words at hyphens (jupyter-facts §6).
Source: product.md "Notebook" (Tab completes).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    from axe_nb.agents.agent import Agent
    from axe_nb.commands.options import Face, Option
    from axe_nb.commands.table import Command

LINE = re.compile(r"\s*(?P<magic>%%axe_agent|%%axe_grid|%%axe|%axe)\s+(?P<rest>.*)\Z", re.DOTALL)
"""A line with a magic, up to the cursor."""

OTHER = re.compile(r"%%(?!axe\b|axe_agent\b|axe_grid\b)")
"""A cell magic that may stand above ours, as %%time does."""

MOST = 200
"""Maximum number of agents whose files are read to complete models and variables."""


@context_matcher(identifier="axe_nb", priority=1000)  # type: ignore[untyped-decorator]  # IPython's own gap
def matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Completions at the cursor, if it is on the line of one of our magics."""
    found = LINE.match(context.text_until_cursor)
    if found is None:
        return {"completions": []}
    above = context.full_text.split("\n")[: context.cursor_line]
    magic = found["magic"]
    if magic != "%axe" and any(line.strip() and not OTHER.match(line) for line in above):
        return {"completions": []}  # text: cell magics come first
    words = found["rest"].split()
    word = "" if found["rest"][-1:].isspace() or not words else words.pop()
    offered = _list_completions(
        magic, words, word
    )  # may import the core, when Tab is first pressed
    if offered is None:
        return {"completions": []}
    fragment = word.rpartition(",")[2]
    return {
        "completions": [
            SimpleCompletion(text=text, type="option" if text.startswith("-") else "value")
            for text in offered
            if text.startswith(fragment)
        ],
        "suppress": True,
        "matched_fragment": fragment,
    }


def install(shell: InteractiveShell) -> None:
    """Adds the matcher; twice is harmless."""
    if shell.Completer is not None and matcher not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(matcher)


def uninstall(shell: InteractiveShell) -> None:
    """Removes the matcher."""
    if shell.Completer is not None and matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)


def _list_completions(magic: str, words: list[str], word: str) -> Iterable[str] | None:
    """All completions here; None if IPython knows better, as with files.

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
    from axe_nb.nb import offers
    from axe_nb.recording.modes import MODES

    match option.offers:
        case "agents":
            return _list_agents()
        case "models":
            return _list_models()
        case "variables":
            return _list_variables()
        case "outputs":
            return _list_outputs()
        case "places":
            return offers.list_places(word, _list_variables())
        case "runs":
            return offers.list_runs(word, _list_variables())
        case "past agents":
            return offers.list_past_agents()
        case "cassettes":
            return offers.list_cassettes(word)
        case "modes":
            return MODES
        case "tools":
            return _list_tools()
        case "parameters":
            return ("temperature=", "max_tokens=")
        case "prompt variables":
            return _list_prompt_variables()
        case "expectations":
            return _list_expectations()
        case "breaks":
            return offers.list_breaks(_list_agents(), _list_tools())
        case "files":
            return None
        case "":
            return option.choices


def _get_agents_dir() -> str | None:
    from axe_nb.session.session import session

    return session.defaults.get("agents_dir")


def _list_agents() -> list[str]:
    from axe_nb.agents.agent_files import list_agents
    from axe_nb.session.session import session

    return sorted({*session.agents, *list_agents(_get_agents_dir())})


def _list_models() -> list[str]:
    """Those of the agents, those that have run here, the scripts, and the providers."""
    from axe_nb.agents.config import Config
    from axe_nb.errors import ConfigError
    from axe_nb.provider_table import PROVIDERS
    from axe_nb.scripting.lookup import known
    from axe_nb.session.session import session

    models = {model for _, model in session.spent} | {f"script/{name}" for name in known()}
    models.update(agent.model for agent in _load_agents())
    providers: Iterable[str] = PROVIDERS
    with contextlib.suppress(ConfigError):
        providers = Config.load().known
    return sorted(models | {f"{provider}/" for provider in providers})


def _list_prompt_variables() -> list[str]:
    """Those of all agents, as they begin in an option."""
    return sorted({f"{name}=" for agent in _load_agents() for name in agent.vars})


def _load_agents() -> Iterator[Agent]:
    """Yields the first agents whose files are valid."""
    from axe_nb.errors import ConfigError
    from axe_nb.session.session import session

    for name in _list_agents()[:MOST]:
        with contextlib.suppress(ConfigError):
            yield session.find(name, _get_agents_dir())


def _list_tools() -> list[str]:
    from axe_nb.toolbox import REGISTRY

    return sorted(REGISTRY.known)


def _list_expectations() -> list[str]:
    """Variables with results, and the words of expectations."""
    from axe_nb.expectations.table import MEASURES
    from axe_nb.nb import offers
    from axe_nb.results import RunResult
    from axe_nb.session.runs import RunHandle

    shell = get_ipython()
    names = shell.user_ns if shell else {}
    found = [
        f"{name}:" for name in _list_variables() if isinstance(names[name], RunResult | RunHandle)
    ]
    words = ("not", "no", "then", "and", "parallel", "contains")
    known = {*MEASURES, *_list_agents(), *_list_tools(), *offers.list_names()}
    return [*found, *words, *sorted(known)]


def _list_outputs() -> list[str]:
    """Types and schemas of the user."""
    from axe_nb.outputs.output import may_be_output

    shell = get_ipython()
    names = shell.user_ns if shell else {}
    return sorted(
        name for name, value in names.items() if not name.startswith("_") and may_be_output(value)
    )


def _list_variables() -> list[str]:
    """The user's own names that a result may replace."""
    shell = get_ipython()
    if shell is None:
        return []
    return sorted(
        name
        for name, value in shell.user_ns.items()
        if not name.startswith("_")
        and name not in shell.user_ns_hidden
        and not isinstance(value, ModuleType | type | FunctionType)
    )
