"""Implements `axe-nb start`, which writes a first notebook, and `axe-nb demo`.

The demo is a run that needs no key or network.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from axe_nb.agents.agent import Agent, first_model, scaffold
from axe_nb.agents.files import display_path, write_new
from axe_nb.agents.trust import trust_new_folder
from axe_nb.messages import Request, ToolCall, call
from axe_nb.scripting.rules import script
from axe_nb.session.drive import NullView, drive
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from axe_nb.text import plural, quote
from axe_nb.views.outline import as_text

AGENT = "greeter"
AGENT_FILE = Path("axe", "agents", f"{AGENT}.toml")

HOST = """\
name = "host"
description = "Asks a greeter for each guest"
model = "script/greeter"
sub_agents = ["greeter"]
"""

TEMPLATES = Path(__file__).parent / "first"
"""Folder with the script and the first notebook, in which MODEL is a placeholder."""


def start(write: Callable[[str], object], *, opens: bool) -> int:
    """Creates any missing starter files (a notebook, its agents, a script); returns the exit code.

    If `opens` is true and JupyterLab is installed, JupyterLab then opens the notebook.
    """
    notebook = "first.ipynb"
    trust_new_folder(AGENT_FILE)
    model = json.dumps(quote(first_model()), ensure_ascii=False)[1:-1]
    files = {
        AGENT_FILE: scaffold(AGENT, f"script/{AGENT}"),
        AGENT_FILE.with_name("host.toml"): HOST,
        Path("axe", "scripts", f"{AGENT}.toml"): (TEMPLATES / "greeter.toml").read_text("utf-8"),
        Path(notebook): (TEMPLATES / notebook).read_text("utf-8").replace("MODEL", model),
    }
    for path, text in files.items():
        is_there = os.path.lexists(path)
        if not is_there:
            write_new(path, text)
        write(f"{'kept' if is_there else 'wrote'} {display_path(path)}")
    # in containers; JupyterLab refuses to start without it
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    if not all(map(find_spec, ("jupyterlab", "ipykernel"))):
        write("\nJupyterLab is not installed here. Install it, and run axe-nb start again:")
        write("  pip install 'axe-nb[lab]'")
    elif opens:
        # -P: never runs a folder of the same name in the current folder
        command = [sys.executable, "-P", "-m", "jupyterlab", notebook, *as_root]
        with subprocess.Popen(command) as lab:
            while True:
                try:
                    return 1 if lab.wait() else 0
                except KeyboardInterrupt:  # JupyterLab receives it, too, and asks whether to stop
                    continue
    else:
        write(f"\nOpen the notebook with:\n  {' '.join(['jupyter lab', notebook, *as_root])}")
    write(f'\nOr ask the agent here:\n  axe-nb run {AGENT} "My name is Ada."')
    return 0


READERS = {"counter": "engine/loop.py", "historian": "events.py", "critic": "errors.py"}
"""Maps each sub-agent of the demo to the module of this package that the sub-agent summarizes."""


def show_demo(write: Callable[[str], object]) -> None:
    session = Session()
    here = str(Path(__file__).parents[1])
    for name, file in READERS.items():
        session.define(Agent(name=name, model="script/demo-reader", files=(file,), workdir=here))
    lead = Agent(name="lead", model="script/demo-lead", sub_agents=tuple(READERS))
    request = RunRequest(agent=lead, prompt="What is this package made of?")
    write(as_text(drive(session.start(request), NullView())))
    write("\nNo language model was used: Python functions read three files.")
    write("`axe-nb start` writes a notebook with a first agent of your own, and opens it.")


@script("demo-lead")
def _lead(request: Request) -> str | tuple[ToolCall, ...]:
    if not request.results:
        return tuple(
            call("call_agent", agent=name, task=f"What is in {file}?")
            for name, file in READERS.items()
        )
    return "\n".join(f"- {result.content}" for result in request.results)


@script("demo-reader")
def _reader(request: Request) -> str:
    text = request.system
    [purpose] = re.findall(r'^"""([^"(\n]+)', text, re.MULTILINE)[:1]
    functions = re.findall(r"^ *(?:async )?def (\w+)", text, re.MULTILINE)
    classes = re.findall(r"^class (\w+)", text, re.MULTILINE)
    return f"{purpose} {plural(len(functions), 'function')}; classes: {', '.join(classes)}."
