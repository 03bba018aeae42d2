"""Server-side tools: their entries in requests, and their calls and sources in replies (D-76)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from axe_nb.agents.provider_table import SEARCH
from axe_nb.messages import Page, ServerCall, is_link
from axe_nb.providers import wire

Found: TypeAlias = tuple[tuple[ServerCall, ...], tuple[Page, ...]]
"""Server-side tool calls and cited pages in a reply."""

ANTHROPIC: Mapping[str, str] = {
    SEARCH: "web_search_20260318",
    "web_fetch": "web_fetch_20260318",
    "code_execution": "code_execution_20260521",
    "tool_search_tool_bm25": "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex": "tool_search_tool_regex_20251119",
}
"""Name of a server-side tool → its newest versioned type in Anthropic's API."""

CHAT: Mapping[str, str] = {
    "openrouter.ai": "openrouter:web_search",
    "api.groq.com": "browser_search",
}
"""Host of a Chat Completions server → type of its web search tool."""

RESPONSES = (
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_call",
)  # fmt: skip
"""Types of the Responses API items that represent server-side tool calls."""


def make_entry(
    protocol: str, base_url: str, name: str, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Returns a tool's entry for a request's `tools`, or None if the server cannot offer the tool.

    `name` is `web_search`, or a vendor's own tool name; `options` are its settings.
    """
    if protocol == "anthropic":
        kind = ANTHROPIC.get(name, name)
        # not called from code that the model writes: the reply then has all results
        direct = {"allowed_callers": ["direct"]} if name == SEARCH else {}
        return {"type": kind, "name": re.sub(r"_\d{8}$", "", kind), **direct, **options}
    if protocol == "openai" and name == SEARCH:
        kind = CHAT.get(urlsplit(base_url).hostname or "", "")
        return {"type": kind, **options} if kind else None
    # a script model has no server, and an unknown endpoint has only recorded replies
    takes_any = protocol in ("openai", "responses", "script", "unknown")
    return {"type": name, **options} if takes_any else None


def read_anthropic(blocks: Iterable[Mapping[str, Any]]) -> Found:
    """Returns the calls and cited pages in the blocks of an Anthropic reply."""
    calls: dict[object, ServerCall] = {}
    cited: list[Mapping[str, Any]] = []
    for number, block in enumerate(blocks):
        kind = wire.text(block.get("type"))
        if kind in ("server_tool_use", "mcp_tool_use"):
            name, given = wire.text(block.get("name")), wire.table(block.get("input"))
            calls[wire.text(block.get("id")) or number] = ServerCall(name, given)
        elif kind.endswith("_tool_result"):
            id = wire.text(block.get("tool_use_id")) or number
            call = calls.get(id) or ServerCall(kind.removesuffix("_tool_result"))
            one = wire.table(block.get("content"))
            pages = [one] if one else _tables(block.get("content"))
            # the title of a fetched page is in its document
            found = _list_pages({**wire.table(page.get("content")), **page} for page in pages)
            calls[id] = replace(call, sources=found, error=wire.text(one.get("error_code")))
        elif kind == "text":
            cited += _tables(block.get("citations"))
    return tuple(calls.values()), _list_pages(cited)


def read_responses(
    items: Iterable[Mapping[str, Any]],
) -> tuple[tuple[ServerCall, ...], tuple[Page, ...], int]:
    """Returns the calls, the cited pages and the number of searches in a Responses API reply."""
    calls: list[ServerCall] = []
    cited: list[Mapping[str, Any]] = []
    searches = 0
    for item in items:
        kind = wire.text(item.get("type"))
        if kind == "message":
            for part in _tables(item.get("content")):
                cited += _tables(part.get("annotations"))
        if kind not in RESPONSES:
            continue
        action, told = wire.table(item.get("action")), wire.table(item.get("error"))
        searches += kind == "web_search_call" and action.get("type") == "search"
        keys = ("query", "queries", "url", "pattern", "code", "name", "arguments")
        given = {key: value for key in keys if (value := action.get(key) or item.get(key))}
        if "query" in given:
            given.pop("queries", None)  # `queries` begins with `query`
        error = wire.text(told.get("message")) or wire.text(told.get("type"))
        error = error or ("failed" if item.get("status") == "failed" else "")
        found = _list_pages(_tables(action.get("sources")))
        calls.append(ServerCall(kind.removesuffix("_call"), given, found, error))
    return tuple(calls), _list_pages(cited), searches


def read_chat(message: Mapping[str, Any], searches: int) -> Found:
    """Returns a message's server-side calls, or one for all `searches`, and its cited pages."""
    annotations = _tables(message.get("annotations"))
    cited = _list_pages(wire.table(one.get("url_citation")) for one in annotations)
    # in a stream, the entry of a call is sent again with its result
    executed = {str(one.get("index", one)): one for one in _tables(message.get("executed_tools"))}
    calls = []
    for one in executed.values():
        given = {}
        with suppress(ValueError):
            given = wire.table(wire.loads(wire.text(one.get("arguments"))))
        found = _list_pages(_tables(wire.table(one.get("search_results")).get("results")))
        calls.append(ServerCall(wire.text(one.get("type")), given, found))
    if not calls and searches:
        calls.append(ServerCall(SEARCH, sources=cited))
    return tuple(calls), cited


def _list_pages(found: Iterable[Mapping[str, Any]]) -> tuple[Page, ...]:
    """Returns the distinct pages with usable links among search results or citations."""
    pages: dict[str, Page] = {}
    for one in found:
        url = wire.text(one.get("url"))
        if url not in pages and is_link(url):
            pages[url] = Page(wire.text(one.get("title")), url)
    return tuple(pages.values())


def _tables(value: object) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
