"""jupyter-ai: the magic `%%ai`, which sends the text of a cell; it has no agents and no tools."""

import os

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}  # no look-ups

from IPython.core.interactiveshell import InteractiveShell

SHELL = InteractiveShell.instance()
SHELL.run_line_magic("load_ext", "jupyter_ai_magic_commands")
SHELL.run_line_magic("ai", f"alias child openai/child-0 --api-base {os.environ['MODEL_URL']}/v1")


def ask():
    return SHELL.run_cell_magic("ai", "child -f text", "go").text
