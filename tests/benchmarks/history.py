"""`python -m tests.benchmarks.history [N]`: cost of an exchange in the history.

The events of a real run of fifty turns with a tool, over loopback, are passed to a recorder N
times: at once, as with a model that answers at once; turn by turn, each written with the results of
its calls before the next begins, as with a slower model; and one by one, each event before the
next, as with slow tools too. Prints a row of goals.md: time on the event loop and CPU of the thread
that writes, for an exchange, and the size of what is kept beside its text: the replies and the
results of the tool. The last line is the CPU of a transaction of SQLite alone, the least that an
exchange costs that is written by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import axe_nb
from axe_nb import Agent, Request, Response, RunResult, Usage, call, script, script_server
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.run_history.locks import RunLocks
from axe_nb.run_history.recorder import Recorder
from axe_nb.run_history.store import Row, Store
from axe_nb.run_history.writer import Writer
from axe_nb.scripting.wire import Protocol

KEPT = (RunStarted, TurnFinished, ToolFinished)

FLUSHED: dict[str, tuple[type, ...]] = {
    "at once": (),
    "turn by turn": (ToolFinished,),  # each turn makes one call
    "one by one": KEPT,
}
"""State → the events after which all is written."""

CHAIN = 50
ROUNDS = 20
TEXT = "Three of the tests fail, since the server that they ask is not there any more. " * 10


def define() -> None:
    @axe_nb.tool
    def look(what: str) -> str:
        return f"{what}: {TEXT}"

    @script("chain")
    def chain(request: Request) -> Any:
        if request.turn == CHAIN:
            return "That is all."
        return Response(TEXT, (call("look", what=f"turn {request.turn}"),), "", Usage(900, 80))


def collect(protocol: Protocol) -> list[Event]:
    """The events of one run."""
    agent = Agent(name="chain", model=f"{protocol}/chain", system_prompt=TEXT, tools=("look",))

    async def run() -> list[Event]:
        return [event async for event in axe_nb.stream(agent, "Go on", timeout=0)]

    with script_server(protocol):
        return asyncio.run(run())


def keep(
    writer: Writer, events: Sequence[Event], flushed: tuple[type, ...] = ()
) -> tuple[float, float]:
    """Seconds on the event loop, and of CPU of the thread that writes."""
    recorder, on_loop = Recorder(writer), 0.0
    cpu = read_clock(writer)
    for event in events[:-1]:
        began = time.perf_counter()
        recorder.event(event)
        on_loop += time.perf_counter() - began
        if isinstance(event, flushed):
            writer.flush(5)
    recorder.finish(result_of(events))
    writer.flush(5)
    return on_loop, read_clock(writer) - cpu


def read_clock(writer: Writer) -> float:
    """Seconds of CPU of the thread that writes."""
    thread = writer._thread
    if thread is None or thread.ident is None:
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def result_of(events: Sequence[Event]) -> RunResult:
    last = events[-1]
    assert isinstance(last, RunFinished)
    return last.result


def measure(protocol: Protocol, rounds: int, folder: Path) -> str:
    events = collect(protocol)
    result = result_of(events)
    assert result.turns == len(result.exchanges) == CHAIN, result
    texts = [exchange.reply.body for exchange in result.exchanges if exchange.reply]
    texts += [one.content.encode() for m in result.messages for one in m.tool_results]
    writer = Writer(folder / protocol / "runs.sqlite")
    keep(writer, events)  # opens the file
    taken: dict[str, list[tuple[float, float]]] = {how: [] for how in FLUSHED}
    for _ in range(rounds):  # in turns, so that what disturbs one disturbs the others
        for how, flushed in FLUSHED.items():
            taken[how].append(keep(writer, events, flushed))
    parts = []
    for how, found in taken.items():
        loop, cpu = (min(column) / CHAIN * 1e6 for column in zip(*found, strict=True))
        parts.append(f"{how}: loop {loop:.1f} µs, CPU {cpu:.0f} µs")
    writer.close()
    size = sum(path.stat().st_size for path in writer.path.parent.iterdir())
    share = size / (len(FLUSHED) * rounds + 1) / sum(map(len, texts))
    return f"{protocol:9} {'; '.join(parts)}; {share:.2f} x its text"


def measure_transaction(rounds: int, folder: Path) -> float:
    """Seconds of CPU of a transaction that adds a part and updates the row of its run."""
    path = folder / "bare.sqlite"
    store, row, found = Store(path, RunLocks(path.with_suffix(".lock"))), Row(), []
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(CHAIN):
            row.parts.append(TEXT)
            store.write([row])
        found.append(time.thread_time() - began)
    store.close()
    return min(found) / CHAIN


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    os.environ["AXE_NB_HISTORY"] = "0"  # the run itself is not kept
    define()
    with tempfile.TemporaryDirectory() as folder:
        for protocol in ("anthropic", "openai", "ollama"):
            print(measure(protocol, rounds, Path(folder)))  # type: ignore[arg-type]
        bare = measure_transaction(rounds, Path(folder))
    print(f"a transaction alone: CPU {bare * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
