"""`axe-nb start`: a first notebook with a first agent, and rules in place of its model.

Source: issue 15, "First minutes".
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from axe_nb.agents.agent_files import first_model, scaffold
from axe_nb.agents.files import display_path, write_new
from axe_nb.agents.trust import trust_new_folder
from axe_nb.errors import ConfigError
from axe_nb.text import quote

AGENT = "greeter"
AGENT_FILE = Path("axe", "agents", f"{AGENT}.toml")

RULES = '''\
# The model script/greeter: rules in place of a language model. The first rule whose `when` is found
# in the prompt answers. Change a text here and run a cell again.

[[rule]]
when = { agent = "host", turn = 1, last = '(?P<a>\\w+), (?P<b>\\w+) and (?P<c>\\w+)' }
calls = [
  { tool = "call_agent", arguments = { agent = "greeter", task = "My name is {a}." } },
  { tool = "call_agent", arguments = { agent = "greeter", task = "My name is {b}." } },
  { tool = "call_agent", arguments = { agent = "greeter", task = "My name is {c}." } },
]

[[rule]]
when = { agent = "host", turn = 1 }
text = "Name three guests, such as: Ada, Ben and Cleo."

[[rule]]
when = { agent = "host" }
text = "{results}"

[[rule]]
when = '(?i)my name is (?P<name>\\w+)'
text = "Good morning, {name}!"

[[rule]]
when = { turn = 1, last = '(?i)which file' }
text = "For that I need the tool read_file."
calls = [{ tool = "read_file", arguments = { path = "axe/agents/greeter.toml" } }]

[[rule]]
when = 'model = '
text = """
I am this file:

```toml
{results}
```"""

[[rule]]
text = "I am a few rules, not a language model. Tell me: My name is Ada."
'''
"""The file of rules."""

CELLS = (
    """\
# A first agent

An **agent** is a TOML file: `axe/agents/greeter.toml`. A `%%axe` cell runs it. Run the cells from
top to bottom (Shift+Enter).

**No language model is used here**, so you need no key and no network: the rules in
`axe/scripts/greeter.toml` answer in its place. To use a real model instead, set its key before you
start Jupyter, and remove the `#` in the next cell.""",
    """\
%load_ext axe_nb
# %config AxeMagics.model_all = MODEL""",
    """\
## Ask it

The body of the cell is the prompt. The answer comes first; click the line below it to see the run.
`-o hello` keeps the result in a variable.

**Try:** write your own name.""",
    """\
%%axe greeter -o hello
Hello! My name is Ada.""",
    """\
## Give it a tool

An agent has no tools unless you give it some. In this cell it may read files, and reads its own.

**Try:** remove `--tools read_file` and run the cell again.""",
    """\
%%axe greeter --tools read_file
Which file are you made of?""",
    """\
## Let another agent use it

`%%axe_agent` defines an agent in a cell; `sub_agents` names the agents that it may call.

**Try:** add `--save` to the first line. It writes `axe/agents/host.toml`.""",
    """\
%%axe_agent host
model = "script/greeter"
sub_agents = ["greeter"]""",
    """\
Three greeters run at the same time. Each knows its own task and nothing else.

**Try:** name other guests.""",
    """\
%%axe host
Welcome Ada, Ben and Cleo.""",
    """\
## From Python

A run is an object: its text, tokens, turns and sub-agents.

**Try:** `hello.total_usage` in a new cell.""",
    """\
import axe_nb

again = axe_nb.run("greeter", "My name is Ben.")
print(hello.text, again.text, again.status)""",
    """\
## Next steps

- `%axe help` lists the commands of a notebook; `%axe doctor` shows what you still need to
  use a real model.
- `%axe init NAME` writes another agent. In a terminal, `axe-nb run greeter "My name is Ada."` runs
  this one.
- Save this notebook after a run: `axe-nb check NOTEBOOK` runs it again, without a key, and lists
  the cells that differ.""",
)
"""The texts of the cells: Markdown, or code if it begins like `CODE`."""

CODE = re.compile("%|import ")
"""Beginning of a cell of code."""


def start(name: str | None, write: Callable[[str], object], *, opens: bool) -> int:
    """Writes what is not there yet, and opens JupyterLab; returns the exit code.

    Args:
        name: the notebook's, with or without its ending; None = first.
        write: takes the lines to show.
        opens: if false, JupyterLab is not opened.

    Raises:
        ConfigError: the name is not a plain one, or a file cannot be written.
    """
    stem = "first" if name is None else name.removesuffix(".ipynb")
    if not re.fullmatch(r"\w[\w .-]*", stem):
        raise ConfigError(
            f"{quote(stem)} is not a plain name",
            hint="use letters, digits, spaces, _, - and dots, without folders",
        )
    notebook = f"{stem}.ipynb"
    trust_new_folder(AGENT_FILE)
    for path, text in _make_files(notebook).items():
        is_there = os.path.lexists(path)
        if not is_there:
            write_new(path, text)
        write(f"{'kept' if is_there else 'wrote'} {display_path(path)}")
    return _open(notebook, write, opens=opens)


def _make_files(notebook: str) -> Mapping[Path, str]:
    return {
        AGENT_FILE: scaffold(AGENT, f"script/{AGENT}"),
        Path("axe", "scripts", f"{AGENT}.toml"): RULES,
        Path(notebook): json.dumps(_make_notebook(notebook), indent=1, ensure_ascii=False) + "\n",
    }


def _make_notebook(notebook: str) -> Mapping[str, Any]:
    """Returns the notebook as nbformat 4.5 has it; its library may not be installed."""
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return {
        "cells": list(_make_cells(notebook)),
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _make_cells(notebook: str) -> Iterator[Mapping[str, Any]]:
    for number, text in enumerate(CELLS):
        source = text.replace("MODEL", quote(first_model())).replace(
            "NOTEBOOK", shlex.quote(notebook)
        )
        cell = {"id": f"first-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if CODE.match(text):
            yield {"cell_type": "code", "execution_count": None, "outputs": [], **cell}
        else:
            yield {"cell_type": "markdown", **cell}


def _open(notebook: str, write: Callable[[str], object], *, opens: bool) -> int:
    """Opens a notebook in the JupyterLab of this environment, or says how to."""
    if not all(map(_is_installed, ("jupyterlab", "ipykernel"))):
        write("\nJupyterLab is not installed here. Install it, and run axe-nb start again:")
        write("  pip install 'axe-nb[lab]'")
    elif hasattr(os, "geteuid") and os.geteuid() == 0:
        write("\nJupyterLab does not run as root by default. Open the notebook with:")
        write(f"  jupyter lab --allow-root {shlex.quote(notebook)}")
    elif opens:
        return _run_lab(notebook)
    else:
        write(f"\nOpen the notebook with:\n  jupyter lab {shlex.quote(notebook)}")
    write(f'\nOr ask the agent here:\n  axe-nb run {AGENT} "My name is Ada."')
    return 0


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the guard in `imports`
        return False


def _run_lab(notebook: str) -> int:
    # -P: a folder `jupyterlab` of this place is not what runs
    command = [sys.executable, "-P", "-m", "jupyterlab", notebook]
    with subprocess.Popen(command) as lab:
        while True:
            try:
                return 1 if lab.wait() else 0
            except KeyboardInterrupt:  # JupyterLab has it too, and asks whether to stop
                continue
