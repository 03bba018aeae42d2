"""A new provider in a copy of the package, made as docs/architecture.md says, works everywhere."""

from __future__ import annotations

import os
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
    return folder


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
    table = copy / "axe_nb/agents/provider_table.py"
    before, mark, after = table.read_text("utf-8").partition('    ProviderInfo(name="script"')
    table.write_text(f"{before}{ENTRY}{mark}{after}", "utf-8")
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
