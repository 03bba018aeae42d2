"""The unusual parts of an agent file that came with a project: reviewed before it may run.

An agent file of a project is unusual if it leads outside the project, starts programs, or takes
for itself what would need a person's approval. Paths are resolved here, but nothing outside the
project is read.
Source: D-54; product.md "Agent files"; docs/safety.md "Trust".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from axe_nb.agents.config import skill_paths
from axe_nb.agents.files import display_path, expand_home, read_text
from axe_nb.agents.tables import COMMON_PARAMS, DEFAULT_LIMITS, TreeLimits
from axe_nb.errors import ConfigError
from axe_nb.quick_dataclass import dataclass
from axe_nb.text import quote
from axe_nb.toml_tables.parse import parse_toml

FREE = {
    "run_command": "runs commands without asking you",
    "terminal": "runs commands without asking you",
    "fetch": "reaches the network without asking you",
    "url_fetch": "reaches the network without asking you",
    "web_search": "reaches the network without asking you",
}
"""Name of a built-in tool, or its alias → effect of allowing it."""

HARMLESS = {
    "ask_user", "call_agent", "delegate_task", "edit_file", "file_ops", "file_ops_readonly",
    "find_files", "grep", "list_dir", "list_directory", "read_file", "search_files", "spawn_agent",
    "subagent", "write_file",
}  # fmt: skip
"""The other built-in tools, toolsets and aliases: what they change lies in the workdir."""

USUAL_PARAMS = {
    *COMMON_PARAMS, "frequency_penalty", "max_completion_tokens", "min_p", "num_ctx",
    "num_predict", "presence_penalty", "prompt_cache", "reasoning_effort", "repeat_penalty",
    "stop_sequences", "stream", "thinking", "verbosity",
}  # fmt: skip
"""Keys of `[params]` that only shape one answer."""

MAX_WORDS = 50
"""Words of a command that are looked at for files."""

CAPS: Mapping[str, int] = {
    key.name: cap for key in fields(TreeLimits) if (cap := getattr(DEFAULT_LIMITS, key.name))
}
"""Key of `[limits]` → its default, which bounds the requests of any agent."""


@dataclass(frozen=True, slots=True)
class Unusual:
    """One unusual part of an agent file."""

    what: str
    """One line, the same on every machine."""
    target: str = ""
    """The place that it leads to on this machine; empty if it leads nowhere."""

    def __str__(self) -> str:
        return f"{self.what}: {self.target}" if self.target else self.what


def find_unusual(path: Path, text: str) -> tuple[Unusual, ...]:
    """Returns the unusual parts of an agent file.

    Args:
        path: the file, as it was found; relative paths start at the current folder.
        text: its text.

    Raises:
        ConfigError: the text cannot be parsed or is nested too deeply, so anything may be in it.
    """
    table = _parse(text)
    try:
        return (
            *_check_link(path),
            *_check_paths(path, table),
            *_check_programs(table),
            *_check_rights(table),
        )
    except RecursionError:
        raise _make_error("its values are nested too deeply") from None


def find_rights_below(text: str) -> tuple[Unusual, ...]:
    """Returns what an agent of a project would gain as a sub-agent of one in mode `auto`.

    Args:
        text: the text of its file.
    """
    table = _parse(text)
    if table.get("mode", "ask") in ("auto", "plan"):  # reported by `find_unusual`; gains nothing
        return ()
    return tuple(
        Unusual(f'as a sub-agent in mode "auto", {tool} {effect}')
        for tool, effect in _find_free(_read_list(table, "tools"))
    )


def find_sub_agents(text: str, *, in_auto: bool) -> tuple[str, ...]:
    """Returns the names of the sub-agents that an agent file runs in mode `auto`.

    Args:
        text: the text of the file.
        in_auto: True if the agent is itself the sub-agent of one in mode `auto`.
    """
    table = _parse(text)
    mode = table.get("mode", "ask")
    is_auto = mode == "auto" or (in_auto and mode != "plan")
    return tuple(_read_list(table, "sub_agents")) if is_auto else ()


def find_project(path: Path) -> Path:
    """Returns the project of an agent file: the folder with `axe/`, else the one above `path`'s."""
    folder = Path(os.path.abspath(path)).parent  # noqa: PTH100 - without `..`, but with its links
    is_usual = (folder.parent.name, folder.name) == ("axe", "agents")
    return folder.parent.parent if is_usual else folder.parent


def find_link(path: Path) -> str:
    """Returns the real path of an agent file below a link in its project; empty if there is none.

    The links above the project are the person's own.
    """
    whole, project = Path(os.path.abspath(path)), find_project(path)  # noqa: PTH100
    real = os.path.realpath(whole)
    expected = Path(os.path.realpath(project), whole.relative_to(project))
    return "" if os.path.normcase(real) == os.path.normcase(expected) else real


def find_inner_texts(path: Path, text: str) -> Iterator[str]:
    """Yields the texts inside the project that an agent file refers to.

    These are its skill, its script and the programs of its MCP servers.

    Context files are left out: they are the project's data, and change all the time.
    """
    table = _parse(text)
    programs = _find_programs(path, table)
    for target in (_find_skill(path, table), _find_script(path, table), *programs):
        if target is not None and not find_outside(path, target):
            try:
                yield read_text(target)
            except OSError:  # a run reports it
                yield ""


