"""What the doctor finds: keys, servers, and what is in the way of each agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from axe_nb import cli
from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import TreeLimits
from axe_nb.agents.user_config import Config, config_path
from axe_nb.commands.doctor import Finding, examine, problems
from axe_nb.session.session import Session
from axe_nb.views import agent_summary
from tests.wire.replay import Replay

KEY = "sk-canary-5f0c8e1d7b6a4932"

Serve = Callable[..., Replay]


@pytest.fixture(autouse=True)
def echo(project: Path) -> None:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "echo.toml").write_text('[[rule]]\ntext = "x"', "utf-8")


def found(**models: str) -> list[Finding]:
    """What is found with these agents of a session, and their models."""
    session = Session()
    session.agents.update({name: Agent(name, model) for name, model in models.items()})
    findings = asyncio.run(examine(session))
    assert KEY not in "\n".join(map(str, findings))
    assert KEY not in repr(findings)
    return findings


def of(what: str, findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.state, f.message, f.next_step) for f in findings if f.what == what]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """(provider, reply) -> the server that is the provider's from now on."""
    with ExitStack() as stack:

        def one(provider: str, **reply: Any) -> Replay:
            server = stack.enter_context(Replay({"x": reply}))
            url = server.url("x").replace("http://", f"http://user:{KEY}@")
            monkeypatch.setenv(f"AXE_{provider.upper()}_BASE_URL", url)
            return server

        yield one


@pytest.mark.req("B-3")
def test_keys_are_set_or_not_and_never_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    findings = found(lead="anthropic/claude-x")
    step = "set ANTHROPIC_API_KEY, or api_key under [providers.anthropic] in config.toml"
    unset = "ANTHROPIC_API_KEY is not set, needed by agent lead"
    assert of("anthropic key", findings) == [("wrong", unset, step)]
    assert of("openai key", findings) == [
        ("note", "OPENAI_API_KEY is not set; no agent here needs it", "")
    ]
    assert of("ollama key", findings) == [
        ("note", "OLLAMA_API_KEY is not set; requests are sent without a key", "")
    ]
    assert of("anthropic server", findings) == [], "without a key it is not asked"
    serve("anthropic", body={"data": []})
    serve("openai", body={"data": []})
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    config_path().parent.mkdir(parents=True)
    config_path().write_text(f'[providers.openai]\napi_key = "{KEY}"\n', "utf-8")
    findings = found()
    assert of("anthropic key", findings) == [("right", "set (ANTHROPIC_API_KEY)", "")]
    assert of("openai key", findings) == [("right", "set (config.toml)", "")]
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\u00e9")
    [(_, told, step)] = of("anthropic key", found())
    assert told == 'the API key of provider "anthropic" contains invalid characters'
    assert step.startswith("copy it again into ANTHROPIC_API_KEY")


