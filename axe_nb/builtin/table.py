"""The built-in tools, independent of the agent loop.

Source: D-20 (names, toolsets, aliases).
"""

from axe_nb.tools.registry import ToolModules

SOURCE = ToolModules(
    "axe_nb.builtin",
    {
        "read_file": "files",
        "list_dir": "files",
        "find_files": "search",
        "grep": "search",
        "write_file": "edit",
        "edit_file": "edit",
        "run_command": "shell",
        "fetch": "web",
        "ask_user": "ask_user",
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
"""Tool → its module in this package; toolset or alias → the tools that it expands to."""
