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
from typing import Any, get_args

from axe_nb.agents import agent, user_config
from axe_nb.agents.agent_tables import McpServer
from axe_nb.agents.prompt import NO_PROMPT
from axe_nb.agents.provider_table import PROVIDERS, ProviderTable
from axe_nb.agents.user_config import UNSET, PriceTable
from axe_nb.commands.option_table import (
    AGENT_CELL,
    FACES,
    OPTIONS,
    RUN,
    Command,
    Face,
    Option,
    commands_of,
)
from axe_nb.conversion.toml_tables import nested_table, toml_fields, type_name
from axe_nb.engine.toolbox import BUILT_IN
from axe_nb.expectations import MEASURES
from axe_nb.notebook.magics import AxeMagics
from axe_nb.results import EXIT_CODES, Status
from axe_nb.tools.tool import MAX_TURNS, Tool
from axe_nb.views.agent_summary import EFFECTS

FILE = Path(__file__).with_name("reference.md")

HEAD = """\
# Reference

Every key of agent files and of the settings, every tool, option, expectation and command, with
statuses, exit codes and environment variables. For options and commands there are help pages too:
`axe-nb COMMAND --help`, `%axe help COMMAND`, `%%axe?`.
"""

ENDS: Mapping[Status, str] = {
    "completed": "The model answered without calling a tool.",
    "max_turns": f"It still called tools when its turns were used up. Every agent has at most "
    f"{MAX_TURNS} for a run; no key changes that.",
    "max_tool_calls": "It made more tool calls than its budget allows.",
    "max_tokens": "The token limit cut off a reply with calls, or the tree used up its tokens.",
    "timeout": "The time limit was reached; finished work is kept.",
    "cancelled": "It was interrupted; finished work is kept.",
    "error": "The model's server failed, rejected the request or sent an invalid reply; the "
    "exit code is the error's. Or the requests of its tree were used up.",
}  # fmt: skip
"""Status → what it means."""

CODES: Mapping[int, str] = {
    0: "The run completed, or another command (a dry run included) succeeded.",
    1: "The agent failed: invalid model name, unknown provider, request rejected as bad, limit "
    "reached.",
    2: "The configuration is invalid: unknown agent, mistake in its file, in `config.toml` or in "
    "the options, missing skill, invalid glob. Nothing was sent.",
    3: "The model's server could not be used: key missing or rejected, too many "
    "requests, timeout, no answer.",
    130: "It was interrupted.",
}
"""Exit code → what it means (seed 000 §8, D-22, D-38)."""

FORMS: Mapping[str, str] = {
    "researcher >= 2": "number of runs of an agent, or of permitted calls of a tool; with `==`, "
    "`!=`, `<`, `<=`, `>`, `>=`",
    "researcher": "at least one",
    "no write_file": "none at all; also for measures",
    "researcher >= 2, parallel": "at least two of them ran at the same time",
    "tool:search >= 1; agent:search": "tells a tool and an agent of the same name apart; also for "
    "the names of measures",
    '"the critic" == 1': "a name with spaces",
}
"""Form of a clause in expectations → what it expects."""

MEANINGS: Mapping[str, tuple[str, str]] = {
    "turns": ("answered requests", "turns <= 6"),
    "tool_calls": ("calls of tools", "tool_calls < 20"),
    "runs": ("runs, the root included", "runs == 4"),
    "depth": ("levels of sub-agents; 0 = none", "depth <= 2"),
    "tokens": ("input and output tokens", "tokens < 5000"),
    "cost": ("cost in US dollars; an error if a price is unknown", "cost < 0.02"),
    "denied": (
        "list of calls that were not permitted, by tool",
        'no denied; denied contains "write_file"',
    ),
    "failed": ("list of calls that failed for another reason, by tool", "failed <= 1"),
    "text": (
        "the answer; with `==`, `!=`, `~`, `!~`, `contains`",
        'text ~ /\\b42\\b/; text == "42"',
    ),
    "status": ("the status", "status == completed"),
    "data": (
        "a part of the structured output, or all of it",
        'data.total == 3; data.items[0].name == "a"; data.items >= 2',
    ),
}
"""Measure of expectations → its meaning, and an example."""

