"""`python -m tests.sandbox.kernel`: a process like a kernel, with secrets, that runs commands.

Reads one JSON object from its input and prints one: see `Cage.begin`. It needs the package's
`sandbox` room and nothing else, so that any Python and any user can run it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from axe_nb.sandbox import find, launcher
from axe_nb.sandbox.find import PLAIN, Sandbox, list_methods
from axe_nb.sandbox.process import Launch, Method
from axe_nb.sandbox.view import View, make_view


def weakened(method: Method, without: Sequence[Sequence[str]]) -> Method:
    """The method without some of its words, or with a launcher without some of its lines."""
    if not without:
        return method
    if method.name != "bubblewrap":
        source = Path(launcher.__file__).read_text()
        for line, instead in without:
            assert source.count(line) >= 1, line
            source = source.replace(line, instead)
        find.LAUNCHER = source
        return method

    def wrap(words: Sequence[str], view: View) -> Launch:
        launch = method.wrap(words, view)
        line = list(launch.words)
        for some in without:
            if list(some) == ["--seccomp"]:
                launch = replace(launch, filter=b"")
                continue
            size = len(some)
            found = [i for i in range(len(line)) if line[i : i + size] == list(some)]
            assert found, some
            del line[found[0] : found[0] + size]
        return replace(launch, words=line)

    return replace(method, wrap=wrap)


def run(job: dict[str, Any]) -> dict[str, Any]:
    sources = [Path(path) for path in job.get("sources", ())]
    view = make_view(Path(job["workdir"]), network=job["network"], sources=sources)
    found = {method.name.partition(" ")[0]: method for method in reversed([*list_methods(), PLAIN])}
    method = weakened(found[job["method"]], job["without"])
    readable, writable = os.pipe()
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"}
    words = ["/bin/bash", "-c", job["command"]]
    process = Sandbox(method, view).start(words, environment, (-3, writable, writable))
    output: list[bytes] = []

    def read() -> None:
        with os.fdopen(readable, "rb") as pipe:
            output.append(pipe.read())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    in_time = process.wait(job["seconds"])
    process.kill()
    process.wait(10)
    reader.join(10)
    return {
        "code": process.code,
        "failure": process.failure,
        "notes": process.notes,
        "output": b"".join(output).decode("utf-8", "replace"),
        "in_time": in_time,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.load(sys.stdin))))
