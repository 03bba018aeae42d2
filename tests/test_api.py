"""The Python face: run, arun, stream, last; where they may be called, and how they are stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import json
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, AxeError, ConfigError, ProviderError, Request, RunResult
from axe_nb.events import (
    Event,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from tests.engine.in_process import agent, ask, check_events, check_history, lead, tool


def tree() -> Agent:
    """A lead and its two children, known to the session."""
    axe_nb.define(agent("child", lambda r: f"did {r.last}"))
    boss = lead(ask("child", "a"), ask("child", "b"))
    axe_nb.define(boss)
    return boss


async def for_ever(_: Request) -> str:
    await asyncio.Event().wait()
    return "never"


EXPECTED = "did Task: a\ndid Task: b"


def test_run_takes_an_agent_or_its_name_and_blocks() -> None:
    boss = tree()
    result = axe_nb.run(boss, "go")
    assert isinstance(result, RunResult)
    assert result.text == EXPECTED
    assert axe_nb.run("lead", "go").text == EXPECTED
    assert len(result.children) == 2


def test_the_options_of_the_magic_are_keywords(project: Path) -> None:
    sent: list[Request] = []

    def model(request: Request) -> str:
        sent.append(request)
        return "ok"

    for name in ("a", "b"):
        agent(name, model)
    (project / "S.md").write_text("be brief")
    (project / "axe/agents/one.toml").write_text('name = "one"\nmodel = "script/a"')
    result = axe_nb.run(
        "one", "hi", model="script/b", skill=str(project / "S.md"), workdir=str(project),
        timeout=5.5, params={"seed": 3}, agents_dir=str(project / "axe/agents"), tools=(),
        mode="plan",
    )  # fmt: skip
    assert result.model == "script/b"
    assert sent[0].params == {"seed": 3}
    assert "be brief" in sent[0].system


def test_run_works_in_threads_side_by_side() -> None:
    barrier = threading.Barrier(6, timeout=5)

    def model(request: Request) -> str:
        barrier.wait()
        return request.last

    one = agent("together", model)
    results: dict[int, str] = {}

    def work(n: int) -> None:
        results[n] = axe_nb.run(one, f"prompt {n}").text

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == {n: f"prompt {n}" for n in range(6)}


def test_run_works_inside_a_running_loop_as_in_a_notebook() -> None:
    tree()

    async def cell() -> str:
        return axe_nb.run("lead", "go").text

    assert asyncio.run(cell()) == EXPECTED


@pytest.mark.req("D-2")
def test_failed_runs_are_returned_and_mistakes_are_raised() -> None:
    def fail(_: Request) -> str:
        raise ProviderError("overloaded", "busy")

    result = axe_nb.run(agent("failing", fail), "go")
    assert (result.status, result.error, result.ok) == ("error", "overloaded: busy", False)
    assert axe_nb.last() is result
    with pytest.raises(ProviderError):
        result.raise_for_status()
    with pytest.raises(ConfigError, match="agent config not found: nobody"):
        axe_nb.run("nobody", "go")
    with pytest.raises(ConfigError):
        axe_nb.run(agent("x", "x"), timeout=-1)
    assert axe_nb.last() is result


def test_arun_awaits_in_the_callers_loop() -> None:
    tree()

    async def main() -> list[RunResult]:
        return await asyncio.gather(*(axe_nb.arun("lead", f"go {n}") for n in range(5)))

    results = asyncio.run(main())
    assert [r.text for r in results] == [EXPECTED] * 5
    assert [r.prompt for r in results] == [f"go {n}" for n in range(5)]


@pytest.mark.req("D-8")
def test_arun_that_is_cancelled_is_kept() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def model(request: Request) -> str:
            begun.set()
            return await for_ever(request)

        running = asyncio.create_task(axe_nb.arun(agent("hangs", model), "go"))
        await begun.wait()
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    last = axe_nb.last()
    assert last
    assert (last.status, last.error) == ("cancelled", "cancelled")


def test_stream_yields_the_seven_events_in_order_and_the_last_carries_the_result() -> None:
    tree()

    async def main() -> list[Event]:
        return [event async for event in axe_nb.stream("lead", "go")]

    events = asyncio.run(main())
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.result is axe_nb.last()
    assert last.result.text == EXPECTED
    check_events(events, last.result)
    assert [type(e) for e in events if e.run == "0"] == [
        RunStarted, TurnStarted, TurnFinished, ToolStarted, ToolStarted, ToolFinished,
        ToolFinished, TurnStarted, TurnFinished, RunFinished,
    ]  # fmt: skip
    assert [type(e) for e in events if e.run == "0.1"] == [
        RunStarted, TurnStarted, TurnFinished, RunFinished,
    ]  # fmt: skip


def test_stream_yields_events_as_they_happen() -> None:
    release = threading.Event()

    def model(request: Request) -> str:
        release.wait(5)
        return "released"

    async def main() -> None:
        seen: list[type] = []
        async for event in axe_nb.stream(agent("waits", model), "go"):
            seen.append(type(event))
            if isinstance(event, TurnStarted):
                release.set()
        assert seen == [RunStarted, TurnStarted, TurnFinished, RunFinished]

    asyncio.run(main())


@pytest.mark.req("D-8")
@pytest.mark.parametrize("how", ["aclose", "break", "cancel"])
def test_leaving_a_stream_early_cancels_the_run(how: str) -> None:
    begun: list[str] = []
    stopped: list[str] = []

    async def model(request: Request) -> str:
        begun.append(request.agent)
        try:
            return await for_ever(request)
        finally:
            stopped.append(request.agent)

    axe_nb.define(agent("hangs", model))
    axe_nb.define(lead(ask("hangs"), ask("hangs")))

    async def until_two(names: list[str]) -> None:
        while len(names) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def read(left: asyncio.Event) -> None:
        at_work = 0
        events = axe_nb.stream("lead", "go")
        async for event in events:
            at_work += isinstance(event, TurnStarted) and event.run != "0"
            if at_work == 2:
                await until_two(begun)
                break
        if how == "aclose":
            await events.aclose()
            assert stopped == ["hangs", "hangs"]
        left.set()
        if how == "cancel":
            await asyncio.Event().wait()

    async def main() -> None:
        left = asyncio.Event()
        reading = asyncio.create_task(read(left))
        await asyncio.wait(
            [reading, asyncio.create_task(left.wait())], return_when="FIRST_COMPLETED"
        )
        if how == "cancel":
            reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        del reading
        gc.collect()
        await until_two(stopped)

    asyncio.run(main())
    last = axe_nb.last()
    assert last
    assert [r.status for r in last.walk()] == ["cancelled"] * 3


def test_a_stream_of_what_cannot_begin_raises() -> None:
    async def main() -> None:
        async for _ in axe_nb.stream("nobody", "go"):
            raise AssertionError("there is nothing to tell")

    with pytest.raises(ConfigError, match="nobody"):
        asyncio.run(main())


@pytest.mark.parametrize("face", ["run", "arun"])
def test_run_inside_an_async_tool_or_model_raises_at_once_and_names_the_way(face: str) -> None:
    inner = agent("inner", "inner")
    caught: list[AxeError] = []

    async def nested(_: Any) -> str:
        try:
            return axe_nb.run(inner, "x").text
        except AxeError as error:
            caught.append(error)
            raise

    async def model(request: Request) -> Any:
        if request.turn == 1:
            with pytest.raises(AxeError, match="inside an async tool"):
                await nested(request)
            return axe_nb.call("nested")
        return request.last

    outer = agent("outer", model)
    tools = (tool("nested", nested),)
    if face == "run":
        result = axe_nb.run(outer, "go", tools=tools)
    else:
        result = asyncio.run(axe_nb.arun(outer, "go", tools=tools))
    assert result.ok
    assert "axe_nb.run was called inside an async tool" in result.text
    assert len(caught) == 2
    assert "await ctx.delegate(" in caught[0].hint


def test_a_model_that_blocks_may_run_another_agent() -> None:
    inner = agent("inner", "from within")
    assert axe_nb.run(agent("outer", lambda _: axe_nb.run(inner, "x").text), "go").text == (
        "from within"
    )


def test_a_run_within_a_run_has_no_display_of_its_own() -> None:
    done = script("""
        from IPython.core.interactiveshell import InteractiveShell
        import axe_nb
        from axe_nb.cell_display import front_end

        InteractiveShell.instance()
        outer = type(front_end.make_view(True)).__name__
        axe_nb.script("m")(lambda request: type(front_end.make_view(True)).__name__)
        inner = axe_nb.run(axe_nb.Agent("a", "script/m"), "go", display=False).text
        print(inner, outer != "NullView")
        """)
    assert (done.stdout, done.stderr) == ("NullView True\n", "")


def test_a_result_is_continued() -> None:
    one = agent("one", lambda r: f"{len(r.messages)}")
    first = axe_nb.run(one, "a")
    second = axe_nb.run(one, "b", continue_from=first)
    assert (first.text, second.text) == ("1", "3")


def test_the_view_of_a_notebook_is_not_loaded_elsewhere() -> None:
    done = script("""
        import axe_nb, sys
        axe_nb.script("m")(lambda request: "hi")
        assert axe_nb.run(axe_nb.Agent("a", "script/m"), "go").text == "hi"
        assert "IPython" not in sys.modules and "anywidget" not in sys.modules
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def script(code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)


