"""A new provider in a copy of the package, made as docs/architecture.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire.replay import Replay

PACKAGE = Path(__file__).parent.parent / "axe_nb"
PAGE = PACKAGE.parent / "docs" / "architecture.md"

MODULE = '''
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

ENTRIES = """
    ProviderInfo(
        name="parrot",
        module="axe_nb.providers.parrot",
        base_url="http://localhost:7777",
        needs_key=True,
        key_variable="PARROT_API_KEY",
        headers={"x-parrot": "{key}"},
        models_path="/birds",
        models_keys=("birds", "id"),
        first_model="parrot/polly",
    ),
"""

USE = """
import asyncio, axe_nb
from IPython.core.interactiveshell import InteractiveShell
from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_files import init
from axe_nb.agents.user_config import Config
from axe_nb.engine.make_provider import make
from axe_nb.commands.doctor import examine
from axe_nb.session.session import session

print(axe_nb.__file__)
print(axe_nb.run(Agent(name="a", model="parrot/polly"), "Hello?").text)
print(Agent.load(init("first").stem).model)
session.define(Agent(name="parrot", model="parrot/x"))
print(*asyncio.run(examine(None, session.agents, session.find)), sep="\\n")
try:
    make("parott", Config())
except axe_nb.ConfigError as error:
    print(error, error.hint)

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "axe_nb")
line = "%%axe first -m par"
shell.Completer.use_jedi = False
with __import__("IPython.core.completer").core.completer.provisionalcompleter():
    print(*(c.text for c in shell.Completer.completions(line, len(line))))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder of a copy of the package with a new provider."""
    package = tmp_path / "copy" / "axe_nb"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "providers" / "parrot.py").write_text(MODULE, "utf-8")
    table = package / "agents" / "provider_table.py"
    before, last, after = table.read_text("utf-8").partition('    ProviderInfo(name="script"')
    assert last
    table.write_text(before + ENTRIES.lstrip("\n") + last + after, "utf-8")
    return package.parent


def test_the_page_says_what_this_test_does() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    assert (
        "A new provider: one module in `providers/` that ends in `PROVIDER`, a class with "
        "`base_url`, `key`, `info` and `send` (`providers/openai.py` is the one to follow); one "
        "entry in `PROVIDERS` of `agents/provider_table.py`, which names the module."
    ) in page
    assert "A named endpoint, for everybody: one entry too, with the `module`" in page


def test_one_module_and_one_entry_are_a_provider(copy: Path, project: Path) -> None:
    parrot = {"sequence": [
        {"status": 200, "body": {"text": "Hello!"}},
        {"status": 200, "body": {"birds": [{"id": "polly"}]}},
    ]}  # fmt: skip
    with Replay({"parrot": parrot}) as server:
        settings = {
            "PYTHONPATH": str(copy),
            "OPENAI_API_KEY": "",
            "PARROT_API_KEY": "a-cracker",
            "AXE_PARROT_BASE_URL": server.url("parrot"),
        }
        done = subprocess.run(
            [sys.executable, "-c", USE], env=os.environ | settings, cwd=project,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    where, said, first, *told = done.stdout.splitlines()
    assert where == str(copy / "axe_nb" / "__init__.py")
    assert (said, first) == ("Hello!", "parrot/polly")
    asked = server.log("parrot")
    assert [a.path for a in asked] == ["/say", "/birds"]
    assert asked[0].body == {"model": "polly", "prompt": "Hello?"}
    assert {a.headers["x-parrot"] for a in asked} == {"a-cracker"}

    page = "\n".join(told)
    assert "parrot key       set (PARROT_API_KEY)" in page
    assert f"parrot server    up at {server.url('parrot')}, 1 model" in page
    assert 'parrot server    has no "x", needed by agent parrot' in page
    assert (
        'unsupported provider "parott": supported providers are anthropic, openai, ollama, parrot, '
        "script did you mean parrot?"
    ) in page
    assert told[-1] == "parrot/ parrot/polly parrot/x"
