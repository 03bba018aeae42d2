"""Generates reference.md from the code, so that no key, option or code is described twice.

`python docs/make_reference.py`; a test fails if the file is out of date.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from axe_nb.agents import agent
from axe_nb.agents.agent_tables import McpServer
from axe_nb.agents.prompt import NO_PROMPT
from axe_nb.agents.provider_table import PROVIDERS, ProviderTable
from axe_nb.agents.user_config import UNSET, PriceTable
from axe_nb.commands.option_table import (
    AGENTS_DIR,
    COMMANDS,
    GRID,
    OPTIONS,
    RUN,
    Command,
    Face,
    Option,
)
from axe_nb.conversion.toml_tables import nested_table, toml_fields
from axe_nb.engine.toolbox import BUILT_IN
from axe_nb.expectations import MEASURES
from axe_nb.notebook.magics import AxeMagics
from axe_nb.results import EXIT_CODES
from axe_nb.tools.tool import MAX_TURNS, Tool
from axe_nb.views.agent_summary import EFFECTS

FILE = Path(__file__).with_name("reference.md")

HEAD = """\
# Reference

Every key, tool, option, expectation and command, with statuses, exit codes and environment
variables. Options and commands also have help pages: `axe-nb COMMAND --help`, `%axe help COMMAND`,
`%%axe?`.
"""

TAIL = "Next: [what an error message means](troubleshooting.md), or [Python names](api.md)."

NOT_BEGUN = "–"
ENDS: tuple[tuple[str, int, str], ...] = (
    ("completed", 0, "The model answered without calling a tool."),
    ("max_turns", 1, f"It still called tools after {MAX_TURNS} turns; no key changes this limit."),
    ("max_tool_calls", 1, "It made more tool calls than its budget allows."),
    ("max_tokens", 1, "A reply with calls was cut off, or the tree used up its tokens."),
    ("error", 1, "The request was rejected as bad, or the tree used up its requests or money."),
    ("error", 3, "The server could not be used: no valid key, too many requests, no answer."),
    ("timeout", 3, "The time limit was reached; finished work is kept."),
    ("cancelled", 130, "It was interrupted; finished work is kept."),
    (NOT_BEGUN, 2, "Nothing was sent: an agent is unknown, or a file or an option has a mistake. "
        "A missing key has exit code 3."),
)  # fmt: skip
"""Status, exit code and meaning."""

FORMS: Mapping[str, str] = {
    "researcher >= 2": "number of runs of an agent, or of permitted calls of a tool; with `==`, "
    "`!=`, `<`, `<=`, `>`, `>=`",
    "researcher": "at least one",
    "no write_file": "none at all; also for measures",
    "researcher >= 2, parallel": "at least two of them ran at the same time",
    "tool:search >= 1; agent:search": "tells a tool, an agent and a measure of the same name apart",
    '"the critic" == 1': "a name with spaces",
}
"""Form of a clause in expectations → what it expects."""

MEANINGS: Mapping[str, tuple[str, str]] = {
    "turns": ("turns <= 6", "answered requests"),
    "depth": ("depth <= 2", "levels of sub-agents; 0 = none"),
    "tokens": ("tokens < 5000", "input and output tokens"),
    "cost": ("cost < 0.02", "cost in US dollars; an error if a price is unknown"),
    "denied": (
        'no denied; denied contains "write_file"',
        "list of calls that were not permitted, by tool",
    ),
    "failed": ("failed <= 1", "list of calls that failed for another reason, by tool"),
    "text": (
        'text ~ /\\b42\\b/; text == "42"',
        "the answer; with `==`, `!=`, `contains`, and `~` for a regular expression",
    ),
    "status": ("status == completed", "the status"),
    "data": (
        'data.total == 3; data.items[0].name == "a"; data.items >= 2',
        "a part of the structured output, or all of it",
    ),
}
"""Measure of expectations → an example, and its meaning."""

SERVED = [info for info in PROVIDERS.values() if info.has_server]

AT_A_LIMIT = """\
### At a limit

- At `max_requests`, `max_cost` and `max_total_tokens`, no further request is sent. The run ends
  with the status `error` (`max_total_tokens`: `max_tokens`), and the message says what each agent
  has spent.
