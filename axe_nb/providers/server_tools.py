"""Tools that the model's server runs: their entries in a request, and their traces in a reply.

`make_entry` writes an entry, once for a run; the `read_…` functions, one for each protocol, find
the calls and the cited pages in the parts of a reply.
Source: D-76.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.provider_table import SEARCH
from axe_nb.messages import Page, ServerCall, is_link
from axe_nb.providers import wire

ANTHROPIC: Mapping[str, str] = {
    SEARCH: "web_search_20260318",
    "web_fetch": "web_fetch_20260318",
    "code_execution": "code_execution_20260521",
    "tool_search_tool_bm25": "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex": "tool_search_tool_regex_20251119",
}
"""Name of a tool that Anthropic runs → its newest type."""

DIRECT = {"allowed_callers": ["direct"]}
"""Searches are the model's own, not those of a program that it writes, which only some models can:
so their results are in the reply, and nothing is left out of it."""

CHAT: Mapping[str, str] = {
    "openrouter.ai": "openrouter:web_search",
    "api.groq.com": "browser_search",
}
"""Host of a server of Chat Completions → the type of its tool that searches the web."""

PASSED_ON = ("openai", "responses", "script", "unknown")
"""Protocols that take an entry with any type. A script is a model that only plays a server, and of
an unknown endpoint there are only recorded replies."""

RESPONSES: Mapping[str, str] = {
    "web_search_call": SEARCH,
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}
"""Type of an item of OpenAI's Responses → the tool that its server has run."""

RESPONSES_INCLUDE = "web_search_call.action.sources"
"""Value of `include` with which a server of Responses sends the pages that it has found."""

_DATE = re.compile(r"_\d{8}$")


def make_entry(
    protocol: str,
    base_url: str,
    name: str,
    options: Mapping[str, Any],
    domains: Sequence[str] = (),
) -> dict[str, Any] | None:
    """Returns the entry of a tool among the tools of a request; None if the server has no such one.

    Args:
        base_url: its address, which matters for Chat Completions only.
        name: `web_search`, or the name or type that the vendor gives to another of its tools.
        domains: the only hosts to search; empty = all. The server searches below them too.
    """
    if protocol == "anthropic":
        kind = ANTHROPIC.get(name, name)
        direct = DIRECT if name == SEARCH else {}
        entry = {"type": kind, "name": _DATE.sub("", kind), **direct, **options}
        if not domains:
            return entry
        limit = _limit(options, domains)
        return {**entry, "allowed_domains": limit} if limit else None
    if protocol == "responses" and domains:
        filters = wire.table(options.get("filters"))
        limit = _limit(filters, domains)
        limited = {"filters": {**filters, "allowed_domains": limit}}
        return {"type": name, **options, **limited} if limit else None
    if protocol == "openai" and name == SEARCH:
        kind = CHAT.get(urlsplit(base_url).hostname or "", "")
        return {"type": kind, **options} if kind and not domains else None
    return {"type": name, **options} if protocol in PASSED_ON else None


def _limit(options: Mapping[str, Any], domains: Sequence[str]) -> list[str]:
    """Returns the domains to search: of those that the options list too, the narrower ones.

    Empty if there are none, or if the options block some: vendors take one list or the other.
    """
    if options.get("blocked_domains"):
        return []
    own = options.get("allowed_domains") or domains
    below = [one for one in own if _is_below(one, domains)]
    return list(dict.fromkeys([*below, *(one for one in domains if _is_below(one, own))]))


def _is_below(domain: object, domains: Sequence[Any]) -> bool:
    return isinstance(domain, str) and any(
        domain == one or domain.endswith(f".{one}") for one in domains
    )


def read_anthropic(
    blocks: Iterable[Mapping[str, Any]],
) -> tuple[tuple[ServerCall, ...], tuple[Page, ...]]:
    """Returns the calls and the cited pages in the blocks of a reply of Anthropic's protocol."""
    calls: dict[object, ServerCall] = {}
    cited: list[Page | None] = []
    for number, block in enumerate(blocks):
        kind = wire.text(block.get("type"))
        if kind in ("server_tool_use", "mcp_tool_use"):
            name, given = wire.text(block.get("name")), wire.table(block.get("input"))
            calls[wire.text(block.get("id")) or number] = ServerCall(name, given)
        elif kind.endswith("_tool_result"):
            id = wire.text(block.get("tool_use_id")) or number
            call = calls.get(id) or ServerCall(kind.removesuffix("_tool_result"))
            calls[id] = _add_result(call, block.get("content"))
        elif kind == "text":
            cited += map(_read_source, _tables(block.get("citations")))
    return tuple(calls.values()), _each_once(cited)


