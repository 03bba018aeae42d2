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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import ConfigError, ProviderError, Request, Response, ToolCall, Usage
from axe_nb.scripting.lookup import functions
from axe_nb.scripting.server import ScriptServer, script_server
from axe_nb.scripting.wire import WIRES, Malformed, Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.scripting.served import PATHS, body, post
from tests.waiting import eventually

RULES = """
[[rule]]
when = "^slow"
delay = 30
text = "late"

[[rule]]
when = "^status (?P<code>.)"
status = 429
error = "slow down, please"

[[rule]]
when = "^bare"
status = 503

[[rule]]
when = "^refused"
error = "refused"

[[rule]]
when = "^timeout"
error = "timeout"

[[rule]]
when = "^ask (?P<what>.+)"
text = "I ask."
calls = [
  { tool = "look", arguments = { at = "{what}", n = 2 } },
  { tool = "look", arguments = { at = "ö" } },
]

[[rule]]
when = "^cut"
text = "cu"
stop_reason = "max_tokens"

[[rule]]
when = "^agent"
text = "{agent} in turn {turn}"

[[rule]]
when = "answers: "
text = "no rule sees this"

[[rule]]
when = { turn = 2 }
text = "You said {results}."

[[rule]]
when = "^hi"
text = "Hello."
usage = { input_tokens = 11, output_tokens = 22 }
"""


@pytest.fixture(autouse=True)
def scripts(project: Path) -> Iterator[None]:
    """A project with the script `lead`, and no functions but the test's own."""
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "lead.toml").write_text(RULES, "utf-8")
    yield
    functions.clear()


