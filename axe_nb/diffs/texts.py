"""The parts of runs as texts that are compared. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from axe_nb.conversion.jsonable import jsonable
from axe_nb.diffs.change import Kind
from axe_nb.messages import Message, ToolCall, ToolSpec
from axe_nb.pictures.picture import Picture
from axe_nb.recording.find_exchange import count_earlier
from axe_nb.results import RunResult, name_run


def format_arguments(call: ToolCall) -> str:
    """Returns the arguments as JSON, the same for equal ones; what is not an object as it is."""
    return call.raw or format_value(call.arguments)


def format_value(value: Any, indent: int | None = None) -> str:
    """Returns a value as JSON, the same for equal ones."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(jsonable(value), ensure_ascii=False, indent=indent)


def format_run(run: RunResult) -> str:
    return f"{name_run(run.agent, run.model)}: {run.task or run.prompt}"


def format_status(run: RunResult) -> str:
    return f"{run.status}: {run.error}" if run.error else run.status


def format_data(data: Any) -> str | None:
    return None if data is None else format_value(jsonable(data), indent=2)


def format_earlier(run: RunResult) -> str:
    """Returns the conversation that a run continues."""
    return "\n".join(map(_format_message, run.messages[: count_earlier(run)]))


def _format_message(message: Message) -> str:
    results = "\n".join(result.content for result in message.tool_results)
    calls = (f"{call.name} {format_value(call.arguments)}" for call in message.tool_calls)
    return "\n".join(filter(None, (f"{message.role}: {results or message.content}", *calls)))


def format_values(kind: Kind, a: Any, b: Any) -> tuple[str | None, str | None]:
    """Returns two values of a field of a request as texts, without what they have in common."""
    match kind:
        case "params":
            return format_changed(a, b)
        case "tools":
            return _format_tools(a, b)
        case "output":
            texts = (
                None if schema is None else format_value(schema, indent=2) for schema in (a, b)
            )
            return next(texts), next(texts)
        case _:
            return a, b


def format_changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the entries of two objects that differ, one a line."""
    texts = [
        {
            str(key): value if isinstance(value, str) else format_value(value)
            for key, value in o.items()
        }
        for o in (a, b)
    ]
    keys = [key for key in {**texts[0], **texts[1]} if texts[0].get(key) != texts[1].get(key)]
    before, after = ("\n".join(f"{k}: {one[k]}" for k in keys if k in one) for one in texts)
    return before, after


def _format_tools(a: Sequence[ToolSpec], b: Sequence[ToolSpec]) -> tuple[str, str]:
    """Returns the tools that differ, one a line; all names if only their order does."""
    before, after = ({tool.name: _format_tool(tool) for tool in tools} for tools in (a, b))
    if before == after:
        return ", ".join(before), ", ".join(after)
    lines = (
        [t for n, t in one.items() if two.get(n) != t]
        for one, two in ((before, after), (after, before))
    )
    first, second = map("\n".join, lines)
    return first, second


def _format_tool(tool: ToolSpec) -> str:
    return f"{tool.name}: {tool.description} {format_value(tool.input_schema())}"


def format_pictures(a: Sequence[Picture], b: Sequence[Picture]) -> tuple[str, str]:
    """Returns the pictures that differ, one a line; all of them if only their order does."""
    before, after = ([_format_picture(picture) for picture in some] for some in (a, b))
    is_moved = sorted(before) == sorted(after)
    lines = (
        [line for line in lines if is_moved or line not in others]
        for lines, others in ((before, after), (after, before))
    )
    first, second = map("\n".join, lines)
    return first, second


def _format_picture(picture: Picture) -> str:
    return f"{picture.shown}, sha256 {picture.digest[:12]}"
