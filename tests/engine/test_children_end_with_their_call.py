"""No child outlives the call that started it, and nothing happens after the root's end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Request, RunResult
from axe_nb.events import RunStarted
from tests.engine.in_process import (
    agent,
    ask,
    check_events,
    check_history,
    lead,
    said,
    stage,
    texts,
)

pytestmark = pytest.mark.req("D-57")


def scene(fn: Any) -> tuple[Any, list[str]]:
    """A lead whose tool `both` is `fn(ctx)`; children `quick`, `slow` and `broken`; a log."""
    log: list[str] = []

    async def slow(_: Request) -> str:
        log.append("slow begins")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            log.append("slow is cancelled")
            raise
        return "late"

    def broken(_: Request) -> str:
        raise axe_nb.ProviderError("server", "down")

    made = stage(
        agent("lead", said(axe_nb.call("both"), "done"), tools=("both",)),
        agent("quick", "here"), agent("slow", slow), agent("broken", broken),
    )  # fmt: skip
    axe_nb.tool(name="both")(fn)
    return made, log


def test_a_gather_of_which_one_child_fails_leaves_none_running() -> None:
    async def both(ctx: axe_nb.ToolContext) -> str:
        async def checked(name: str) -> str:
            return (await ctx.delegate("x", agent=name)).raise_for_status().text

        return " ".join(await asyncio.gather(checked("slow"), checked("broken")))

    made, log = scene(both)
    result = made.play()
    assert [(c.agent, c.status) for c in result.children] == [
        ("slow", "cancelled"), ("broken", "error"),
    ]  # fmt: skip
    assert log == ["slow begins", "slow is cancelled"]
    assert result.text == "done"
    assert "server: down" in texts(result)[0]
    check_events(made.events, result)
    check_history(result.messages)


def test_the_first_child_that_answers_ends_the_others() -> None:
    async def both(ctx: axe_nb.ToolContext) -> str:
        tasks = [asyncio.ensure_future(ctx.delegate("x", agent=n)) for n in ("slow", "quick")]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result().text

    made, log = scene(both)
    result = made.play()
    assert texts(result) == ["here"]
    assert [(c.agent, c.status) for c in result.children] == [
        ("slow", "cancelled"), ("quick", "completed"),
    ]  # fmt: skip
    assert log[-1] == "slow is cancelled"
    assert result.total_usage.total == sum(r.usage.total for r in result.walk())
    check_events(made.events, result)


def test_a_context_that_is_kept_starts_nothing_after_its_call() -> None:
    kept: list[Any] = []

    async def both(ctx: axe_nb.ToolContext) -> str:
        kept.append(ctx)
        return "kept"

    made, _ = scene(both)

    async def work() -> None:
        await made.ask()
        with pytest.raises(axe_nb.ToolError, match="this call has ended"):
            await kept[0].delegate("x", agent="quick")

    asyncio.run(work())
    assert [e.run for e in made.events if isinstance(e, RunStarted)] == ["0"]


@pytest.mark.req("D-59")
def test_a_key_tells_children_apart_in_any_order() -> None:
    async def both(ctx: axe_nb.ToolContext) -> str:
        results = await asyncio.gather(
            ctx.delegate("x", agent="quick", key="west"),
            ctx.delegate("x", agent="quick", key="east"),
        )
        return " ".join(r.id for r in results)

    made, _ = scene(both)
    result = made.play()
    assert texts(result) == ["0.1-west 0.1-east"]
    assert [c.id for c in result.children] == ["0.1-east", "0.1-west"]


@pytest.mark.req("D-59", "D-2")
@pytest.mark.parametrize(
    ("key", "told"),
    [("x", "already"), *[(key, "not a valid key") for key in ("a.b", 0.5, -1, b"x", ("a",))]],
)
def test_a_key_that_is_taken_or_none_is_refused(key: Any, told: str) -> None:
    async def both(ctx: axe_nb.ToolContext) -> str:
        await ctx.delegate("x", agent="quick", key="x")
        await ctx.delegate("x", agent="quick", key=key)
        return "no"

    made, _ = scene(both)
    result = made.play()
    assert told in texts(result)[0]
    assert len(result.children) == 1


@pytest.mark.req("D-8")
def test_a_child_delegated_from_another_event_loop_ends_with_its_call() -> None:
    def both(ctx: axe_nb.ToolContext) -> str:
        return asyncio.run(ctx.delegate("x", agent="slow")).text

    made, log = scene(both)
    result = made.play(timeout=0.5)
    assert [(c.agent, c.status) for c in result.children] == [("slow", "timeout")]
    assert log == ["slow begins", "slow is cancelled"]
    check_events(made.events, result)


def nested(fn: Any) -> tuple[RunResult, list[Any]]:
    made, _ = scene(fn)
    return made.play(), made.events


def by_run() -> str:
    return axe_nb.run("quick", "hello").text


async def by_arun() -> str:
    return (await axe_nb.arun("quick", "hello")).text


def by_a_loop_of_its_own() -> str:
    async def two() -> list[RunResult]:
        return await asyncio.gather(*(axe_nb.arun("quick", "hello") for _ in range(2)))

    return asyncio.run(two())[0].text


@pytest.mark.parametrize(("fn", "count"), [(by_run, 1), (by_arun, 1), (by_a_loop_of_its_own, 2)])
def test_a_run_in_a_tool_is_a_child(fn: Any, count: int) -> None:
    result, events = nested(fn)
    assert texts(result) == ["here"]
    assert len(result.children) == count
    child = result.children[0]
    assert (child.id, child.agent, child.prompt) == ("0.1", "quick", "hello")
    assert child.metadata["depth"] == "1"
    assert result.total_usage.total > result.usage.total
    check_events(events, result)


def test_a_run_in_a_tool_counts_as_a_level() -> None:
    def both() -> str:
        return axe_nb.run("again", "hello").text

    made, _ = scene(both)
    again = said(axe_nb.call("both"), lambda request: request.results[0].content)
    made.session.define(agent("again", again, tools=("both",)))
    result = made.play()
    assert max(r.id.count(".") for r in result.walk()) == 3
    deepest = next(r for r in result.walk() if r.id.count(".") == 3)
    assert "maximum sub-agent depth (3) reached; raise" in deepest.text


@pytest.mark.parametrize("name", ["run", "stream"])
def test_what_starts_no_child_in_an_async_tool_names_what_does(name: str) -> None:
    async def both() -> str:
        if name == "run":
            return axe_nb.run("quick", "hello").text
        return str([event async for event in axe_nb.stream("quick", "hello")])

    [told] = texts(nested(both)[0])
    assert f"axe_nb.{name} was called inside " in told
    assert "axe_nb.arun" in told
    assert "ctx.delegate" in told


def test_the_folder_of_a_run_in_a_tool_reaches_its_descendants(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/answer.toml").write_text('[[rule]]\ntext = "from the folder"')
    lead(ask("child"), name="boss").save(folder)
    axe_nb.Agent("child", "script/answer").save(folder)

    def both() -> str:
        return axe_nb.run("boss", "go", agents_dir=str(folder)).text

    result, events = nested(both)
    assert texts(result) == ["from the folder"]
    assert [r.id for r in result.walk()] == ["0", "0.1", "0.1.1"]
    check_events(events, result)
