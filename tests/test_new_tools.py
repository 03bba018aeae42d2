"""A new way to delegate and a new built-in tool, added to a copy of the package as the docs say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SECOND_OPINION = """
from axe_nb.delegation.child_copy import copy_of_caller
from axe_nb.messages import ToolParameter
from axe_nb.tools.tool import Job, Tool, text_argument


async def run(ctx, arguments):
    task = text_argument(arguments, "task")
    result = await ctx.start(Job(copy_of_caller(ctx, "doubter", ()), task, task, is_copy=True))
    return result.text


TOOLS = {
    "second_opinion": Tool(
        "second_opinion",
        "Ask a copy of yourself. It knows nothing of this conversation.",
        {"task": ToolParameter("string", "What it is to judge", required=True)},
        run,
        "delegate",
        in_plan=True,
        is_one_child=True,
        copies_caller=True,
    )
}
"""

DELEGATES = """
import importlib.util
from types import SimpleNamespace

import axe_nb
from axe_nb.notebook.magics import matcher
from axe_nb.views import agent_summary
from axe_nb.views.outline import as_text

print(axe_nb.__file__)


@axe_nb.script("lead")
def lead(request):
    if request.agent == "doubter":
        return "I doubt it."
    return request.last if request.turn > 1 else axe_nb.call("second_opinion", task="Is it so?")


def refusal(act):
    try:
        act()
    except axe_nb.ConfigError as error:
        return f"{error} / {error.hint}"


agent = axe_nb.Agent("lead", "script/lead", tools=["second_opinion"], mode="plan")
result = axe_nb.run(agent, "go")
print(result.text, [child.agent for child in result.children])
print(as_text(result))
mistyped = axe_nb.Agent("lead", "script/lead", tools=["second_opinoin"])
print(refusal(lambda: axe_nb.run(mistyped, "go")))
print(refusal(lambda: axe_nb.tool(name="second_opinion")(lambda: "")))
print(agent_summary.all_tools())
print(agent_summary.abilities(agent, axe_nb.Agent.load))
line = "%%axe lead --tools second"
context = SimpleNamespace(text_until_cursor=line, full_text=line, cursor_line=0)
print([found.text for found in matcher(context)["completions"]])
spec = importlib.util.spec_from_file_location("reference", "make_reference.py")
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)
print(reference.reference())
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    folder = tmp_path / "copy"
    shutil.copytree(
        ROOT / "axe_nb", folder / "axe_nb", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "docs/make_reference.py", folder)
    return folder


def add(copy: Path, line: str, module: str, source: str, tool: str) -> None:
    """Does what that line of docs/architecture.md says, and no more."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    [told] = re.findall(rf"^- {line}: (.*(?:\n  .*)*)", page, re.MULTILINE)
    room, attribute, table = re.findall(r"`([\w/.]+(?:/|\.py|TOOLS)|TOOLS)`", told)[:3]
    assert attribute == "TOOLS"
    (copy / "axe_nb" / room / f"{module}.py").write_text(source, "utf-8")
    file = copy / "axe_nb" / table
    text = file.read_text("utf-8")
    start = text.index('\n        "') + 1  # of the table's first line
    line = f'        "{tool}": "axe_nb.{room.rstrip("/")}.{module}",'
    file.write_text(f"{text[:start]}{line}\n{text[start:]}", "utf-8")


def told(copy: Path, code: str) -> str:
    """What Python prints, with the copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=copy, env=environment, capture_output=True,
        encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(120)
def test_a_new_way_to_delegate_is_a_module_and_a_line(copy: Path) -> None:
    add(copy, "A new way to delegate", "second_opinion", SECOND_OPINION, "second_opinion")
    text = told(copy, DELEGATES)
    assert text.startswith(str(copy)), "the copy is what runs"
    assert "I doubt it. ['doubter']" in text, "it is offered in plan mode, and runs"
    assert "✓ turn 1 · asks doubter" in text
    assert "    ✓ doubter · → I doubt it. · 1 turn" in text, "call and child are one row"
    assert 'did you mean "second_opinion"?' in text
    assert '"second_opinion" is a built-in tool' in text
    assert re.search(r"^second_opinion +delegates +Ask a copy of yourself$", text, re.MULTILINE)
    assert "Allowed:        second_opinion" in text
    assert "└─ copies of itself, by second_opinion" in text
    assert "['second_opinion']" in text, "Tab offers it"
    assert "| `second_opinion` | `task` | delegates | Ask a copy of yourself. |" in text
