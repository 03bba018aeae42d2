"""How deep delegation goes: who is offered call_agent, and who is refused it."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb import Agent, Request
from axe_nb.agents.tables import SubAgentsConfig
from tests.engine.in_process import agent, ask, heard, play

UNLIMITED_CHAIN = ("n0", "n1", "n2", "n3", "n4", "n5", "n6")


def chain(*max_depths: int, stubborn: bool = False) -> tuple[dict[str, bool], list[Agent]]:
    """Agents that each call the next where they may, or all the same; and who was offered it."""
    offered: dict[str, bool] = {}

    def member(number: int) -> Agent:
        name, after = f"n{number}", f"n{number + 1}"

        def model(request: Request) -> Any:
            offered[name] = bool(request.tools)
            may = request.tools or stubborn
            return ask(after) if request.turn == 1 and may else f"end of {name}"

        depth = max_depths[number] if number < len(max_depths) else 0
        return agent(
            name, model, sub_agents=(after,), sub_agents_config=SubAgentsConfig(max_depth=depth)
        )

    return offered, [member(number) for number in range(7)]


@pytest.mark.req("A-9.1", "A-9.3", "A-9.4", "A-10.1", "A-10.2", "A-10.3", "A-10.4", "A-D6", "D-3",
                 "A-E4.1", "A-E4.2", "A-E4.3", "A-E4.4", "A-E4.5", "A-E4.6", "A-E2.5", "A-E2.6",
                 "A-E2.7", "P-5", "P-6")  # fmt: skip
@pytest.mark.parametrize(("max_depth", "deepest"), [(0, 3), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)])
def test_a_tree_is_as_deep_as_its_root_says(max_depth: int, deepest: int) -> None:
    offered, agents = chain(max_depth)
    result = play(*agents)
    assert offered == {f"n{depth}": depth < deepest for depth in range(deepest + 1)}
    runs = list(result.walk())
    assert [run.agent for run in runs] == [f"n{depth}" for depth in range(deepest + 1)]
    assert [run.metadata.get("depth", "0") for run in runs] == [str(d) for d in range(deepest + 1)]
    assert (runs[-1].turns, runs[-1].tool_calls) == (1, 0), "the deepest is asked once"
    assert result.ok


@pytest.mark.req("A-7.3-5", "D-3", "A-7.3-o", "A-7.2")
@pytest.mark.parametrize(("max_depth", "deepest"), [(0, 3), (1, 1), (5, 5)])
def test_a_tool_that_was_not_offered_refuses_in_its_own_words(max_depth: int, deepest: int) -> None:
    _, agents = chain(max_depth, stubborn=True)
    runs = list(play(*agents).walk())
    assert len(runs) == deepest + 1
    [refusal] = heard(runs[-1])
    assert refusal.is_error
    assert refusal.content == (f"call_agent error: maximum sub-agent depth ({deepest}) reached")
    assert runs[-1].text == f"end of n{deepest}"


@pytest.mark.req("D-3")
def test_a_child_can_lower_the_limit_below_itself() -> None:
    offered, agents = chain(5, 2)
    play(*agents)
    assert offered == {"n0": True, "n1": True, "n2": False}


@pytest.mark.req("A-9.1", "D-44", "A-9.2", "A-E2.1")
@pytest.mark.parametrize(
    ("sub_agents", "config"),
    [((), SubAgentsConfig(max_depth=2)), (("n1",), SubAgentsConfig(enabled=False))],
)
def test_without_sub_agents_or_switched_off_there_is_no_tool(
    sub_agents: tuple[str, ...], config: SubAgentsConfig
) -> None:
    seen: list[Request] = []

    def model(request: Request) -> Any:
        seen.append(request)
        return ask("n1")

    result = play(agent("boss", model, sub_agents=sub_agents, sub_agents_config=config))
    assert (result.status, result.turns, result.tool_calls) == ("completed", 1, 0)
    assert not seen[0].tools
