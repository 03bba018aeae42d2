"""The tools that come with axe_nb, one module per design; none of them knows the loop.

Source: D-20 (names, toolsets, aliases).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from axe_nb.tools.tool import Tool

HOMES: Mapping[str, str] = {
    "read_file": "files",
    "list_dir": "files",
    "find_files": "search",
    "grep": "search",
    "write_file": "writing",
    "edit_file": "writing",
    "run_command": "shell",
    "fetch": "web",
    "ask_user": "ask_user",
}
"""Tool → the module here that it lives in; imported when the tool is first asked for."""

NAMES = tuple(HOMES)

TOOLSETS: Mapping[str, tuple[str, ...]] = {
    "file_ops_readonly": ("read_file", "list_dir", "find_files"),
    "file_ops": ("read_file", "list_dir", "find_files", "write_file", "edit_file"),
}
"""Toolset → its tools; its name may stand wherever a tool's may."""

ALIASES: Mapping[str, str] = {
    "search_files": "grep",
    "terminal": "run_command",
    "list_directory": "list_dir",
    "url_fetch": "fetch",
}
"""Other name → tool."""


def canonical(name: str) -> str:
    """The name of the tool that an alias means; any other name as it is."""
    return ALIASES.get(name, name)


def expanded(name: str) -> tuple[str, ...]:
    """The tools that a name stands for: those of a toolset, that of an alias, else itself."""
    return TOOLSETS.get(name, (canonical(name),))


def find(name: str) -> Tool | None:
    """The built-in tool of a name or an alias; None where there is none."""
    home = HOMES.get(canonical(name))
    if home is None:
        return None
    tools: Mapping[str, Tool] = import_module(f"axe_nb.builtin.{home}").TOOLS
    return tools[canonical(name)]
