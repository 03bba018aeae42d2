"""A new option, provider and way to delegate in a copy of the package, made as the page says.

The page is docs/architecture.md; what is made so, and no more, has to work everywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire.replay import Replay

ROOT = Path(__file__).parent.parent
PAGE = " ".join((ROOT / "docs" / "architecture.md").read_text("utf-8").split())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    folder = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "axe_nb", folder / "axe_nb", ignore=ignored)
    shutil.copy(ROOT / "docs/make_reference.py", folder)
    return folder


def add(file: Path, before: str, more: str, after: str = "\n") -> None:
    """Puts more text before the first `before` that stands behind `after`."""
    head, mark, text = file.read_text("utf-8").partition(after)
    start, found, rest = text.partition(before)
    assert found, before
    file.write_text(head + mark + start + more + found + rest, "utf-8")


def told(copy: Path, code: str, **variables: str) -> str:
    """What Python prints, with the copy of the package."""
    variables |= {"PYTHONPATH": str(copy), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", f"import axe_nb\nprint(axe_nb.__file__)\n{code}"],
        env=os.environ | variables, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    where, _, text = done.stdout.partition("\n")
    assert where == str(copy / "axe_nb" / "__init__.py")
    return text


TAB = """
from types import SimpleNamespace
from axe_nb.notebook.magics import matcher
def tab(line):
    context = SimpleNamespace(text_until_cursor=line, full_text=line, cursor_line=0)
    return [found.text for found in matcher(context)["completions"]]
"""

OPTION = """
import asyncio
from IPython.core.interactiveshell import InteractiveShell

@axe_nb.script("system")
def system(request):
    return f"told: {request.system}"

async def last_of(events):
    return [event async for event in events][-1].result

axe_nb.define(axe_nb.Agent("a", "script/system", system_prompt="Be long."))
options = {"system_prompt": "Be brief."}
print(axe_nb.run("a", "x", display=False).text)
print(axe_nb.run("a", "x", display=False, **options).text)
print(asyncio.run(axe_nb.arun("a", "x", display=False, **options)).text)
print(asyncio.run(last_of(axe_nb.stream("a", "x", **options))).text)
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "axe_nb")
print("cell", shell.run_cell_magic("axe", "a -q --system-prompt 'Be brief.'", "x").text)
print("line", shell.run_line_magic("axe", "run a x -q --system-prompt 'Be brief.'").text)
print(tab("%%axe a --sy"))
"""


def test_one_row_and_its_field_are_an_option_everywhere(copy: Path, project: Path) -> None:
    assert (
        "A new option: one row in `OPTIONS` of `commands/command_table.py`, and a field of the "
        "row's keyword in `Overrides` and in `RunOptions` of `session/overrides.py`"
    ) in PAGE
    row = '    Option(("--system-prompt",), "system_prompt", "another system prompt", "TEXT"),\n'
    options, overrides = (
        copy / "axe_nb" / name for name in ("commands/command_table.py", "session/overrides.py")
    )
    add(options, '    Option(("--skill",)', row, after="\nOPTIONS: ")
    add(overrides, "    skill: ", "    system_prompt: str | None\n", after="class RunOptions")
    add(overrides, "    skill: ", "    system_prompt: str | None = None\n", after="class Overrides")
    said = told(copy, TAB + OPTION).splitlines()
    assert said[:4] == ["told: Be long.", *["told: Be brief."] * 3]
    assert {"cell told: Be brief.", "line told: Be brief."} <= set(said[4:])
    assert said[-1] == "['--system-prompt']"


PARROT = '''
"""A provider of the simplest kind: a prompt goes in, a text comes back."""

from dataclasses import dataclass, field

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.messages import Request, Response, dump
from axe_nb.providers.http import ask_server


@dataclass(frozen=True)
class Parrot:
    name = "parrot"
    base_url: str
    key: str = field(repr=False)
    info: ProviderInfo

    async def send(self, request: Request, on_delta: object = None) -> Response:
        body = dump({"model": request.model, "prompt": request.last})
        return Response((await ask_server(self, "/say", body, request))["text"])


PROVIDER = Parrot
'''

ENTRY = """\
    ProviderInfo(
        name="parrot",
        module="axe_nb.providers.parrot",
        base_url="http://localhost:7777",
        needs_key=True,
        key_variable="PARROT_API_KEY",
        headers={"x-parrot": "{key}"},
        models_path="/birds",
        models_keys=("birds", "id"),
    ),
