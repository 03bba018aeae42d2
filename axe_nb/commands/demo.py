"""`axe-nb demo`: a lead and three sub-agents over real files, with no key and no network.

The models are Python functions, which compute their answers from the requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from axe_nb.agents.agent import Agent
from axe_nb.commands.console import StatusLine
from axe_nb.messages import Request, ToolCall, call
from axe_nb.results import RunResult
from axe_nb.scripting.lookup import script
from axe_nb.session.drive import drive
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from axe_nb.text import plural

READERS = {
    "counter": ("engine/loop.py", "How many functions and classes does the loop have?"),
    "historian": ("messages.py", "What are the messages for?"),
    "critic": ("errors.py", "What can go wrong?"),
}
"""Sub-agent → (the module of this package that it reads, its task)."""


def show(write: Callable[[str], object], status: TextIO) -> RunResult:
    """Runs the demo and writes its answer and tree."""
    from axe_nb.views.outline import as_text

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
