"""Tab completion in magics: commands, flags, names, and the keys of an agent's TOML."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from IPython.core.getipython import get_ipython

from axe_nb.agents.agent import Agent, list_agents
from axe_nb.agents.agent_tables import McpServer
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.agents.user_config import Config
from axe_nb.commands.option_table import Option, commands_of
from axe_nb.conversion.interpolation import LONGEST_EXPRESSION
from axe_nb.conversion.toml_tables import nested_table, toml_fields
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.errors import ConfigError
from axe_nb.scripting.rules import known
from axe_nb.session.session import session

IN_BRACES = re.compile(r"(?<!\\)\{\{(?:(?!\}\})[^\n])*?(?P<word>[^\W\d][\w.]*)?\Z")
"""Matches an unclosed `{{` and its expression at the end of a text."""

LINE = re.compile(r"\s*(?P<magic>%%axe_agent|%%axe_grid|%%axe|%axe)\s+(?P<rest>.*)", re.DOTALL)

ABOVE = re.compile(r"\s*\Z|%%(?!axe\b|axe_agent\b|axe_grid\b)")
"""Matches a line that may precede an axe cell magic: blank, or another magic, such as %%time."""

ACTIVE = re.compile(r"[\s{}$'\"\\]")
"""Matches characters that split words or that IPython expands; no completion contains them."""

HEADER = re.compile(r"^[ \t]*\[+([\w.-]+)\].*$", re.MULTILINE)

Offers: TypeAlias = tuple[str, list[str]]
"""The text before the cursor that a completion replaces, and the possible completions."""


def list_offers(above: Sequence[str], line: str) -> Offers | None:
    """Returns completions at the cursor; None leaves completion to IPython, as for file names."""
    found = LINE.match(line)
    if found is None or not (found["magic"] == "%axe" or all(map(ABOVE.match, above))):
        body = list(dropwhile(ABOVE.match, above))
        magic = LINE.match(body[0] + " ") if body else None
        if magic is None or magic["magic"] == "%axe":
            return None
        text = "\n".join([*body[1:], line])
        if magic["magic"] == "%%axe_agent":
            return _complete_toml(text)
        # IPython alone would read the prompt as Python
        name = IN_BRACES.search(text, max(0, len(text) - LONGEST_EXPRESSION))
        shell = get_ipython()
        if name is None or shell is None or "--raw" in magic["rest"].split():
            return None
        if not (word := name["word"] or ""):
            return word, list_variables()
        of_ipython = shell.Completer
        find = of_ipython.attr_matches if "." in word else of_ipython.global_matches
        return word, list(find(word))
    words = found["rest"].split()
    word = "" if found["rest"][-1:].isspace() or not words else words.pop()
    commands = commands_of("line")
    offered: Iterable[str] | None
    if found["magic"] != "%axe":
        command = commands_of("cell")[found["magic"].removeprefix("%%")]
        offered = _list_words(command.options_of("cell"), words, word)
    elif words and words[0] in commands:
        offered = _list_words(commands[words[0]].options_of("line"), words[1:], word)
    else:
        offered = () if words else commands
    if offered is None:
        return None
    plain = (text for text in offered if text.isprintable() and not ACTIVE.search(text))
    return _choose(word.rpartition(",")[2], plain)


def _choose(word: str, texts: Iterable[str]) -> Offers:
    return word, [text for text in texts if text.startswith(word)]


def _list_words(options: Sequence[Option], words: Sequence[str], word: str) -> Iterable[str] | None:
    by_flag = {flag: option for option in options for flag in option.flags}
    before = by_flag.get(words[-1]) if words else None
    if before is not None and before.metavar and not word.startswith("-"):
        return _list_values(before)
    given = sum(
        not named.startswith("-") and not (flag in by_flag and by_flag[flag].metavar)
        for flag, named in zip(["", *words], words, strict=False)
    )
    arguments = [option for option in options if not option.flags][given:]
    is_flag = word.startswith("-") or not arguments or not arguments[0].offers
    return by_flag if is_flag else _list_values(arguments[0])


def _list_values(option: Option) -> Iterable[str] | None:
    """Returns completions for an option's value; None for files, which IPython completes."""
    match option.offers:
        case "agents":
            return list_names()
        case "models":
            return list_models()
        case "tools":
            return sorted(REGISTRY.known)
        case "variables":
            return list_variables()
        case "commands":
            return commands_of("line")
        case "files":
            return None
    return option.choices


def list_names() -> list[str]:
    return sorted({*session.agents, *list_agents(session.defaults.get("agents_dir"))})


def list_models() -> list[str]:
    """Returns script models, models that agents or runs use, and prefixes such as `openai/`."""
    models = {model for _, model in session.spent} | {f"script/{name}" for name in known()}
    for name in list_names()[:200]:
        with contextlib.suppress(ConfigError):
            models.add(session.find(name, session.defaults.get("agents_dir")).model)
    try:
        providers = set(Config.load().known)
    except ConfigError:
        providers = set(PROVIDERS)
    return sorted(models | {f"{provider}/" for provider in providers})


def list_variables() -> list[str]:
    """Returns the names of the user's variables, except modules, functions and private names."""
    if (shell := get_ipython()) is None:
        return []
    return sorted(
        name
        for name, value in shell.user_ns.items()
        if not (name.startswith("_") or isinstance(value, ModuleType | FunctionType))
        and name not in shell.user_ns_hidden
    )


def _complete_toml(above: str) -> Offers | None:
    """Completes a TOML table header, or a key of the table at the cursor."""
    before, _, line = above.rpartition("\n")
    if above.count('"""') % 2 or line.lstrip().startswith("#"):
        return None
    tables = dict(_list_tables(Agent))
    if header := re.fullmatch(r"\s*\[+([\w.-]*)", line):
        return _choose(header[1], filter(None, tables))
    key = re.fullmatch(r"\s*([\w-]*)", line)
    if key is None:
        return None
    *_, table = ["", *HEADER.findall(before)]
    keys: Iterable[str] = tables.get(table, ())
    if table == "permissions":
        keys = sorted(REGISTRY.known)
    elif table.startswith("mcp_servers."):
        [(_, keys), *_] = _list_tables(McpServer)
    return _choose(key[1], keys)


def _list_tables(cls: type[Any], table: str = "") -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the header name and keys of an agent file's table, and of all tables nested in it."""
    keys: list[str] = []
    inner: list[tuple[str, Sequence[str]]] = []
    for field in toml_fields(cls):
        name = f"{table}.{field.name}".lstrip(".")
        if nested := nested_table(field):
            inner += _list_tables(nested, name)
        elif str(field.type).startswith("Mapping["):
            inner.append((name, field.metadata.get("keys", ())))
        else:
            keys.append(field.name)
    yield table, keys
    yield from inner