def test_a_model_that_the_server_lacks_is_told_with_the_nearest(
    project: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    serve("openai", body={"data": [{"id": "gpt-5"}, {"id": "gpt-5-mini"}]})
    serve("ollama", body={"models": [{"name": "llama3.2:latest"}]})
    findings = found(
        a="openai/gpt-5-mnii", b="openai/gpt-5-mnii", c="openai/gpt-5", d="ollama/qwen3",
        e="ollama/llama3.2",
    )  # fmt: skip
    assert of("openai server", findings)[1:] == [
        ("wrong", 'has no "gpt-5-mnii", needed by agents a, b', 'did you mean "gpt-5-mini"?')
    ]
    assert of("ollama server", findings)[1:] == [
        ("wrong", 'has no "qwen3", needed by agent d', "`ollama pull qwen3`")
    ]


def test_agents_are_looked_through(project: Path) -> None:
    for name, text in {
        "good": 'model = "script/echo"',
        "typo": 'model = "script/echo"\nsystem_promt = "x"',
        "noscript": 'model = "script/nowhere"',
        "tools": 'model = "script/echo"\ntools = ["grap"]\nskill = "none.md"',
        "lead": 'model = "script/echo"\nsub_agents = ["good", "ghost"]',
        "old": 'model = "script/echo"\n[memory]\nx = 1',
        "model": 'model = "gpt-5"',
    }.items():
        (project / "axe" / "agents" / f"{name}.toml").write_text(f'name = "{name}"\n{text}\n')
    findings = found()
    assert of("agents", findings) == [("note", "7 found, 4 without problems", "")]
    assert of("agent good", findings) == []
    wrong = 'unknown key "system_promt" (line 3) (in axe/agents/typo.toml)'
    assert of("agent typo", findings) == [("wrong", wrong, 'did you mean "system_prompt"?')]
    [(state, told, step)] = of("agent noscript", findings)
    assert (state, told) == ("note", "script not found: nowhere"), "a cell may define it yet"
    assert step.startswith('before a run, define @axe_nb.script("nowhere"), or write nowhere.toml')
    assert [told for _, told, _ in of("agent tools", findings)] == [
        'unknown tool "grap" in agent "tools" (in axe/agents/tools.toml, line 3)',
        "skill not found: none.md",
    ]  # fmt: skip
    assert [(state, told) for state, told, _ in of("agent lead", findings)] == [
        ("note", "agent config not found: ghost")
    ], "a run warns too, and goes on (A-E2.4)"
    assert of("agent old", findings) == [("note", "ignored by axe_nb: memory", "")]
    assert [told for _, told, _ in of("agent model", findings)] == [
        'invalid model format "gpt-5": expected provider/model-name'
    ]
    assert all(step for state, _, step in of("agent tools", findings) if state == "wrong")


def test_the_command_prints_the_same_and_fails_where_something_is_wrong(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["doctor"]) == 0
    (project / "axe" / "agents" / "a.toml").write_text('name = "a"\nmodel = "openai/x"\n')
    assert cli.main(["doctor"]) == 1
    step = "set OPENAI_API_KEY, or api_key under [providers.openai] in config.toml"
    row = "✗ openai key       OPENAI_API_KEY is not set, needed by agent a"
    assert f"\n{row}\n                   → {step}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "row"), [("0", "· history          off: AXE_NB_HISTORY=0"), ("1", "/axe/runs.sqlite")]
)
def test_the_history_has_a_row_that_says_why_it_is_off(
    project: Path, monkeypatch: pytest.MonkeyPatch, value: str, row: str
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", value)
    assert row in "\n".join(map(str, found()))


def find_problems(**fields: Any) -> list[tuple[tuple[str, ...], str, bool, str]]:
    agent = Agent(**{"name": "x", "model": "script/echo", **fields})
    return [
        (problem.key, problem.entry, problem.is_mistake, str(problem.error))
        for problem in problems(agent, Session().find, Config.load())
    ]


def test_mistakes_come_before_what_is_missing(project: Path) -> None:
    assert find_problems(
        model="script/nowhere", skill="s.md", workdir="w", sub_agents=("y",), files=("a[", "*"),
        tools=("grep", "grap"), permissions={"fetsch": "ask"},
    ) == [
        (("tools",), "grap", True, 'unknown tool "grap" in agent "x"'),
        (("permissions", "fetsch"), "", True, 'unknown tool "fetsch" in agent "x"'),
        (("files",), "a[", True, 'invalid glob pattern "a[": unclosed bracket'),
        (("model",), "", False, "script not found: nowhere"),
        (("workdir",), "", False, "workdir not found: w"),
        (("skill",), "", False, "skill not found: s.md"),
        (("sub_agents",), "y", False, "agent config not found: y"),
    ]  # fmt: skip


@pytest.mark.req("D-19", "D-20")
def test_the_page_says_what_an_agent_may_do() -> None:
    agent = Agent(
        "x", "script/x", tools=("file_ops", "grep"), permissions={"grep": "deny"},
        limits=TreeLimits(max_requests=7, max_total_tokens=1000),
    )  # fmt: skip
    assert agent_summary.abilities(agent, Session().find).splitlines() == [
        "Allowed:        read_file, list_dir, find_files",
        "Asks first:     write_file, edit_file",
        "Denied:         grep",
        "Requests:       at most 7 in the whole tree",
        "Tokens:         at most 1000 in the whole tree",
    ]