SERVED = [info for info in PROVIDERS.values() if info.has_server]

AT_A_LIMIT = """\
### At a limit

- At `max_requests`, `max_cost` and `max_total_tokens`, no further request is sent. The run ends
  with the status `error` (`max_total_tokens`: `max_tokens`). The message names the key, the
  file, and what each agent has spent. No more children are started than requests are left. With
  `max_cost`, the price of each model must be known, or nothing is sent ([Money](money.md)).
- At `max_calls_per_reply`, the first calls of a reply are run. The others get an error result.
- At `max_in_flight`, the others wait. If the process may open fewer than 400 files, fewer
  requests go to servers at once. A parent that waits for its children does not count.
- At `max_picture_bytes`, a picture is scaled down if Pillow is installed, or else refused
  before anything is sent.
- The time of a run (`--timeout`, 120 s) starts before its files are read. The run ends at most
  2 s after it, unless a tool blocks the interpreter, or thousands of runs have to end because
  you lifted `max_requests`. After an interrupt, no further request is sent.

An agent's own `[limits]` apply to its part of the tree, and never widen those above it.

Some limits are fixed. The agents that a tree reaches have at most 64 MB of texts. The globs of
`files` look at no more than 100,000 files and folders. A server's reply has at most 64 MiB."""

VARIABLES: Mapping[str, str] = {
    ", ".join(
        info.key_variable for info in SERVED
    ): "The provider's key; takes precedence over `api_key` in `config.toml`. Ollama needs none.",
    ", ".join(info.url_variable for info in SERVED): "Root of the provider's server, with or "
    "without `/v1`; takes precedence over `base_url` in `config.toml`. A query in it is sent with "
    "every request.",
    "XDG_CONFIG_HOME": "Folder of `axe/config.toml` and `axe/agents/`; by default `~/.config`.",
    "AXE_NB_DISPLAY": "`live` or `static`: forces one display of runs in notebooks.",
    "XDG_STATE_HOME": "Folder of `axe/trusted_folders`, the folders that you trust, of the "
    "history, `axe/runs.sqlite`, and of `axe/undo`, the files that runs changed; by default "
    "`~/.local/state`, on Windows the folder of `LOCALAPPDATA`.",
    "AXE_NB_HISTORY": "`0`: no run is kept in the history; `1`: runs of tests are kept too.",
    "AXE_CASSETTE": "A cassette for the whole process; `%axe cassette` replaces it.",
    "AXE_CASSETTE_MODE": "`live`, `record`, `replay` or `auto`: the mode of cassettes that are "
    "opened without one; with `replay`, no server is asked without a cassette either.",
    "AXE_NB_SANDBOX": "`required`: a run does not start if its agent, or a sub-agent that it can "
    "reach, has commands and no sandbox, see [Safety](safety.md#commands). The key `sandbox` of "
    "`config.toml` does the same.",
    "AXE_NB_TRUST": "`1`: trusts the agents of every project, for CI; see `axe-nb trust`.",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "`true`: OpenTelemetry spans contain "
    "texts, see [Traces](traces.md).",
    "EDITOR": "Editor of `axe-nb agents edit`.",
    "HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE": "The usual meaning; changes take effect at "
    "once. SOCKS proxies need `httpx[socks]`.",
}
"""Names of variables → what they do; an empty one counts as unset."""


def reference() -> str:
    """The whole page."""
    parts = [
        HEAD, *agent_files(), *tools(), *options(), *expectations(), *commands(), *settings(),
        *ends(), *environment(),
    ]  # fmt: skip
    return "\n".join(part.rstrip() + "\n" for part in parts)


