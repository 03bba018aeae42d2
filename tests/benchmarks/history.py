"""`python -m tests.benchmarks.history [N]`: cost of an exchange in the history.

The events of a real run of fifty turns with a tool, over loopback, are passed to a recorder N
times, each turn written with the results of its calls before the next begins. Prints rows of
goals.md: CPU of the thread that writes, for an exchange, and the size of what is kept beside its
text: the answers and the results of the tool. Then that of a history of 200,000 runs.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import axe_nb
from axe_nb import Agent, Request, Response, Usage, call, script, script_server
from axe_nb.events import Event, ToolFinished
from axe_nb.recording.history_recorder import Recorder, Writer, find_writer, history_path
from axe_nb.recording.history_store import COLUMNS, Row, Store
from tests.benchmarks.goals import row
from tests.protocols import PROTOCOLS, provider_of

CHAIN = 50

PROSE = " ".join(" ".join(topics.values()).split())
"""English that does not repeat."""


def cut(turn: int, start: int) -> str:
    """A text of 300 characters that no other turn has."""
    at = (turn * 600 + start) % (len(PROSE) - 600)
    return PROSE[at : at + 300]


@axe_nb.tool
def look(what: str) -> str:
    return cut(int(what.split()[-1]), 300)


@script("chain")
def chain(request: Request) -> Any:
    calls = (call("look", what=f"turn {request.turn}"),) if request.turn < CHAIN else ()
    return Response(cut(request.turn, 0), calls, "", Usage(900, 80))


async def collect(protocol: Any) -> list[Event]:
    agent = Agent("chain", f"{provider_of(protocol)}/chain", tools=("look",))
    with script_server(protocol):
        return [event async for event in axe_nb.stream(agent, "Go on", timeout=0)]


def keep(writer: Writer, events: Sequence[Event]) -> float:
    """Seconds of CPU of the thread that writes."""
    recorder, cpu = Recorder(), read_clock(writer)
    for event in events[:-1]:
        recorder.event(event)
        if isinstance(event, ToolFinished):  # each turn makes one call
            writer.flush(5)
    recorder.finish(events[-1].result)  # type: ignore[attr-defined]  # the end of the root
    writer.flush(5)
    return read_clock(writer) - cpu


def read_clock(writer: Writer) -> float:
    """Seconds of CPU of the thread that writes."""
    thread = writer._thread
    if thread is None or thread.ident is None:
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def measure(protocol: Any, rounds: int, folder: Path) -> None:
    events = asyncio.run(collect(protocol))
    result: axe_nb.RunResult = events[-1].result  # type: ignore[attr-defined]
    assert result.turns == len(result.exchanges) == CHAIN, result
    texts = [message.content for message in result.messages]
    texts += [one.content for message in result.messages for one in message.tool_results]
    os.environ["XDG_STATE_HOME"] = str(folder / protocol)
    path = history_path()
    writer = find_writer(path)
    keep(writer, events)  # opens the file
    cpu = 1e6 / CHAIN * min(keep(writer, events) for _ in range(rounds))
    row("exchange", f"{protocol}: CPU {cpu:.0f} µs", cpu, 500, 200, " µs")
    writer.close()
    size = sum(path.stat().st_size for path in path.parent.iterdir())
    share = size / (rounds + 1) / sum(map(len, texts))
    row("exchange, size", f"{protocol}: {share:.2f} x its text", share, 2, 1, " x")


def measure_list(folder: Path) -> None:
    """Prints the rows of a long history: its newest hundred, and a word that no run has."""
    os.environ["XDG_STATE_HOME"] = str(folder)
    path = history_path()
    path.parent.mkdir()
    store = Store(path, writes=True)
    store.write([Row(agent="one", prompt=PROSE[n : n + 200], status="error") for n in range(400)])
    names = ", ".join(COLUMNS)
    with closing(sqlite3.connect(path)) as connection:
        for _ in range(9):
            connection.execute(f"INSERT INTO runs ({names}) SELECT {names} FROM runs")
        connection.commit()
    store.close()
    for words, count, gate, goal in (("", 100, 50, 5), ("unheard", 0, 500, 100)):
        took = []
        for _ in range(9):
            began = time.perf_counter()
            found = axe_nb.history(words)
            took.append(1e3 * (time.perf_counter() - began))
        assert len(found) == count
        shown = f"{'a word' if words else 'the newest 100'} in {min(took):.1f} ms"
        row("history of 204,800 runs", shown, min(took), gate, goal, " ms")


if __name__ == "__main__":
    os.environ["AXE_NB_HISTORY"] = "0"  # the run itself is not kept
    with tempfile.TemporaryDirectory() as folder:
        for protocol in PROTOCOLS:
            measure(protocol, int(sys.argv[1]) if len(sys.argv) > 1 else 20, Path(folder))
        measure_list(Path(folder))