"""

PROVIDER = """
import asyncio
from axe_nb import Agent
from axe_nb.agents.user_config import Config
from axe_nb.engine.plan import make_provider
from axe_nb.commands.doctor import examine
from axe_nb.session.session import session

print(axe_nb.run(Agent("a", "parrot/polly"), "Hello?").text)
session.define(Agent("parrot", "parrot/x"))
print(*asyncio.run(examine(None, session.agents, session.find)), sep="\\n")
try:
    make_provider("parott", Config())
except axe_nb.ConfigError as error:
    print(error, error.hint)
print(tab("%%axe first -m par"))
"""


def test_one_module_and_one_entry_are_a_provider(copy: Path, project: Path) -> None:
    assert (
        "A new provider: one module in `providers/` that ends in `PROVIDER`, a class with "
        "`base_url`, `key`, `info` and `send` (`providers/openai.py` is the one to follow); one "
        "entry in `PROVIDERS` of `agents/provider_table.py`, which names the module."
    ) in PAGE
    (copy / "axe_nb/providers/parrot.py").write_text(PARROT, "utf-8")
    add(copy / "axe_nb/agents/provider_table.py", '    ProviderInfo(name="script"', ENTRY)
    parrot = {"sequence": [
        {"status": 200, "body": {"text": "Hello!"}},
        {"status": 200, "body": {"birds": [{"id": "polly"}]}},
    ]}  # fmt: skip
    with Replay({"parrot": parrot}) as server:
        said, *lines = told(
            copy, TAB + PROVIDER, OPENAI_API_KEY="", PARROT_API_KEY="a-cracker",
            AXE_PARROT_BASE_URL=server.url("parrot"),
        ).splitlines()  # fmt: skip
    assert said == "Hello!"
    asked = server.log("parrot")
    assert [a.path for a in asked] == ["/say", "/birds"]
    assert asked[0].body == {"model": "polly", "prompt": "Hello?"}
    assert {a.headers["x-parrot"] for a in asked} == {"a-cracker"}
    page = "\n".join(lines)
    assert "parrot key       set (PARROT_API_KEY)" in page
    assert f"parrot server    up at {server.url('parrot')}, 1 model" in page
    assert 'parrot server    has no "x", needed by agent parrot' in page
    assert (
        'unsupported provider "parott": supported providers are anthropic, openai, ollama, parrot, '
        "script did you mean parrot?"
    ) in page
    assert lines[-1] == "['parrot/', 'parrot/polly', 'parrot/x']"


SECOND_OPINION = """
from axe_nb.delegation.spawn_agent import copy_of_caller
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
import sys
from axe_nb.views import agent_summary
from axe_nb.views.outline import as_text


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
print(tab("%%axe lead --tools second"))
sys.path.insert(0, FOLDER)
import make_reference
print(make_reference.reference())
"""


@pytest.mark.timeout(120)
def test_a_new_way_to_delegate_is_a_module_and_a_line(copy: Path, project: Path) -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    [line] = re.findall(r"^- A new way to delegate: (.*(?:\n  .*)*)", page, re.MULTILINE)
    room, attribute, table = re.findall(r"`([\w/.]+(?:/|\.py|TOOLS)|TOOLS)`", line)[:3]
    assert attribute == "TOOLS"
    (copy / "axe_nb" / room / "second_opinion.py").write_text(SECOND_OPINION, "utf-8")
    entry = f'        "second_opinion": "axe_nb.{room.rstrip("/")}.second_opinion",\n'
    add(copy / "axe_nb" / table, '        "', entry)
    text = told(copy, f"FOLDER = {str(copy)!r}\n{TAB}{DELEGATES}")
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
