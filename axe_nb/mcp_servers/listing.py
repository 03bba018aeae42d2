"""The tools that a server lists, bounded: what it says may be hostile."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axe_nb.text import clean, cut_chars, plural

MAX_LISTED = 10_000
"""Maximum number of tools read from one server; an agent's `tools` may name any of them."""

MAX_PAGES = 1000
"""Parts in which a server may list them."""

MAX_DESCRIPTION = 4096
"""Characters of a description; a longer one is cut."""

MAX_SCHEMA = 65536
"""Characters of a schema as JSON; a tool with a longer one is left out."""

MAX_DEPTH = 64
"""Levels of a schema."""

LONGEST_NAME = 64
"""Characters of a tool's name that all providers take, the server's name included."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server describes it."""

    name: str
    """The server's own name for the tool."""
    description: str
    """Cleaned and bounded."""
    schema: Mapping[str, Any]
    """The schema of its arguments, unchanged."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server."""

    tools: tuple[ListedTool, ...] = ()
    warnings: tuple[str, ...] = ()

    def name_tools(self, server: str) -> dict[str, ListedTool]:
        """Returns name for models → tool; a name of a server may be any text."""
        room = LONGEST_NAME - len(server) - 2
        counts = Counter(_OTHER.sub("_", tool.name) for tool in self.tools)
        named: dict[str, ListedTool] = {}
        for tool in self.tools:
            name = _OTHER.sub("_", tool.name)
            if len(name) > room or not name or (name != tool.name and counts[name] > 1):
                digest = hashlib.sha256(tool.name.encode("utf-8", "replace")).hexdigest()[:8]
                name = f"{name[: room - 9]}_{digest}"
            named.setdefault(f"{server}__{name}", tool)
        return named


async def list_tools(session: Any) -> Listing:
    """Asks a server for its tools."""
    import mcp_types

    if session.server_capabilities is not None and session.server_capabilities.tools is None:
        return Listing()
    tools: dict[str, ListedTool] = {}
    refused = 0
    cursor = ""
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        for tool in page.tools[: MAX_LISTED - len(tools)]:
            if _is_bounded(tool.input_schema):
                tools.setdefault(tool.name, _read_tool(tool))
            else:
                refused += 1
        if not page.next_cursor or page.next_cursor == cursor or len(tools) >= MAX_LISTED:
            break
        cursor = page.next_cursor
    warnings = []
    if refused:
        warnings.append(f"{plural(refused, 'tool')} left out: schema too large")
    return Listing(tuple(tools.values()), tuple(warnings))


def _read_tool(tool: Any) -> ListedTool:
    description = cut_chars(clean(tool.description or tool.title or ""), MAX_DESCRIPTION, " …")
    return ListedTool(tool.name, description, tool.input_schema)


def _is_bounded(schema: Mapping[str, Any]) -> bool:
    try:
        is_short = len(json.dumps(schema)) <= MAX_SCHEMA
    except (ValueError, RecursionError):
        return False
    return is_short and _is_shallow(schema, MAX_DEPTH)


def _is_shallow(value: Any, levels: int) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(entry, levels - 1) for entry in value)