def _add_result(call: ServerCall, content: object) -> ServerCall:
    """Returns a call with its result: a list of pages, one page, or an error."""
    one = wire.table(content)
    pages = _tables(content) if isinstance(content, list) else [one]
    # the title of a fetched page is that of its document
    found = (_read_source({**wire.table(page.get("content")), **page}) for page in pages)
    return replace(call, sources=_each_once(found), error=wire.text(one.get("error_code")))


def read_responses(
    items: Iterable[Mapping[str, Any]],
) -> tuple[tuple[ServerCall, ...], tuple[Page, ...]]:
    """Returns the calls and the cited pages in the items of a reply of OpenAI's Responses."""
    calls: list[ServerCall] = []
    cited: list[Page | None] = []
    for item in items:
        kind = wire.text(item.get("type"))
        if kind in RESPONSES:
            calls.append(_read_item(RESPONSES[kind], item))
        elif kind == "message":
            for part in _tables(item.get("content")):
                cited += map(_read_source, _tables(part.get("annotations")))
    return tuple(calls), _each_once(cited)


def count_searches(items: Iterable[Mapping[str, Any]]) -> int:
    """Returns the number of searches in the items of a reply of Responses, which it charges for."""
    actions = (wire.table(i.get("action")) for i in items if i.get("type") == "web_search_call")
    return sum(action.get("type") == "search" for action in actions)


def _read_item(name: str, item: Mapping[str, Any]) -> ServerCall:
    action = wire.table(item.get("action"))
    keys = ("query", "queries", "url", "pattern", "code", "name", "arguments")
    given = {key: value for key in keys if (value := action.get(key) or item.get(key))}
    if "query" in given:
        given.pop("queries", None)  # which begin with it
    told = wire.table(item.get("error"))
    error = wire.text(told.get("message")) or wire.text(told.get("type"))
    error = error or ("failed" if item.get("status") == "failed" else "")
    pages = _each_once(map(_read_source, _tables(action.get("sources"))))
    return ServerCall(name, given, pages, error)


def read_chat(
    message: Mapping[str, Any], searches: int
) -> tuple[tuple[ServerCall, ...], tuple[Page, ...]]:
    """Returns the calls and the cited pages in a message of Chat Completions.

    Groq lists what it has executed; OpenRouter tells only how often it has searched.

    Args:
        searches: the number of searches that the server has counted.
    """
    annotations = (
        wire.table(one.get("url_citation")) for one in _tables(message.get("annotations"))
    )
    cited = _each_once(map(_read_source, annotations))
    # in a stream, the entry of a call is sent again with its result
    executed = {str(one.get("index", one)): one for one in _tables(message.get("executed_tools"))}
    calls = tuple(map(_read_executed, executed.values()))
    if not calls and searches:
        calls = (ServerCall(SEARCH, sources=cited),)
    return calls, cited


def _read_executed(executed: Mapping[str, Any]) -> ServerCall:
    found = wire.table(executed.get("search_results")).get("results")
    try:
        given = wire.table(wire.loads(wire.text(executed.get("arguments"))))
    except ValueError:
        given = {}
    pages = _each_once(map(_read_source, _tables(found)))
    return ServerCall(wire.text(executed.get("type")), given, pages)


def _read_source(page: Mapping[str, Any]) -> Page | None:
    """Returns the page of a result or a citation; None if it has no address to open."""
    url = wire.text(page.get("url"))
    return Page(wire.text(page.get("title")), url) if is_link(url) else None


def _each_once(sources: Iterable[Page | None]) -> tuple[Page, ...]:
    found: dict[str, Page] = {}
    for source in sources:
        if source is not None:
            found.setdefault(source.url, source)
    return tuple(found.values())


def _tables(value: object) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of a list; whatever else is in a reply, only these are read."""
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
