"""The six scenarios of seed 002 (Task 2.4), from agent file to answer, on real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from tests.delegation.copies import told
from tests.engine.in_process import heard, texts

SOURCES = {
    "src/main.rs": "mod net;\n\n#[tokio::main]\nasync fn main() {\n    net::serve().await;\n}\n",
    "src/net.rs": "pub async fn serve() {\n    listen(8080);\n}\n\nfn listen(port: u16) {}\n",
    "src/notes.rs": "// nothing here awaits\nfn plain() {}\n",
    "logs/app.log": "INFO start\nERROR timeout on /login\nINFO ok\nERROR disk full\n",
    "config/config.yaml": "port: 8080\n",
}


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
    fields.setdefault("tools", ("subagent", "file_ops_readonly", "grep"))
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


SCENARIOS: dict[str, tuple[str, str, str, list[list[str]], str]] = {
    "basic": (
        'Use a subagent to research async. Label it "async_research".',
        rule("lead", 1, tool="subagent", label="async_research",
             task_prompt="Research async functions in src",
             summary_prompt="Summarize your findings concisely")
        + rule("lead", 2, "As found: {results}")
        + rule("async_research", 1, tool="grep", pattern="async fn", path="src")
        + rule("async_research", 2, "The matches are: {results}")
        + rule("async_research", 3, "Two files hold async functions."),
        "As found: Two files hold async functions.",
        [["src/main.rs"]], "complete",
    ),
    "filter": (
        "Use a subagent with ONLY the grep tool",
        rule("lead", 1, tool="subagent", label="grepper", task_prompt="Search src",
             allowed_tools=["grep"])
        + rule("lead", 2, "{results}")
        + rule("grepper", 1, tool="grep", pattern="async fn", path="src")
        + rule("grepper", 2, tool="read_file", path="src/main.rs")
        + rule("grepper", 3, "done")
        + rule("grepper", 4, "main.rs and net.rs"),
        "main.rs and net.rs",
        [["src/main.rs", "src/net.rs"], ['Unknown tool: "read_file"']], "complete",
    ),
    "summary": (
        "Use a subagent to analyze errors in logs, as bullet points",
        rule("lead", 1, tool="subagent", label="analyst", task_prompt="Analyze the errors in logs",
             summary_prompt="Summarize as bullet points")
        + rule("lead", 2, "{results}")
        + rule("analyst", 1, tool="grep", pattern="ERROR", path="logs")
        + rule("analyst", 2, "There are two errors, and it is a long story.")
        + '[[rule]]\nwhen = "^Summarize as bullet points$"\n'
        + 'text = "- timeout on /login\\n- disk full"\n',
        "- timeout on /login\n- disk full",
        [["disk full"]], "complete",
    ),
    "recovery": (
        "Find the configuration",
        rule("lead", 1, tool="subagent", label="find_config", max_turns=5,
             task_prompt="Find and read config.yaml",
             allowed_tools=["file_ops_readonly", "grep"])
        + rule("lead", 2, "{results}")
        + rule("find_config", 1, tool="read_file", path="config.yaml")
        + '[[rule]]\nwhen = { agent = "find_config", turn = 2, last = "^Error: " }\n'
        + 'calls = [{ tool = "grep", arguments = { pattern = "port", glob = "*.yaml" } }]\n'
        + rule("find_config", 3, tool="read_file", path="config/config.yaml")
        + rule("find_config", 4, "Read it: {results}")
        + rule("find_config", 5, "Found config at config/config.yaml: port 8080"),
        "Found config at config/config.yaml: port 8080",
        [["Error: ", "config.yaml"], ["config/config.yaml"], ["port: 8080"]], "complete",
    ),
    "partial": (
        "Use a subagent with max_turns=2 to analyze all Rust files",
        rule("lead", 1, tool="subagent", label="analyst", max_turns=2,
             task_prompt="Analyze all Rust files")
        + rule("lead", 2, "{results}")
        + rule("analyst", 1, tool="read_file", path="src/main.rs")
        + rule("analyst", 2, tool="read_file", path="src/net.rs")
        + rule("analyst", 3, "Only main.rs was read so far."),
        "Only main.rs was read so far.",
        [["net::serve()"]], "incomplete",
    ),
}  # fmt: skip
"""Name → the prompt, the rules, the answer, what the child's calls came to, and its status."""


@pytest.mark.req("X-42", "X-1", "X-13", "X-20", "X-21", "X-22", "X-24", "X-30", "X-37", "X-44")
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_subagent_works_on_real_files_and_its_summary_is_used(sources: Path, name: str) -> None:
    prompt, rules, answer, hears, status = SCENARIOS[name]
    result = run(sources, rules, prompt)
    assert result.text == answer
    assert not heard(result)[0].is_error
    [child] = result.children
    assert child.metadata["completion_status"] == status
    for turn, parts in enumerate(hears):
        [came] = texts(child, turn)
        assert all(part in came for part in parts)


@pytest.mark.req("X-42", "X-6", "X-17", "X-28")
def test_recursion_ends_with_a_graceful_error(sources: Path) -> None:
    rules = "".join(
        rule(name, 1, tool="subagent", label="sub", task_prompt="Create one more")
        for name in ("lead", "sub")
    )
    rules += '[[rule]]\ntext = "{results}"\n'
    result = run(sources, rules, "Create a subagent that creates a subagent that creates …")
    chain = list(result.walk())
    assert len(chain) == 4
    assert told(chain[-1]).startswith("Error: Maximum subagent recursion depth (3) exceeded")
    assert result.ok


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