def find_outside(path: Path, target: Path) -> str:
    """Returns the place of a target outside the project of an agent file; empty if it is inside."""
    if os.name == "nt" and str(target)[:2] in ("\\\\", "//"):  # resolving it would log in there
        return str(target)
    real = os.path.realpath(target)
    if Path(real).is_relative_to(os.path.realpath(find_project(path))):
        return ""
    return display_path(Path(real))


@lru_cache(maxsize=64)
def _parse(text: str) -> Mapping[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise _make_error(str(error)) from None


def _make_error(problem: str) -> ConfigError:
    return ConfigError(
        f"the agent file cannot be checked: {problem}", hint="fix it before it may run"
    )


def _check_link(path: Path) -> Iterator[Unusual]:
    real = find_link(path)
    if real:
        yield Unusual("its file is reached through a link", display_path(Path(real)))


def _check_paths(path: Path, table: Mapping[str, Any]) -> Iterator[Unusual]:
    workdir = _read_text(table, "workdir")
    script = _find_script(path, table)
    schema = _read_text(_read_table(table, "output"), "schema")
    targets = {
        f"workdir = {quote(workdir)}": expand_home(workdir) if workdir else None,
        f"skill = {quote(_read_text(table, 'skill'))}": _find_skill(path, table),
        f"model = {quote(_read_text(table, 'model'))}": script,
        f"output.schema = {quote(schema)}": path.parent / expand_home(schema) if schema else None,
    }
    for written, target in targets.items():
        outside = find_outside(path, target) if target is not None else ""
        if outside:
            yield Unusual(f"{written} leads outside the project", outside)


def _find_skill(path: Path, table: Mapping[str, Any]) -> Path | None:
    skill = _read_text(table, "skill")
    if not skill:
        return None
    paths = skill_paths(skill, str(path))
    return next((found for found in paths if _exists(found)), paths[0])


def _find_script(path: Path, table: Mapping[str, Any]) -> Path | None:
    """Returns the rule file of a script model; None if the project has none of that name."""
    provider, _, name = _read_text(table, "model").partition("/")
    if provider != "script" or not name:
        return None
    if name.endswith(".toml"):
        return expand_home(name)
    beside = path.parent.parent / "scripts" / f"{name}.toml"
    return beside if _exists(beside) else None


def _find_programs(path: Path, table: Mapping[str, Any]) -> Iterator[Path]:
    """Yields the files that the commands of an agent's own MCP servers name."""
    servers = table.get("mcp_servers")
    tables: object = servers.values() if isinstance(servers, dict) else servers
    workdir = expand_home(_read_text(table, "workdir") or ".")
    for server in tables if isinstance(tables, Iterable) else ():
        if isinstance(server, dict):
            for word in _read_list(server, "command")[:MAX_WORDS]:
                yield from filter(_is_file, (workdir / word, find_project(path) / word))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _check_programs(table: Mapping[str, Any]) -> Iterator[Unusual]:
    servers = table.get("mcp_servers")
    if isinstance(servers, dict):
        for name, server in servers.items():
            yield Unusual(f"starts the MCP server {quote(name)}", _show(server))
    elif servers:
        yield Unusual(f"starts MCP servers: {_show(servers)}")
    sandbox = table.get("sandbox", "auto")
    if sandbox != "auto":
        yield Unusual(f"sandbox = {_show(sandbox)}")


def _check_rights(table: Mapping[str, Any]) -> Iterator[Unusual]:
    if table.get("mode") == "auto":
        for tool, effect in _find_free(_read_list(table, "tools")):
            yield Unusual(f'mode = "auto" with {tool} {effect}')
        if _read_list(table, "sub_agents"):
            yield Unusual('mode = "auto" also allows the tools of its sub-agents without asking')
    permissions = _read_table(table, "permissions")
    for tool, effect in _find_free(key for key, value in permissions.items() if value == "allow"):
        yield Unusual(f'permissions.{tool} = "allow" {effect}')
    if hosts := table.get("allowed_hosts"):
        yield Unusual(f"allowed_hosts = {_show(hosts)}: fetch reaches them without asking you")
    limits = _read_table(table, "limits")
    for key, cap in CAPS.items():
        value = limits.get(key, cap)
        if isinstance(value, int) and not 0 < value <= cap:
            yield Unusual(f"limits.{key} = {value} lifts the cap of {cap}")
    for name, value in _read_table(table, "params").items():
        if name not in USUAL_PARAMS or isinstance(value, dict) or _holds_table(value):
            yield Unusual(f"params.{_show_name(name)} is sent to the model's server", _show(value))


def _find_free(tools: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, effect) of the tools that would otherwise need approval.

    Any tool of the person's own may: its effect is not known here.
    """
    for tool in tools:
        if tool not in HARMLESS:
            yield _show_name(tool), FREE.get(tool, "runs your own tool without asking you")


def _holds_table(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _read_text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value.strip() if isinstance(value, str) else ""


def _read_table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def _read_list(table: Mapping[str, Any], key: str) -> list[str]:
    value = table.get(key)
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _show_name(name: str) -> str:
    """Formats a name on one line, without quotes."""
    return quote(name)[1:-1]


def _show(value: object) -> str:
    """Formats a value of a TOML table whole, on one line, with escapes for what does not print."""
    if isinstance(value, dict):
        inner = ", ".join(f"{quote(str(key))} = {_show(entry)}" for key, entry in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    return quote(value) if isinstance(value, str) else str(value)
