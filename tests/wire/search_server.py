"""A server of Anthropic's Messages that searches the web, and refuses what the real one refuses.

It holds every body against the SDK's types, and wants its blocks back as it has sent them, in
order: each call beside its result, the encrypted contents unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.providers import sdk
from tests.wire.replay import Asked, Replay

SECRET = "EqMDCioI" + "x" * 5000
"""Encrypted content of a result, as nobody but the server can read it."""


def use(query: str, id: str = "srvtoolu_1") -> dict[str, Any]:
    call = {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}}
    return {**call, "caller": {"type": "direct"}}


def page(title: str, url: str) -> dict[str, Any]:
    found = {"type": "web_search_result", "title": title, "url": url, "page_age": None}
    return {**found, "encrypted_content": SECRET}


def found(*pages: Mapping[str, Any], id: str = "srvtoolu_1") -> dict[str, Any]:
    result = {"type": "web_search_tool_result", "tool_use_id": id, "content": list(pages)}
    return {**result, "caller": {"type": "direct"}}


def text(words: str, *cited: tuple[str, str]) -> dict[str, Any]:
    if not cited:
        return {"type": "text", "text": words}
    citations = [
        {"type": "web_search_result_location", "cited_text": "…", "encrypted_index": "Eo8B",
         "title": title, "url": url}
        for title, url in cited
    ]  # fmt: skip
    return {"type": "text", "text": words, "citations": citations}


ANSWER: Sequence[Mapping[str, Any]] = (
    text("I will search."),
    use("tallest tower"),
    found(
        page("Towers of the world", "https://towers.example.org/list?a=1&b=2"),
        page("Old towers", "http://old.example.net/"),
    ),
    text("The tallest is "),
    text("the Burj.", ("Towers of the world", "https://towers.example.org/list?a=1&b=2")),
    text(" It is 828 m high.", ("Heights", "https://heights.example.com/burj")),
)


def reply(*content: Mapping[str, Any], stop: str = "end_turn", searches: int = 1) -> dict[str, Any]:
    usage = {
        "input_tokens": 1000, "output_tokens": 100,
        "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0},
    }  # fmt: skip
    body = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": list(content), "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    return {"body": body}


class SearchServer(Replay):
    """Sends the replies in turn, as a stream to those who ask for one."""

    def __init__(self, *replies: Mapping[str, Any]) -> None:
        super().__init__({"x": {"sequence": list(replies)}})
        self.refused: list[str] = []

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [asked.body for asked in self.log("x")]

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        sent = super().reply_to(name, asked)
        if problem := self.problem(asked.body):
            self.refused.append(problem)
            error = {"type": "invalid_request_error", "message": problem}
            return {"status": 400, "body": {"type": "error", "error": error}}
        if asked.body.get("stream"):
            events = "".join(map(event, stream(sent["body"])))
            size = max(700, len(events) // 50)
            pieces = [events[at : at + size] for at in range(0, len(events), size)]
            return {"headers": {"content-type": "text/event-stream"}, "stream": pieces}
        return sent

    def problem(self, body: Mapping[str, Any]) -> str:
        """Why the real server would refuse the body; empty if it would not."""
        try:
            sdk.takes("anthropic", body)
        except Exception as error:  # the SDK's own words for what is wrong
            return f"not of the SDK's types: {error}"
        tools = {tool["name"] for tool in body.get("tools", ())}
        blocks = [b for m in body["messages"] for b in m["content"] if isinstance(b, dict)]
        results = {b["tool_use_id"] for b in blocks if b["type"] == "web_search_tool_result"}
        for message in body["messages"][:-1]:
            for block in message["content"]:
                if block["type"] == "server_tool_use" and block["id"] not in results:
                    return f"web_search tool use with id {block['id']} was found without a result"
        for block in blocks:
            if block["type"] == "web_search_tool_result" and isinstance(block["content"], list):
                if any(page["encrypted_content"] != SECRET for page in block["content"]):
                    return "encrypted_content is not what was sent"
                if "web_search" not in tools:
                    return "search results in a request without the tool web_search"
        return ""


def stream(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    usage = {"input_tokens": body["usage"]["input_tokens"]}
    start = {**body, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(body["content"]):
        at = {"index": index}
        begun, deltas = _cut(block)
        yield {"type": "content_block_start", **at, "content_block": begun}
        for delta in deltas:
            yield {"type": "content_block_delta", **at, "delta": delta}
        yield {"type": "content_block_stop", **at}
    stop = {"stop_reason": body["stop_reason"]}
    yield {"type": "message_delta", "delta": stop, "usage": body["usage"]}
    yield {"type": "message_stop"}


def _cut(block: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [thought, signed]
    if block["type"] == "text":
        begun = {**block, "text": "", **({"citations": []} if "citations" in block else {})}
        cited = [{"type": "citations_delta", "citation": c} for c in block.get("citations", ())]
        pieces = wrap(block["text"])
        return begun, [*cited, *({"type": "text_delta", "text": piece} for piece in pieces)]
    if block["type"] in ("server_tool_use", "tool_use"):
        pieces = ["", *wrap(json.dumps(block["input"]))]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return {**block, "input": {}}, deltas
    return block, []


def wrap(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def event(data: Mapping[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"
