"""A result and its messages as data: changed copies, pickles, what failed, what had arrived."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, call, script_server
from axe_nb.agents.prompt import Briefing, brief
from axe_nb.engine.limits import Clock
from axe_nb.engine.loop import Run
from axe_nb.engine.plan import make_plan
from axe_nb.engine.scope import AgentSource, Env, RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import TextDelta, TurnStarted
from axe_nb.messages import Delta
from axe_nb.tools.tool import Job, Limits
from tests.engine.in_process import agent, play, said, stage, tool
from tests.protocols import PROTOCOLS, provider_of


@pytest.mark.req("D-32")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("way", ["replace", "deepcopy", "pickle"])
def test_a_changed_message_in_continue_from_is_what_is_sent(
    protocol: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{protocol.upper()}_API_KEY", "k")
    heard: list[Request] = []

    @axe_nb.script("echo")
    def echo(request: Request) -> str:
        heard.append(request)
        return f"turn {len(heard)}"

    with script_server(protocol):
        one = Agent("one", f"{provider_of(protocol)}/echo")
        first = play(one)
        changed = [replace(m, content="CHANGED") if m.role == "user" else m for m in first.messages]
        again = {
            "replace": lambda r: r, "deepcopy": copy.deepcopy,
            "pickle": lambda r: pickle.loads(pickle.dumps(r)),
        }[way](replace(first, messages=tuple(changed)))  # fmt: skip
        second = asyncio.run(stage(one).ask("more", continue_from=again))
    assert [m.content for m in heard[-1].messages] == ["CHANGED", "turn 1", "more"]
    assert [m.content for m in second.messages] == ["CHANGED", "turn 1", "more", "turn 2"]


def test_a_conversation_that_goes_on_with_another_model_says_so(project: Path) -> None:
    axe_nb.script("echo")(lambda request: request.last)
    axe_nb.script("other")(lambda request: request.last)
    one = Agent("one", "script/echo")
    first = axe_nb.run(one, "hi", model="script/other")
    again = axe_nb.run(one, "and?", continue_from=first)
    assert again.warnings == (
        "continued with script/echo instead of script/other: to keep that, use -m",
    )
    assert axe_nb.run(one, "and?", model="script/echo", continue_from=first).warnings == ()
    assert axe_nb.run(one, "and?", continue_from=again).warnings == ()


def test_a_failed_result_keeps_no_engine_alive() -> None:
    alive: list[weakref.ref[Run]] = []

    def crash(request: Request) -> str:
        runs = [one for one in gc.get_objects() if type(one) is Run]
        alive.extend(weakref.ref(one) for one in runs if one.plan.agent.name == "own")
        del runs
        raise ProviderError("server", "down")

    result = play(agent("own", crash))
    assert result.cause is not None
    assert result.cause.__traceback__ is None
    for thread in threading.enumerate():
        if thread.name == "axe-nb-call":  # it has answered, and is about to end
            thread.join()
    gc.collect()
    assert alive
    assert [ref() for ref in alive] == [None] * len(alive)


def writes(text: str, then: Any) -> Any:
    """A provider's `send` that hands out the text and then does `then`."""

    class Provider:
        name = "script"

        async def send(self, request: Request, on_delta: Any = None) -> Any:
            on_delta(Delta("thinking", "reasoning"))
            for word in text.split():
                on_delta(Delta(f"{word} "))
            return await then(request)

    return Provider()


def with_provider(provider: Any, timeout: float | None = None, **fields: Any) -> Any:
    """(result, events) of an agent whose provider it is."""
    events: list[Any] = []
    one = Agent("one", "script/x", **fields)

    async def read(agent: Agent) -> Briefing:
        return brief(agent)

    async def work() -> RunResult:
        source = AgentSource(load=lambda _: one, provider_for=lambda *_: provider, brief=read)
        env = Env(agents=source, emit=events.append, streams=True)
        scope = RunScope.root(one, Limits(seconds=timeout), env, Clock(timeout))
        run = Run(await make_plan(scope, Job(one, "go", "go")))
        task = asyncio.create_task(run.execute())
        if timeout is None:
            await asyncio.wait({task}, timeout=0.2)
            task.cancel()
        await asyncio.wait({task})
        assert run.result
        return run.result

    return asyncio.run(work()), events


