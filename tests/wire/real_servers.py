"""Agents against servers that others wrote: llama.cpp, and litellm's proxy in several directions.

    python -m tests.wire.real_servers --litellm VENV/bin/litellm
    python -m tests.wire.real_servers --llama llama-server --model tiny.gguf

Prints a table, and fails if a check does. Not part of the test suite: nothing is installed here. In
front of litellm's proxy stand axe_nb's OpenAI and Anthropic clients; behind it are its own mock
model and scripts of axe_nb, served in either protocol. The model of llama.cpp calls a tool if it is
given one, and else answers in text; a script here does the same.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import axe_nb
from axe_nb import Agent
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.agents.user_config import Config
from axe_nb.commands import doctor
from axe_nb.engine.plan import make_server
from axe_nb.messages import Request, Response, ToolCall, Usage
from axe_nb.session.portal import run_and_wait

DONE = "All doneé😀."
MOCKED = "Hello é😀 there"
START_SECONDS = 180
FACT = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}

Check = Callable[["Direction", bool], None]


@dataclass(frozen=True)
class Direction:
    """A way through a real server."""

    name: str
    provider: str
    """Name of its table in config.toml."""
    model: str
    """Its scripted model; empty if it has none."""
    mocks: str = ""
    """Beginning of the names of litellm's mock models; empty if it has none."""

    def agent(self, model: str = "", **more: Any) -> Agent:
        return Agent("lead", f"{self.provider}/{model or self.model}", **more)


def run(agent: Agent, prompt: str, stream: bool, **more: Any) -> Any:
    return axe_nb.run(agent, prompt, stream=stream, display=False, timeout=60, retries=0, **more)


def say(way: Direction, stream: bool) -> None:
    model, expected = (f"{way.mocks}text", MOCKED) if way.mocks else ("", DONE)
    result = run(way.agent(model), "[say] something", stream)
    assert (result.text, result.status) == (expected, "completed"), (result.text, result.cause)
    assert way.mocks or result.usage.input_tokens > 0, "input tokens"
    assert result.usage.output_tokens > 0, "output tokens"


def delegate(way: Direction, stream: bool, prompt: str = "go", children: int = 1) -> None:
    axe_nb.define(Agent("hi", f"{way.provider}/{way.model}", sub_agents=()))
    lead = way.agent(
        sub_agents=("hi",), sub_agents_config=SubAgentsConfig(max_depth=1, max_turns=4)
    )
    result = run(lead, prompt, stream)
    assert (result.text, result.status) == (DONE, "completed"), (result.text, result.cause)
    found = [(child.agent, child.text, child.status) for child in result.children]
    assert found == [("hi", DONE, "completed")] * children, found


def delegate_in_parallel(way: Direction, stream: bool) -> None:
    delegate(way, stream, "[two]", children=2)


def structured(way: Direction, stream: bool) -> None:
    result = run(way.agent(), "a fact", stream, output=FACT)
    assert result.status == "completed", result.cause
    assert isinstance(result.data["fact"], str), result.data


def cut(way: Direction, stream: bool) -> None:
    result = run(way.agent(params={"max_tokens": 12}), "[long]", stream)
    assert "blah" in result.text, (result.text, result.cause)
    assert any("max_tokens" in warning for warning in result.warnings), result.warnings


def mock_tool(way: Direction, stream: bool) -> None:
    axe_nb.define(way.agent(f"{way.mocks}text").but(name="test-runner"))
    lead = way.agent(
        f"{way.mocks}tool",
        sub_agents=("test-runner",),
        sub_agents_config=SubAgentsConfig(max_turns=2),
    )
    result = run(lead, "go", stream)
    assert [(c.agent, c.text) for c in result.children[:1]] == [("test-runner", MOCKED)], (
        result.cause
    )


def fail_with(model: str, category: str) -> Check:
    def check(way: Direction, stream: bool) -> None:
        cause = run(way.agent(f"{way.mocks}{model}"), "hi", stream).cause
        assert getattr(cause, "category", "") == category, cause

    check.__name__ = f"{model} is {category}"
    return check