def test_anthropic_answers_as_its_server_does() -> None:
    with script_server("anthropic") as server:
        assert post(server, "ask why").json() == {
            "id": "msg_script_1",
            "type": "message",
            "role": "assistant",
            "model": "lead",
            "content": [
                {"type": "text", "text": "I ask."},
                {"type": "tool_use", "id": "toolu_script_1_0", "name": "look",
                 "input": {"at": "why", "n": 2}},
                {"type": "tool_use", "id": "toolu_script_1_1", "name": "look",
                 "input": {"at": "ö"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 10},
        }  # fmt: skip
        assert post(server, "hi").json()["stop_reason"] == "end_turn"
        assert post(server, "hi").json()["usage"] == {"input_tokens": 11, "output_tokens": 22}
        assert post(server, "cut").json()["stop_reason"] == "max_tokens"


def test_openai_answers_as_its_server_does() -> None:
    with script_server("openai") as server:
        reply = post(server, "ask why").json()
        assert reply["object"] == "chat.completion"
        assert reply["choices"][0]["finish_reason"] == "tool_calls"
        assert reply["choices"][0]["message"] == {
            "role": "assistant",
            "content": "I ask.",
            "refusal": None,
            "tool_calls": [
                {"id": "call_script_1_0", "type": "function",
                 "function": {"name": "look", "arguments": '{"at":"why","n":2}'}},
                {"id": "call_script_1_1", "type": "function",
                 "function": {"name": "look", "arguments": '{"at":"ö"}'}},
            ],
        }  # fmt: skip
        assert reply["usage"] == {
            "prompt_tokens": 1, "completion_tokens": 10, "total_tokens": 11
        }  # fmt: skip
        assert post(server, "hi").json()["choices"][0]["finish_reason"] == "stop"
        assert post(server, "cut").json()["choices"][0]["finish_reason"] == "length"


def test_ollama_answers_as_its_server_does() -> None:
    with script_server("ollama") as server:
        reply = post(server, "ask why").json()
        assert reply["message"] == {
            "role": "assistant",
            "content": "I ask.",
            "tool_calls": [
                {"function": {"index": 0, "name": "look", "arguments": {"at": "why", "n": 2}}},
                {"function": {"index": 1, "name": "look", "arguments": {"at": "ö"}}},
            ],
        }
        assert (reply["done"], reply["done_reason"]) == (True, "stop")
        assert (reply["prompt_eval_count"], reply["eval_count"]) == (1, 10)
        assert post(server, "cut").json()["done_reason"] == "length"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ids_of_a_functions_own_are_sent(protocol: Protocol) -> None:
    axe_nb.script("own")(lambda request: Response(tool_calls=(ToolCall("mine", "look"),)))
    with script_server(protocol) as server:
        key = "call_id" if protocol == "responses" else "id"
        assert f'"{key}":"mine"' in post(server, "hi", model="own").text


def test_the_vendors_own_clients_understand_the_servers() -> None:
    user: Any = [{"role": "user", "content": "ask why"}]
    with script_server("anthropic") as server:
        with anthropic.Anthropic(base_url=server.base_url, max_retries=0) as client:
            said = client.messages.create(model="lead", max_tokens=9, messages=user)
        assert [block.type for block in said.content] == ["text", "tool_use", "tool_use"]
        assert said.stop_reason == "tool_use"
    with script_server("openai") as server:
        with openai.OpenAI(base_url=server.base_url + "/v1", max_retries=0) as sdk:
            answer = sdk.chat.completions.create(model="lead", messages=user)
            models = [model.id for model in sdk.models.list()]
        calls: Any = answer.choices[0].message.tool_calls
        assert json.loads(calls[0].function.arguments) == {"at": "why", "n": 2}
        assert models == ["lead"]
    with script_server("ollama") as server:
        local = ollama.Client(server.base_url)
        reply = local.chat("lead", user)
        assert [call.function.arguments for call in reply.message.tool_calls or ()] == [
            {"at": "why", "n": 2}, {"at": "ö"},
        ]  # fmt: skip
        assert [model.model for model in local.list().models] == ["lead"]
        local._client.close()


CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "look", "input": {"at": "a"}},
            {"type": "tool_use", "id": "2", "name": "look", "input": {"at": "b"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "one", "is_error": False},
            {"type": "tool_result", "tool_use_id": "2", "is_error": True,
             "content": [{"type": "text", "text": "two"}]}]},
    ],
    "openai": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function",
             "function": {"name": "look", "arguments": '{"at":"a"}'}},
            {"id": "2", "type": "function",
             "function": {"name": "look", "arguments": '{"at":"b"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
    ],
    "responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"at":"a"}'},
        {"type": "function_call", "call_id": "2", "name": "look", "arguments": '{"at":"b"}'},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "function_call_output", "call_id": "2",
         "output": [{"type": "input_text", "text": "two"}]},
    ],
    "ollama": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "look", "arguments": {"at": "a"}}},
            {"function": {"name": "look", "arguments": {"at": "b"}}}]},
        {"role": "tool", "tool_name": "look", "content": "one"},
        {"role": "tool", "tool_name": "look", "content": "two"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_is_read_as_the_provider_wrote_it(protocol: Protocol) -> None:
    seen: list[Request] = []

    @axe_nb.script("own")
    def answer(request: Request) -> str:
        seen.append(request)
        return "fine"

    keys = {"anthropic": "system", "responses": "instructions"}
    top = {keys[protocol]: "Be brief."} if protocol in keys else {}
    with script_server(protocol) as server:
        said = post(server, "", messages=CONVERSATIONS[protocol], **top)
        post(server, "", messages=CONVERSATIONS[protocol], model="own", **top)
    assert "You said one\\n\\ntwo." in said.text
    [request] = seen
    assert (request.system, request.turn, request.model) == ("Be brief.", 2, "own")
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    assert [call.arguments for call in request.messages[1].tool_calls] == [{"at": "a"}, {"at": "b"}]
    assert [result.content for result in request.results] == ["one", "two"]


def test_text_beside_tool_results_is_a_message_after_them() -> None:
    last = CONVERSATIONS["anthropic"][-1]
    mixed = {**last, "content": [*last["content"], {"type": "text", "text": "agent?"}]}
    with script_server("anthropic") as server:
        said = post(server, "", messages=[*CONVERSATIONS["anthropic"][:-1], mixed])
    assert said.json()["content"][0]["text"] == "lead in turn 2"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_agent_of_a_served_script_is_the_models_name(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        assert "lead in turn 1" in post(server, "agent").text


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
        said = post(server, "status x")
        assert (said.status_code, said.json()) == (429, ERRORS[protocol])
        bare = post(server, "bare")
        assert (bare.status_code, bare.content) == (503, b"")


@pytest.mark.parametrize(
    ("protocol", "status", "kind"),
    [
        ("anthropic", 401, "authentication_error"),
        ("anthropic", 404, "not_found_error"),
        ("anthropic", 400, "invalid_request_error"),
        ("anthropic", 500, "api_error"),
        ("anthropic", 529, "overloaded_error"),
        ("openai", 401, "invalid_request_error"),
        ("openai", 500, "server_error"),
    ],
)
def test_a_status_has_the_kind_that_its_server_gives_it(
    protocol: Protocol, status: int, kind: str
) -> None:
    @axe_nb.script("own")
    def answer(request: Request) -> str:
        raise ProviderError("server", "x", status=status)

    with script_server(protocol) as server:
        said = post(server, "", model="own")
    assert said.status_code == status
    assert said.json()["error"]["type"] == kind


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


def test_refused_is_a_connection_closed_without_a_word() -> None:
    with script_server("openai") as server:
        with pytest.raises(httpx.RemoteProtocolError):
            post(server, "refused")
        assert (server.aborted, server.open_requests) == (0, 0)
        assert post(server, "hi").status_code == 200


@pytest.mark.req("D-8")
@pytest.mark.parametrize("text", ["timeout", "slow"])
def test_a_client_that_leaves_before_its_reply_is_noticed(text: str) -> None:
    with script_server("openai") as server:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.base_url + PATHS["openai"], json=body(text), timeout=0.2)
        assert eventually(lambda: server.aborted == 1 and server.open_requests == 0)


def test_a_functions_timeout_is_a_reply_that_never_comes() -> None:
    @axe_nb.script("own")
    def answer(request: Request) -> str:
        raise ProviderError("timeout", "too slow")

    with script_server("openai") as server, pytest.raises(httpx.ReadTimeout):
        httpx.post(server.base_url + PATHS["openai"], json=body("", model="own"), timeout=0.2)


def test_requests_in_flight_are_counted() -> None:
    async def some() -> None:
        async with httpx.AsyncClient() as client, asyncio.TaskGroup() as group:
            url = server.base_url + PATHS["openai"]
            asked = [group.create_task(client.post(url, json=body("slow"))) for _ in range(5)]
            assert await asyncio.to_thread(eventually, lambda: server.open_requests == 5)
            for task in asked:
                task.cancel()

    with script_server("openai") as server:
        asyncio.run(some())
        assert eventually(lambda: server.aborted == 5)


def test_200_requests_at_once_are_answered_side_by_side(project: Path) -> None:
    script = project / "axe" / "scripts" / "wait.toml"
    script.write_text('[[rule]]\ndelay = 1\ntext = "{last}"', "utf-8")
    most = 0

    async def one(client: httpx.AsyncClient, i: int) -> str:
        nonlocal most
        url = server.base_url + PATHS["openai"]
        said = await client.post(url, json=body(f"n{i}", model="wait"))
        most = max(most, server.open_requests)
        return str(said.json()["choices"][0]["message"]["content"])

    async def all_at_once() -> list[str]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=30) as client:
            return await asyncio.gather(*(one(client, i) for i in range(200)))

    with script_server("openai") as server:
        assert asyncio.run(all_at_once()) == [f"n{i}" for i in range(200)]
        assert len(server.requests) == 200
        assert most > 20
        assert server.open_requests == 0