OVER_SOCKETS = """
    import asyncio, axe_nb, gc
    from axe_nb import Agent, call, script_server

    @axe_nb.script("lead")
    def lead(request):
        if request.turn == 1:
            return [call("call_agent", agent="child", task=str(n)) for n in range(5)]
        return "done"

    axe_nb.script("child")(lambda request: request.last)
    axe_nb.define(Agent("child", "openai/child"))
    lead = Agent("lead", "openai/lead", sub_agents=("child",))
"""


@pytest.mark.parametrize(
    "use",
    [
        'print(axe_nb.run(lead, "go").text)',
        'print(asyncio.run(axe_nb.arun(lead, "go")).text)',
        '[print(asyncio.run(axe_nb.arun(lead, "go")).text, end="") for _ in range(3)]; print()',
    ],
)
def test_no_socket_loop_or_thread_is_left_open(use: str) -> None:
    code = f"    with script_server('openai'):\n        {use}\n    gc.collect()"
    done = script(OVER_SOCKETS + code)
    assert done.stderr == ""
    assert done.stdout in ("done\n", "donedonedone\n")
    assert done.returncode == 0


INTERRUPTED = """
    import asyncio, json, sys, time, axe_nb
    from axe_nb import Agent, call, script_server

    @axe_nb.script("lead")
    def lead(request):
        if request.turn == 1:
            return [call("call_agent", agent="child", task=str(n)) for n in range(8)]
        return "went on"

    @axe_nb.script("child")
    async def child(request):
        print("begun", flush=True)
        await asyncio.sleep(60)
        return "never"

    axe_nb.define(Agent("child", "{provider}/child"))
    lead = Agent("lead", "{provider}/lead", sub_agents=("child",))
    with script_server("openai") as server:
"""


