"""What `result.request` tells of a request: places, what changed, what fills the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, Response, RunResult, Usage, call, script
from axe_nb.messages import ToolCall
from axe_nb.views.request import MAX_TEXT, SentRequest
from tests.views.requests import define_tree, look_up, run


@pytest.fixture
def result(project: Path) -> RunResult:
    define_tree("script")
    return run("lead", "Compare")


@pytest.mark.req("D-59")
def test_places_are_turns_of_the_tree(result: RunResult) -> None:
    def place(*given: Any) -> str:
        return result.request(*given).place

    assert place() == place(None) == place("0") == place("@0") == place(3) == "0/3"
    assert place("0.2") == place("@0.2/1") == place("0.2/1") == "0.2/1"
    assert (place(1), place("/2")) == ("0/1", "0/2")
    child = result.children[0]
    assert child.request().place == child.request(1).place == "0.2/1"
    assert (child.request().agent, child.request().model) == ("guide", "script/guide")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("0/4", 'no turn "4" of lead; its turns are 0/1, 0/2, 0/3'),
        (0, 'no turn "0" of lead; its turns are 0/1, 0/2, 0/3'),
        ("0/", 'no turn "" of lead; its turns are 0/1, 0/2, 0/3'),
        ("0.2/x", 'no turn "x" of guide; its turns are 0.2/1'),
        ("0.1/1", 'no run "0.1" in this tree; nearest: 0.3, 0.2, 0'),
        ("x" * 99, f'no run "{"x" * 60}…" in this tree; nearest: 0.3, 0.2, 0'),
    ],
)
def test_a_wrong_place_names_those_near_it(result: RunResult, place: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        result.request(place)
    assert error.value.lines() == [message]


def test_changes_are_told_in_words(result: RunResult) -> None:
    assert result.request(1).changed == ('new prompt: "Compare"',)
    assert result.request(2).changed == (
        'new reply: "Let me ask.", calls look_up, call_agent',
        'new result of look_up: "Bonn: \\"Größe\\" unknown"',
        'new result of call_agent: "Task: About Rome: a fine town"',
    )
    assert result.request("0.3/3").changed == (
        "tools can no longer be called",
        'new reply: "explored"',
        'new prompt: "Summarize your findings concisely"',
    )


def tell(usage: Usage, prompt: str = "Go", **fields: Any) -> SentRequest:
    """The second request of an agent whose replies say that they used so much."""
    axe_nb.define(Agent(name="a", model="script/a", tools=(look_up,), **fields))

    @script("a")
    def a(request: Request) -> Any:
        calls: tuple[ToolCall, ...] = (call("look_up", town="Rome"),)
        return Response("hm", calls if request.turn == 1 else (), "stop", usage)

    return run("a", prompt).request()


@pytest.fixture
def with_files(project: Path) -> Callable[[Usage], SentRequest]:
    (project / "skill.md").write_text("Be kind. " * 40)
    (project / "notes.txt").write_text("Größe " * 100)

    def make(usage: Usage) -> SentRequest:
        return tell(
            usage, "Go " * 20, system_prompt="Lead. " * 20, files=("*.txt",),
            skill=str(project / "skill.md"), workdir=str(project),
        )  # fmt: skip

    return make


@pytest.mark.req("D-18")
def test_the_sources_add_up_to_the_tokens_that_the_reply_reported(
    with_files: Callable[[Usage], SentRequest],
) -> None:
    request = with_files(Usage(1003, 7))
    context = request.context
    assert list(context) == [
        "system prompt", "skill", "files", "tool schemas", "history", "prompt", "results",
    ]  # fmt: skip
    assert context.total == sum(context.values()) == 1003
    assert all(context.values())
    assert context["files"] > context["skill"] > context["system prompt"] > context["prompt"]
    assert (context.is_estimate, context.size) == (False, "1,003 tokens")


@pytest.mark.req("D-18")
def test_without_a_reported_number_each_source_is_its_bytes_by_four(
    with_files: Callable[[Usage], SentRequest],
) -> None:
    with_files(Usage())
    estimate = {
        "system prompt": 30, "skill": 95, "prompt": 15, "results": 7,
    }  # fmt: skip
    result = axe_nb.last()
    assert result
    cut = tuple(replace(e, response=None) for e in result.exchanges)
    context = replace(result, exchanges=cut).request().context
    assert {source: context[source] for source in estimate} == estimate
    assert context["files"] == -(-len(("\n\n---\n\n## Context Files\n\n### notes.txt\n```txt\n"
        + "Größe " * 100 + "\n```").encode()) // 4)  # fmt: skip
    assert context.is_estimate
    assert context.size == f"about {context.total:,} tokens"


def test_the_text_has_bars_changes_and_a_body_that_is_cut(project: Path) -> None:
    request = tell(Usage(900, 5), prompt="Rome " * 1000, system_prompt="Lead.")
    lines = str(request).splitlines()
    assert lines[0] == "a · script/a · 0/2 · 900 tokens · as it would be sent over openai; " \
        "a script model is sent no body"  # fmt: skip
    assert "prompt               854   95%  ████████████████████████████" in lines
    at = lines.index("since the previous turn:")
    assert lines[at + 1] == '+ new reply: "hm", calls look_up'
    assert any(line.startswith("body (openai, ") for line in lines)
    assert lines[-1] == '… cut; in full: .request("0/2").body'
    assert f"{5000 - MAX_TEXT:,} more characters" in str(request)
    assert "Rome " * 1000 in request.format(whole=True)
    assert repr(request) == "SentRequest(a, 0/2, openai, 900 tokens)"