- A parent that waits for its children does not count for `max_in_flight`. If the process may open
  fewer than 400 files, fewer requests are in flight.
- The time of a run (`--timeout`, 120 s) starts before its files are read, and stops while a
  question waits for your answer. The run ends at most 2 s after it, unless a tool blocks the
  interpreter or thousands of runs have to end.

An agent's own `[limits]` apply to its part of the tree, and never widen those above it. Three
limits are fixed: 64 MB of texts in all agents of a tree, 100,000 files and folders for the globs
of `files`, and 64 MiB for a server's reply."""

VARIABLES: Mapping[str, str] = {
    ", ".join(info.key_variable for info in SERVED): "The provider's key.",
    ", ".join(info.url_variable for info in SERVED): "Root of the provider's server, with or "
    "without `/v1`; a query in it is sent with every request.",
    "XDG_CONFIG_HOME": "Folder of `axe/config.toml` and `axe/agents/`; by default `~/.config`.",
    "XDG_STATE_HOME": "Folder of `axe/runs.sqlite` (the history), `axe/undo` (files that runs "
    "changed) and `axe/trusted_folders`; by default `~/.local/state`, on Windows `LOCALAPPDATA`.",
    "AXE_NB_HISTORY": "`0`: no run is kept in the history; `1`: runs of tests are kept too.",
    "AXE_NB_SANDBOX": "`required`: nothing with commands runs without a "
    "[sandbox](safety.md#commands).",
    "AXE_NB_TRUST": "`1`: [trusts](safety.md#trust) the agents of every project, for CI.",
    "AXE_CASSETTE": "A cassette for the whole process; `%axe cassette` replaces it.",
    "AXE_CASSETTE_MODE": "`live`, `record`, `replay` or `auto`: the mode of cassettes that are "
    "opened without one; with `replay`, no server is asked without a cassette either.",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "`true`: [spans](traces.md) contain "
    "texts.",
    "EDITOR": "Editor of `axe-nb agents edit`.",
    "HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE": "The usual meaning; changes take effect at "
    "once. SOCKS proxies need `httpx[socks]`.",
}
"""Names of variables → what they do; an empty one counts as unset."""


TWO_MEANINGS = (
    ("mode", "of an agent, `--mode`: what its tools may do",
     "`%axe cassette --mode`: whether models are asked"),
    ("budget", "`%axe budget`, `budget=`: of a notebook, map or grid",
     "`[sub_agents_config.budget]`: of one child"),
    ("max_tokens", "`[params]`: of one reply", "`[sub_agents_config.budget]`: of a context"),
    ("output", "`[output]`, `--output`: form of the answer",
     "`-o`, `--out`: variable of the result; `output_limit`: bytes of a `subagent` result"),
)  # fmt: skip
"""Words that a reader meets with two meanings."""


def reference() -> str:
    """The whole page."""
    parts = [
        HEAD, *agent_files(), *tools(), *options(), *expectations(), *commands(), *settings(),
        *ends(), *environment(), "## Words with two meanings",
        _table(["word", "one meaning", "the other"], [[f"`{a}`", *b] for a, *b in TWO_MEANINGS]),
        TAIL,
    ]  # fmt: skip
    return "\n".join(part.rstrip() + "\n" for part in parts)


def agent_files() -> Iterator[str]:
    """The keys of an agent's file, table by table."""
    yield "## Agent files"
    yield (
        "`NAME.toml`, searched for in the folder of `--agents-dir`, in `./axe/agents/` and in "
        "`~/.config/axe/agents/`. Each key has its default beside it."
    )
    yield from _keys(agent.Agent, ())
    yield (
        f"Some keys of the Axe command line have no effect here, and give a warning: "
        f"{_listed(agent.IGNORED)}. Its `[budget] max_tokens` is read as "
        "`limits.max_total_tokens`. Any other key is an error."
    )
    yield AT_A_LIMIT


def _keys(cls: type, at: tuple[str, ...]) -> Iterator[str]:
    """The tables for a dataclass and, after it, for those that are tables within it."""
    below = strings_below(cls)
    rows, inner = [], []
    for field in toml_fields(cls):
        nested = nested_table(field)
        if nested:
            inner.append((nested, (*at, field.name)))
            continue
        rows.append([f"`{field.name}{_default(field)}`", below[field.name]])
    if at:
        yield f"### `[{'.'.join(at)}]`"
        yield first_line(cls)
    yield _table(["key", "meaning"], rows)
    for nested, path in inner:
        yield from _keys(nested, path)


