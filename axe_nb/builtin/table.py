"""The built-in tools, independent of the agent loop.

Source: D-20.
"""

from collections.abc import Mapping

from axe_nb.tools.registry import ToolTable

SOURCE = ToolTable(
    {
        "read_file": "axe_nb.builtin.files",
        "list_dir": "axe_nb.builtin.files",
        "find_files": "axe_nb.builtin.search",
        "grep": "axe_nb.builtin.search",
        "write_file": "axe_nb.builtin.edit",
        "edit_file": "axe_nb.builtin.edit",
        "run_command": "axe_nb.builtin.shell",
        "fetch": "axe_nb.builtin.web",
        "ask_user": "axe_nb.builtin.ask_user",
        "web_search": "axe_nb.builtin.web_search",
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
"""Tool → its module; toolset or alias → the tools that it expands to."""

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
"""Name of a tool in other programs → the tool to suggest for it."""
