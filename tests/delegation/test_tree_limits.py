"""`[limits]`: caps for a run and everything below it, whatever way it was started."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from axe_nb import ProviderError, Request, Response, Usage, call
from axe_nb.agents.agent_tables import Retry, SubAgentsConfig, TreeLimits
from tests.delegation.chains import WAYS, Chain, by
from tests.delegation.copies import boss, play
from tests.engine.in_process import agent, check_events, heard, said, stage


def requests(result: Any) -> int:
    return sum(one.turns for one in result.walk())


@pytest.mark.req("D-5")
def test_children_side_by_side_share_the_cap_exactly() -> None:
    sent: list[str] = []

    async def child(request: Request) -> str:
        sent.append(request.agent)
        await asyncio.sleep(0.01)
        return "done"

    calls = [by("spawn_agent", n) for n in range(8)]
    lead = boss({"": child}, *calls, tools=("spawn_agent",), limits=TreeLimits(max_requests=5))
    made = stage(lead)
    result = made.play()
    assert len(sent) == 4, "and one of the lead's own"
    assert [one.status for one in result.children] == ["completed"] * 4
    refused = [answer for answer in heard(result) if answer.is_error]
    assert len(refused) == 4
    assert all("limits.max_requests (5) of lead reached" in one.content for one in refused)
    assert result.status == "error"
    check_events(made.events, result)


@pytest.mark.req("D-2")
def test_a_reached_cap_says_who_spent_what() -> None:
    calls = [by(way, 1) for way in WAYS]

    def model(request: Request) -> Any:
        if request.agent == "lead":
            return calls if request.turn == 1 else "done"
        return "said"

    lead = agent(
        "lead", model, tools=WAYS[1:], sub_agents=("helper",), limits=TreeLimits(max_requests=6)
    )
    result = stage(lead, agent("helper", "said")).play()
    assert result.error == (
        "limits.max_requests (6) of lead reached: "
        "sub 1 2, subtask 0 1, spawn_agent 1, lead 1, helper 1 requests"
    )
    assert result.text == "", "the text so far"
    assert len(result.children) == 4
    assert len(heard(result)) == 4, "every call has its result"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.req("D-2")
def test_tokens_are_capped_for_the_whole_tree(way: str) -> None:
    def reply(level: int, request: Request) -> Any:
        if level == 0:
            one = by(way, 1) if request.turn < 20 else "done"
            calls = () if isinstance(one, str) else (one,)
            return Response("", calls, usage=Usage(5, 5))
        return Response("said", usage=Usage(50, 50))

    result = Chain((), reply).play(limits=TreeLimits(max_total_tokens=500))
    assert result.status == "max_tokens"
    assert str(result.error).startswith("limits.max_total_tokens (500) of lead reached: ")
    spent = result.total_usage.total
    assert 500 <= spent < 500 + 110, "no request is begun once it is reached"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.req("D-3", "D-4")
def test_a_copy_counts_for_its_callers_cap_and_a_named_agent_for_its_own_too(way: str) -> None:
    """The helper may send two requests; its tree ends at that, the lead goes on."""
    made = Chain(("call_agent", way, way)).set_up(sub_agents_config=SubAgentsConfig(max_depth=5))
    helper = made.session.agents["helper"]
    made.session.define(type(helper)(**{**vars(helper), "limits": TreeLimits(max_requests=2)}))
    result = made.play()
    assert result.ok
    below = result.children[0]
    assert requests(below) == 2
    [answer] = heard(result)
    assert answer.is_error
    assert "limits.max_requests (2) of helper reached" in answer.content


@pytest.mark.req("D-23")
def test_a_retry_is_a_request_too() -> None:
    tries: list[int] = []

    def model(request: Request) -> Any:
        tries.append(1)
        raise ProviderError("rate_limit", "slow down", retry_after=0.001)

    lead = agent("lead", model, retry=Retry(max_retries=9), limits=TreeLimits(max_requests=3))
    result = stage(lead).play()
    assert len(tries) == 3
    assert result.status == "error"


@pytest.mark.req("D-2", "D-17")
def test_where_no_request_is_left_for_the_summary_the_last_words_are_kept() -> None:
    result = play(
        {"scout": said("what I found", "summary")},
        call("subagent", label="scout", task_prompt="t"),
        tools=("subagent",),
        limits=TreeLimits(max_requests=2),
    )
    scout = result.children[0]
    assert (scout.status, scout.text) == ("error", "what I found")
    assert scout.metadata["completion_status"] == "incomplete"
    assert "max_turns_reached" not in scout.metadata, "it was not its own limit"
    assert heard(result)[0].is_error
    assert heard(result)[0].content.endswith("Its text so far:\nwhat I found")