def wrong_key(way: Direction, stream: bool) -> None:
    variable = Config.load().provider(way.provider).key_variable
    key, os.environ[variable] = os.environ[variable], "sk-not-a-key-of-this-proxy"
    try:
        cause = run(way.agent(f"{way.mocks}text"), "hi", stream).cause
    finally:
        os.environ[variable] = key
    # a proxy without a database answers 400 "No connected db."
    assert getattr(cause, "category", "") in ("auth", "bad_request"), cause
    assert "sk-not-a-key-of-this-proxy" not in str(cause)


def listed(way: Direction, stream: bool) -> None:
    names = run_and_wait(doctor.list_models(make_server(way.provider, Config.load())))
    assert names, "no model"


SCRIPTED: Sequence[Check] = (say, delegate, delegate_in_parallel, structured, cut)
RATE_LIMIT, FAILURE = fail_with("ratelimit", "rate_limit"), fail_with("500", "server")
UNKNOWN = fail_with("nonsense", "bad_request")
MOCKS: Sequence[Check] = (say, mock_tool, RATE_LIMIT, FAILURE, wrong_key, UNKNOWN, listed)
NOT_MOCKED = {"anthropic": (mock_tool,), "responses": (mock_tool, RATE_LIMIT, FAILURE)}
"""Protocol → what litellm's mock model does not do over it: it answers in text instead."""

NOT_TOLD = {"responses": (cut,)}
"""Protocol → what llama.cpp does not tell over it: a reply that the limit cut is `completed`."""


def answer(request: Request) -> Response:
    """The scripted model: calls a tool if it has one, and else answers in text."""
    last, used = request.messages[-1], Usage(input_tokens=7, output_tokens=3)
    text = last.content if isinstance(last.content, str) else str(last.content)
    if "[long]" in text:
        return Response("blah " * 12, (), "max_tokens", used)
    if request.output and "fact" in str(request.output):
        return Response(json.dumps({"fact": "hi"}), (), "end", used)
    tool = next((tool for tool in request.tools if tool.name != "read_file"), None)
    if tool is None or last.role == "tool" or "[say]" in text:
        return Response(DONE, (), "end", used)
    arguments = {"agent": "hi", "task": "hi"} if tool.name == "call_agent" else {"fact": "hi"}
    calls = [ToolCall(f"call_{secrets.token_hex(4)}", tool.name, arguments) for _ in range(2)]
    return Response("", tuple(calls[: 2 if "[two]" in text else 1]), "tool_calls", used)


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def started(words: Sequence[str], url: str, log: Path, **variables: str) -> Iterator[None]:
    """Runs a server until its end; `url` answers once it is ready."""
    with log.open("w") as out:
        process = subprocess.Popen(
            words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=os.environ | variables
        )
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, f"{words[0]} ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < until, f"{words[0]} did not start"
            with suppress(OSError), urllib.request.urlopen(url, timeout=2):
                break
            time.sleep(0.5)
        yield
    finally:
        process.terminate()
        process.wait(20)


FRONTS = {
    "openai": 'protocol = "openai"',
    "anthropic": 'protocol = "anthropic"',
    "responses": 'protocol = "openai"\napi = "responses"',
}
"""What a request is sent in → the lines of config.toml."""


