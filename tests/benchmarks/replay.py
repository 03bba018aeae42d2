"""`python -m tests.benchmarks.replay [N]`: a recorded run with eight children, replayed N times.

Recorded once over loopback with delays by chance, then replayed without the server. Prints the rows
of goals.md: the time of a replay, and the share that equals the recording.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import axe_nb
from axe_nb import RunResult, script_server
from axe_nb.scripting.wire import Protocol
from tests.recording.runs import without_times
from tests.recording.test_cassettes import define_scripts, define_tree

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


def main() -> None:
    replays = int(sys.argv[1]) if len(sys.argv) > 1 else REPLAYS
    os.environ["AXE_NB_HISTORY"] = "0"
    define_scripts()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for protocol in ("anthropic", "openai", "ollama"):
            print(measure(protocol, replays, Path(folder)))  # type: ignore[arg-type]
        os.chdir("/")


if __name__ == "__main__":
    main()
