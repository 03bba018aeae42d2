"""Scripts over a real socket, as plain httpx and the vendors' own clients see them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

import axe_nb
from axe_nb import ConfigError, ProviderError, Request
from axe_nb.scripting.rules import Fault, functions
from axe_nb.scripting.server import ScriptServer, script_server
from axe_nb.scripting.wire import WIRES, Protocol
from tests.protocols import PROTOCOLS, as_body, provider_of
from tests.waiting import eventually

PATHS = {protocol: wire.path for protocol, wire in WIRES.items()}


def body(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "lead", "messages": [{"role": "user", "content": text}],
            "stream": False, **more}  # fmt: skip


def post(server: ScriptServer, text: str, **more: Any) -> httpx.Response:
    url = server.base_url + PATHS[server.protocol]
    return httpx.post(url, json=as_body(server.protocol, body(text, **more)), timeout=10)


SAID = "I ask “both” of\u2028them \U0001f600."

RULES = f"""
stream = true

[[rule]]
when = "^ask"
text = "{SAID}"
calls = [
  {{ tool = "look", arguments = {{ at = "a rather long place", n = 2 }} }},
  {{ tool = "look", arguments = {{}} }},
]
usage = {{ input_tokens = 11, output_tokens = 22 }}

[[rule]]
when = "^hi"
text = "Hello."

[[rule]]
when = "^paced"
text = "one two three"
delay = 0.6

[[rule]]
when = "^status"
status = 429
error = "slow down, please"

[[rule]]
when = "^bare"
status = 503

