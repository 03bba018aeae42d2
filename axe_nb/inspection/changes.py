"""Changes of a request since the turn before, in words and without secrets, as they are cut.

Source: product.md "Runs are recordings".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from axe_nb.messages import Message, Request
from axe_nb.recording.asked import Asked
from axe_nb.recording.miss import list_changes
from axe_nb.redaction import find_filter, redact
from axe_nb.text import list_some, one_line, plural, quote

MAX_SHOWN = 60
"""Characters shown of a new text."""

MAX_NAMES = 10
"""Tools named of one reply."""


def describe_changes(before: Request | None, now: Request) -> Iterator[str]:
    """Yields what a request has that the one before had not: changed fields, new messages.

    Args:
        before: the request of the turn before; None = there was none.
        now: the request.
    """
    if before:
        yield from _describe_fields(before, now)
    sent = len(before.messages) if before else max(0, len(now.messages) - 1)
    if not before and sent:
        yield f"it continues a conversation of {plural(sent, 'message')}"
    for message in now.messages[sent:]:
        yield from _describe_message(message)


def _describe_fields(before: Request, now: Request) -> Iterator[str]:
    if before.tools and not now.tools:
        yield "tools can no longer be called"
        before = replace(before, tools=())
    for change in list_changes(_describe(before), _describe(now)):
        yield change.removeprefix("its ")


def _describe(request: Request) -> Asked:
    tools = [
        {"name": tool.name, "description": tool.description, **tool.input_schema()}
        for tool in request.tools
    ]
    described = {
        "model": request.model, "system": request.system, "params": request.params, "tools": tools,
    }  # fmt: skip
    cleaned: Asked = find_filter().json(described)
    return cleaned


def _describe_message(message: Message) -> Iterator[str]:
    for result in message.tool_results:
        kind = "error" if result.is_error else "result"
        yield f"new {kind} of {_name(result.name)}: {_show(result.content)}"
    if message.tool_results:
        return
    what = f"new {'prompt' if message.role == 'user' else 'reply'}"
    said = f": {_show(message.content)}" if message.content.strip() else ""
    names = Counter(call.name for call in message.tool_calls)
    calls = [_name(name) + (f" ×{count}" if count > 1 else "") for name, count in names.items()]
    called = f", calls {list_some(calls, MAX_NAMES)}" if calls else ""
    yield f"{what}{said}{called}"


def _name(name: str) -> str:
    return one_line(redact(name), MAX_SHOWN)


def _show(text: str) -> str:
    """The beginning of a text, and its length if that is not all."""
    text = redact(text)
    line = one_line(text, MAX_SHOWN)
    more = f" ({plural(len(text), 'character')})" if len(text) > MAX_SHOWN else ""
    return quote(line) + more
