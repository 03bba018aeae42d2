"""Cassettes as an adversary attacked them: order, variants, cuts, clocks, masks, paths, people."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ProviderError, Request, call, script, script_server
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.recording.same_request import is_same, list_changes
from axe_nb.session.session import session
from axe_nb.tools.tool import ToolContext
from tests.pictures.samples import png
from tests.recording.runs import (
    call_once,
    count_up,
    define,
    record,
    record_with,
    replay,
    without_times,
)

pytestmark = pytest.mark.usefixtures("project")


def test_a_child_that_its_tool_gave_up_on_does_not_cancel_the_replay() -> None:
    @axe_nb.tool(read_only=True)
    async def race(ctx: ToolContext) -> str:
        """Waits for a moment only."""
        try:
            return (await asyncio.wait_for(ctx.delegate("x", agent="slow"), 0.2)).text
        except TimeoutError:
            return "too slow"

    @script("slow")
    async def slow(_: Request) -> str:
        await asyncio.sleep(5)
        return "late"

    call_once(call("race"))
    define(name="slow")
    define(tools=("race",), sub_agents=("slow",))
    assert record().text == "too slow"
    assert replay().text == "too slow"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("spawn_agent", {"task": "work"}),
        ("delegate_task", {"task": "all", "subtasks": [{"task": "work"}]}),
    ],
)
def test_reported_seconds_are_not_compared(tool: str, arguments: dict[str, Any]) -> None:
    @script("one")
    async def one(request: Request) -> Any:
        if "work" in request.system + request.last and not request.results:
            await asyncio.sleep(0.3)
            return "worked"
        return call(tool, **arguments) if request.turn == 1 else "done"

    define(tools=(tool,))
    assert record().text == "done"
    assert Path("one.axe").read_text("utf-8").count("0 tool calls, …s") == 1
    assert replay().text == "done"


def test_a_secret_of_one_machine_only_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    count_up()
    define()
    for before, after in (("production-7", ""), ("", "production-7")):
        monkeypatch.setenv("DEPLOY_KEY", before)
        record("deploy to production-7 now")
        monkeypatch.setenv("DEPLOY_KEY", after)
        with axe_nb.cassette("one.axe", "replay"):
            assert axe_nb.run("one", "deploy to production-7 now").ok
            assert not axe_nb.run("one", "deploy to staging now").ok


def test_recorded_paths_are_those_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    @axe_nb.tool(read_only=True)
    def size(path: str) -> str:
        """Counts bytes."""
        asked.append(path)
        return f"{Path(path).stat().st_size} bytes in\n{path}"

    @script("one")
    def one(request: Request) -> Any:
        return call("size", path=f"{Path.cwd()}/a.txt") if request.turn == 1 else request.last

    define(tools=("size",))
    texts = []
    for folder, mode in (("here", "record"), ("there", "replay")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        Path("a.txt").write_text("four", "utf-8")
        with script_server("openai"), axe_nb.cassette(tmp_path / "a.axe", mode):  # type: ignore[arg-type]
            texts.append(axe_nb.run("one", "go").text)
    assert asked == [str(tmp_path / folder / "a.txt") for folder in ("here", "there")]
    assert texts == [f"4 bytes in\n{path}" for path in asked]
    assert str(tmp_path) not in (tmp_path / "a.axe").read_text("utf-8")


def test_questions_that_are_asked_at_once_keep_their_answers() -> None:
    @axe_nb.tool(read_only=True)
    async def where(town: str, ctx: ToolContext) -> str:
        """Asks the person."""
        await asyncio.sleep(random.random() / 50)
        return f"{town}={await ctx.ask(f'Go to {town}?')}"  # type: ignore[misc]

    call_once(*(call("where", town=town) for town in ("Rome", "Oslo", "Lima")))
    define(tools=("where",), mode="auto")

    async def answer(question: ApprovalRequest) -> Decision:
        return Decision("text", f"sure, {question.detail[6:10]}")

    first = record_with(answer)
    assert first.text == "Rome=sure, Rome / Oslo=sure, Oslo / Lima=sure, Lima"
    assert {replay().text for _ in range(10)} == {first.text}


def test_what_failed_is_asked_again_where_it_may_be() -> None:
    broken = True

    @script("one")
    def one(_: Request) -> str:
        if broken:
            raise ProviderError("server", "out of order", status=500)
        return "fine"

    define()
    with script_server("openai"), axe_nb.cassette("one.axe", "auto") as cassette:
        cassette.enter_cell("x")
        assert not axe_nb.run("one", "go").ok
        broken = False
        for _ in range(2):
            cassette.enter_cell("x")
            assert axe_nb.run("one", "go").text == "fine"
    assert replay().text == "fine"


def test_a_run_that_ended_in_a_tool_ends_again() -> None:
    @axe_nb.tool(read_only=True)
    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(0.3 if recording else 0)
        return "waited"

    call_once(call("wait"))
    define(tools=("wait",))
    recording = True
    assert record(timeout=0.15).status == "timeout"
    recording = False
    assert replay(timeout=60).status == "timeout"
    with script_server("openai"), axe_nb.cassette("one.axe", "auto"):
        assert axe_nb.run("one", "go", timeout=60).text == "waited"
    assert '"kind": "end"' not in Path("one.axe").read_text("utf-8")


def test_an_answer_from_a_recording_allows_no_host_later() -> None:
    async def answer(_: ApprovalRequest) -> Decision:
        return Decision("yes")

    call_once(call("fetch", url="http://example.invalid/x"))
    define(tools=("fetch",), mode="ask")
    record_with(answer)
    assert session.hosts.pop("example.invalid", 1) is None
    replay()
    assert "example.invalid" not in session.hosts


def test_a_named_endpoint_replays_where_it_is_not_set_up(tmp_path: Path) -> None:
    count_up()
    axe_nb.define(axe_nb.Agent(name="one", model="lab/one"))
    config = tmp_path / "config" / "axe" / "config.toml"
    config.parent.mkdir(parents=True)
    with script_server("ollama") as server, axe_nb.cassette("one.axe", "record"):
        text = f'[providers.lab]\nprotocol = "ollama"\nbase_url = "{server.base_url}"\n'
        config.write_text(text, "utf-8")
        first = axe_nb.run("one", "go")
    assert first.ok
    config.unlink()
    assert without_times(replay()) == without_times(first)
    with axe_nb.cassette("one.axe", "auto"):
        assert "unsupported provider" in (axe_nb.run("one", "new").error or "")


def test_another_picture_beside_the_same_words_is_a_miss_that_says_so() -> None:
    count_up()
    define()
    record(["look", png(colour=1)])
    with axe_nb.cassette("one.axe", "replay") as cassette:
        result = axe_nb.run("one", ["look", png(colour=2)])
    assert "at 0/1: its prompt changed in pictures: " in (result.error or "")
    assert len(cassette.missed) == 1


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            {"assistant": "", "calls": [{"tool": "a"}]},
            {"assistant": "", "calls": [{"tool": "b"}]},
            'its history changed in calls: [{"tool": "a"}] → [{"tool": "b"}]',
        ),
        (
            {"results": [{"tool": "a", "text": "no"}]},
            {"results": [{"tool": "a", "error": True, "text": "no"}]},
            "the result of a changed in error: nothing → true",
        ),
        (
            {"results": [{"tool": "a", "text": ""}]},
            {"results": []},
            'the result of a changed: "" → nothing',
        ),
    ],
)
def test_messages_that_differ_in_all_but_words_are_told_apart(
    before: dict[str, Any], now: dict[str, Any], words: str
) -> None:
    assert [*list_changes({"messages": [before]}, {"messages": [now]})] == [words]


@pytest.mark.parametrize(
    ("recorded", "asked", "same"),
    [
        ("use *** now", "use sk-1/2+3= now", True),
        ("use *** now", "use *** now", True),
        ("use *** now", "use  now", True),
        ("*** and ***", "one and two", True),
        ("-----BEGIN KEY-----***-----END", "-----BEGIN KEY-----\nab\ncd\n-----END", True),
        ("key: ***.", "key: -----BEGIN KEY-----\nab\n-----END KEY-----.", True),
        ("use *** now", "use it and sing now", False),
        ("Rules\n***\nBe kind.", "Rules\n\nBe rude.\n***\nBe kind.", False),
        ("It is ***so*** important", "It is not at all ***so*** important", False),
    ],
)
def test_a_mask_stands_for_a_secret_alone(recorded: str, asked: str, same: bool) -> None:
    assert is_same({"system": recorded}, {"system": asked}) is same
    assert is_same({"system": asked}, {"system": recorded}) is same
