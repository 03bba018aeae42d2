"""Tab behind the magics, as a notebook asks a real kernel for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from axe_nb.notebook.completion import list_offers
from tests.nb.kernels import Kernel

SCRIPTS = {"echo": '[[rule]]\ntext = "x"'}


@pytest.fixture
def offering(cells: Kernel, project: Path) -> Kernel:
    """A kernel with agents in files, one of the session, and some names."""
    for name, toml in {
        "lead-writer": 'name = "lead-writer"\nmodel = "ollama/qwen3:8b"',
        "reader": 'name = "reader"\nmodel = "openai/gpt-5-mini"', "broken": "no toml at all",
    }.items():  # fmt: skip
        (project / "axe" / "agents" / f"{name}.toml").write_text(toml)
    (project / "axe" / "agents" / "echo.toml").unlink()
    cells.run('%%axe_agent planner\nmodel = "script/echo"')
    cells.run("%%axe planner -o told\nGo")
    cells.run("import json\nsurvey = 1\nsecond_survey = 2\ndef a_function(): ...")
    cells.run("from dataclasses import dataclass\n@dataclass\nclass Town:\n    name: str")
    cells.run("import axe_nb\n@axe_nb.tool\ndef shout(text: str) -> str: ...\ndel shout")
    return cells


NAMES = ("broken", "lead-writer", "planner", "reader")

OFFERED = {
    "%%axe ": [f"%%axe {name}" for name in NAMES],
    "%%axe lead-w": ["%%axe lead-writer"],
    "%%axe -m script/echo pl": ["%%axe -m script/echo planner"],
    "%%axe reader --m": [
        "%%axe reader --model", "%%axe reader --model-all", "%%axe reader --mode",
    ],
    "%%axe reader -m op": ["%%axe reader -m openai/", "%%axe reader -m openai/gpt-5-mini"],
    "%%axe reader --model ollama/q": ["%%axe reader --model ollama/qwen3:8b"],
    "%%axe reader --mode a": ["%%axe reader --mode ask", "%%axe reader --mode auto"],
    "%%axe reader --raises max_t": [
        "%%axe reader --raises max_turns", "%%axe reader --raises max_tool_calls",
        "%%axe reader --raises max_tokens",
    ],
    "%%axe reader -o su": ["%%axe reader -o survey"],
    "%%axe reader --tools read_file,gr": ["%%axe reader --tools read_file,grep"],
    "%%axe reader --output T": ["%%axe reader --output Town"],
    "%%axe_grid reader --rep": ["%%axe_grid reader --repeats"],
    "%axe re": ["%axe request", "%axe replay", "%axe reset"],
    "%axe ": [
        f"%axe {verb}" for verb in (
            "run", "list", "show", "init", "edit", "tools", "trust", "request", "diff", "time",
            "replay", "expect", "history", "undo", "cassette", "usage", "budget", "env", "reset",
            "doctor", "help",
        )
    ],
    "%axe show lead": ["%axe show lead-writer"],
    "told.undo": ["told.undo"],
    "%axe request to": ["%axe request told"],
    "%axe cassette x.axe --mode re": [
        "%axe cassette x.axe --mode record", "%axe cassette x.axe --mode replay",
    ],
    "x = 1\n%axe sh": ["x = 1\n%axe show"],
    "%%time\n%%axe rea": ["%%time\n%%axe reader"],
    "\n%%axe_agent x\n[ret": ["\n%%axe_agent x\n[retry"],
    "%%axe reader\nIt isn't {{ surv": ["%%axe reader\nIt isn't {{ survey"],
    "%%axe_grid reader\nIt isn't {{ 2 * len(second_s": [
        "%%axe_grid reader\nIt isn't {{ 2 * len(second_survey",
    ],
    "%%axe reader\n{{ json.JSONDecodeErr": ["%%axe reader\n{{ json.JSONDecodeError"],
}  # fmt: skip
"""What is typed → the text after each of the offers."""


def test_tab_offers_what_fits_there_and_nothing_else(offering: Kernel) -> None:
    wrong = {}
    for typed, wanted in OFFERED.items():
        found = offering.complete(typed)
        if sorted(found) != sorted(wanted):
            wrong[typed] = found
    assert wrong == {}


def test_the_body_of_a_cell_and_other_code_are_left_alone(offering: Kernel) -> None:
    for typed in ("%%axe planner\nre", "%%axe planner\n%%axe re", "x = 1\n%%axe re"):
        assert not any("reader" in offer for offer in offering.complete(typed))
    assert "survey" in [offer.strip() for offer in offering.complete("surv")]
    line = "%%axe rea -q\nhello"
    assert offering.complete(line, at=len("%%axe rea")) == ["%%axe reader"]


KEYS = {
    "mo": ["model", "mode"],
    "[sub_agents_config]\nmax_": ["max_depth", "max_concurrent", "max_turns"],
    "[sub_agents_config]\nparallel = true\n[sub_agents_config.budget]\n": [
        "max_tool_calls", "max_tokens", "timeout_ms",
    ],
    "[mcp_servers.time]\nst": ["start_timeout"],
    "[params]\ntop": ["top_p", "top_k"],
    "[permissions]\nwrite": ["write_file"],
    "[not_a_table]\n": [],
    "[sub": ["sub_agents_config", "sub_agents_config.budget"],
}  # fmt: skip
"""TOML of an agent up to the cursor → what Tab offers there."""


def offers(above: str) -> tuple[str, list[str]] | None:
    *before, line = f"%%axe_agent x\n{above}".split("\n")
    return list_offers(before, line)


@pytest.mark.parametrize("above", KEYS)
def test_what_fits_at_the_cursor_is_offered(project: Path, above: str) -> None:
    offered = offers(above)
    assert offered is not None
    written, texts = offered
    assert texts == KEYS[above]
    assert above.endswith(written)


def test_nothing_is_offered_in_text_and_for_values() -> None:
    for above in ("# mo", 'model = "a/b" ', 'system_prompt = """\nmo', "[limits] ", 'mode = "a'):
        assert offers(above) is None
