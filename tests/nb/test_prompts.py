"""What is typed into a cell is what reaches a model's server, brace for brace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from axe_nb.scripting.server import ScriptServer, script_server
from tests.nb.kernels import Kernel, Kernels, text
from tests.nb.prompts import UNCHANGED, UNKNOWN

pytestmark = pytest.mark.req("D-40")

ECHO = '[[rule]]\ntext = "heard"\n'


@contextmanager
def cells_and_server(
    project: Path, python: Path, kernels: Kernels
) -> Iterator[tuple[Kernel, ScriptServer]]:
    """A kernel whose agent `echo` asks a server on loopback, and that server."""
    (project / "axe" / "scripts").mkdir(exist_ok=True)
    (project / "axe" / "scripts" / "echo.toml").write_text(ECHO, "utf-8")
    (project / "axe" / "agents" / "echo.toml").write_text(
        'name = "echo"\nmodel = "openai/echo"\n', "utf-8"
    )
    with script_server("openai") as server:
        running = kernels.at(python, project)
        assert running.run("%load_ext axe_nb") == []
        yield running, server


def reached(server: ScriptServer) -> Any:
    """The user's message of the latest request."""
    return server.requests[-1]["messages"][-1]["content"]


def test_prompts_full_of_braces_reach_the_server_unchanged(
    project: Path, kernel_python: Path, kernels: Kernels
) -> None:
    with cells_and_server(project, kernel_python, kernels) as (cells, server):
        changed = {}
        for name, prompt in UNCHANGED.items():
            before = len(server.requests)
            said = cells.run(f"%%axe echo -q\n{prompt}")
            assert len(server.requests) == before + 1, f"{name}: {text(said)}"
            if reached(server) != prompt.rstrip("\n"):  # blank lines at the end say nothing
                changed[name] = reached(server)
        assert changed == {}
        for name, prompt in UNKNOWN.items():
            cells.run(f"%%axe echo -q --raw\n{prompt[0]}")
            assert reached(server) == prompt[0].removeprefix("# NBVAL_SKIP\n"), name