class Script:
    """A script in a process of its own that is interrupted when all children work."""

    def __init__(self, code: str, begun: int = 8) -> None:
        words = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        for _ in range(begun):
            line = self._process.stdout.readline()
            assert line == "begun\n", line + self._process.communicate()[1]
        time.sleep(0.1)

    def interrupt(self) -> float:
        """When it was interrupted, on the monotonic clock of all processes."""
        at = time.monotonic()
        self._process.send_signal(signal.SIGINT)
        return at

    def end(self) -> tuple[int, str, str, float]:
        """(exit code, output, errors, seconds until the end)."""
        began = time.monotonic()
        out, err = self._process.communicate(timeout=55)
        return self._process.returncode, out, err, time.monotonic() - began


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
@pytest.mark.req("D-8", "A-E5.6")
@pytest.mark.parametrize("provider", ["script", "openai"])
def test_ctrl_c_in_a_script_gives_a_keyboard_interrupt_and_keeps_the_run(provider: str) -> None:
    running = Script(
        INTERRUPTED.replace("{provider}", provider)
        + """
        try:
            axe_nb.run(lead, "go")
        except KeyboardInterrupt as stop:
            print(time.monotonic())
            last = axe_nb.last()
            print(str(stop))
            print(json.dumps([[r.status for r in last.walk()], last.turns]))
            print(axe_nb.run(lead, "go on", continue_from=last).text)
            print(server.aborted, server.open_requests)
        """
    )
    interrupted = running.interrupt()
    code, out, err, _ = running.end()
    assert err == ""
    back, text, statuses, answer, requests = out.splitlines()
    assert float(back) - interrupted < 1.0, "the gate; 0.1 s where nothing else runs"
    assert text == "stopped; axe_nb.last() has the partial result"
    assert json.loads(statuses) == [["cancelled"] * 9, 1]
    assert answer == "went on"
    assert requests == ("8 0" if provider == "openai" else "0 0")
    assert code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
