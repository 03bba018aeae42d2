"""OpenAI's server as it was in November 2026, with its refusals.

Chat Completions refuses tools for models that always reason, some models exist in one API only, and
the Responses API wants its items back as they were. Its model thinks, searches the web once if it
may, calls tools once if it has any, and answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from tests.protocols import settings
from tests.providers import sdk
from tests.providers.dialects import BY_NAME, KEY, make_call, make_message, make_response
from tests.wire.replay import Asked, Replay
from tests.wire.search_server import event

REASONS = re.compile(r"gpt-(5\.6|[6-9])")
ONLY_RESPONSES = re.compile(r"gpt-.*-(pro|codex)")

TOOLS = (
    "Function tools with reasoning_effort are not supported for {} in /v1/chat/completions. To use "
    "function tools, use /v1/responses or set reasoning_effort to 'none'."
)
WRONG = "This model is only supported in v1/responses and not in v1/chat/completions."
UNVERIFIED = (
    "Your organization must be verified to generate reasoning summaries. If you just verified, it "
    "can take up to 15 minutes for access to propagate."
)
THOUGHTS = "First the <b>towns</b>.", "Then the rivers."
ROOM = 100
"""Tokens that its thinking takes."""
SOURCE = "https://towers.example.org/list?a=1&b=2"
CITED = "https://heights.example.com/burj"


class Refused(Exception):
    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param = status, param


class OpenAI(Replay):
    """The server, at any host: it can be a proxy's too. It has what it was asked, and has said."""

    def __init__(self) -> None:
        super().__init__({})
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.said: list[list[dict[str, Any]]] = []
        self.is_verified = True
        """If false, it writes no summaries for the organization."""

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def reply_to(self, name: str, asked: Asked) -> dict[str, Any]:
        path, body = f"/{name}{asked.path}", asked.body
        self.requests.append((path, body))
        answers = {"/v1/chat/completions": self._complete, "/v1/responses": self._respond}
        try:
            reply = answers[path](body)
        except Refused as refused:
            error = {"message": str(refused), "type": "invalid_request_error",
                     "param": refused.param, "code": None}  # fmt: skip
            return {"status": refused.status, "body": {"error": error}}
        if not body.get("stream") or path != "/v1/responses":
            return {"body": reply}
        events = "".join(map(event, stream(reply)))
        size = max(300, len(events) // 20)
        pieces = [events[at : at + size] for at in range(0, len(events), size)]
        return {"headers": {"content-type": "text/event-stream"}, "stream": pieces}

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        model = body["model"]
        if ONLY_RESPONSES.match(model):
            raise Refused(WRONG, 404, "model")
        if REASONS.match(model) and body.get("tools"):
            raise Refused(TOOLS.format(model), 400, "reasoning_effort")
        if REASONS.match(model) and "max_tokens" in body:
            raise Refused("Unsupported parameter: 'max_tokens' is not supported with this model. "
                          "Use 'max_completion_tokens' instead.", 400, "max_tokens")  # fmt: skip
        sdk.takes("openai", body)
        return BY_NAME["openai"].reply("By Chat Completions.", (), "stop")

    def _respond(self, body: dict[str, Any]) -> dict[str, Any]:
        for key in body.keys() - ResponseCreateParamsBase.__annotations__.keys() - {"stream"}:
            raise Refused(f"Unsupported parameter: '{key}'.", 400, key)
        if body.get("store") is not False or "previous_response_id" in body:
            raise Refused("this organization keeps no data")
        sdk.takes("responses", body)
        self._check_input(body["input"])
        asks = body.get("reasoning", {})
        if "summary" in asks and not self.is_verified:
            raise Refused(UNVERIFIED, 400, "reasoning.summary")
        thoughts = THOUGHTS if "summary" in asks else ()
        reasons = REASONS.match(body["model"]) and asks.get("effort") != "none"
        items = [*(self._think(thoughts) if reasons else ()), *self._act(body)]
        for at, item in enumerate(items):
            item["id"] = f"{item['id'][:3]}_{len(self.said)}_{at}"
        self.said.append(items)
        reply = make_response(items, "stop")
        reply["usage"]["output_tokens_details"]["reasoning_tokens"] = ROOM if reasons else 0
        return reply

    def _think(self, thoughts: Sequence[str]) -> list[dict[str, Any]]:
        summary = [{"type": "summary_text", "text": text} for text in thoughts]
        secret = f"gAAAA{len(self.said)}"
        return [{"type": "reasoning", "id": "rs_", "summary": summary, "encrypted_content": secret}]

    def _act(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The items behind those of the thinking."""
        tools = [tool.get("name", tool["type"]) for tool in body.get("tools", ())]
        kinds = [item["type"] for item in body["input"]]
        if "web_search" in tools and "web_search_call" not in kinds:
            sources = [{"type": "url", "url": SOURCE}]
            told = "web_search_call.action.sources" in body.get("include", ())
            cited = make_cited("The tallest is the Burj.")
            return [make_search(sources if told else None), *self._think(()), cited]
        if "function_call_output" in kinds:
            return [{**make_message("By Responses."), "phase": "final_answer"}]
        if "look" in tools:
            return [
                {**make_message("I look."), "phase": "commentary"},
                make_call(0, "call_0", "look", '{"at": "a"}'),
                make_call(1, "call_1", "look", '{"at": "b"}'),
            ]
        return [make_message("By Responses.")]

    def _check_input(self, items: list[dict[str, Any]]) -> None:
        """Checks that each turn with reasoning comes back whole, unchanged and in order."""
        rests = {item["id"]: said[at:] for said in self.said for at, item in enumerate(said)}
        for at, item in enumerate(items):
            if item.get("type") != "reasoning":
                continue
            said = rests.get(item["id"], [])
            came = items[at : at + len(said)]
            if not said or [*map(_normal, came)] != [*map(_normal, said)]:
                raise Refused("The encrypted content could not be verified.")
        named = [item["id"] for item in items if "id" in item]
        for id in named:
            if named.count(id) > 1:
                raise Refused(f"Duplicate item found with id {id}. Remove duplicate items.")
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        if calls != results:
            raise Refused("No tool output found for function call.")


def _normal(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item with its arguments as data: they come back equal, not in the same letters."""
    arguments = {"arguments": json.loads(item["arguments"])} if "arguments" in item else {}
    return {**item, **arguments}


def make_search(sources: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """A search among the items of a reply, with its sources if they were asked for."""
    action: dict[str, Any] = {"type": "search", "query": "tallest tower"}
    if sources is not None:
        action["sources"] = [*sources]
    return {"type": "web_search_call", "id": "ws_", "status": "completed", "action": action}


def make_cited(text: str) -> dict[str, Any]:
    """A message that cites two pages."""
    message = make_message(text)
    message["content"][0]["annotations"] = [
        {"type": "url_citation", "start_index": 0, "end_index": 3, "url": url, "title": title}
        for url, title in ((SOURCE, "Towers of the world"), (CITED, "Heights"))
    ]
    return message


def stream(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(reply["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"content": [], "arguments": "", "summary": [], "encrypted_content": "",
                 "status": "in_progress"}  # fmt: skip
        bare = {key: empty.get(key, value) for key, value in item.items() if key != "action"}
        yield {"type": "response.output_item.added", **at, "item": bare}
        texts = {
            "reasoning": [
                ("reasoning_summary_text", part["text"]) for part in item.get("summary", ())
            ],
            "message": [("output_text", part["text"]) for part in item.get("content", ())],
            "function_call": [("function_call_arguments", item.get("arguments", ""))],
        }
        for number, (kind, text) in enumerate(texts.get(item["type"], ())):
            if kind == "reasoning_summary_text":
                start = {"summary_index": number, "part": {"type": "summary_text", "text": ""}}
                yield {"type": "response.reasoning_summary_part.added", **at, **start}
            for begin in range(0, len(text), 5):
                piece = text[begin : begin + 5]
                yield {"type": f"response.{kind}.delta", **at, "delta": piece}
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": f"response.{reply['status']}", "response": reply}


OWN = "http://api.openai.com"
"""OpenAI's own address without TLS, so that a proxy sees what is sent."""


@contextmanager
def at_own_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    with OpenAI() as running:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, running.root)
        for name in ("no_proxy", "NO_PROXY", "AXE_OPENAI_BASE_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        settings(f'[providers.openai]\nbase_url = "{OWN}"\n')
        yield running
