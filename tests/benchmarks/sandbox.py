"""`python -m tests.benchmarks.sandbox`: the cost of a sandboxed command beside a plain one.

Both take turns, so that what disturbs one disturbs the other. Prints a row per method.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from axe_nb.sandbox.find import PLAIN, Sandbox, list_methods
from axe_nb.sandbox.view import make_view

ROUNDS = 50
GOAL, GATE = 15.0, 50.0
"""Milliseconds more than a plain command."""


def took(sandbox: Sandbox) -> float:
    """Milliseconds of one command, from a look at its workdir to the end of all it started."""
    began = time.perf_counter()
    view = make_view(sandbox.view.workdir)
    out = os.open(os.devnull, os.O_WRONLY)
    process = Sandbox(sandbox.method, view).start(
        ["/bin/sh", "-c", "true"], {"PATH": "/usr/bin:/bin"}, (-3, out, out)
    )
    process.wait()
    assert process.code == 0, process.failure
    return (time.perf_counter() - began) * 1000


def main() -> int:
    """Exit code: 1 if the strongest method costs more than the gate."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        view = make_view(Path(folder))
        plain = Sandbox(PLAIN, view)
        for place, method in enumerate(list_methods()):
            sandbox = Sandbox(method, view)
            took(sandbox)
            pairs = [(took(sandbox), took(plain)) for _ in range(ROUNDS)]
            ours, bare = (median(column) for column in zip(*pairs, strict=True))
            more = median(one - other for one, other in pairs)
            least = min(one for one, _ in pairs) - min(other for _, other in pairs)
            print(
                f"{method.level:6} {method.name:12} {ours:6.1f} ms, plain {bare:5.1f} ms: "
                f"{more:+6.1f} ms, at rest {least:+5.1f} ms (goal {GOAL:+.0f}, gate {GATE:+.0f})"
            )
            failed |= place == 0 and more > GATE
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
