"""Recordings replay as they were: trees, failures, cuts, decisions, results; under attack too."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, Request, RunResult, Usage, call, script, script_server
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.events import RunFinished, TextDelta
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.same_request import is_same, list_changes
from axe_nb.scripting.rules import Fault
from axe_nb.scripting.wire import Protocol
from axe_nb.session.session import session
from axe_nb.tools.tool import ToolContext
from tests.engine.in_process import agent, ask, exit_code, lead, over
from tests.pictures.samples import png
from tests.recording.runs import (
    call_once,
    count_up,
    define,
    every_protocol,
    interrupt,
    record,
    record_with,
    replay,
    replay_to_its_error,
    without_times,
)

pytestmark = pytest.mark.usefixtures("project")


TOWNS = ("Rome", "Oslo", "Lima", "Bern", "Riga", "Bonn", "Cork", "Nice")


def define_tree(protocol: str, child_prompt: str = "You know\none town.\nBe brief.") -> None:
    """A lead that asks guides, which answer in any order."""

    def lead(request: Request) -> Any:
        calls = tuple(ask("guide", f"About {town}") for town in TOWNS)
        answered = "\n".join(result.content for result in request.results)
        first = axe_nb.Response("Let me ask.", calls, "tool_use", Usage(100, 20))
        return answered if request.results else first

    async def guide(request: Request) -> str:
        await asyncio.sleep(random.random() / 50)
        return f"{request.last}: a fine town"

    asks = agent("lead", lead, system_prompt="You lead.", sub_agents=("guide",))
    for one in (asks, agent("guide", guide, system_prompt=child_prompt)):
        axe_nb.define(over(protocol, one))


@every_protocol
@pytest.mark.req("D-59")
def test_a_recorded_tree_replays_without_its_server(protocol: Protocol) -> None:
    define_tree(protocol)
    with script_server(protocol), axe_nb.cassette("tree.axe", "record") as recording:
        first = axe_nb.run("lead", "Compare")
        assert first.ok
        assert (recording.recorded, recording.hits) == (10, 0)
    with axe_nb.cassette("tree.axe", "replay") as replayed:  # no server, and no key
        again = axe_nb.run("lead", "Compare")
    assert without_times(again) == without_times(first)
    assert again.messages == first.messages
    assert (replayed.hits, replayed.misses, replayed.unused) == (10, 0, 0)


@pytest.mark.req("D-59")
def test_a_changed_prompt_of_a_child_is_named_and_only_it_is_asked_again() -> None:
    define_tree("openai")
    with script_server("openai"), axe_nb.cassette("tree.axe", "record"):
        axe_nb.run("lead", "Compare")
    define_tree("openai", "You know\none city.\nBe brief.")
    with axe_nb.cassette("tree.axe", "replay"):
        result = axe_nb.run("lead", "Compare")
    with pytest.raises(axe_nb.CassetteMiss) as miss:
        result.raise_for_status()
    assert miss.value.lines() == [
        "cassette tree.axe has no answer for agent guide at 0.1/1: its system prompt changed in "
        'line 2: "one town." → "one city."',
        "in agent lead, turn 1",
        'record it with axe_nb.cassette("tree.axe", "auto"), then run this again',
    ]
    with script_server("openai") as server, axe_nb.cassette("tree.axe", "auto") as recording:
        assert axe_nb.run("lead", "Compare").ok
        assert len(server.requests) == 8
        assert (recording.hits, recording.recorded) == (2, 8)
    with axe_nb.cassette("tree.axe", "replay"):
        assert axe_nb.run("lead", "Compare").ok


def echo() -> None:
    script("one")(lambda request: f"on {request.last}")
    define()


def keep_notes() -> list[str]:
    """Defines `one` with a tool that asks; returns the notes that the tool kept."""
    ran: list[str] = []

    @axe_nb.tool(writes=True)
    def keep(note: str) -> str:
        """Keeps a note."""
        ran.append(note)
        return "kept"

    define(tools=("keep",), mode="ask")
    return ran


async def say_yes(_: ApprovalRequest) -> Decision:
    return Decision("yes")


def fail_twice(request: Request) -> Any:
    if request.attempt < 3:
        raise ProviderError("rate_limit", "slow down", status=429, retry_after=0.3)
    return "fine"


def fail(request: Request) -> Any:
    raise ProviderError("server", "out of order", status=500)


def call_nothing(request: Request) -> Any:
    return [call("nope", a=[1, None, "ü"])] if request.turn == 1 else "done\nwith it"


@every_protocol
@pytest.mark.parametrize("model", [fail_twice, fail, call_nothing])
def test_a_run_replays_as_it_was_without_its_waits(model: Any, protocol: Protocol) -> None:
    asked: list[int] = []

    @script("one")
    def one(request: Request) -> Any:
        asked.append(request.turn)
        return model(replace(request, attempt=len(asked)))

    define(protocol, retry={"max_retries": 2}, tools=("read_file",))
    first, sent = record(protocol=protocol), len(asked)
    began = time.monotonic()
    again = replay()
    assert time.monotonic() - began < 0.25 + 0.5 * (model is not fail_twice)
    assert without_times(again) == without_times(first)
    assert (exit_code(again), again.messages) == (exit_code(first), first.messages)
    assert first.retries == (2 if model is not call_nothing else 0)
    assert len(asked) == sent


def test_an_interrupted_tree_replays_as_it_was() -> None:
    waiting = threading.Event()

    @script("one")
    async def one(request: Request) -> str:
        if "slow" in request.last:
            await asyncio.sleep(0.2)
            waiting.set()
            await asyncio.sleep(20)
        return "done"

    define()
    axe_nb.define(over("openai", lead(ask("one", "fast"), ask("one", "slow"))))
    with script_server("openai"), axe_nb.cassette("one.axe", "record"):
        first = asyncio.run(interrupt("lead", waiting.is_set))
    assert first.status == "cancelled"
    with axe_nb.cassette("one.axe", "replay"):
        again = axe_nb.run("lead", "go")
    assert without_times(again) == without_times(first)
    assert again.messages == first.messages


@every_protocol
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_stream_replays_piece_by_piece(is_cut: bool, protocol: Protocol) -> None:
    @script("one")
    async def one(_: Request) -> Any:
        for word in ("Ganz ", "schön ", "viel ", "🌍"):
            await asyncio.sleep(0.05)
            yield word
        if is_cut:
            yield Fault("cut")

    define(protocol)

    async def watch() -> tuple[str, RunResult]:
        events = [event async for event in axe_nb.stream("one", "go")]
        assert isinstance(events[-1], RunFinished)
        return "".join(e.text for e in events if isinstance(e, TextDelta)), events[-1].result

    with script_server(protocol), axe_nb.cassette("one.axe", "record"):
        said, first = asyncio.run(watch())
    with axe_nb.cassette("one.axe", "replay"):
        said_again, again = asyncio.run(watch())
    assert said == said_again == "Ganz schön viel 🌍"
    assert without_times(again) == without_times(first)
    assert first.ok is not is_cut


@pytest.mark.req("D-48")
def test_the_decisions_of_a_person_replay_without_one() -> None:
    ran = keep_notes()
    call_once(call("keep", note="first"), call("keep", note="second"))
    answers = [Decision("edit", arguments={"note": "edited"}), Decision("no", "not that")]

    async def answer(_: ApprovalRequest) -> Decision:
        return answers.pop(0)

    first = record_with(answer)
    assert ran == ["edited"]
    again = replay()
    assert ran == ["edited", "edited"]
    assert without_times(again) == without_times(first)
    assert "denied" in again.text


def test_a_tool_that_is_recorded_does_not_run_again_even_if_its_record_is_lost() -> None:
    ran: list[str] = []

    @axe_nb.tool(read_only=True, record=True)
    def clock() -> str:
        """Tells the time."""
        ran.append("clock")
        return f"{time.time_ns()}\nns"

    @axe_nb.tool(read_only=True, record=True)
    def broken() -> str:
        """Fails."""
        ran.append("broken")
        raise ValueError(f"at {time.time_ns()}")

    call_once(call("clock"), call("broken"))
    define(tools=("clock", "broken"))
    assert record().text == replay().text
    header, _, text = Path("one.axe").read_text("utf-8").partition("\n")
    kept = [one for one in json.loads(text) if one.get("kind") != "tool"]
    Path("one.axe").write_text(f"{header}\n{json.dumps(kept)}", "utf-8")
    missing = r"lacks the result of (clock|broken), which a replay does not run \(at 0\)"
    assert re.search(missing, replay_to_its_error())
    assert ran == ["clock", "broken"]


def test_equal_requests_keep_their_own_answers() -> None:
    count_up()
    define()
    with script_server("openai"), axe_nb.cassette("one.axe", "record"):
        first = [axe_nb.run("one", "go").text for _ in range(3)]
    with axe_nb.cassette("one.axe", "replay"):
        again = [axe_nb.run("one", "go").text for _ in range(3)]
        extra = axe_nb.run("one", "go")
    assert again == first == ["a", "b", "c"]
    assert extra.error == (
        "cassette one.axe has no answer for agent one at 0/1: nothing more is recorded for this "
        "request"
    )


def test_a_cell_that_runs_again_gets_its_own_answers_again() -> None:
    count_up()
    define()
    with script_server("openai"), axe_nb.cassette("one.axe", "auto") as cassette:
        for cell, expected in (("x", "a"), ("y", "b"), ("x", "a"), ("y", "b")):
            cassette.enter_cell(cell)
            assert axe_nb.run("one", "go").text == expected
        cassette.enter_cell("x")
        assert [axe_nb.run("one", "go").text for _ in range(2)] == ["a", "c"]


def test_a_new_cell_in_front_takes_no_answers_from_those_behind_it() -> None:
    echo()
    with script_server("openai"), axe_nb.cassette("one.axe", "auto"):
        axe_nb.run("one", "first")
        axe_nb.run("one", "second")
    before = Path("one.axe").read_text("utf-8").splitlines()[:-2]
    with script_server("openai") as server, axe_nb.cassette("one.axe", "auto") as cassette:
        for prompt in ("new", "first", "second"):
            assert axe_nb.run("one", prompt).text == f"on {prompt}"
        assert (len(server.requests), cassette.unused) == (1, 0)
    assert Path("one.axe").read_text("utf-8").splitlines()[: len(before)] == before


def test_records_that_nothing_uses_are_counted_and_removed() -> None:
    echo()
    record("first")
    record("second")
    with axe_nb.cassette("one.axe", "replay") as cassette:
        axe_nb.run("one", "second")
        assert cassette.format_status() == (
            "one.axe (replay): 1 replayed, 0 not found, 0 recorded; 1 not used"
        )
        assert cassette.prune() == 1
    records = json.loads(Path("one.axe").read_text("utf-8").partition("\n")[2])
    assert [one["asked"]["messages"] for one in records] == [[{"user": "second"}]]


def test_neither_secrets_nor_paths_are_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "zq8-Passw0rd\"with'quotes"
    monkeypatch.setenv("MY_DB_PASSWORD", secret)

    @script("one")
    def one(request: Request) -> str:
        return f"{request.last} and {Path.cwd()}/notes and {secret}"

    define(system_prompt=f"in {project}")
    record(f"use {secret} in {project}/x and {Path.home()}/y")
    kept = Path("one.axe").read_text("utf-8")
    assert secret not in kept
    assert json.dumps(secret)[1:-1] not in kept
    assert str(project) not in kept
    assert "⟨folder⟩/x and ⟨home⟩/y" in kept
    assert replay(f"use {secret} in {project}/x and {Path.home()}/y").ok


@pytest.mark.parametrize(
    "content",
    [
        "axe_nb cassette 2.0\n[\n<<<<<<< HEAD\n=======\n>>>>>>> b\n]\n",
        "", "hello", "axe_nb cassette 1.0\n[]", "axe_nb run 1.0\n[]", "axe_nb cassette 2.0\n{}",
        "axe_nb cassette 2.0\n[1]", "axe_nb cassette 2.0\n" + "[" * 100_000,
        'axe_nb cassette 2.0\n[{"root": 1, "place": "../x"}]',
        'axe_nb cassette 2.0\n[{"root": 1, "place": "0/1", "response": 3}]',
        'axe_nb cassette 2.0\n[{"root": 1, "place": "0/1", "response": {"seconds": "x"}}]',
        'axe_nb cassette 2.0\n[{"root": 1e9, "place": "0/1"}]',
        'axe_nb cassette 2.0\n[{"root": 1, "place": "0/1", "cut": "off"}]',
        'axe_nb cassette 2.0\n[{"root": 1, "place": "0", "kind": "person", "decision": 5}]',
        'axe_nb cassette 2.0\n[{"root": 1, "place": "0", "kind": "tool", "output": {}}]',
        'axe_nb cassette 2.0\n[{"root": 1, "place": "0/1", "asked": {"tools": ["a"]}}]',
    ],
)  # fmt: skip
def test_what_is_no_cassette_is_refused_in_one_line(content: str) -> None:
    Path("one.axe").write_text(content, "utf-8")
    with pytest.raises(axe_nb.ConfigError) as refused:
        Cassette("one.axe")
    assert "one.axe" in refused.value.message
    assert "\n" not in refused.value.message
    assert refused.value.hint or '"root"' not in content
    if "<<<" in content:
        assert "it has a merge conflict in line 3" in refused.value.message
        assert refused.value.hint.startswith("remove the conflict markers")
    assert Path("one.axe").read_text("utf-8") == content


def test_branches_that_both_recorded_may_be_merged() -> None:
    script("echo")(lambda request: request.last)
    agent = Agent(name="echo", model="script/echo")
    kept = []
    for branch in ("ours", "theirs"):
        with axe_nb.cassette(f"{branch}.axe", "record"):
            for prompt in ("before", branch):
                axe_nb.run(agent, prompt)
        kept.append(json.loads(Path(f"{branch}.axe").read_text("utf-8")[20:]))
    assert kept[0][1]["root"] == kept[1][1]["root"]
    both = json.dumps([*kept[0], kept[1][1]])
    Path("both.axe").write_text(f"axe_nb cassette 2.0\n{both}", "utf-8")
    prompts = ["before", "ours", "theirs"]
    for mode in ("replay", "auto", "replay"):
        with axe_nb.cassette("both.axe", mode) as cassette:  # type: ignore[arg-type]
            assert [axe_nb.run(agent, prompt).text for prompt in prompts] == prompts
            assert cassette.misses == 0
            if mode == "auto":
                axe_nb.run(agent, "new")


def test_a_cassette_that_cannot_be_written_stops_no_run() -> None:
    script("one")(lambda request: "fine")
    define()
    Path("one.axe").mkdir()
    with pytest.raises(axe_nb.ConfigError):
        Cassette("one.axe")
    cassette = Cassette("missing/one.axe", "record")
    session.use_cassette(cassette)
    with script_server("openai"):
        result = axe_nb.run("one", "go")
    session.cassette = None
    assert result.text == "fine"
    assert len(result.warnings) == 1
    assert "missing/one.axe" in result.warnings[0]


@pytest.mark.req("D-81")
def test_a_strangers_file_approves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = keep_notes()
    call_once(call("keep", note="x"))

    record_with(say_yes)
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    assert replay().ok  # the person's own
    assert ran == ["x", "x"]
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "elsewhere"))
    assert replay_to_its_error() == (
        "cassette one.axe lacks an approval of keep by this user (agent one, at 0)"
    )
    assert ran == ["x", "x"]
    monkeypatch.setenv("AXE_NB_TRUST", "1")
    assert replay().ok
    assert ran == ["x", "x", "x"]


@pytest.mark.req("D-48", "D-60")
@pytest.mark.parametrize("choice", ["yes", "edit"])
def test_a_masked_approval_fits_no_other_call(
    choice: Literal["yes", "edit"], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = keep_notes()
    secret, other = "ghp_" + "a1" * 12, "ghp_" + "b2" * 12

    call_once(call("keep", note="***" if choice == "edit" else f"rm {secret} now"))

    async def answer(_: ApprovalRequest) -> Decision:
        return Decision(choice, arguments={"note": f"rm {secret}"} if choice == "edit" else {})

    record_with(answer)
    ran.clear()
    kept = Path("one.axe").read_text()
    assert secret not in kept
    assert replay().ok  # in tests, what the file says is what was approved
    assert ran == ["rm ghp_***" + " now" * (choice == "yes")]
    if choice == "yes":
        before, mark, reply = kept.partition('"response"')
        for instead in (f"rm {other}", "rm ghp_; rm /"):
            changed = reply.replace("rm ghp_*** now", f"{instead} now", 1)
            assert changed != reply
            Path("one.axe").write_text(f"{before}{mark}{changed}")
            assert "lacks the person's answer to: may keep run?" in replay_to_its_error()
        Path("one.axe").write_text(kept)
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    ran.clear()
    assert "an approval of keep by this user" in replay_to_its_error()
    assert ran == []


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


def test_recorded_paths_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    call_once(call("fetch", url="http://example.invalid/x"))
    define(tools=("fetch",), mode="ask")
    record_with(say_yes)
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
        ({"assistant": "", "calls": ["a"]}, {"assistant": "", "calls": ["b"]},
         'its history changed in calls: ["a"] → ["b"]'),
        ({"results": [{"tool": "a"}]}, {"results": [{"tool": "a", "error": True}]},
         "the result of a changed in error: nothing → true"),
        ({"results": [{"tool": "a", "text": ""}]}, {"results": []},
         'the result of a changed: "" → nothing'),
    ],
)  # fmt: skip
def test_messages_are_told_apart(before: Any, now: Any, words: str) -> None:
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