def agent_files() -> Iterator[str]:
    """The keys of an agent's file, table by table."""
    yield "## Agent files"
    yield (
        "`NAME.toml`, searched for in the folder of `--agents-dir`, in `./axe/agents/` and in "
        "`$XDG_CONFIG_HOME/axe/agents/`."
    )
    yield from _keys(agent.Agent, ())
    yield (
        "Keys of the Axe command line that are accepted with a warning and have no effect here: "
        f"{_listed(agent.IGNORED)}. Its `[budget] max_tokens` is read as "
        "`limits.max_total_tokens`. Any other key is an error that names the nearest one."
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
        rows.append([f"`{field.name}`", type_name(field), _default(field), below[field.name]])
    if at:
        yield f"### `[{'.'.join(at)}]`"
        yield first_line(cls)
    yield _table(["key", "type", "default", "meaning"], rows)
    for nested, path in inner:
        yield from _keys(nested, path)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "" if callable(field.default_factory) else "required"
    if field.default in ("", (), UNSET):
        return ""
    return f"`{json.dumps(field.default)}`"


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
        [f"`{tool.name}`", _listed(tool.parameters), EFFECTS[tool.effect], _sentence(tool)]
        for tool in BUILT_IN
    ]
    yield _table(["tool", "parameters", "effect", "description"], rows)
    sets = {name: meant for source in BUILT_IN.sources for name, meant in source.sets.items()}
    rows = [[f"`{name}`", _listed(meant)] for name, meant in sets.items()]
    yield _table(["toolset or alias", "stands for"], rows)


def _sentence(tool: Tool) -> str:
    return tool.description.partition(". ")[0].rstrip(".") + "."


INSTEAD: Mapping[str, Mapping[Face, str]] = {
    "--prompt": {"cell": "the body", "python": "`prompt`"},
    "--out": {"command": "no: a shell has no Python variables", "python": "the return value"},
    "--continue": {
        "command": "no: each command is a new session without conversations",
        "python": "`continue_from=`",
    },
    "--from": {
        "command": "no: each command is a new session without results",
        "python": "`result.fork(place, …)`",
    },
    "--raises": {"python": "`.raise_for_status()`"},
    "--json": {"python": "`.to_json()`"},
    "--raw": dict.fromkeys(
        ("line", "command", "python"), "not needed: only cells interpolate {{ … }}"
    ),
    "--quiet": {"python": "`display=False`"},
    "--bg": {"command": "no: use the shell's `&`", "python": "`axe_nb.arun`"},
}
"""Option → interface without it → its equivalent there, or the reason for none."""


def options() -> Iterator[str]:
    """The options of a run, by interface."""
    yield "## Options of a run"
    heads = [*(f"`{RUN.program(face)}`" for face in RUN.words), "`axe_nb.run()`"]
    rows = [
        [_flags(option), option.help, *(_given(option, face) for face in FACES)]
        for option in OPTIONS
    ]
    yield _table(["option", "what it does", *heads], rows)
    yield (
        "`%axe run` and `axe-nb run` also accept the prompt as an argument: "
        '`axe-nb run summary "Summarise this"`. Input piped into the command follows the '
        "prompt and a blank line. Without a prompt, or with "
        f"a blank one, `{NO_PROMPT}` is sent. Settings of `%config AxeMagics` are the defaults of "
        "omitted options, also in Python."
    )
    yield (
        "`--json` prints `content`, `duration_ms`, `input_tokens`, `model`, `output_tokens`, "
        "`stop_reason` and `tool_calls` of the agent itself, without its sub-agents. If the run "
        "fails, the error is on stderr and in the exit code. In Python, `.to_dict()` also has "
        "`status`, `error`, `total_usage` and `total_cost` of the whole tree and `children`."
    )
    yield "The clock of `--timeout` stops while a question waits for your answer."


def expectations() -> Iterator[str]:
    """The language of `--expect`."""
    yield "## Expectations"
    yield (
        "For `--expect`, `expect=`, `%axe expect` and `axe_nb.expect`. Separate them by `;`, which "
        "inside `/…/` and quotes belongs to the pattern or text. "
        "[Expectations](expectations.md) explains what they are for."
    )
    rows = [[f"`{form}`", meaning] for form, meaning in FORMS.items()]
    yield _table(["expectation", "meaning"], rows)
    yield (
        "Measures are those of the whole tree, except for `text`, `status` and `data`, which are "
        "the first agent's. Without a comparison, the measure must be neither zero nor empty, and "
        "`data.PATH` must exist."
    )
    rows = [[f"`{name}`", MEANINGS[name][0], f"`{MEANINGS[name][1]}`"] for name in MEASURES]
    yield _table(["measure", "meaning", "example"], rows)
    yield (
        "A list is compared with a number by its length, and with `==`, `contains` and `~` item by "
        "item. `~` looks for a regular expression, `contains` for a text; `!~` is the opposite of "
        "`~`. Everything else is Python over `result.walk()`."
    )


