"""Ways to delegate, from agent file to answer, on real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from tests.engine.in_process import heard, texts

SOURCES = {"src/net.rs": "pub async fn serve() {}\n", "config/config.yaml": "port: 8080\n"}


@pytest.fixture
def sources(project: Path) -> Path:
    for name, text in SOURCES.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return project


def run(project: Path, rules: str, prompt: str, **fields: Any) -> RunResult:
    """What the agent `lead`, from its file, comes to with a model that follows the rules."""
    (project / "axe" / "scripts").mkdir(exist_ok=True)
    (project / "axe" / "scripts" / "scenario.toml").write_text(rules, "utf-8")
    Agent("lead", "script/scenario", **fields).save()
    return axe_nb.run("lead", prompt, display=False)


def rule(agent: str, turn: int, text: str = "", **call: Any) -> str:
    """One rule of the script: what an agent says in a turn, or the one call that it makes."""
    lines = ["[[rule]]", f'when = {{ agent = "{agent}", turn = {turn} }}']
    if text:
        lines.append(f'text = """{text}"""')
    if call:
        name = call.pop("tool")
        arguments = ", ".join(f"{key} = {value!r}" for key, value in call.items())
        lines.append(f'calls = [{{ tool = "{name}", arguments = {{ {arguments} }} }}]')
    return "\n".join(lines) + "\n"


@pytest.mark.req("X-42", "X-1", "X-13", "X-20", "X-21", "X-22", "X-24", "X-30", "X-37", "X-44")
def test_a_subagent_works_on_real_files_recovers_and_its_summary_is_used(sources: Path) -> None:
    rules = (
        rule("lead", 1, tool="subagent", label="find_config", max_turns=5,
             task_prompt="Find and read config.yaml", allowed_tools=["file_ops_readonly", "grep"])
        + rule("lead", 2, "As found: {results}")
        + rule("find_config", 1, tool="read_file", path="config.yaml")
        + '[[rule]]\nwhen = { agent = "find_config", turn = 2, last = "^Error: " }\n'
        + 'calls = [{ tool = "grep", arguments = { pattern = "port", glob = "*.yaml" } }]\n'
        + rule("find_config", 3, tool="read_file", path="config/config.yaml")
        + rule("find_config", 4, "Read it: {results}")
        + rule("find_config", 5, "Found config at config/config.yaml: port 8080")
    )  # fmt: skip
    tools = ("subagent", "file_ops_readonly", "grep")
    result = run(sources, rules, "Find the configuration", tools=tools)
    assert result.text == "As found: Found config at config/config.yaml: port 8080"
    assert not heard(result)[0].is_error
    [child] = result.children
    assert child.metadata["completion_status"] == "complete"
    for turn, part in enumerate(("Error: ", "config/config.yaml", "port: 8080")):
        assert part in texts(child, turn)[0]


@pytest.mark.req("O-24", "O-43", "D-6")
def test_a_spawned_agent_edits_real_files_and_the_parent_is_told_which(sources: Path) -> None:
    rules = (
        rule("lead", 1, tool="spawn_agent", task="Raise the port to 9090", scope="config")
        + rule("lead", 2, "{results}")
        + rule("spawn_agent", 1, tool="read_file", path="config/config.yaml")
        + rule("spawn_agent", 2, tool="edit_file", path="config/config.yaml", old_text="8080",
               new_text="9090")
        + rule("spawn_agent", 3, tool="edit_file", path="src/net.rs", old_text="not there",
               new_text="x")
        + rule("spawn_agent", 4, "The port is 9090.")
    )  # fmt: skip
    tools = ("spawn_agent", "file_ops")
    result = run(sources, rules, "Raise the port", tools=tools, mode="auto")
    assert (sources / "config" / "config.yaml").read_text("utf-8") == "port: 9090\n"
    assert result.text.endswith(
        "\n\nThe port is 9090.\n\n"
        "Files read: config/config.yaml\nFiles modified: config/config.yaml"
    ), "what was done, not what was tried"