def test_request_bodies_are_kept_in_order_of_arrival() -> None:
    with script_server("anthropic") as server, httpx.Client() as client:
        for text in ("hi", "hi 2", "unknown"):
            client.post(server.base_url + PATHS["anthropic"], json=body(text))
        client.get(server.base_url + "/v1/models")
        assert server.requests == [body("hi"), body("hi 2"), body("unknown")]


@pytest.mark.parametrize(
    ("protocol", "path", "names"),
    [
        ("anthropic", "/v1/models", lambda b: [m["id"] for m in b["data"]]),
        ("openai", "/v1/models", lambda b: [m["id"] for m in b["data"]]),
        ("ollama", "/api/tags", lambda b: [m["name"] for m in b["models"]]),
    ],
)
def test_known_scripts_are_listed_as_models(
    project: Path, protocol: Protocol, path: str, names: Callable[[Any], list[str]]
) -> None:
    axe_nb.script("a function")(lambda request: "x")
    with script_server(protocol) as server:
        listed = httpx.get(server.base_url + path).json()
        assert names(listed) == ["a function", "lead"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_script_is_an_unknown_model(protocol: Protocol) -> None:
    with script_server(protocol) as server:
        said = post(server, "hi", model="nobody")
    assert said.status_code == 404
    assert "script not found: nobody" in said.text


def test_a_served_script_is_no_path(project: Path) -> None:
    (project / "secret.toml").write_text('[[rule]]\ntext = "secret"', "utf-8")
    with script_server("openai") as server:
        for name in ("./secret.toml", "../../secret", str(project / "secret.toml")):
            said = post(server, "hi", model=name)
            assert said.status_code == 404
            assert "secret" not in said.text.replace(name, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_mistake_in_a_script_and_no_matching_rule_are_bad_requests(
    project: Path, protocol: Protocol
) -> None:
    (project / "axe" / "scripts" / "bad.toml").write_text("[[rule]]\ntxt = 1", "utf-8")
    with script_server(protocol) as server:
        mistake, unmatched = post(server, "hi", model="bad"), post(server, "what?")
    assert mistake.status_code == unmatched.status_code == 400
    assert "axe/scripts/bad.toml, line 2: rule 1: unknown key" in mistake.text
    assert "no rule of script" in unmatched.text


def test_ollama_streams_where_a_request_does_not_say() -> None:
    unsaid = {key: value for key, value in body("hi").items() if key != "stream"}
    for protocol, kind in (("ollama", "application/x-ndjson"), ("openai", "application/json")):
        with script_server(protocol) as server:  # type: ignore[arg-type]
            said = httpx.post(server.base_url + PATHS[protocol], json=unsaid)
        assert said.headers["content-type"] == kind


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "told"),
    [
        ("POST", "/v1/nothing", b"{}", 404, "POST /v1/chat/completions and GET /v1/models"),
        ("GET", "/v1/chat/completions", b"", 405, "method not allowed; use POST"),
        ("POST", "/v1/chat/completions", b"{", 400, "the body is not valid JSON"),
        ("POST", "/v1/chat/completions", b"[" * 100_000, 400, "the body is not valid JSON"),
        ("POST", "/v1/chat/completions", b"[1]", 400, "the body must be a JSON object"),
        ("POST", "/v1/chat/completions", b'{"model":"lead"}', 400, "messages must be a list"),
        (
            "POST",
            "/v1/chat/completions",
            b'{"model":"lead","messages":[{"role":"assistant","tool_calls":[{"function":'
            b'{"name":"look","arguments":"{"}}]}]}',
            400,
            "arguments of a tool call are not valid JSON",
        ),
        ("POST", "/v1/chat/completions?x=1", b'{"messages":[]}', 400, "model must be the name"),
    ],
)
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
        assert post(server, "hi").status_code == 200


