"""`%axe cassette`: cells replay, a miss fails its cell, and a broken file lets nothing out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

import axe_nb
from axe_nb.notebook.line_magic import run_command
from axe_nb.session.session import session
from tests.nb.kernels import Kernel, text

BROKEN = {
    "garbage": "\0 garbage",
    "a merge conflict": "axe_nb cassette 1.0\n[\n<<<<<<< HEAD\n=======\n>>>>>>> b\n]\n",
    "a later version": "axe_nb cassette 99.0\n[]",
    "a folder": None,
}


@pytest.fixture
def heard() -> Iterator[list[axe_nb.Request]]:
    """The requests to the model of agent `one`, which answers "live"."""
    requests: list[axe_nb.Request] = []

    @axe_nb.script("one")
    def one(request: axe_nb.Request) -> str:
        requests.append(request)
        return "live"

    axe_nb.define(axe_nb.Agent("one", "openai/one"))
    yield requests
    session.use_cassette(None)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("mode", ["", " --mode replay", " --mode auto", " --mode record"])
def test_nothing_is_sent_where_the_cassette_cannot_be_opened(
    project: Path, heard: list[axe_nb.Request], mode: str, content: str | None
) -> None:
    if content is None:
        Path("tape.json").mkdir()
    else:
        Path("tape.json").write_text(content)
    shell: Any = None
    with axe_nb.script_server("openai"):
        for command in (f"cassette tape.json{mode}", f"cassette ./tape.json{mode}"):
            with pytest.raises(axe_nb.ConfigError, match="cannot read ") as refused:
                run_command(shell, command, {}, print)
            assert str(project) not in "\n".join(refused.value.lines())
            for ask in (axe_nb.run, axe_nb.map, axe_nb.grid):
                prompts: Any = "go" if ask is not axe_nb.map else ["go"]
                with pytest.raises(axe_nb.ConfigError) as again:
                    [*ask("one", prompts, display=False)]  # type: ignore[operator]
                assert again.value.lines() == refused.value.lines()
        assert heard == []
        run_command(shell, "cassette --mode live", {}, print)
        assert axe_nb.run("one", "go").text == "live"


@pytest.mark.parametrize("line", ["tape.json --mod replay", '"tape.json'])
def test_nothing_is_sent_after_a_line_with_a_mistake(
    project: Path, heard: list[axe_nb.Request], line: str
) -> None:
    shell: Any = None
    with pytest.raises(axe_nb.ConfigError) as refused:
        run_command(shell, f"cassette {line}", {}, print)
    with pytest.raises(axe_nb.ConfigError) as again:
        axe_nb.run(None, "go", model="script/one")
    assert again.value.lines()[0] == refused.value.lines()[0]
    assert heard == []
    run_command(shell, "cassette tape.json --mode auto", {}, print)
    with pytest.raises(axe_nb.ConfigError):
        run_command(shell, f"cassette {line}", {}, print)
    assert axe_nb.run(None, "go", model="script/one").text == "live", "by the one in use"


def test_mode_live_also_turns_off_the_cassette_of_the_environment(
    project: Path, heard: list[axe_nb.Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_CASSETTE", "tape.axe")
    shell: Any = None
    run_command(shell, "cassette --mode live", {}, print)
    assert axe_nb.run(None, "go", model="script/one").text == "live"
    assert not Path("tape.axe").exists()


NOTEBOOK = [
    "%load_ext axe_nb\n%axe cassette tape.json",
    "import axe_nb\naxe_nb.run(None, 'go', model='openai/one').text",
    "%%axe -m openai/one\ngo",
]


@pytest.mark.parametrize("command", ["nbval", "check"])
def test_a_notebook_under_test_sends_nothing_where_its_cassette_is_broken(
    project: Path, heard: list[axe_nb.Request], command: str
) -> None:
    Path("tape.json").write_text("axe_nb cassette 1.0\n[\n<<<<<<< HEAD\n")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in NOTEBOOK])
    nbformat.write(book, "book.ipynb")
    commands = {
        "nbval": ["pytest", "-ptests.early", "-paxe_nb.testing.pytest_plugin", "-pnbval",
                  "--nbval-lax", "-q", "-pno:cacheprovider", "book.ipynb"],
        "check": ["axe_nb", "check", "book.ipynb"],
    }  # fmt: skip
    with axe_nb.script_server("openai") as server:
        reach = {"OPENAI_API_KEY": "k", "AXE_OPENAI_BASE_URL": server.base_url,
                 "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", *commands[command]], capture_output=True, text=True, timeout=120,
            check=False, env=os.environ | reach,
        )  # fmt: skip
    assert heard == []
    assert done.returncode == 1
    assert "cannot read tape.json: " in done.stdout, done.stdout


AGENTS = """
import axe_nb
%load_ext axe_nb
answers = iter("abcdefgh")

@axe_nb.script("one")
def one(request):
    return f"{next(answers)}: {request.last}"

axe_nb.define(axe_nb.Agent("one", "openai/one", system_prompt="Be brief.\\nBe kind."))
server = axe_nb.script_server("openai")
"""


@pytest.mark.req("D-59")
def test_a_notebook_records_and_replays_and_says_what_is_missing(kernel: Kernel) -> None:
    kernel.run(AGENTS)
    assert text(kernel.run("%axe cassette")) == (
        "ConfigError: no cassette is in use\nstart one: %axe cassette PATH"
    )
    kernel.run("server.__enter__()")
    assert kernel.run("%axe cassette one.axe --mode auto") == []
    assert text(kernel.run("%%axe one -q\nhello")).startswith("a: hello")
    again = "get_ipython().run_cell('%%axe one -q\\nhi', cell_id='x');"
    assert text(kernel.run(again)).startswith("b: hi")
    assert text(kernel.run(again)).startswith("b: hi")
    assert text(kernel.run("server.__exit__(None, None, None)\n%axe cassette --status")) == (
        "one.axe (auto): 1 replayed, 2 not found, 2 recorded; 0 not used"
    )
    assert text(kernel.run("%axe cassette one.axe --status")).startswith(
        "one.axe (default: auto, headless replay): 0 replayed"
    )
    assert text(kernel.run("%%axe one -q\nhello")).startswith("a: hello")
    assert text(kernel.run("%%axe one -q\nhi you")).strip().splitlines() == [
        "(no answer: openai/one · error)",
        "CassetteMiss: cassette one.axe has no answer for agent one at 0/1: its prompt changed: "
        '"hi" → "hi you"',
        "in agent one, turn 1",
        "record it with %axe cassette one.axe --mode auto, then run this again",
    ]
    assert text(kernel.run("%axe cassette --prune")) == "1 record removed from one.axe\n"
    assert kernel.run("%axe cassette --mode live") == []
    assert text(kernel.run("%axe cassette --status")).startswith("one.axe (live): 1 replayed")
    assert text(kernel.run("%axe cassette one.axe --mode often")).startswith(
        "UsageError: argument --mode: invalid choice: 'often' (choose from "
    )