def commands() -> Iterator[str]:
    """The other commands, by interface."""
    for face, title in (("line", "Commands of `%axe`"), ("command", "Commands of `axe-nb`")):
        yield f"## {title}"
        yield _commands(face, commands_of(face).values())
    yield "## Defining an agent in a cell"
    yield _commands("cell", [AGENT_CELL])


def _commands(face: Face, listed: Iterable[Command]) -> str:
    rows = [[f"`{_usage(command, face)}`", command.help, _options(command, face)]
            for command in listed]  # fmt: skip
    return _table(["line", "what it does", "its options"], rows)


def _usage(command: Command, face: Face) -> str:
    """Returns the usage without options: `%axe reset [NAME]`."""
    arguments = [option for option in command.options_of(face) if not option.flags]
    words = [f"{one.metavar}..." if one.repeated else one.metavar for one in arguments]
    pairs = zip(arguments, words, strict=True)
    return " ".join(
        [command.program(face), *(word if one.required else f"[{word}]" for one, word in pairs)]
    )


def _options(command: Command, face: Face) -> str:
    if command is RUN:
        return "[options of a run](#options-of-a-run)"
    flagged = [option for option in command.options_of(face) if option.flags]
    return "<br>".join(
        f"`{f'{option.flag} {option.metavar}'.rstrip()}`: {option.help}" for option in flagged
    )


def settings() -> Iterator[str]:
    """The settings of `%config AxeMagics`."""
    yield "## Settings of a notebook"
    yield "`%config AxeMagics.NAME = VALUE`; an option of a cell takes precedence."
    traits = AxeMagics.class_own_traits(config=True)
    rows = [[f"`{name}`", trait.help] for name, trait in sorted(traits.items())]
    yield _table(["name", "meaning"], rows)


def _flags(option: Option) -> str:
    value = f" {option.metavar}" if option.metavar else ""
    more = " …" if option.repeated else ""
    chosen = f"<br>{_listed(option.choices)}" if option.choices else ""
    return f"`{', '.join(option.flags)}{value}{more}`{chosen}"


def _given(option: Option, face: Face) -> str:
    if face not in option.faces:
        return INSTEAD.get(option.flag, {}).get(face, "")
    if face != "python":
        return "yes"
    return f"`{option.keyword}={'' if option.metavar or option.value else option.value}`"


def ends() -> Iterator[str]:
    """The statuses of a run and the exit codes."""
    assert set(ENDS) == set(get_args(Status))
    yield "## How a run ends"
    codes = {status: str(code) for status, code in EXIT_CODES.items()} | {"error": "1 or 3"}
    rows = [[f"`{status}`", codes[status], text] for status, text in ENDS.items()]
    yield _table(["status", "exit code", "meaning"], rows)
    yield "## Exit codes of `axe-nb`"
    yield _table(["code", "meaning"], [[str(code), text] for code, text in CODES.items()])


def environment() -> Iterator[str]:
    """The environment variables and the settings file."""
    yield "## Environment variables"
    rows = [[_listed(names.split(", ")), text] for names, text in VARIABLES.items()]
    yield _table(["variable", "what it does"], rows)
    yield "## Settings file"
    yield "`$XDG_CONFIG_HOME/axe/config.toml`; `axe-nb config init` writes this template:"
    yield f"```toml\n{user_config.SCAFFOLD}```"
    yield from _keys(ProviderTable, ("providers", "NAME"))
    yield from _keys(PriceTable, ("prices", '"PROVIDER/MODEL"'))
    yield from _keys(McpServer, ("mcp_servers", "NAME"))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(map(_row, [heads, ["---"] * len(heads), *rows]))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    FILE.write_text(reference(), "utf-8", newline="\n")
    print(f"wrote {FILE.name}")