def _default(field: dataclasses.Field[Any]) -> str:
    """The default as in TOML, which also shows the type; nothing if the key has none."""
    if callable(field.default_factory):
        return " = {}"
    if field.default in (dataclasses.MISSING, UNSET, None):
        return ""
    return f" = {json.dumps(field.default)}"


def strings_below(cls: type) -> dict[str, str]:
    """Field of a class → the string literal below it, in one line."""
    body = _class(cls).body
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _class(cls: type) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(cls))
    found = tree.body[0]
    assert isinstance(found, ast.ClassDef)
    return found


def first_line(cls: type) -> str:
    """The first line of the class's docstring, without the name of its table."""
    line = (inspect.getdoc(cls) or "").split("\n")[0].partition(": ")[2]
    return re.sub(r" \(D-\d+\)", "", line[:1].upper() + line[1:])


def tools() -> Iterator[str]:
    """The built-in tools, toolsets and aliases."""
    yield "## Tools"
    yield (
        "Names that `tools` and `[permissions]` accept, besides your own functions. "
        "`sub_agents` adds `call_agent`."
    )
    rows = [
        [f"`{tool.name}({', '.join(tool.parameters)})`", EFFECTS[tool.effect], _sentence(tool)]
        for tool in BUILT_IN
    ]
    yield _table(["tool", "effect", "what it does"], rows)
    sets = {name: meant for source in BUILT_IN.sources for name, meant in source.sets.items()}
    yield "Toolsets and aliases stand for tools:"
    yield "\n".join(f"- `{name}`: {_listed(meant)}" for name, meant in sets.items())


def _sentence(tool: Tool) -> str:
    return tool.description.partition(". ")[0].rstrip(".") + "."


IN_PYTHON: Mapping[str, str] = {
    "--prompt": "`prompt`",
    "--out": "the return value",
    "--continue": "`continue_from=`",
    "--from": "`result.fork(place, …)`",
    "--raises": "`.raise_for_status()`",
    "--json": "`.to_json()`",
    "--quiet": "`display=False`",
    "--bg": "`axe_nb.arun`",
}
"""Option that `axe_nb.run` does not have → its equivalent in Python."""


def options() -> Iterator[str]:
    """The options of a run, by interface."""
    yield "## Options of a run"
    rows = [[_flags(option), option.help, _in_python(option)] for option in OPTIONS]
    yield _table(["option", "what it does", "`axe_nb.run()`"], rows)
    line, cell = (
        _listed(one.flag for one in OPTIONS if one.faces and face not in one.faces)
        for face in ("command", "cell")
    )
    yield (
        f"{line} do not exist in a shell. In a cell, the body replaces {cell}, and only "
        "there are {{ … }} interpolated. `--raises` also accepts `config` and `provider`."
    )
    yield (
        "`%axe run` and `axe-nb run` accept the prompt as an argument too: `axe-nb run summary "
        '"Summarise this"`. If the prompt is missing '
        f"or blank, `{NO_PROMPT}` is sent."
    )
    yield (
        "`--json` prints `content`, `duration_ms`, `input_tokens`, `model`, `output_tokens`, "
        "`stop_reason` and `tool_calls` of the agent itself, without its sub-agents. If the run "
        "fails, the error is on stderr and in the exit code. In Python, `.to_dict()` also has "
        "`status`, `error`, `total_usage`, `total_cost` and `children`."
    )


def expectations() -> Iterator[str]:
    """The language of `--expect`."""
    yield "## Expectations"
    yield (
        "For `--expect`, `expect=`, `%axe expect` and `axe_nb.expect`, separated by `;` "
        "([how to use them](expectations.md))."
    )
    forms = [*FORMS.items(), *(MEANINGS[name] for name in MEASURES)]
    yield _table(["expectation", "meaning"], [[f"`{form}`", meaning] for form, meaning in forms])
    yield (
        "Measures are those of the whole tree, but `text`, `status` and `data` those of the first "
        "agent. Without a comparison, a measure must be neither zero nor empty, and `data.PATH` "
        "must exist. A list is compared with a number by its length, and with `==`, `contains` and "
        "`~` item by item. Everything else is Python over `result.walk()`."
    )


