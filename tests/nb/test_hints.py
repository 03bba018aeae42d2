"""The third line of an error: what to do at 401, 404, 429, refused, an Ollama without the model."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axe_nb import cli
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


def reply(status: int, message: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message}}, **more}


@pytest.mark.req("B-5")
def test_each_refusal_has_its_next_step(cells: Kernel) -> None:
    replies = {
        "401": reply(401, f"invalid key {KEY}"),
        "429": reply(429, "slow down"),
        "529": reply(529, "Overloaded"),
    }
    with Replay(replies) as server:
        point(cells, server.url("401"))
        for provider in PROTOCOLS:
            first, place, step = error_lines(cells, provider)
            assert first.startswith("ProviderError: auth: invalid key ***")
            assert place == f"in agent {provider}, turn 1"
            assert step == (
                f"check {provider.upper()}_API_KEY, or api_key under [providers.{provider}] "
                "in config.toml"
            )
        point(cells, server.url("429"))
        assert error_lines(cells, "openai")[2] == (
            "wait a moment, or allow more retries with --retries"
        )
        point(cells, server.url("529"))
        assert error_lines(cells, "anthropic")[2] == (
            "try again later, or allow more retries with --retries"
        )
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        point(cells, f"http://127.0.0.1:{port}")
        first, _, step = error_lines(cells, "ollama")
        assert "connection refused: is Ollama running?" in first
        assert step == "start it, or check AXE_OLLAMA_BASE_URL in the environment"


NAMES = {
    "data": [{"id": "llama3.1"}, {"id": "qwen3"}],
    "models": [{"name": "llama3.1"}, {"name": "qwen3"}],
}
MISSING = {"sequence": [reply(404, "no such model"), {"body": NAMES}]}


def test_a_missing_model_is_told_with_the_nearest_that_the_server_has(cells: Kernel) -> None:
    with Replay(dict.fromkeys(PROTOCOLS, MISSING)) as server:
        for protocol in PROTOCOLS:
            point(cells, server.url(protocol))
            first, _, step = error_lines(cells, protocol)
            assert first == "ProviderError: bad_request: no such model"
            pull = "`ollama pull llama3.2`, or " if protocol == "ollama" else ""
            assert step == f'{pull}did you mean "llama3.1"?'


def test_where_the_list_is_no_help_the_usual_hint_stays(cells: Kernel) -> None:
    replies = {
        "nothing": reply(404, "no such page"),
        "has": {
            "sequence": [
                reply(404, "wrong path"),
                {"body": {"data": [{"id": "llama3.2"}], "models": [{"name": "llama3.2:latest"}]}},
            ]
        },
    }
    with Replay(replies) as server:
        for name, provider in (("nothing", "openai"), ("has", "anthropic")):
            point(cells, server.url(name))
            assert error_lines(cells, provider)[2] == (
                f"check the model name, and AXE_{provider.upper()}_BASE_URL in the environment"
            )
        point(cells, server.url("nothing"))
        assert error_lines(cells, "ollama")[2] == "`ollama pull llama3.2`"


def test_the_command_has_the_same_next_step(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    piped: Callable[[bytes], None],
) -> None:
    (project / "axe" / "agents" / "a.toml").write_text('name = "a"\nmodel = "ollama/llama3.2"\n')
    with Replay({"x": MISSING}) as server:
        monkeypatch.setenv("AXE_OLLAMA_BASE_URL", server.url("x"))
        assert cli.main(["run", "a", "-p", "hi"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: bad_request: no such model",
        "in agent a, turn 1",
        '`ollama pull llama3.2`, or did you mean "llama3.1"?',
    ]