def write_settings(name: str, url: str) -> None:
    """Names the server's address in each protocol."""
    tables = [
        f'[providers.{name}-{front}]\n{lines}\nbase_url = "{url}"\n'
        for front, lines in FRONTS.items()
    ]
    path = Path(os.environ["XDG_CONFIG_HOME"], "axe", "config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(tables))


@contextmanager
def litellm(program: str, folder: Path) -> Iterator[list[tuple[Direction, Sequence[Check]]]]:
    """The proxy, before its mock models and two script servers."""
    port, key = find_port(), f"sk-{secrets.token_hex(16)}"
    calls = [{
        "id": "call_abc", "type": "function",
        "function": {"name": "call_agent", "arguments": '{"agent": "test-runner", "task": "run"}'},
    }]  # fmt: skip
    mocks: dict[str, dict[str, Any]] = {
        "text": {"mock_response": MOCKED},
        "tool": {"mock_response": "calling", "mock_tool_calls": calls},
        "ratelimit": {"mock_response": "litellm.RateLimitError"},
        "500": {"mock_response": "litellm.InternalServerError"},
    }
    models = [
        {
            "model_name": f"mock-{name}",
            "litellm_params": {"model": "openai/m", "api_key": "x", **one},
        }
        for name, one in mocks.items()
    ]
    axe_nb.script("scripted")(answer)
    backs = {
        "openai": "openai/scripted", "anthropic": "anthropic/scripted",
        "responses": "openai/responses/scripted",
    }  # fmt: skip
    with ExitStack() as ends:
        for back, model in backs.items():
            url = ends.enter_context(axe_nb.script_server(cast(Any, back))).base_url
            url += "" if back == "anthropic" else "/v1"
            params = {"model": model, "api_base": url, "api_key": "x"}
            models.append({"model_name": f"behind-{back}", "litellm_params": params})
        settings = {
            "model_list": models,
            "litellm_settings": {
                "telemetry": False,
                "drop_params": True,
                "num_retries": 0,
                "use_chat_completions_url_for_anthropic_messages": True,
            },
            "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        }
        (folder / "litellm.json").write_text(json.dumps(settings, ensure_ascii=False), "utf-8")
        words = [program, "--config", str(folder / "litellm.json"), "--host", "127.0.0.1"]
        write_settings("litellm", f"http://127.0.0.1:{port}")
        for front in FRONTS:
            os.environ[f"LITELLM_{front.upper()}_API_KEY"] = key
        found: list[tuple[Direction, Sequence[Check]]] = []
        for front in FRONTS:
            to_mock = Direction(f"{front} > litellm > mock", f"litellm-{front}", "", "mock-")
            found.append((to_mock, [one for one in MOCKS if one not in NOT_MOCKED.get(front, ())]))
            for back in backs:
                if (front, back) == ("responses", "openai"):
                    continue  # which the proxy passes on as it is, to a server of Chat Completions
                name = f"{front} > litellm > {back} script"
                found.append((Direction(name, f"litellm-{front}", f"behind-{back}"), SCRIPTED))
        ready = f"http://127.0.0.1:{port}/health/liveliness"
        with started(
            [*words, "--port", str(port), "--num_workers", "1"], ready, folder / "litellm.log",
            LITELLM_MASTER_KEY=key, LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False",
            DISABLE_ADMIN_UI="True",
        ):  # fmt: skip
            yield found


@contextmanager
def llama(
    program: str, model: str, folder: Path
) -> Iterator[list[tuple[Direction, Sequence[Check]]]]:
    """llama.cpp's server with the model of a file."""
    url = f"http://127.0.0.1:{find_port()}"
    words = [program, "-m", model, "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
    more = ["--jinja", "--temp", "0", "-np", "2", "-c", "16384", "-t", "1", "--no-warmup"]
    write_settings("llama", url)
    with started([*words, *more], f"{url}/health", folder / "llama.log"):
        yield [
            (
                Direction(f"{front} > llama.cpp", f"llama-{front}", "tiny"),
                [one for one in (*SCRIPTED, listed) if one not in NOT_TOLD.get(front, ())],
            )
            for front in FRONTS
        ]


def try_all(directions: Sequence[tuple[Direction, Sequence[Check]]]) -> int:
    """Prints how many checks each direction passes; returns how many fail."""
    failures = 0
    for way, checks in directions:
        failed = 0
        for check, stream in product(checks, (False, True)):
            try:
                check(way, stream)
            except (AssertionError, axe_nb.AxeError, KeyError, TypeError) as error:
                failed += 1
                how = "streamed" if stream else "plain"
                print(f"  failed: {way.name}: {check.__name__}, {how}: {str(error)[:300]}")
        total = 2 * len(checks)
        print(f"{way.name}: {total - failed} of {total} checks", flush=True)
        failures += failed
    return failures


def main() -> bool:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.real_servers")
    parser.add_argument("--litellm", help="its program, of an environment with litellm[proxy]")
    parser.add_argument("--llama", help="llama.cpp's llama-server")
    parser.add_argument("--model", help="its model, a .gguf file")
    given = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"XDG_CONFIG_HOME": name, "XDG_STATE_HOME": f"{name}/state"}
        os.chdir(name)
        if given.litellm:
            with litellm(given.litellm, Path(name)) as directions:
                failures += try_all(directions)
        if given.llama:
            with llama(given.llama, given.model, Path(name)) as directions:
                failures += try_all(directions)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
