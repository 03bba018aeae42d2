"""What the page says of jupyter-ai, tried: only its magic, not the chat in JupyterLab."""

from with_jupyter_ai import SHELL, ask


async def cell():
    assert ask() == "done"


async def interpolated():
    SHELL.user_ns["word"] = "go"
    assert SHELL.run_cell_magic("ai", "child -f text", "{word}").text == "done"
