"""Cells that ask a model without an agent, and cells of agents with variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, text, write_agents

SCRIPT = '[[rule]]\ntext = "Heard: {last}"\nusage = { input_tokens = 10, output_tokens = 2 }\n'


@pytest.fixture
def cells(kernel: Kernel, project: Path) -> Kernel:
    write_agents(project, {"echo": SCRIPT})
    assert kernel.run("%load_ext axe_nb") == []
    return kernel


def test_neither_agent_nor_model_is_an_error_with_the_usage(cells: Kernel) -> None:
    said = text(cells.run("%%axe -q\nhello"))
    assert "required: AGENT, or -m for a model without an agent" in said
    assert "%%axe" in said
    assert "[AGENT]" in said
    said = text(cells.run("name = ''\n%axe run {name} -p hello -m script/echo"))
    assert 'invalid agent name ""' in said
    said = text(cells.run("%%axe What -m script/echo\nis this?"))
    assert (
        "to ask the model without an agent, give the prompt as -p TEXT, as the body of a cell"
        in said
    )


def test_a_cell_defines_an_agent_with_variables_and_another_sets_them(cells: Kernel) -> None:
    toml = (
        "%%axe_agent poet --save\nmodel = 'script/system'\n"
        "system_prompt = 'In {{ language }} about {{ topic }}.'\n[vars]\nlanguage = 'English'\n"
        "topic = 'rain'"
    )
    cells.run(
        "language = 'WRONG'\nimport axe_nb\nsystem = axe_nb.script('system')(lambda r: r.system)"
    )
    assert "poet: script/system" in text(cells.run(toml))
    assert "{{ language }}" in Path("axe/agents/poet.toml").read_text("utf-8")
    assert text(cells.run("%%axe poet -q\nx")) == "In English about rain."
    cells.run('topic = "the {{ sea }}, it\'s -c deep"')
    said = text(cells.run("%%axe poet -q --var language=French topic=snow\nx"))
    assert said == "In French about snow."
    said = text(cells.run("%%axe poet -q --var topic={topic} --var language=Latin\nx"))
    assert said == "In Latin about the {{ sea }}, it's -c deep."
    assert "language=English, topic=rain" in text(cells.run("%axe show poet"))