[[rule]]
when = "^timeout"
error = "timeout"
"""


@pytest.fixture(autouse=True)
def scripts(project: Path) -> Iterator[None]:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "lead.toml").write_text(RULES, "utf-8")
    yield
    functions.clear()


def stream(server: ScriptServer, text: str, **more: Any) -> Any:
    url = server.base_url + PATHS[server.protocol]
    asked = as_body(server.protocol, body(text, **{"stream": True, **more}))
    return httpx.stream("POST", url, json=asked, timeout=more.pop("timeout", 10))


def events(reply: httpx.Response) -> list[Any]:
    found = []
    for block in reply.text.split("\n"):
        data = block.removeprefix("data: ")
        if data and not data.startswith("event: "):
            try:
                found.append(json.loads(data))
            except ValueError:
                found.append(data)
    return found


# ------------------------------------------------------------------------ the vendors' own clients


def test_the_anthropic_sdk_takes_the_stream_for_the_whole_reply() -> None:
    with script_server("anthropic") as server:
        client = anthropic.Anthropic(base_url=server.base_url, api_key="x", max_retries=0)
        asked: Any = {
            "model": "lead", "max_tokens": 9, "messages": [{"role": "user", "content": "ask"}],
        }  # fmt: skip
        with client.messages.stream(**asked) as streamed:
            kinds = [event.type for event in streamed]
            final = streamed.get_final_message()
        whole = client.messages.create(**asked)
        client.close()
    assert [b.to_dict() for b in final.content] == [b.to_dict() for b in whole.content]
    assert [block.type for block in final.content] == ["text", "tool_use", "tool_use"]
    for reply in (final, whole):
        assert reply.stop_reason == "tool_use"
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 22)
    assert all(kinds.count(kind) > 2 for kind in ("text", "input_json"))


def test_the_openai_sdk_takes_the_stream_for_the_whole_reply() -> None:
    with script_server("openai") as server:
        client = openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="x", max_retries=0)
        asked: Any = {"model": "lead", "messages": [{"role": "user", "content": "ask"}]}
        with client.chat.completions.stream(
            **asked, stream_options={"include_usage": True}
        ) as streamed:
            kinds = [event.type for event in streamed]
            final = streamed.get_final_completion()
        whole = client.chat.completions.create(**asked)
        client.close()
        unasked = events(post(server, "ask", stream=True))
    calls = []
    for reply in (final, whole):
        [choice] = reply.choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", SAID)
        made: Any = choice.message.tool_calls
        calls.append([(c.id, c.function.name, json.loads(c.function.arguments)) for c in made])
    assert calls[0] == calls[1]
    assert final.usage == whole.usage
    assert kinds.count("content.delta") > 2
    assert kinds.count("tool_calls.function.arguments.delta") > 2
    assert all("usage" not in chunk for chunk in unasked[:-1])


def test_the_openai_sdk_takes_the_stream_of_the_responses_api_for_the_whole_reply() -> None:
    with script_server("responses") as server:
        client = openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="x", max_retries=0)
        asked: Any = {"model": "lead", "input": "ask", "store": False}
        with client.responses.stream(**asked) as streamed:
            told = list(streamed)
            final = streamed.get_final_response()
        whole = client.responses.create(**asked)
        client.close()
    for reply in (final, whole):
        assert reply.output_text == SAID
        assert reply.usage
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 22)
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    done = [event.item for event in told if event.type == "response.output_item.done"]
    assert [item.to_dict() for item in done] == [item.to_dict() for item in whole.output]
    assert [item.type for item in done] == ["message", "function_call", "function_call"]
    kinds = [str(event.type) for event in told]
    for kind in ("output_text", "function_call_arguments"):
        assert kinds.count(f"response.{kind}.delta") > 2
    assert kinds[-1] == "response.completed"


def test_the_ollama_sdk_takes_the_stream_for_the_whole_reply() -> None:
    with script_server("ollama") as server:
        client = ollama.Client(server.base_url)
        asked: Any = {"model": "lead", "messages": [{"role": "user", "content": "ask"}]}
        pieces = list(client.chat(**asked, stream=True))
        whole = client.chat(**asked, stream=False)
        client._client.close()
    text = "".join(piece.message.content or "" for piece in pieces)
    assert text == whole.message.content == SAID
    calls = [c for piece in pieces for c in piece.message.tool_calls or ()]
    assert calls == whole.message.tool_calls
    assert len(pieces) > 6
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    for last in (pieces[-1], whole):
        assert (last.done_reason, last.prompt_eval_count, last.eval_count) == ("stop", 11, 22)


# -------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_no_script_can_answer_is_a_bad_request_or_an_unknown_model(
    project: Path, protocol: Protocol
) -> None:
    (project / "axe" / "scripts" / "bad.toml").write_text("[[rule]]\ntxt = 1", "utf-8")
    (project / "secret.toml").write_text('[[rule]]\ntext = "secret"', "utf-8")
    with script_server(protocol) as server:
        mistake, unmatched = post(server, "hi", model="bad"), post(server, "what?")
        for name in ("nobody", "./secret.toml", "../../secret", str(project / "secret.toml")):
            unknown = post(server, "hi", model=name)
            assert unknown.status_code == 404
            assert "secret" not in unknown.text.replace(name, "")
    assert mistake.status_code == unmatched.status_code == 400
    assert "axe/scripts/bad.toml, line 2: rule 1: unknown key" in mistake.text
    assert "no rule of script" in unmatched.text


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "told"),
    [
        ("POST", "/v1/nothing", b"{}", 404, "serves only POST /v1/chat/completions"),
        ("GET", "/v1/models", b"", 404, "serves only POST /v1/chat/completions"),
        ("POST", "/v1/chat/completions", b"{", 400, "the body is not valid JSON"),
        ("POST", "/v1/chat/completions", b"[1]", 400, "the body must be a JSON object"),
        ("POST", "/v1/chat/completions", b'{"model":"lead"}', 400, "messages must be a list"),
        ("POST", "/v1/chat/completions",
         b'{"model":"lead","messages":[{"role":"assistant","tool_calls":[{"function":'
         b'{"name":"look","arguments":"{"}}]}]}',
         400, "arguments of a tool call are not valid JSON"),
        ("POST", "/v1/chat/completions?x=1", b'{"messages":[]}', 400, "model must be the name"),
    ],
)  # fmt: skip
def test_what_the_real_server_would_refuse_is_refused(
    method: str, path: str, content: bytes, status: int, told: str
) -> None:
    with script_server("openai") as server:
        said = httpx.request(method, server.base_url + path, content=content)
    assert said.status_code == status
    assert told in said.json()["error"]["message"]


def test_what_is_no_http_is_refused_and_holds_up_nobody() -> None:
    with script_server("openai") as server:
        host, port = server.base_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 5) as line:
            line.sendall(b"\x16\x03\x01 no http\r\n\r\n")
            assert line.makefile("rb").readline().startswith(b"HTTP/1.1 400")
        with socket.create_connection((host, int(port)), 5) as line:
            line.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
        assert post(server, "hi " + "x" * 8_000_000).status_code == 200
    with script_server("openai", port=int(port)) as again:
        assert again.base_url == server.base_url


# -------------------------------------------------------------------------------------- failures

ERRORS: dict[str, Any] = {
    "anthropic": {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "slow down, please"},
    },
    "openai": {
        "error": {"message": "slow down, please", "type": "rate_limit_error",
                  "param": None, "code": "rate_limit_exceeded"},
    },
    "ollama": {"error": "slow down, please"},
}  # fmt: skip
ERRORS["responses"] = ERRORS["openai"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failure_has_its_status_and_the_protocols_own_body(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        for is_streamed in (False, True):
            said = post(server, "status x", stream=is_streamed)
            assert (said.status_code, said.json()) == (429, ERRORS[protocol])
        bare = post(server, "bare")
        assert (bare.status_code, bare.content) == (503, b"")


@pytest.mark.parametrize(
    ("category", "status"),
    [("auth", 401), ("bad_request", 400), ("rate_limit", 429), ("overloaded", 529),
     ("server", 500)],
)  # fmt: skip
def test_a_functions_own_error_is_sent_with_the_status_of_its_category(
    category: Any, status: int
) -> None:
    @axe_nb.script("own")
    def answer(request: Request) -> str:
        raise ProviderError(category, "told so", retry_after=1.5)

    with script_server("openai") as server:
        said = post(server, "", model="own")
    assert said.status_code == status
    assert said.json()["error"]["message"] == "told so"
    assert said.headers["retry-after"] == "1.5"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_function_fails_in_mid_stream_by_an_exception_or_a_fault(protocol: Protocol) -> None:
    def raises() -> None:
        raise ProviderError("overloaded", "too much")

    def stumbles() -> None:
        raise KeyError("oops")

    ends: dict[str, tuple[Callable[[], Any], str]] = {
        "raises": (raises, "too much"),
        "stumbles": (stumbles, 'script \\"talks\\" raised KeyError: '),
        "status": (lambda: Fault("no", 503), '"no"'),
        "unknown": (lambda: Fault("whatever"), "of a Fault without a status is one of timeout, "),
        "number": (lambda: 42, 'script \\"talks\\" yielded int, not text'),
    }

    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        yield "Half of "
        yield ends[request.last][0]()

    with script_server(protocol) as server:
        for how, (_, told) in ends.items():
            *_, last = events(post(server, how, model="talks", stream=True))
            assert told in json.dumps(last)


@pytest.mark.req("D-8")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_leaves_ends_the_stream_at_once(protocol: Protocol) -> None:
    ended: list[bool] = []

    @axe_nb.script("endless")
    async def endless(request: Request) -> Any:
        try:
            while True:
                yield "word "
                await asyncio.sleep(0.01)
        finally:
            ended.append(True)

    clients = 8  # a write or a read is the first to notice: both are seen
    with script_server(protocol) as server:
        for _ in range(clients):
            with stream(server, "x", model="endless") as reply:
                assert next(reply.iter_raw())
        assert eventually(lambda: (server.open_requests, server.aborted) == (0, clients))
        assert eventually(lambda: ended == [True] * clients)


# --------------------------------------------------------------------------------- the connection


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_event_is_a_chunk_of_its_own_at_its_time(protocol: Protocol) -> None:
    with script_server(protocol) as server, stream(server, "paced") as reply:
        kind = "application/x-ndjson" if protocol == "ollama" else "text/event-stream"
        assert reply.headers["content-type"].startswith(kind)
        arrived = [(time.monotonic(), chunk) for chunk in reply.iter_raw()]
    ends = b"}\n" if protocol == "ollama" else b"\n\n"
    assert all(chunk.endswith(ends) for _, chunk in arrived)
    words = [
        next(at for at, chunk in arrived if word in chunk) for word in (b"one ", b"two ", b"three")
    ]
    assert words[-1] - words[0] > 0.2


def test_ollama_streams_where_a_request_does_not_say() -> None:
    unsaid = {key: value for key, value in body("hi").items() if key != "stream"}
    for protocol, kind in (("ollama", "application/x-ndjson"), ("openai", "application/json")):
        with script_server(protocol) as server:  # type: ignore[arg-type]
            said = httpx.post(server.base_url + PATHS[protocol], json=unsaid)
        assert said.headers["content-type"] == kind


@pytest.mark.req("B-3")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_while_it_is_open_the_environment_names_it(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = provider_of(protocol).upper()
    url, key = f"AXE_{name}_BASE_URL", f"{name}_API_KEY"
    path = "/v1/responses" if protocol == "responses" else ""
    before = dict(os.environ)
    with script_server(protocol) as server:
        assert os.environ[url] == server.base_url + path
        assert os.environ[key]
        with script_server(protocol) as inner:
            assert os.environ[url] == inner.base_url + path != server.base_url + path
        assert os.environ[url] == server.base_url + path
    assert dict(os.environ) == before
    monkeypatch.setenv(key, "own")
    monkeypatch.setenv(url, "http://elsewhere")
    with script_server(protocol):
        assert os.environ[key] == "own"
        assert os.environ[url] != "http://elsewhere"
    assert (os.environ[key], os.environ[url]) == ("own", "http://elsewhere")


def test_another_protocol_is_refused() -> None:
    with pytest.raises(ConfigError) as raised, script_server("gemini"):  # type: ignore[arg-type]
        pass
    assert raised.value.message == 'no script server for protocol "gemini"'
    assert raised.value.hint == "use one of anthropic, openai, responses, ollama"


def test_closing_is_prompt_and_leaves_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def wait() -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            post(server, "timeout")

    threads = set(threading.enumerate())
    with script_server("openai") as server, httpx.Client() as idle:
        idle.post(server.base_url + PATHS["openai"], json=body("hi"))
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert eventually(lambda: server.open_requests == 1)
        started = time.monotonic()
    assert time.monotonic() - started < 30
    waiting.join(30)
    assert set(threading.enumerate()) <= threads
    with pytest.raises(httpx.ConnectError):
        post(server, "hi")
    assert server.aborted == 0
    assert capfd.readouterr() == ("", "")