def test_a_large_request_is_taken_and_a_huge_one_refused() -> None:
    with script_server("openai") as server:
        assert post(server, "hi " + "x" * 8_000_000).status_code == 200
        host, port = server.base_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 5) as line:
            line.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
            with pytest.raises(OSError):  # noqa: PT011  closed, in the system's own way
                line.sendall(piece * 64)


def test_one_connection_serves_one_request_after_another() -> None:
    with script_server("ollama") as server, httpx.Client() as client:
        url = server.base_url + PATHS["ollama"]
        for text in ("hi", "status x", "hi"):
            client.post(url, json=body(text))
        assert len(server._connections) == 1


def test_requests_may_be_sent_ahead_of_the_replies() -> None:
    axe_nb.script("own")(lambda request: time.sleep(0.1) or "late")
    content = json.dumps(body("hi", model="own")).encode()
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
    ).encode() + content
    with script_server("openai") as server:
        host, port = server.base_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 5) as line:
            line.sendall(request)
            assert eventually(lambda: server.open_requests == 1)
            line.sendall(request * 2)
            answered = b""
            while answered.count(b"HTTP/1.1 200") < 3:
                answered += line.recv(65536)
        assert len(server.requests) == 3


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
    threads = set(threading.enumerate())
    with script_server("openai") as server, httpx.Client() as idle:
        idle.post(server.base_url + PATHS["openai"], json=body("hi"))
        waiting = threading.Thread(target=lambda: _until_closed(server))
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


def _until_closed(server: ScriptServer) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(server, "timeout")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "text", "type", "tool_calls", "function", "arguments", "id",
                 "name", "input", "tool_use_id", "tools", "properties", "required", "parameters"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
ENTRIES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | JSON},
    optional={
        "content": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "tool_use", "tool_result"])},
                optional={"text": JSON, "content": JSON, "input": JSON, "id": JSON, "name": JSON},
            ),
            max_size=2,
        )
        | JSON,
        "tool_calls": st.lists(st.fixed_dictionaries({"function": JSON}), max_size=2) | JSON,
        "tool_call_id": JSON,
    },
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    entries=st.lists(ENTRIES, max_size=3) | JSON,
    tools=st.lists(
        st.fixed_dictionaries({}, optional={"name": JSON, "input_schema": JSON, "function": JSON}),
        max_size=2,
    )
    | JSON,
    system=JSON,
)
def test_no_body_breaks_a_server(entries: Any, tools: Any, system: Any) -> None:
    asked = {"model": "m", "messages": entries, "tools": tools, "system": system}
    for wire in WIRES.values():
        try:
            request = wire.read({**asked, "input": entries})
        except Malformed:
            continue
        response = Response(request.last, (), "stop", Usage(request.turn, 1))
        assert json.loads(json.dumps(wire(request).whole(response)))
