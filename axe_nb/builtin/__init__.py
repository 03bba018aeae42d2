"""The table of built-in tools, with `ask_user` and the server tool `web_search`.

Source: D-19, D-20, D-48, D-50, D-76, O-19.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.agents.provider_table import SEARCH
from axe_nb.messages import ToolParameter
from axe_nb.tools.tool import (
    CallSite,
    Guard,
    Tool,
    ToolContext,
    ToolError,
    ToolTable,
    text_argument,
)


async def ask_user(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    question = text_argument(arguments, "question")
    if not question.strip():
        raise ToolError("question cannot be empty")
    if ctx.ask is None:
        raise ToolError(
            "permission denied for ask_user: no one can be prompted here; "
            "decide yourself and state your assumptions"
        )
    answer = await ctx.ask(question)
    return answer if answer.strip() else "(The user gave no answer.)"


def make_server_tool(name: str, description: str) -> Tool:
    """Creates a tool that the model's server runs and that may contact any host."""

    async def refuse(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        raise ToolError(f"{name} is run by the model's server, which did not run it")

    def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
        return Guard(
            host=f"any host through {name}",
            note="The model's server runs it as often as the model wants, without asking you.",
        )

    return Tool(name, description, {}, refuse, "network", guard=guard, by_server=True)


SOURCE = ToolTable(
    {
        "read_file": "axe_nb.builtin.files",
        "list_dir": "axe_nb.builtin.files",
        "find_files": "axe_nb.builtin.search",
        "grep": "axe_nb.builtin.search",
        "write_file": "axe_nb.builtin.files",
        "edit_file": "axe_nb.builtin.files",
        "run_command": "axe_nb.builtin.shell",
        "fetch": "axe_nb.builtin.web",
        "ask_user": Tool(
            "ask_user",
            "Ask the user a question and wait for the answer. Only for what you cannot find out.",
            {"question": ToolParameter("string", "The question, in one sentence", required=True)},
            ask_user,
            "read",
            denied_below="sub-agents cannot ask questions; decide and state your assumptions",
        ),
        SEARCH: make_server_tool(SEARCH, "Search the web, on the model's own server."),
    },
    {
        "file_ops_readonly": ("read_file", "list_dir", "find_files"),
        "file_ops": ("read_file", "list_dir", "find_files", "write_file", "edit_file"),
        "search_files": ("grep",),
        "terminal": ("run_command",),
        "list_directory": ("list_dir",),
        "url_fetch": ("fetch",),
    },
)
"""The built-in tools, with their toolsets and aliases. Most are imported when looked up."""

OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("bash", "shell", "sh", "execute", "python", "run"), "run_command"),
    **dict.fromkeys(("web_fetch", "web", "browser", "http", "curl"), "fetch"),
    **dict.fromkeys(("read", "cat", "view", "open_file"), "read_file"),
    **dict.fromkeys(("write", "create_file", "save_file"), "write_file"),
    **dict.fromkeys(("edit", "str_replace", "apply_patch", "replace"), "edit_file"),
    **dict.fromkeys(("ls", "list", "list_files"), "list_dir"),
    **dict.fromkeys(("glob", "find"), "find_files"),
    **dict.fromkeys(("search", "rg", "ripgrep"), "grep"),
    **dict.fromkeys(("ask", "input", "ask_human"), "ask_user"),
    **dict.fromkeys(("files", "filesystem"), "file_ops"),
}
"""Maps tool names of other programs to the built-in tools to suggest instead."""
