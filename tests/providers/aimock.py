"""A model server by others, `@copilotkit/aimock`, which speaks all four protocols.

It plays the conversations of `aimock.json`. Nobody here wrote it, so that what it says and accepts
is not what our own servers of the same protocols say and accept.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node.packages import find_node, find_package

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Aimock:
    """A running server."""

    url: str

    def journal(self) -> list[dict[str, Any]]:
        """Its requests so far, with what it answered."""
        with urllib.request.urlopen(f"{self.url}/__aimock/journal") as reply:
            entries: list[dict[str, Any]] = json.load(reply)
        return entries


@contextmanager
def aimock(*options: str) -> Iterator[Aimock]:
    """A server with further options, in a process of its own."""
    cli = find_package("@copilotkit/aimock") / "dist" / "cli.js"
    words = [find_node(), cli, "-p", "0", "-f", HERE / "aimock.json", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            said = next(line for line in process.stdout if "listening on" in line)
            yield Aimock(said.split()[-1])
        finally:
            process.kill()
