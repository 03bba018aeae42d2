"""`axe-nb start` and `axe-nb demo`: a first notebook, and a run without a key or network."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from axe_nb.agents.agent import Agent, first_model, scaffold
from axe_nb.agents.files import display_path, write_new
from axe_nb.agents.trust import trust_new_folder
from axe_nb.commands.console import StatusLine
from axe_nb.errors import ConfigError
from axe_nb.messages import Request, ToolCall, call
from axe_nb.results import RunResult
from axe_nb.scripting.rules import script
from axe_nb.session.drive import drive
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from axe_nb.text import plural, quote
from axe_nb.views.outline import as_text

AGENT = "greeter"
AGENT_FILE = Path("axe", "agents", f"{AGENT}.toml")

TEMPLATES = Path(__file__).parent / "first"
"""The notebook and the rules of its model; MODEL and NOTEBOOK stand for their names."""


def start(name: str | None, write: Callable[[str], object], *, opens: bool) -> int:
    """Creates the files that do not exist yet, and opens JupyterLab if `opens`.

    Returns the exit code. Raises ConfigError: the notebook's name is not a plain one, or a file
    cannot be written.
    """
    stem = "first" if name is None else name.removesuffix(".ipynb")
    if not re.fullmatch(r"\w[\w .-]*", stem):
        raise ConfigError(
            f"{quote(stem)} is not a plain name",
            hint="use letters, digits, spaces, _, - and dots, without folders",
        )
    notebook = f"{stem}.ipynb"
    trust_new_folder(AGENT_FILE)
    book = (TEMPLATES / "first.ipynb").read_text("utf-8")
    for mark, text in (("MODEL", quote(first_model())), ("NOTEBOOK", shlex.quote(notebook))):
        book = book.replace(mark, json.dumps(text, ensure_ascii=False)[1:-1])
    files = {
        AGENT_FILE: scaffold(AGENT, f"script/{AGENT}"),
        Path("axe", "scripts", f"{AGENT}.toml"): (TEMPLATES / "greeter.toml").read_text("utf-8"),
        Path(notebook): book,
    }
    for path, text in files.items():
        is_there = os.path.lexists(path)
        if not is_there:
            write_new(path, text)
        write(f"{'kept' if is_there else 'wrote'} {display_path(path)}")
    if not all(map(find_spec, ("jupyterlab", "ipykernel"))):
        write("\nJupyterLab is not installed here. Install it, and run axe-nb start again:")
        write("  pip install 'axe-nb[lab]'")
    elif hasattr(os, "geteuid") and os.geteuid() == 0:
        write("\nJupyterLab does not run as root by default. Open the notebook with:")
        write(f"  jupyter lab --allow-root {shlex.quote(notebook)}")
    elif opens:
        # -P: a folder `jupyterlab` of this place is not what runs
        command = [sys.executable, "-P", "-m", "jupyterlab", notebook]
        with subprocess.Popen(command) as lab:
            while True:
                try:
                    return 1 if lab.wait() else 0
                except KeyboardInterrupt:  # JupyterLab has it too, and asks whether to stop
                    continue
    else:
        write(f"\nOpen the notebook with:\n  jupyter lab {shlex.quote(notebook)}")
    write(f'\nOr ask the agent here:\n  axe-nb run {AGENT} "My name is Ada."')
    return 0


READERS = {
    "counter": ("engine/loop.py", "How many functions and classes does the loop have?"),
    "historian": ("events.py", "What are the events for?"),
    "critic": ("errors.py", "What can go wrong?"),
}
"""Sub-agent → (the module of this package that it reads, its task)."""


def show_demo(write: Callable[[str], object], status: TextIO) -> RunResult:
    """Runs the demo and writes its answer and tree."""
    session = Session()
    here = str(Path(__file__).parents[1])
    for name, (file, _) in READERS.items():
        session.define(Agent(name=name, model=f"script/demo-{name}", files=(file,), workdir=here))
    lead = Agent(name="lead", model="script/demo-lead", sub_agents=tuple(READERS))
    request = RunRequest(agent=lead, prompt="What is this package made of?")
    result = drive(session.start(request), StatusLine(status))
    write(as_text(result))
    write("\nNo language model was used: three Python functions read three files.")
    write("`axe-nb start` writes a notebook with a first agent of your own, and opens it.")
    return result


@script("demo-lead")
def _lead(request: Request) -> str | tuple[ToolCall, ...]:
    if not request.results:
        return tuple(
            call("call_agent", agent=name, task=task) for name, (_, task) in READERS.items()
        )
    return "\n".join(f"- {result.content}" for result in request.results)


@script("demo-counter")
def _counter(request: Request) -> str:
    functions = re.findall(r"^ *(?:async )?def (\w+)", request.system, re.MULTILINE)
    classes = re.findall(r"^class (\w+)", request.system, re.MULTILINE)
    return f"{plural(len(functions), 'function')}; classes: {', '.join(classes)}."


@script("demo-historian")
def _historian(request: Request) -> str:
    purpose = re.search(r'^"""(.+)$', request.system, re.MULTILINE)
    return purpose.group(1) if purpose else "They do not say."


@script("demo-critic")
def _critic(request: Request) -> str:
    kinds = re.findall(r"^class (\w+)\((\w+)\)", request.system, re.MULTILINE)
    return f"{len(kinds)} kinds of error: {', '.join(name for name, _ in kinds)}."
