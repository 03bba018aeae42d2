"""A run as plain text, to the letter: dry run, verbose lines, the line of JSON."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from axe_nb import Agent, ProviderError, call
from axe_nb.agents.agent_tables import SubAgentsConfig, TreeLimits
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from axe_nb.views.axe_text import VerboseLines, dry_run, preview, verbose_header
from tests.engine.in_process import agent, ask, lead, stage


def dry(one: Agent, prompt: str = "", **overrides: Any) -> str:
    chosen = Overrides(**overrides)
    plan = Session().plan(RunRequest(agent=one, prompt=prompt, overrides=chosen))
    return dry_run(asyncio.run(plan))


def block(text: str, title: str) -> str:
    return text.split(f"--- {title} ---\n")[1].split("\n\n---")[0]


@pytest.mark.req("B-10", "A-8.5b", "A-E2.1", "D-49", "A-X0")
def test_the_dry_run_of_a_bare_agent_has_every_block_and_none_in_each(project: Path) -> None:
    one = agent("bare", "hi", sub_agents_config=SubAgentsConfig(max_depth=2))
    assert dry(one) == (
        "=== Dry Run ===\n\nModel:    script/bare\nWorkdir:  .\nTimeout:  120s\n"
        "Params:   temperature=0, max_tokens=0\n\n"
        "--- System Prompt ---\n(none)\n\n--- Skill ---\n(none)\n\n--- Files (0) ---\n(none)\n\n"
        "--- Stdin ---\n(none)\n\n--- Sub-Agents ---\n(none)"
    )


@pytest.mark.req("B-10", "A-8.5a", "B-6")
def test_the_dry_run_shows_all_that_would_be_sent(project: Path) -> None:
    Path("work/d").mkdir(parents=True)
    for path, text in (("axe/s.md", "Be kind.\n"), ("work/b.md", "B"), ("work/d/a.md", "A")):
        Path(path).write_text(text, "utf-8")
    one = agent(
        "full", "hi", system_prompt="You lead.\n", skill="s.md", files=("**/*.md",),
        workdir="work", sub_agents=("a", "b"), params={"temperature": 0.2, "top_p": 0.5},
        sub_agents_config=SubAgentsConfig(max_depth=4, parallel=False, timeout=30),
    )  # fmt: skip
    assert dry(one, "What changed?\n", timeout=60.0) == (
        "=== Dry Run ===\n\nModel:    script/full\nWorkdir:  work\nTimeout:  60s\n"
        "Params:   temperature=0.2, max_tokens=0, top_p=0.5\n\n"
        "--- System Prompt ---\nYou lead.\n\n--- Skill ---\nBe kind.\n\n"
        "--- Files (2) ---\nb.md\nd/a.md\n\n--- Stdin ---\nWhat changed?\n\n"
        "--- Sub-Agents ---\na, b\nMax Depth: 4\nParallel:  no\nTimeout:   30s"
    )


@pytest.mark.req("A-8.5a", "A-E2.2", "A-E2.5", "A-E2.6", "A-E2.7", "A-E2.3", "A-9.3", "D-10")
@pytest.mark.parametrize(
    ("config", "names", "depth", "timeout"),
    [
        ({}, ("a",), 3, "0s"),
        ({"max_depth": 0}, ("a",), 3, "0s"),
        ({"max_depth": 1}, ("a", "a"), 1, "0s"),
        ({"max_depth": 5, "timeout": 0.2}, ("a",), 5, "0.2s"),
        ({"timeout": 300}, ("a",), 3, "300s (capped by the run's 120s)"),
    ],
)
def test_the_delegation_settings_are_shown_as_they_work(
    config: Any, names: tuple[str, ...], depth: int, timeout: str, project: Path
) -> None:
    one = agent("boss", "hi", sub_agents=names, sub_agents_config=SubAgentsConfig(**config))
    assert block(dry(one), "Sub-Agents") == (
        f"{', '.join(names)}\nMax Depth: {depth}\nParallel:  yes\nTimeout:   {timeout}"
    )


def test_the_block_of_tools_tells_what_is_asked_denied_and_capped(project: Path) -> None:
    careful = agent(
        "careful", "hi", tools=("file_ops", "run_command", "spawn_agent"),
        permissions={"run_command": "deny"},
        limits=TreeLimits(max_requests=9, max_total_tokens=1000),
    )  # fmt: skip
    assert block(dry(careful), "Tools") == (
        "read_file, list_dir, find_files, write_file, edit_file, run_command, spawn_agent\n"
        "Mode:      ask\n"
        "Asked:     write_file, edit_file\n"
        "Denied:    run_command\n"
        "Budget:    15 tool calls, 8192 tokens, 60s for each child\n"
        "Requests:  at most 9 in the tree\n"
        "Tokens:    at most 1000"
    )


@pytest.mark.req("D-49", "B-10")
@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"temperature": 0, "max_tokens": 0}, "temperature=0, max_tokens=0"),
        ({"max_tokens": 2048}, "temperature=0, max_tokens=2048"),
        ({"stream": True, "stop": ["a"], "x": None, "t": "é"},
         'temperature=0, max_tokens=0, stream=true, stop=["a"], x=null, t=é'),
    ],
)  # fmt: skip
def test_parameters_are_shown_as_they_could_be_given(params: Any, line: str, project: Path) -> None:
    assert f"\nParams:   {line}\n" in dry(agent("tuned", "hi", params=params))


def told(*agents: Agent, **overrides: Any) -> list[str]:
    """The verbose lines of a run of the first agent."""
    lines: list[str] = []
    played = stage(*agents)
    played.play(**overrides)
    show = VerboseLines(lines.append).show
    for event in played.events:
        show(event)
    return [re.sub(r"completed in \d+ms", "completed in 7ms", line) for line in lines]


@pytest.mark.req("A-8.7a", "A-8.7b", "A-7.5a", "A-7.5b", "D-14")
def test_verbose_lines_follow_the_turns_and_the_sub_agents() -> None:
    task = "Look\nat\r\nthis " + "x" * 80
    lines = told(
        lead(ask("a", task), ask("b", "short"), parallel=False, then="done"),
        agent("a", "12345"),
        agent("b", lambda r: (call("nothing"),) if r.turn == 1 else "b", sub_agents=("a",)),
    )
    assert lines == [
        "[turn 1] Sending request (1 messages, 0 tool calls pending)",
        "[turn 1] Received response: tool_calls (2 tool calls)",
        f'[sub-agent] Calling "a" (depth 1) with task: Look at this {"x" * 67}...',
        '[sub-agent] "a" completed in 7ms (5 chars returned)',
        '[sub-agent] Calling "b" (depth 1) with task: short',
        "[tool] nothing {}",
        '[tool] nothing failed: Unknown tool: "nothing"',
        '[sub-agent] "b" completed in 7ms (1 chars returned)',
        "[turn 2] Sending request (3 messages, 2 tool calls pending)",
        "[turn 2] Received response: stop (0 tool calls)",
    ]


@pytest.mark.req("A-7.5c")
def test_a_verbose_line_tells_how_a_sub_agent_failed() -> None:
    def bad(_: Any) -> str:
        raise ProviderError("server", "it\nbroke")

    asks = (ask(name) for name in ("bad", "ghost", "other", ""))
    lines = told(lead(*asks, parallel=False, then="x"), agent("bad", bad))
    assert [line for line in lines if line.startswith("[sub-agent]")] == [
        '[sub-agent] Calling "bad" (depth 1) with task: work',
        '[sub-agent] "bad" failed: server: it broke',
        '[sub-agent] "ghost" failed: failed to load agent "ghost": agent config not found: ghost',
        '[sub-agent] "other" failed: failed to load agent "other": agent config not found: other',
        '[sub-agent] "" failed: "agent" argument is required',
    ]


@pytest.mark.req("D-14")
@pytest.mark.parametrize(
    ("task", "line"),
    [("x" * 80, "x" * 80), ("x" * 81, "x" * 80 + "..."), ("a\nb\r\nc\rd", "a b c d"),
     ("\n" * 81, " " * 80 + "..."), ("", "")],
)  # fmt: skip
def test_a_preview_is_one_line_of_80_characters(task: str, line: str) -> None:
    assert preview(task) == line


@pytest.mark.req("B-11")
def test_the_verbose_header_and_footer_are_as_laid_down(project: Path) -> None:
    Path("axe/s.md").write_text("S", "utf-8")
    Path("a.md").write_text("A", "utf-8")
    one = agent("noisy", "hi", skill="s.md", files=("*.md",), params={"temperature": 1})
    run = asyncio.run(Session().plan(RunRequest(agent=one)))
    assert verbose_header(run, piped=True) == (
        "Model:    script/noisy\nWorkdir:  .\nSkill:    s.md\nFiles:    1 file(s)\nStdin:    yes\n"
        "Timeout:  120s\nParams:   temperature=1"
    )
