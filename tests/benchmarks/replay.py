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
from statistics import median
from typing import Any

import axe_nb
from axe_nb import script_server
from tests.benchmarks.goals import row
from tests.recording.runs import without_times
from tests.recording.test_replay import define_tree


def run(path: Path, mode: Any) -> Any:
    """What one run did, without its times."""
    with axe_nb.cassette(path, mode):
        result = axe_nb.run("lead", "Compare", display=False)
    return without_times(result), [one.messages for one in result.walk()]


def measure(protocol: Any, replays: int, folder: Path) -> None:
    define_tree(protocol)
    path = folder / f"{protocol}.axe"
    with script_server(protocol):
        wanted = run(path, "record")
    seconds: list[float] = []
    equal = 0
    for _ in range(replays):
        began = time.perf_counter()
        equal += run(path, "replay") == wanted
        seconds.append(1000 * (time.perf_counter() - began))
    typical = median(seconds)
    shown = f"{typical:.1f} ms, {equal} of {replays} equal, {path.stat().st_size / 1000:.1f} kB"
    row(f"replay, {protocol}", shown, typical, 30, 10, " ms")


if __name__ == "__main__":
    os.environ["AXE_NB_HISTORY"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for protocol in ("anthropic", "openai", "ollama"):
            measure(protocol, int(sys.argv[1]) if len(sys.argv) > 1 else 1000, Path(folder))
        os.chdir("/")