@pytest.mark.req("D-8")
@pytest.mark.parametrize("use", ['axe_nb.run(lead, "go")', 'asyncio.run(axe_nb.arun(lead, "go"))'])
def test_an_unhandled_ctrl_c_ends_a_script_as_python_does(use: str) -> None:
    running = Script(INTERRUPTED.replace("{provider}", "openai") + f"        {use}\n")
    running.interrupt()
    code, out, err, seconds = running.end()
    assert (code, out) == (-signal.SIGINT, "")
    assert err.count("Traceback (most recent call last)") <= 2
    assert err.splitlines()[-1].startswith("KeyboardInterrupt")
    assert not [w for w in ("never retrieved", "destroyed", "ignored in", "Warning") if w in err]
    assert seconds < 50


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
@pytest.mark.req("D-8")
def test_a_script_ends_promptly_with_a_run_that_cannot_be_stopped() -> None:
    running = Script("""
        import axe_nb, time

        @axe_nb.script("stuck")
        async def stuck(request):
            print("begun", flush=True)
            time.sleep(60)

        try:
            axe_nb.run(axe_nb.Agent("a", "script/stuck"), "go")
        except KeyboardInterrupt:
            print("back", axe_nb.last().status, flush=True)
        """, begun=1)  # fmt: skip
    running.interrupt()
    code, out, err, seconds = running.end()
    assert (code, out, err) == (0, "back cancelled\n", "")
    assert seconds < 50


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
def test_ctrl_c_stops_the_command_with_130() -> None:
    running = Script("""
        import asyncio, sys, axe_nb
        from axe_nb import cli

        @axe_nb.script("hangs")
        async def hangs(request):
            print("begun", flush=True)
            await asyncio.sleep(60)

        axe_nb.define(axe_nb.Agent("a", "script/hangs"))
        sys.exit(cli.main(["run", "a", "-p", "go"]))
        """, begun=1)  # fmt: skip
    running.interrupt()
    code, out, err, _ = running.end()
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_last_is_the_last_run_of_all() -> None:
    assert axe_nb.last() is None
    result = axe_nb.run(tree(), "go")
    assert axe_nb.last() is result
    check_history(result.messages)


def test_the_help_of_run_describes_every_parameter() -> None:
    text = inspect.getdoc(axe_nb.run) or ""
    for name in inspect.signature(axe_nb.run).parameters:
        assert re.search(rf"^    {name}: ", text, re.MULTILINE), name
    assert "options:" not in text
