"""Tools that a vendor's server runs: entries and replies, held against the vendors' own types."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from axe_nb.messages import Page, ServerCall
from axe_nb.providers.openai import parse as parse_chat
from axe_nb.providers.server_tools import ANTHROPIC, make_entry, read_responses

HERE = "https://api.example.org"


def test_the_types_of_anthropic_are_the_newest_of_its_sdk() -> None:
    from anthropic.types import ToolUnionParam

    kinds: dict[str, list[str]] = {}
    for one in get_args(ToolUnionParam):
        for found in re.findall(r"'([a-z_0-9]+)_(\d{8})'", str(one.__annotations__.get("type"))):
            kinds.setdefault(found[0], []).append(found[1])
    assert {name: f"{name}_{max(kinds[name])}" for name in ANTHROPIC} == ANTHROPIC


def test_each_entry_of_anthropic_is_of_its_sdks_types() -> None:
    from anthropic.types import ToolUnionParam

    for name in ANTHROPIC:
        entry = make_entry("anthropic", HERE, name, {})
        assert TypeAdapter(ToolUnionParam).validate_python(entry) == entry
        assert entry is not None
        assert entry["name"] == name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("web_search", {}),
        ("web_search", {"filters": {"allowed_domains": ["b.org"]}}),
        ("code_interpreter", {"container": {"type": "auto"}}),
        ("mcp", {"server_label": "x", "server_url": "https://x.org/mcp"}),
    ],
)
def test_each_entry_of_responses_is_of_its_sdks_types(name: str, options: dict[str, Any]) -> None:
    from openai.types.responses import ToolParam

    made = make_entry("responses", HERE, name, options)
    assert made == {"type": name, **options}
    assert TypeAdapter(ToolParam).validate_python(made) == made


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://openrouter.ai/api/v1", "openrouter:web_search"),
        ("https://api.groq.com/openai/v1", "browser_search"),
        ("https://api.openai.com", None),
        ("https://api.x.ai", None),
        ("https://generativelanguage.googleapis.com/v1beta/openai", None),
        ("https://openrouter.ai.evil.example", None),
    ],
)
def test_chat_completions_search_where_the_server_documents_a_tool(url: str, kind: Any) -> None:
    assert make_entry("openai", url, "web_search", {}) == (kind and {"type": kind})
    assert make_entry("ollama", url, "web_search", {}) is None


def test_the_items_of_responses_are_read() -> None:
    from openai.types.responses import ResponseOutputItem

    cited = {"type": "url_citation", "start_index": 0, "end_index": 2}
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed",
         "action": {"type": "search", "query": "towers", "queries": ["towers", "high towers"],
                    "sources": [{"type": "url", "url": "https://a.org/1"}]}},
        {"type": "web_search_call", "id": "ws_2", "status": "completed",
         "action": {"type": "open_page", "url": "https://a.org/1"}},
        {"type": "web_search_call", "id": "ws_3", "status": "failed",
         "action": {"type": "find_in_page", "url": "https://a.org/1", "pattern": "828"}},
        {"type": "mcp_call", "id": "m", "server_label": "x", "name": "look", "arguments": "{}",
         "error": {"type": "http_error", "code": 404, "message": "no such thing"}},
        {"type": "function_call", "call_id": "c", "name": "mine", "arguments": "{}"},
        {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "It is.", "annotations": [
                {**cited, "url": "https://a.org/1", "title": "A"},
                {**cited, "url": "https://a.org/1", "title": "A again"},
                {**cited, "url": "javascript:alert(1)", "title": "evil"},
            ]},
        ]},
    ]  # fmt: skip
    for item in items:
        TypeAdapter(ResponseOutputItem).validate_python(item)
    calls, cited, searches = read_responses(items)
    assert cited == (Page("A", "https://a.org/1"),)
    assert calls == (
        ServerCall("web_search", {"query": "towers"}, (Page("", "https://a.org/1"),)),
        ServerCall("web_search", {"url": "https://a.org/1"}),
        ServerCall("web_search", {"url": "https://a.org/1", "pattern": "828"}, error="failed"),
        ServerCall("mcp", {"name": "look", "arguments": "{}"}, error="no such thing"),
    )
    assert searches == 1


def test_what_groq_has_executed_is_read() -> None:
    found = [{"title": "A", "url": "https://a.org/1", "content": "…"}]
    executed = {
        "index": 0, "type": "browser_search", "arguments": '{"query": "towers"}', "output": "…",
        "search_results": {"results": found},
    }  # fmt: skip
    said = {"role": "assistant", "content": "It is.", "executed_tools": [executed]}
    response = parse_chat({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})
    page = Page("A", "https://a.org/1")
    assert response.server_calls == (ServerCall("browser_search", {"query": "towers"}, (page,)),)
