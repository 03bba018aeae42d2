"""`%axe time R`: what the time of a finished run went to."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, RunResult, call, script, tool
from axe_nb.messages import ToolCall
from axe_nb.messages.exchanges import Lap
from axe_nb.views.html import twin
from axe_nb.views.timeline import COLOURS, MOST, NONE, PLAYED, Timeline
from tests.views.runs import PAYLOADS, ask, done, hostile_run, turn

pytestmark = pytest.mark.req("E-9")

WAITS = "waits for a retry 1.00 s, waits for you 1.00 s"


def timed() -> RunResult:
    """A run of ten seconds: a retry, a question, a child of three seconds and an answer."""
    child = done(
        agent="helper", id="0.2", call_id="b", task="look", log=(turn(1, text="found"),),
        times=(Lap("run", 5.0, 8.0), Lap("model", 5.0, 8.0, 1)),
    )  # fmt: skip
    grep = ToolCall("a", "grep", {"pattern": "x"})
    first = turn(1, grep, ask("b", "helper", "look"), results=["1", "found"])
    laps = (
        Lap("run", 0.0, 10.0), Lap("retry", 1.0, 2.0, 1), Lap("model", 0.0, 3.0, 1),
        Lap("person", 3.0, 4.0, 1, 1), Lap("tool", 3.0, 5.0, 1, 1),
        Lap("tool", 5.0, 8.0, 1, 2), Lap("model", 8.0, 10.0, 2),
    )  # fmt: skip
    return done(log=(first, turn(2, text="ok")), children=(child,), times=laps)


def html_of(result: RunResult) -> str:
    return Timeline(result)._repr_mimebundle_()["text/html"]


def test_each_row_has_its_seconds_and_what_they_went_to() -> None:
    head, titles, *rows = str(Timeline(timed())).splitlines()
    assert head.startswith("✓ lead · ")
    assert titles.split() == ["from", "took", "of", "it"]
    assert [re.sub(r".*?(\d+\.\d+ s)", r"\1", row, count=1).split("  ") for row in rows] == [
        ["0.00 s", "10.00 s", f"model 4.00 s, its sub-agents 3.00 s, tool 1.00 s, {WAITS}"],
        ["3.00 s", "2.00 s", " tool 1.00 s, waits for you 1.00 s"],
        ["5.00 s", "3.00 s", " model 3.00 s"],
    ]


def test_each_bar_is_painted_as_the_time_went_and_kept_by_jupyterlab_without_trust() -> None:
    lead, *_, last = re.findall(r"linear-gradient\(90deg,([^)]*)\)", html_of(timed()))
    colours = dict.fromkeys(stop.split()[0] for stop in lead.split(","))
    kinds = ["model", "retry", "hatched", "person", "tool", "sub"]
    assert list(colours) == [COLOURS[kind] for kind in kinds]
    assert [stop.split()[-1] for stop in last.split(",")] == ["50%", "80%", "100%"]
    whole = replace(timed(), times=(Lap("run", 0.0, 10.0), Lap("model", 0.0, 10.0, 1)))
    bars = re.findall(r"linear-gradient\(90deg,([^)]*)\)", html_of(whole))
    assert all("," in stops for stops in bars), "a gradient of one stop is dropped"


def test_the_page_is_static_and_escapes_everything() -> None:
    bad = hostile_run()
    laps = tuple(Lap("tool", n, n + 1, 1, n + 1) for n in range(len(PAYLOADS)))
    page = html_of(replace(bad, times=(Lap("run", 0.0, 9.0), *laps))).lower()
    assert not re.search("<script|<img|<style", page)
    assert "<i style=" in page


def test_a_run_without_times_says_so_and_no_twin_has_any() -> None:
    old = replace(timed(), times=())
    assert twin(timed()) == twin(old)
    assert NONE in str(Timeline(old))
    assert NONE in html_of(old)


def test_a_run_of_two_thousand_children_has_a_bounded_page() -> None:
    calls = tuple(ask(f"c{n}", "helper", "look") for n in range(2000))
    laps = (Lap("run", 1.0, 2.0), Lap("model", 1.0, 2.0, 1))
    children = tuple(
        done(agent="helper", id=f"0.{n}", call_id=one.id, log=(turn(1, text="x"),), times=laps)
        for n, one in enumerate(calls, 1)
    )
    log = (turn(1, *calls, results=["x"] * 2000), turn(2, text="ok"))
    own = (Lap("tool", 1.0, 2.0 + n / 1000, 1, n + 1) for n in range(2000))
    result = done(log=log, children=children, times=(Lap("run", 0.0, 5.0), *own))
    page = html_of(result)
    assert page.count("<bdi") == MOST
    assert len(page) < 300_000
    assert "more rows; %axe time also takes a sub-agent's result" in unescape(page)
    assert len(str(Timeline(result)).splitlines()) < MOST + 10


@tool
def measure() -> str:
    """Measures."""
    return "7"


LEAD = Agent(
    "lead", "script/slow-lead", sub_agents=("helper",), tools=("measure",), mode="auto",
    retry={"max_retries": 1},
)  # fmt: skip


def define_models() -> None:
    @script("slow-lead")
    def _lead(request: axe_nb.Request) -> object:
        if request.turn == 1 and request.attempt == 1:
            raise ProviderError("rate_limit", "slow down", retry_after=0.01)
        calls = [call("call_agent", agent="helper", task="x"), call("measure")]
        return calls if request.turn == 1 else "done"

    script("helper-of-slow")(lambda request: "found")
    axe_nb.define(Agent("helper", "script/helper-of-slow"))


@pytest.fixture
def finished(project: Path) -> RunResult:
    define_models()
    return axe_nb.run(LEAD, "go")


def test_a_run_keeps_the_times_of_its_requests_calls_and_waits(finished: RunResult) -> None:
    assert finished.ok
    kinds = [lap.kind for lap in finished.times]
    assert kinds[0] == "run"
    assert sorted(kinds[1:]) == ["model", "model", "retry", "tool", "tool"]
    whole = finished.times[0]
    [child] = finished.children
    for lap in (*finished.times, *child.times):
        assert whole.began <= lap.began <= lap.ended <= whole.ended
    own = next(lap for lap in finished.times if (lap.turn, lap.call) == (1, 1))
    assert own.began <= child.times[0].began <= child.times[0].ended <= own.ended
    [wait] = [lap for lap in finished.times if lap.kind == "retry"]
    [first, _] = [lap for lap in finished.times if lap.kind == "model"]
    assert first.began <= wait.began < wait.ended <= first.ended


def test_calls_of_one_id_in_several_turns_have_their_own_times(project: Path) -> None:
    @script("same-id")
    def _same(request: axe_nb.Request) -> object:
        return [ToolCall("again", "measure", {})] if request.turn < 4 else "done"

    run = axe_nb.run(Agent("same", "script/same-id", tools=("measure",), mode="auto"), "go")
    laps = (Lap("tool", float(n), n + 1.0, n, 1) for n in (1, 2, 3))
    timed = Timeline(replace(run, times=(Lap("run", 0.0, 9.0), *laps)))
    rows = [row for row in str(timed).splitlines() if "measure" in row]
    assert [row.split("measure")[1].split()[0] for row in rows] == ["1.00", "2.00", "3.00"]


def test_a_replay_says_whose_time_it_is(project: Path) -> None:
    define_models()
    with axe_nb.cassette("tape.axe", mode="record"):
        recorded = axe_nb.run(LEAD, "go")
    with axe_nb.cassette("tape.axe", mode="replay"):
        played = axe_nb.run(LEAD, "go")
    assert recorded.ok
    assert played.ok
    assert "model" not in {lap.kind for run in played.walk() for lap in run.times}
    assert PLAYED in str(Timeline(played))
    assert PLAYED in html_of(played)
    assert PLAYED not in str(Timeline(recorded))


def test_a_sub_agent_that_a_fork_took_over_has_no_time_of_its_own(finished: RunResult) -> None:
    fork = finished.fork("0/2", reply="otherwise")
    [row] = [row for row in str(Timeline(fork)).splitlines() if " helper " in row]
    assert not re.search(r"\d s\b", row)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e308, -5.0, 1e15])
def test_times_that_no_clock_gives_are_left_out(bad: float) -> None:
    laps = (Lap("tool", bad, 5.0, 1, 2), Lap("tool", 5.0, bad, 1, 2))
    good = html_of(replace(timed(), times=timed().times[:-2]))
    assert html_of(replace(timed(), times=(*timed().times[:-2], *laps))) == good
    for run in (Lap("run", bad, 5.0), Lap("run", 5.0, bad)):
        assert NONE in str(Timeline(replace(timed(), times=(run, *laps))))
