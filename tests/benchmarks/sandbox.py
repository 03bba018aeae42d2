"""`python -m tests.benchmarks.sandbox`: the cost of a sandboxed command beside a plain one.

Both take turns, so that what disturbs one disturbs the other. Prints a row per method.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from axe_nb.sandbox.find import PLAIN, Sandbox, list_methods
from axe_nb.sandbox.view import make_view
from tests.benchmarks.goals import row


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        view = make_view(Path(folder))
        plain = Sandbox(PLAIN, view)
        for method in list_methods():
            sandbox = Sandbox(method, view)
            took(sandbox)
            pairs = [(took(sandbox), took(plain)) for _ in range(50)]
            ours, bare = (median(column) for column in zip(*pairs, strict=True))
            more = median(one - other for one, other in pairs)
            shown = f"{ours:.1f} ms, a plain command {bare:.1f} ms"
            row(f"{method.level}, {method.name}", shown, more, 50, 15, " ms more")
