"""What runs cost: prices, sums of trees, recordings, caps, and the budget of a session."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, call, script_server
from axe_nb.agents.agent_tables import TreeLimits
from axe_nb.agents.user_config import Config, config_path
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.messages import Response, Usage
from axe_nb.providers.prices import Prices
from axe_nb.scripting.wire import Protocol
from axe_nb.session.session import Session, session
from axe_nb.text import format_dollars
from axe_nb.views.axe_text import verbose_footer
from axe_nb.views.outline import as_text
from tests.engine.in_process import agent, ask, ask_session, lead
from tests.files import settings
from tests.protocols import PROTOCOLS, provider_of

PRICE = "input = 3\noutput = 15\ncached_input = 0.3\ncache_write = 3.75\n"

SUMS = {
    "anthropic": (1000 * 3 + 8000 * 0.3 + 2000 * 3.75 + 500 * 15) / 1e6,
    "openai": (3000 * 3 + 8000 * 0.3 + 500 * 15) / 1e6,
    "responses": (1000 * 3 + 8000 * 0.3 + 2000 * 3.75 + 500 * 15) / 1e6,
    "ollama": (11000 * 3 + 500 * 15) / 1e6,
}
"""Protocol → what the reply costs, by hand; reasoning is part of the output."""


def price(*models: str, table: str = PRICE) -> str:
    return "".join(f'[prices."{model}"]\n{table}' for model in models)


def ask_server(protocol: Protocol, model: str) -> RunResult:
    """The run of a model whose server counts tokens of every kind."""
    usage = Usage(11000, 500, cached_tokens=8000, cache_write_tokens=2000, reasoning_tokens=400)
    axe_nb.script(model)(lambda request: Response("yes", (), "stop", usage))
    with script_server(protocol):
        return axe_nb.run(Agent("one", f"{provider_of(protocol)}/{model}"), "go")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_costs_what_a_hand_made_sum_says_and_without_a_price_it_is_unknown(
    protocol: Protocol, project: Path
) -> None:
    settings(price(f"{provider_of(protocol)}/m"))
    result, cost = ask_server(protocol, "m"), format_dollars(SUMS[protocol])
    assert result.cost == pytest.approx(SUMS[protocol], rel=1e-12)
    assert result.total_cost == result.cost
    assert f" · {cost}" in as_text(result)
    assert f"\nCost:     {cost}\n" in verbose_footer(result)
    unknown = ask_server(protocol, "gpt-5")
    assert unknown.ok
    assert (unknown.cost, unknown.total_cost) == (None, None), "a server of another address"
    assert "$" not in as_text(unknown) + verbose_footer(unknown)


def test_the_table_prices_the_models_of_those_who_sell_them() -> None:
    usage = Usage(10_000, 500, cached_tokens=8000, cache_write_tokens=1000, reasoning_tokens=100)
    settings('[providers.groq]\nprotocol = "openai"\nbase_url = "https://api.groq.com/openai"\n')
    prices = Prices(Config.load())

    def cost(model: str) -> float | None:
        return asyncio.run(prices.find_cost(model, usage))

    by_hand = (1000 * 3 + 8000 * 0.3 + 1000 * 3.75 + 500 * 15) / 1e6
    assert cost("anthropic/claude-sonnet-4-5") == pytest.approx(by_hand)
    assert cost("openai/gpt-5") is not None
    assert cost("groq/llama-3.3-70b-versatile") is not None
    for model in ("openai/no-such-model", "ollama/llama3.2", "script/one", "nowhere/x", "odd"):
        assert cost(model) is None
    assert asyncio.run(prices.find_cost("openai/gpt-5", Usage())) is None, "nothing was counted"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[prices."a/b"]\ninput = 1\n', "prices.a/b.output is missing"),
        ('[prices."a/b"]\ninput = -1\noutput = 1\n', "prices.a/b.input must be non-negative"),
        ('[prices."a/b"]\ninput = "x"\noutput = 1\n', "prices.a/b.input must be a number"),
        ('[prices."a/b"]\ninput = 1\noutput = 1\ncached = 1\n', 'unknown key "prices.a/b.cached"'),
        ("[prices.gpt]\ninput = 1\noutput = 1\n", "prices.gpt must be the price of a model"),
        ("prices = 3\n", "prices must be tables"),
    ],
)
def test_a_wrong_price_is_an_error_that_names_its_key(text: str, told: str) -> None:
    settings(text)
    with pytest.raises(ConfigError) as raised:
        Config.load()
    assert told in str(raised.value)


def tree() -> None:
    """A lead that asks a child twice; replies with cached tokens."""
    replies = iter([Usage(2000, 100, cached_tokens=1000), Usage(500, 20, reasoning_tokens=10)])

    def model(request: Request) -> Any:
        if request.turn == 1:
            return Response("", (ask("child"), ask("child")), "tool_use", Usage(1000, 50))
        return Response("done", usage=Usage(4000, 10, cached_tokens=3000))

    axe_nb.define(agent("lead", model, sub_agents=("child",)))
    axe_nb.define(agent("child", lambda _: Response("ok", usage=next(replies))))


BY_HAND = (
    (1000 * 3 + 50 * 15) + (1000 * 3 + 3000 * 0.3 + 10 * 15)
    + (1000 * 3 + 1000 * 0.3 + 100 * 15) + (500 * 3 + 20 * 15)
) / 1e6  # fmt: skip


def test_a_recorded_tree_costs_the_hand_made_sum_whatever_prices_become(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    settings(price("script/lead", "script/child"))
    tree()
    with axe_nb.cassette("tree.axe", "record"):
        first = axe_nb.run("lead", "go")
    assert first.total_cost == pytest.approx(BY_HAND, rel=1e-12)
    assert first.cost == pytest.approx(
        (5 * 1000 * 3 - 3000 * 3 + 3000 * 0.3 + 60 * 15) / 1e6, rel=1e-12
    )
    spent = session.budget.spent
    assert spent == pytest.approx(BY_HAND)
    first.save("first.axe-run")
    config_path().unlink()
    session.budget.set(0.000001)
    with axe_nb.cassette("tree.axe", "replay"):
        again = axe_nb.run("lead", "go")
    assert (again.cost, again.total_cost) == (first.cost, first.total_cost)
    assert as_text(again) == as_text(first)
    assert session.budget.spent == spent, "what is played again costs nothing"
    loaded = axe_nb.load("first.axe-run")
    assert (loaded.cost, loaded.total_cost) == (first.cost, first.total_cost)
    same = RunResult.from_dict(json.loads(json.dumps(first.to_dict(full=True))))
    assert same.total_cost == first.total_cost
    assert first.to_dict()["total_cost"] == first.total_cost
    [row] = axe_nb.history()
    assert row.cost == first.total_cost
    assert axe_nb.load(row.id).total_cost == first.total_cost
    assert format_dollars(BY_HAND) in repr(axe_nb.history())


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(0, "$0.00"), (1234.5, "$1,234.50"), (1, "$1.00"), (0.999, "$1.00"), (0.4, "$0.40"),
     (0.123, "$0.12"), (0.0123, "$0.012"), (0.01, "$0.010"), (0.00456, "$0.0046"),
     (0.0000123, "$0.000012"), (1e-9, "< $0.000001"), (math.nan, "$nan")],
)  # fmt: skip
def test_prices_show_the_digits_that_count(dollars: float, shown: str) -> None:
    assert format_dollars(dollars) == shown


def spender(turns: int = 0, **limits: Any) -> Agent:
    """An agent that answers at that turn, 0 = at none; each costs $0.0045."""

    def model(request: Request) -> Response:
        more = () if request.turn == turns else (call("list_dir", path="."),)
        return Response("done", more, "stop", Usage(1000, 100))

    return agent("spender", model, tools=("list_dir",), limits=TreeLimits(**limits))


@pytest.mark.req("D-64")
def test_max_cost_ends_a_run_and_names_the_key(project: Path) -> None:
    settings(price("script/spender"))
    result = axe_nb.run(spender(max_cost=0.01), "go")
    assert (result.status, result.turns) == ("error", 3)
    assert result.error == "limits.max_cost ($0.010) of spender reached: spender $0.013"


@pytest.mark.req("D-64")
def test_max_cost_without_a_price_is_an_error_before_anything_is_sent(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    axe_nb.script("one")(asked.append)
    with pytest.raises(ConfigError) as raised:
        axe_nb.run(Agent("one", "script/one", limits=TreeLimits(max_cost=1)), "go")
    assert asked == []
    assert str(raised.value) == (
        'limits.max_cost cannot be enforced: the price of the model "script/one" is unknown'
    )
    assert '[prices."script/one"]' in raised.value.hint


def run_within(
    one: Agent, *answers: Decision, budget: float = 0.01
) -> tuple[RunResult, Session, list[ApprovalRequest]]:
    """A run in a session with a budget of one cent, and what the person was asked."""
    asked: list[ApprovalRequest] = []

    async def person(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return answers[len(asked) - 1]

    own = Session(agents=dict(session.agents))
    own.budget.set(budget)
    return asyncio.run(ask_session(own, one, "go", ask_person=person)), own, asked


def test_the_person_is_asked_before_the_budget_is_passed(project: Path) -> None:
    settings(price("script/spender"))
    result, own, asked = run_within(spender(5), Decision("yes"), Decision("yes"))
    assert result.ok
    assert own.budget.spent == pytest.approx(5 * 0.0045)
    assert own.budget.amount == pytest.approx(0.03)
    assert own.budget.held == pytest.approx(0)
    assert [one.raises for one in asked] == ["$0.020", "$0.030"]
    assert (
        "($0.010) would be exceeded: $0.0090 spent, this request about $0.0045" in asked[0].reason
    )


def test_a_first_request_is_expected_to_cost_what_the_models_last_reply_did(project: Path) -> None:
    settings(price("script/one"))
    axe_nb.script("one")(lambda request: Response("hi", usage=Usage(1000, 1000)))
    axe_nb.script("free")(lambda request: "hi")
    session.budget.set(0.03)
    one, free = Agent("one", "script/one"), Agent("free", "script/free")
    first = axe_nb.run(one, "go")
    assert first.cost == pytest.approx(0.018)
    assert "dollars" not in repr(first.total_usage)
    assert "this request about $0.018" in str(axe_nb.run(one, "go").error)
    session.budget.set(0.001)
    assert axe_nb.run(free, "go").ok, "a request of unknown price is not counted"


def test_a_budget_is_raised_by_whole_steps(project: Path) -> None:
    settings(price("script/spender"))
    _, _, asked = run_within(spender(5), Decision("no"), budget=0.002)
    assert asked[0].raises == "$0.010", "for $0.0045 spent and $0.0045 to come"


def test_a_no_ends_the_run_and_is_not_asked_again_in_its_tree(project: Path) -> None:
    settings(price("script/spender", "script/lead"))
    axe_nb.define(spender(9))
    root = lead(ask("spender"), ask("spender"), parallel=False)
    result, own, asked = run_within(root, Decision("no"))
    assert result.status == "error"
    assert "the budget of this notebook ($0.010) would be exceeded" in str(result.error)
    assert len(asked) == 1
    assert own.budget.spent <= 0.01
