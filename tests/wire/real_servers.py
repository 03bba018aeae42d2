"""Agents against servers that others wrote: llama.cpp, and litellm's proxy before script servers.

    python -m tests.wire.real_servers --litellm VENV/bin/litellm
    python -m tests.wire.real_servers --llama llama-server --model tiny.gguf

Prints a line for each check that fails, and a count. Not part of the test suite: nothing is
installed here. The model of llama.cpp calls a tool if it is given one, and else answers in text; a
script here, behind litellm, does the same.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, cast

import axe_nb
from axe_nb import Agent
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.messages import Request, Response, ToolCall, Usage

DONE = "All doneé😀."
FACT = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}

FRONTS = {
    "openai": 'protocol = "openai"',
    "anthropic": 'protocol = "anthropic"',
    "responses": 'protocol = "openai"\napi = "responses"',
}
"""Protocol of a request → the lines of config.toml."""

BACKS = {
    "openai": "openai/scripted", "anthropic": "anthropic/scripted",
    "responses": "openai/responses/scripted",
}  # fmt: skip
"""Protocol of a script server behind litellm → its model, as litellm writes it."""


def run(model: str, prompt: str, stream: bool, *, output: Any = None, **keys: Any) -> Any:
    result = axe_nb.run(
        Agent("lead", model, **keys), prompt,
        stream=stream, display=False, timeout=60, retries=0, output=output,
    )  # fmt: skip
    assert result.status == "completed", result.cause
    return result


def say(model: str, stream: bool) -> None:
    result = run(model, "[say] something", stream)
    assert result.text == DONE
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


def delegate(model: str, stream: bool) -> None:
    axe_nb.define(Agent("hi", model, sub_agents=()))
    config = SubAgentsConfig(max_depth=1, max_turns=4)
    for prompt, children in (("go", 1), ("[two]", 2)):
        result = run(model, prompt, stream, sub_agents=("hi",), sub_agents_config=config)
        assert (result.text, [child.text for child in result.children]) == (DONE, [DONE] * children)


def structured(model: str, stream: bool) -> None:
    assert isinstance(run(model, "a fact", stream, output=FACT).data["fact"], str)


def cut(model: str, stream: bool) -> None:
    result = run(model, "[long]", stream, params={"max_tokens": 12})
    assert "blah" in result.text
    assert any("max_tokens" in warning for warning in result.warnings), result.warnings


CHECKS: Sequence[Callable[[str, bool], None]] = (say, delegate, structured, cut)


def answer(request: Request) -> Response:
    """The scripted model: calls a tool if it has one, and else answers in text."""
    last, used = request.messages[-1], Usage(input_tokens=7, output_tokens=3)
    if "[long]" in last.content:
        return Response("blah " * 12, (), "max_tokens", used)
    if request.output and "fact" in str(request.output):
        return Response(json.dumps({"fact": "hi"}), (), "end", used)
    tool = next((tool for tool in request.tools if tool.name != "read_file"), None)
    if tool is None or last.role == "tool" or "[say]" in last.content:
        return Response(DONE, (), "end", used)
    arguments = {"agent": "hi", "task": "hi"} if tool.name == "call_agent" else {"fact": "hi"}
    count = 2 if "[two]" in last.content else 1
    calls = [ToolCall(f"call_{n}", tool.name, arguments) for n in range(count)]
    return Response("", tuple(calls), "tool_calls", used)


@contextmanager
def started(words: Sequence[str], ready: str, **variables: str) -> Iterator[None]:
    """Runs a server, named in each protocol in config.toml; `ready` is its path for probes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    tables = [f'[providers.real-{f}]\n{keys}\nbase_url = "{url}"\n' for f, keys in FRONTS.items()]
    path = Path(os.environ["XDG_CONFIG_HOME"], "axe", "config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(tables))
    words = [*words, "--host", "127.0.0.1", "--port", port]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=os.environ | variables)
    try:
        until = time.monotonic() + 180
        while True:
            assert process.poll() is None, f"{words[0]} ended"
            assert time.monotonic() < until, f"{words[0]} did not start"
            with suppress(OSError), urllib.request.urlopen(url + ready, timeout=2):
                break
            time.sleep(0.5)
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def litellm(program: str) -> Iterator[list[str]]:
    """Runs the proxy before a script server of each protocol; yields the models to ask."""
    axe_nb.script("scripted")(answer)
    models = []
    with ExitStack() as ends:
        for back, model in BACKS.items():
            url = ends.enter_context(axe_nb.script_server(cast(Any, back))).base_url
            url += "" if back == "anthropic" else "/v1"
            params = {"model": model, "api_base": url, "api_key": "x"}
            models.append({"model_name": f"behind-{back}", "litellm_params": params})
        settings = {
            "model_list": models,
            "litellm_settings": {
                "telemetry": False, "drop_params": True, "num_retries": 0,
                "use_chat_completions_url_for_anthropic_messages": True,
            },
            "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        }  # fmt: skip
        Path("litellm.json").write_text(json.dumps(settings), "utf-8")
        for front in FRONTS:
            os.environ[f"REAL_{front.upper()}_API_KEY"] = "sk-litellm-1234567890"
        ends.enter_context(started(
            [program, "--config", "litellm.json"], "/health/liveliness",
            LITELLM_MASTER_KEY="sk-litellm-1234567890", LITELLM_LOCAL_MODEL_COST_MAP="True",
        ))  # fmt: skip
        # but for what the proxy passes on as it is, to a server of Chat Completions
        pairs = [pair for pair in product(FRONTS, BACKS) if pair != ("responses", "openai")]
        yield [f"real-{front}/behind-{back}" for front, back in pairs]


@contextmanager
def llama(program: str, model: str) -> Iterator[list[str]]:
    """Runs llama.cpp's server with the model of a file; yields the models to ask."""
    more = ["--jinja", "--temp", "0", "-np", "2", "-c", "16384", "-t", "1", "--no-warmup"]
    with started([program, "-m", model, *more], "/health"):
        yield [f"real-{front}/tiny" for front in FRONTS]


def main() -> bool:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.real_servers")
    parser.add_argument("--litellm", help="its program, of an environment with litellm[proxy]")
    parser.add_argument("--llama", help="llama.cpp's llama-server")
    parser.add_argument("--model", help="its model, a .gguf file")
    given = parser.parse_args()
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        os.environ |= {"XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": f"{folder}/state"}
        os.chdir(folder)
        servers = [litellm(given.litellm)] if given.litellm else []
        servers += [llama(given.llama, given.model)] if given.llama else []
        for server in servers:
            for model, check, stream in product(ends.enter_context(server), CHECKS, (False, True)):
                if model == "real-responses/tiny" and check is cut:
                    continue  # llama.cpp calls the cut reply `completed`
                total += 1
                try:
                    check(model, stream)
                except (AssertionError, axe_nb.AxeError, KeyError, TypeError) as error:
                    failed += 1
                    print(f"failed: {model}: {check.__name__}, stream={stream}: {error}"[:400])
    print(f"{total - failed} of {total} checks passed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
