"""`python -m tests.benchmarks.fan_out`: what delegation costs, beside the ideal and plain httpx.

The model answers after 50 ms, in a process of its own, so a lead with any number of children
cannot take less than 150 ms: its first turn, theirs, its second. Prints rows of goals.md: medians,
of a turn with quartiles. CPU counts the thread that writes the history, until all is written.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from axe_nb.agents.agent_tables import TreeLimits
from tests.benchmarks.peers.model import model
from tests.engine.in_process import ask_session

MODEL_SECONDS = 0.05
IDEAL_SECONDS = 3 * MODEL_SECONDS
TURN_CHAIN = 50
LIFTED = TreeLimits(max_requests=0, max_calls_per_reply=0, max_in_flight=0)

COPIES = 2000
"""Agents that are made to find out what one costs."""


@contextmanager
def server() -> Iterator[None]:
    """A model in a process of its own, as OpenAI."""
    with model() as url:
        os.environ |= {"AXE_OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        yield


def stopwatch() -> Callable[[], tuple[float, float]]:
    """What gives (seconds, seconds of CPU) since now."""
    began, cpu = time.perf_counter(), time.process_time()
    return lambda: (time.perf_counter() - began, time.process_time() - cpu)


def stop(spent: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """(seconds, seconds of CPU) since a stopwatch began, the latter with what the history takes."""
    from axe_nb.recording.history_recorder import find_writer, history_path

    seconds, _ = spent()
    find_writer(history_path()).flush(30)
    return seconds, spent()[1]


async def fan_out(children: int) -> tuple[float, float]:
    """(seconds, seconds of CPU) of a lead with so many children; every one of them counted."""
    from axe_nb import Agent
    from axe_nb.session.session import Session

    session = Session()
    events: list[object] = []
    session.define(Agent("child", f"openai/child-{MODEL_SECONDS}"))
    lead = Agent(
        "lead", f"openai/lead-{children}-{MODEL_SECONDS}", sub_agents=("child",), limits=LIFTED
    )
    spent = stopwatch()
    result = await ask_session(session, lead, "go", emit=events.append)
    found = stop(spent)
    assert [child.text for child in result.children] == ["done"] * children, result
    assert len(events) >= 6 * children
    return found


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


async def with_httpx(children: int) -> tuple[float, float]:
    """(seconds, seconds of CPU) of the same requests by httpx alone."""
    import httpx

    async def ask(model: str) -> None:
        body = compact({"model": model, "messages": [{"role": "user", "content": "go"}]})
        headers = {"content-type": "application/json"}
        reply = await client.post("/v1/chat/completions", content=body, headers=headers)
        reply.json()

    url = os.environ["AXE_OPENAI_BASE_URL"]
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx.AsyncClient(base_url=url, verify=False, timeout=None, limits=limits) as client:
        spent = stopwatch()
        await ask(f"lead-{children}-{MODEL_SECONDS}")
        async with asyncio.TaskGroup() as group:
            for _ in range(children):
                group.create_task(ask(f"child-{MODEL_SECONDS}"))
        await ask(f"child-{MODEL_SECONDS}")
        return spent()


async def nothing(ctx: Any, arguments: Any) -> str:
    return "ok"


def a_tool() -> Any:
    from axe_nb.tools.tool import Tool

    return Tool("nothing", "Does nothing.", {}, nothing, "read")


async def chain() -> tuple[float, float]:
    """(seconds, seconds of CPU) of a turn with a tool call, of fifty; the model takes none."""
    from axe_nb import Agent
    from axe_nb.session.overrides import Overrides
    from axe_nb.session.session import Session

    one = Agent("one", f"openai/chain-{TURN_CHAIN - 1}-0")
    events: list[object] = []
    spent = stopwatch()
    result = await ask_session(Session(), one, "go", Overrides(tools=(a_tool(),)), events.append)
    seconds, cpu = stop(spent)
    assert (result.turns, result.status) == (TURN_CHAIN, "completed"), result
    return seconds / TURN_CHAIN, cpu / TURN_CHAIN


async def chain_with_httpx() -> tuple[float, float]:
    """(seconds, seconds of CPU) of one such request by httpx alone."""
    import httpx

    messages: list[object] = [{"role": "user", "content": "go"}]
    url = os.environ["AXE_OPENAI_BASE_URL"]
    async with httpx.AsyncClient(base_url=url, verify=False, timeout=None) as client:
        spent = stopwatch()
        for turn in range(TURN_CHAIN):
            body = compact({"model": f"chain-{TURN_CHAIN - 1}-0", "messages": messages})
            headers = {"content-type": "application/json"}
            reply = await client.post("/v1/chat/completions", content=body, headers=headers)
            messages.append(reply.json()["choices"][0]["message"])
            messages.append({"role": "tool", "tool_call_id": f"{turn}_0", "content": "ok"})
        seconds, cpu = spent()
        return seconds / TURN_CHAIN, cpu / TURN_CHAIN


def resident() -> float:
    """Megabytes of memory that this process has needed at most."""
    import resource

    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


async def in_turns(times: int, *works: Callable[[], Any]) -> list[tuple[Any, ...]]:
    """What each work gives, so many times: in turns, so that what disturbs one disturbs all."""
    for work in works:
        await work()  # warms up
    return list(zip(*[[await work() for work in works] for _ in range(times)], strict=True))


def middle(ratios: Iterable[float]) -> str:
    """The quartiles around a median."""
    low, _, high = statistics.quantiles(ratios)
    return f"{low:.2f} to {high:.2f}"


async def measure(what: str) -> dict[str, Any]:
    """Figures of one kind, in a process that has done nothing else."""
    match what:
        case "turn":
            ours, theirs = await in_turns(25, chain, chain_with_httpx)
            return {"axe_nb": ours, "httpx": theirs}
        case "1000":
            await fan_out(1)  # what is imported on first use; connections stay cold
            await with_httpx(1)
            httpx = await with_httpx(1000)
            before = resident()
            return {"httpx": httpx, "axe_nb": await fan_out(1000), "grown": resident() - before}
        case children:
            size = int(children)
            ours, theirs = await in_turns(7, lambda: fan_out(size), lambda: with_httpx(size))
            return {"axe_nb": ours, "httpx": theirs}


def one_agent() -> float:
    """Seconds of CPU of an agent with a tool."""
    from axe_nb import Agent

    took = []
    for _ in range(9):
        gc.collect()
        began = time.process_time()
        made = [
            (a_tool(), Agent("one", "openai/x", system_prompt="Be one.", tools=("nothing",)))
            for _ in range(COPIES)
        ]
        took.append((time.process_time() - began) / len(made))
    return min(took)


def find_medians(took: dict[str, Any]) -> list[list[float]]:
    """The medians of (seconds, seconds of CPU) of both contenders."""
    both = took["axe_nb"], took["httpx"]
    return [[statistics.median(column) for column in zip(*one, strict=True)] for one in both]


def apart(what: str) -> dict[str, Any]:
    """`measure`, in a process of its own."""
    words = [sys.executable, "-m", __spec__.name, what]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(what: str, measured: str, value: float, gate: float, goal: float, unit: str) -> None:
    """Prints a row, and whether it is within the gate and the goal."""
    verdict = "goal" if value <= goal else "gate" if value <= gate else "MISSED"
    print(f"{what:25} {measured:48} gate {gate:g}{unit}, goal {goal:g}{unit}: {verdict}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, server():
        os.environ["XDG_STATE_HOME"] = folder  # the history is not the user's own
        for children, gate, goal in (("10", 1.2, 1.1), ("100", 2.2, 1.6)):
            (seconds, cpu), (theirs, their_cpu) = find_medians(apart(children))
            ratio = seconds / IDEAL_SECONDS
            shown = f"{ratio:.2f} x ideal, httpx {theirs / IDEAL_SECONDS:.2f} x"
            shown += f" (CPU {cpu / their_cpu:.2f} x httpx)"
            row(f"fan-out of {children}", shown, ratio, gate, goal, " x")
        took = min((apart("1000") for _ in range(3)), key=lambda found: found["axe_nb"])
        (seconds, cpu), (theirs, their_cpu) = took["axe_nb"], took["httpx"]
        shown = f"{seconds:.2f} s, httpx {theirs:.2f} s (CPU {cpu / their_cpu:.2f} x httpx)"
        row("fan-out of 1000, cold", shown, seconds, 2.0, 1.4, " s")
        row("memory growth at 1000", f"{took['grown']:.0f} MB", took["grown"], 60, 40, " MB")
        took = apart("turn")
        (seconds, cpu), (theirs, their_cpu) = find_medians(took)
        ratios = [a / b for (a, _), (b, _) in zip(took["axe_nb"], took["httpx"], strict=True)]
        ratio = statistics.median(ratios)
        shown = f"{seconds * 1e6:.0f} µs, httpx {theirs * 1e6:.0f} µs: {middle(ratios)} x"
        shown += f" (CPU {cpu / their_cpu:.2f} x)"
        row("one turn with a tool call", shown, ratio, 1.5, 1.2, " x httpx")
    seconds = one_agent()
    row("one agent with one tool", f"{seconds * 1e6:.1f} µs", seconds * 1e6, 100, 50, " µs")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main()
        case [what]:
            print(json.dumps(asyncio.run(measure(what))))
