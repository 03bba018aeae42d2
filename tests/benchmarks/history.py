"""`python -m tests.benchmarks.history [N]`: cost of an exchange in the history.

The events of a real run of fifty turns with a tool, over loopback, are passed to a recorder N
times: at once, as with a model that answers at once; turn by turn, each written with the results of
its calls before the next begins, as with a slower model; and one by one, each event before the
next, as with slow tools too. Prints a row of goals.md: time on the event loop and CPU of the thread
that writes, for an exchange, and the size of what is kept beside its text: the answers and the
results of the tool. Then the row of a history of 200,000 runs.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import axe_nb
from axe_nb import Agent, Request, Response, RunResult, Usage, call, script, script_server
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.recording.history_recorder import Recorder, Writer, history_path
from axe_nb.recording.history_store import COLUMNS, Row, Store
from axe_nb.scripting.wire import Protocol
from tests.benchmarks.goals import row
from tests.protocols import PROTOCOLS, provider_of

FLUSHED: dict[str, tuple[type, ...]] = {
    "at once": (),
    "turn by turn": (ToolFinished,),  # each turn makes one call
    "one by one": (RunStarted, TurnFinished, ToolFinished),
}
"""State → the events after which all is written."""

CHAIN = 50

PROSE = " ".join(" ".join(topics.values()).split())
"""English that does not repeat."""


def define() -> None:
    """Defines a chain whose texts, of 300 characters, do not repeat."""

    def cut(turn: int, start: int) -> str:
        at = (turn * 600 + start) % (len(PROSE) - 600)
        return PROSE[at : at + 300]

    @axe_nb.tool
    def look(what: str) -> str:
        return cut(int(what.split()[-1]), 300)

    @script("chain")
    def chain(request: Request) -> Any:
        calls = (call("look", what=f"turn {request.turn}"),) if request.turn < CHAIN else ()
        return Response(cut(request.turn, 0), calls, "", Usage(900, 80))


def collect(protocol: Protocol) -> list[Event]:
    """The events of one run."""
    agent = Agent("chain", f"{provider_of(protocol)}/chain", tools=("look",))

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
    texts = [message.content for message in result.messages]
    texts += [one.content for message in result.messages for one in message.tool_results]
    path = folder / protocol / "runs.sqlite"
    writer = Writer(path)
    keep(writer, events)  # opens the file
    taken: dict[str, list[tuple[float, float]]] = {how: [] for how in FLUSHED}
    for _ in range(rounds):  # in turns, so that what disturbs one disturbs the others
        for how, flushed in FLUSHED.items():
            taken[how].append(keep(writer, events, flushed))
    writer.close()
    parts = []
    for how, found in taken.items():
        loop, cpu = (min(column) / CHAIN * 1e6 for column in zip(*found, strict=True))
        median = statistics.median(seconds for _, seconds in found) / CHAIN * 1e6
        parts.append(f"{how}: loop {loop:.1f} µs, CPU {cpu:.0f} µs (median {median:.0f})")
    size = sum(path.stat().st_size for path in path.parent.iterdir())
    share = size / (len(FLUSHED) * rounds + 1) / sum(map(len, texts))
    return f"{protocol:9} {'; '.join(parts)}; {share:.2f} x its text"


def measure_list(folder: Path) -> None:
    """Prints the row of a long history: its newest hundred, as for `%axe history`."""
    os.environ["XDG_STATE_HOME"] = str(folder)
    path = history_path()
    path.parent.mkdir()
    store = Store(path, writes=True)
    store.write([Row(agent="one", prompt=PROSE[n : n + 200], status="error") for n in range(400)])
    store.close()
    names = ", ".join(COLUMNS)
    with closing(sqlite3.connect(path)) as connection:
        for _ in range(9):
            connection.execute(f"INSERT INTO runs ({names}) SELECT {names} FROM runs")
        connection.commit()
    took = []
    for _ in range(9):
        began = time.perf_counter()
        newest = axe_nb.history()
        took.append(1e3 * (time.perf_counter() - began))
    assert len(newest) == 100
    assert newest[0].id == 400 * 2**9
    row("history of 204,800 runs", f"the newest 100 in {min(took):.1f} ms", min(took), 50, 5, " ms")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    os.environ["AXE_NB_HISTORY"] = "0"  # the run itself is not kept
    define()
    with tempfile.TemporaryDirectory() as folder:
        for protocol in PROTOCOLS:
            print(measure(protocol, rounds, Path(folder)))
        measure_list(Path(folder))


if __name__ == "__main__":
    main()