@pytest.mark.req("D-23", "D-24")
def test_a_retry_starts_the_text_of_a_turn_anew_and_says_so() -> None:
    attempts: list[Request] = []

    async def second_time(request: Request) -> Any:
        attempts.append(request)
        if len(attempts) == 1:
            raise ProviderError("overloaded", "later", retry_after=0.01)
        return axe_nb.Response("one two", (), "stop")

    result, events = with_provider(writes("one two", second_time), 5.0, retry={"max_retries": 1})
    assert result.text == "one two"
    assert [(r.attempt, r.place) for r in attempts] == [(1, "0/1"), (2, "0/1")]
    deltas = [e for e in events if isinstance(e, TextDelta)]
    assert [(d.turn, d.attempt, d.kind, d.text) for d in deltas] == [
        (1, attempt, kind, text)
        for attempt in (1, 2)
        for kind, text in (("reasoning", "thinking"), ("text", "one "), ("text", "two "))
    ]
    assert sum(isinstance(e, TurnStarted) for e in events) == 1


class Strange(BaseException):
    """Neither an Exception nor one of Python's own."""


class Mute(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise self


@pytest.mark.req("D-2")
def test_the_error_of_a_run_is_one_line_of_a_bounded_length() -> None:
    def model(_: Request) -> Any:
        raise axe_nb.ProviderError("server", "down\n\x1b[31m" + "x" * 1_000_000)

    result = play(agent("one", model))
    assert result.error
    assert result.error.startswith("server: down ")
    assert len(result.error) <= 2000
    assert "\n" not in result.error
    assert "\x1b" not in result.error


@pytest.mark.req("D-2")
@pytest.mark.parametrize(
    "fault", [Strange("odd"), MemoryError("full"), LookupError("x\ny"), GeneratorExit("gone")]
)
def test_whatever_a_provider_raises_ends_the_run_with_a_result(fault: BaseException) -> None:
    async def then(_: Request) -> Any:
        raise fault

    result, events = with_provider(writes("so far", then), 5.0)
    told = " ".join(f"{type(fault).__name__}: {fault}".split())
    assert (result.status, result.error, result.text) == ("error", told, "so far ")
    assert events[-1].result is result


@pytest.mark.req("D-2", "X-30", "A-13.1", "X-37")
@pytest.mark.parametrize(
    "fault",
    [
        Strange("odd"), SystemExit(3), asyncio.CancelledError("x"), GeneratorExit(), Mute(),
        ValueError("bad n"), KeyError("k"), StopIteration(), ProviderError("auth", "not yours"),
        KeyboardInterrupt("2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["plain", "async", "raw"])
def test_whatever_a_tool_raises_is_told_to_the_model(fault: BaseException, kind: str) -> None:
    def plain() -> str:
        raise fault

    async def slow() -> str:
        raise fault

    async def raw(_: Any) -> str:
        raise fault

    mine = {"plain": plain, "async": slow}.get(kind)
    if mine:
        axe_nb.tool(name="odd")(mine)
    calls = [call("odd"), call("nothing")]
    result = play(
        agent("boss", said(calls, lambda r: r.results[0].content), tools=("odd",) if mine else ()),
        **({} if mine else {"tools": (tool("odd", raw),)}),
    )  # fmt: skip
    assert result.ok
    assert result.log[0].results[0].is_error
    assert len(result.log[0].results) == 2
    assert result.text.startswith("Error: ")
    assert type(fault).__name__ in result.text
    assert isinstance(fault, Mute) or str(fault) in result.text


@pytest.mark.req("D-8", "D-24")
@pytest.mark.parametrize("how", ["ends", "answers", "fails"])
@pytest.mark.parametrize("timeout", [0.1, None])
def test_whatever_a_provider_makes_of_its_cancelling_the_text_that_has_arrived_is_kept(
    how: str, timeout: float | None
) -> None:
    async def then(_: Request) -> Any:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if how == "ends":
                raise
            if how == "fails":
                raise ProviderError("server", "the connection broke") from None
        return axe_nb.Response("as if nothing had happened", (), "stop")

    result, events = with_provider(writes("so far", then), timeout)
    assert result.status == ("timeout" if timeout else "cancelled")
    assert result.text == "so far "
    assert events[-1].result is result
