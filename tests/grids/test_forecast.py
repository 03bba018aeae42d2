"""The forecast of a grid: requests and their price, before it begins and while it runs."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, Response, Usage
from axe_nb.agents.config import config_path
from axe_nb.exploring.run_grid import GridRunner

pytestmark = pytest.mark.req("E-7")


@pytest.fixture(autouse=True)
def models(project: Path) -> None:
    config_path().parent.mkdir(parents=True)
    prices = "\n".join(
        f'[prices."script/{name}"]\ninput = {price}\noutput = 0' for name, price in PRICES.items()
    )
    config_path().write_text(prices, "utf-8")

    def answer(request: Request) -> Any:
        usage = Usage(1000, 10, cached_tokens=0)
        if request.tools and request.turn < 3:
            calls = axe_nb.call("list_dir", path=".")
            return Response("", (calls,), "tool_calls", usage)
        return Response("Rome", (), "stop", usage)

    for name in ("dear", "cheap", "free"):
        axe_nb.script(name)(answer)


PRICES = {"dear": 1000, "cheap": 1}
"""US dollars for a million tokens."""


class Seen:
    """A line that notes what it shows."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, text: str) -> None:
        self.texts.append(text)

    def finish(self, text: str) -> None: ...


def make(*names: str, **options: Any) -> GridRunner:
    agents = [Agent(name=name, model=f"script/{name}") for name in names]
    given = {"inputs": ["a" * 400, "b" * 400], "repeats": 2, "concurrency": 1}
    runner = GridRunner(options.pop("agents", agents), "{{ input }}", **{**given, **options})
    runner.check()
    return runner


def test_it_begins_with_the_requests_and_the_price_of_the_prompts() -> None:
    forecast = make("dear", "cheap").forecast
    assert forecast == "8 requests, about $0.40 for the prompts alone"


def test_it_tells_no_price_if_that_of_one_variant_is_unknown() -> None:
    assert make("dear", "free").forecast == "8 requests"


def test_with_tools_it_is_the_least_that_is_asked() -> None:
    tools = Agent(name="tools", model="script/dear", tools=("list_dir",))
    runner = make(agents=[tools, Agent(name="cheap", model="script/cheap")])
    assert runner.forecast.startswith("at least 8 requests, about $")


def test_it_counts_the_judge() -> None:
    axe_nb.script("grader")(lambda request: {"score": 1, "reason": "so"})
    runner = make("cheap", judge=Agent(name="judge", model="script/grader"))
    assert runner.forecast.startswith("8 requests, about $")


def test_it_says_that_a_resume_file_spares_requests(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    make("free", resume=path).run(Seen())
    assert make("free", resume=path).forecast == "4 requests, minus what is in the resume file"


def test_it_is_shown_while_the_grid_runs() -> None:
    seen, asked = Seen(), itertools.count(1)

    async def answer(_: Request) -> Response:
        number, before = next(asked), len(seen.texts)
        while number in (1, 8) and len(seen.texts) == before:  # noqa: ASYNC110  # a line is no event
            await asyncio.sleep(0.01)
        return Response("Rome", (), "stop", Usage(1000, 10, cached_tokens=0))

    for name in ("dear", "cheap"):
        axe_nb.script(name)(answer)
    runner = make("dear", "cheap")
    runner.run(seen)
    assert seen.texts[0].startswith("8 requests, about $0.40 for the prompts alone · grid: ")
