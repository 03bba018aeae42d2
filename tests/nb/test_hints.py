"""The third line of an error: what to do at 401, 404, 429, refused, an Ollama without the model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from axe_nb.scripting.wire import Protocol
from tests.nb.kernels import Kernel, Kernels
from tests.wire.replay import Replay

KEY = "sk-canary-5f0c8e1d7b6a4932"

PROTOCOLS: tuple[Protocol, ...] = ("anthropic", "openai", "ollama")


@pytest.fixture
def cells(project: Path, kernels: Kernels) -> Kernel:
    """A kernel with keys, and an agent for each provider."""
    for provider in PROTOCOLS:
        (project / "axe" / "agents" / f"{provider}.toml").write_text(
            f'name = "{provider}"\nmodel = "{provider}/llama3.2"\n', "utf-8"
        )
    running = kernels.at(Path(sys.executable), project)
    running.run("%load_ext axe_nb")
    running.run(f"import os\nfor p in {PROTOCOLS}: os.environ[p.upper() + '_API_KEY'] = '{KEY}'")
    return running


def point(cells: Kernel, url: str) -> None:
    """All providers at one server."""
    cells.run(f"for p in {PROTOCOLS}: os.environ['AXE_' + p.upper() + '_BASE_URL'] = '{url}'")


def error_lines(cells: Kernel, agent: str) -> list[str]:
    *_, error = cells.run(f"%%axe {agent}\nhi")
    whole = "\n".join(error["traceback"])
    assert KEY not in whole
    return whole.splitlines()


def test_a_missing_model_is_told_with_the_nearest_that_the_server_has(cells: Kernel) -> None:
    missing = {"status": 404, "body": {"error": {"message": "no such model"}}}
    names = {"data": [{"id": "llama3.1"}], "models": [{"name": "llama3.1"}]}
    with Replay({key: {"sequence": [missing, {"body": names}]} for key in PROTOCOLS}) as server:
        for protocol in PROTOCOLS:
            point(cells, server.url(protocol))
            first, _, step = error_lines(cells, protocol)
            assert first == "ProviderError: bad_request: no such model"
            pull = "`ollama pull llama3.2`, or " if protocol == "ollama" else ""
            assert step == f'{pull}did you mean "llama3.1"?'
