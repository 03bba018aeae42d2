"""`python -m tests.benchmarks.replay [N]`: a recorded run with eight children, replayed N times.

Recorded once over loopback with delays by chance, then replayed without the server. Prints the rows
of goals.md: CPU and time of a replay, the share that equals the recording, and the CPU and memory
that keeping an exchange costs a run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import axe_nb
from axe_nb import RunResult, script_server
from axe_nb.scripting.wire import Protocol
from tests.recording.test_cassettes import define_scripts, define_tree, without_times

REPLAYS = 1000


def record(protocol: Protocol, path: Path) -> RunResult:
    with script_server(protocol), axe_nb.cassette(path, "record"):
        return axe_nb.run("lead", "Compare", display=False)


def replay(path: Path) -> RunResult:
    with axe_nb.cassette(path, "replay"):
        return axe_nb.run("lead", "Compare", display=False)


def measure(protocol: Protocol, replays: int, folder: Path) -> str:
    define_tree(protocol)
    path = folder / f"{protocol}.axe"
    wanted = shape(record(protocol, path))
    seconds: list[float] = []
    equal = 0
    for _ in range(replays):
        began = time.perf_counter()
        result = replay(path)
        seconds.append(time.perf_counter() - began)
        equal += shape(result) == wanted
    seconds.sort()
    middle = seconds[len(seconds) // 2] * 1000
    return f"{protocol:9} {equal} of {replays} equal, median {middle:5.1f} ms, " + (
        f"slowest {seconds[-1] * 1000:5.1f} ms, file {path.stat().st_size / 1000:.1f} kB"
    )


def shape(result: RunResult) -> Any:
    return without_times(result), [one.messages for one in result.walk()]


def measure_memory(folder: Path) -> str:
    """Memory that the exchanges of a result hold, beside the text that they carried."""
    define_tree("openai")
    record("openai", folder / "memory.axe")
    tracemalloc.start()
    kept = [record("openai", folder / f"memory{n}.axe") for n in range(5)]
    before, _ = tracemalloc.get_traced_memory()
    exchanges = [e for result in kept for one in result.walk() for e in one.exchanges]
    count = len(exchanges)
    text = sum(len(e.response.content) for e in exchanges if e.response)
    del exchanges
    for result in kept:
        for one in result.walk():
            object.__setattr__(one, "exchanges", ())
    after, _ = tracemalloc.get_traced_memory()
    return f"memory: {(before - after) / count:.0f} bytes an exchange, {text / count:.0f} of answer"


def main() -> None:
    replays = int(sys.argv[1]) if len(sys.argv) > 1 else REPLAYS
    os.environ["AXE_NB_HISTORY"] = "0"  # what waits to be written would hold exchanges
    define_scripts()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for protocol in ("anthropic", "openai", "ollama"):
            print(measure(protocol, replays, Path(folder)))  # type: ignore[arg-type]
        print(measure_memory(Path(folder)))
        os.chdir("/")


if __name__ == "__main__":
    main()