def commands() -> Iterator[str]:
    """The commands, with their names in each interface."""
    yield "## Commands"
    yield "Those that look for agents also accept `--agents-dir D`."
    rows = [
        ["<br>".join(f"`{_usage(one, face)}`" for face in one.words), one.help + _options(one)]
        for one in COMMANDS
    ]
    yield _table(["command", "what it does"], rows)


def _usage(command: Command, face: Face) -> str:
    """Returns the usage without options: `%axe reset [NAME]`."""
    arguments = [option for option in command.options_of(face) if not option.flags]
    words = [f"{one.metavar}..." if one.repeated else one.metavar for one in arguments]
    pairs = zip(arguments, words, strict=True)
    return " ".join(
        [command.program(face), *(word if one.required else f"[{word}]" for one, word in pairs)]
    )


def _options(command: Command) -> str:
    if command is RUN:
        return " ([options](#options-of-a-run))"
    if command is GRID:
        return " ([options](grids.md))"
    flagged = [one for one in command.options if one.flags and one is not AGENTS_DIR]
    shown = ", ".join(f"`{f'{one.flag} {one.metavar}'.rstrip()}`" for one in flagged)
    return f" ({shown})" if shown else ""


def settings() -> Iterator[str]:
    """The settings of `%config AxeMagics`."""
    yield "## Settings of a notebook"
    traits = AxeMagics.class_own_traits(config=True)
    same = sorted(traits.keys() & {option.keyword for option in OPTIONS})
    yield (
        f"`%config AxeMagics.NAME = VALUE` sets the default of an option, also in Python: "
        f"{_listed(same)}. Other settings:"
    )
    for name in sorted(traits.keys() - set(same)):
        values = ", ".join(f'`"{one}"`' for one in getattr(traits[name], "values", ()) if one)
        yield f"- `{name}`{values and f' ({values})'}: {traits[name].help}"


def _flags(option: Option) -> str:
    few = "|".join(option.choices) if len(option.choices) < 4 else ""
    value = few or option.metavar
    more = " …" if option.repeated else ""
    return f"`{' '.join(filter(None, (', '.join(option.flags), value)))}{more}`"


def _in_python(option: Option) -> str:
    if "python" not in option.faces:
        return IN_PYTHON.get(option.flag, "")
    return f"`{option.keyword}={'' if option.metavar or option.value else option.value}`"


def ends() -> Iterator[str]:
    """The statuses of a run and the exit codes."""
    codes = {**EXIT_CODES, "error": 3, NOT_BEGUN: 2}
    assert {status: code for status, code, _ in ENDS} == codes
    yield "## How a run ends"
    yield "The exit code is that of `axe-nb run`. Other commands that succeed have 0."
    rows = [[f"`{status}`", str(code), text] for status, code, text in ENDS]
    yield _table(["status", "exit code", "meaning"], rows)


def environment() -> Iterator[str]:
    """The environment variables and the settings file."""
    yield "## Environment variables"
    rows = [[_listed(names.split(", ")), text] for names, text in VARIABLES.items()]
    yield _table(["variable", "what it does"], rows)
    yield "## Settings file"
    yield (
        "`~/.config/axe/config.toml`; `axe-nb config init` writes a commented template. "
        'Environment variables take precedence. The file has the key `sandbox` (`"required"`, as '
        "`AXE_NB_SANDBOX`), the table [`[retry]`](#retry) and these:"
    )
    yield from _keys(ProviderTable, ("providers", "NAME"))
    yield from _keys(PriceTable, ("prices", '"PROVIDER/MODEL"'))
    yield from _keys(McpServer, ("mcp_servers", "NAME"))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(map(_row, [heads, ["---"] * len(heads), *rows]))


def _row(cells: list[str]) -> str:
    return " | ".join(cell.replace("|", "\\|") for cell in cells)


if __name__ == "__main__":
    FILE.write_text(reference(), "utf-8", newline="\n")
    print(f"wrote {FILE.name}")
