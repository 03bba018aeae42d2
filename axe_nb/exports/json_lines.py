"""A run as JSON lines, one for each run, turn and call of its tree, in order.

Source: product.md "Traces"; D-59 (places).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from axe_nb.conversion.jsonable import jsonable
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.results import RunResult, Turn

VERSION = 1
"""Of the form; a line may have more keys in a later one."""


def write_json_lines(result: RunResult) -> str:
    """Returns the lines of a run."""
    lines = [{"kind": "axe_nb", "version": VERSION}, *_list_run(result)]
    # in ASCII: to some readers, other characters end a line as well, and some have no UTF-8
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _list_run(result: RunResult) -> Iterator[Mapping[str, Any]]:
    told = result.to_dict()
    del told["children"]
    yield {
        "kind": "run",
        "place": result.id,
        "call": result.call_id,
        "prompt": result.prompt,
        **told,
    }
    for turn in result.log:
        yield from _list_turn(result, turn)


def _list_turn(result: RunResult, turn: Turn) -> Iterator[Mapping[str, Any]]:
    place = f"{result.id}/{turn.number}"
    yield {
        "kind": "turn", "place": place, "agent": result.agent, "text": turn.text,
        "stop_reason": turn.stop_reason, "usage": asdict(turn.usage),
        "asked": "summary" if turn.closing else turn.asked,
        **({"server_calls": list(map(asdict, turn.server_calls))} if turn.server_calls else {}),
        **({"sources": list(map(asdict, turn.sources))} if turn.sources else {}),
    }  # fmt: skip
    results = {one.call_id: one for one in turn.results}
    for call in turn.calls:
        yield _describe_call(place, call, results.get(call.id))
        for child in result.children:
            if child.call_id == call.id:
                yield from _list_run(child)


def _describe_call(place: str, call: ToolCall, result: ToolResult | None) -> Mapping[str, Any]:
    return {
        "kind": "call", "place": place, "id": call.id, "tool": call.name,
        "arguments": jsonable(call.arguments), **({"raw": call.raw} if call.raw else {}),
        "result": result.content if result else None,
        "is_error": bool(result and result.is_error),
        "is_denied": bool(result and result.is_denied),
        **({"is_skipped": True} if result and result.is_skipped else {}),
    }  # fmt: skip
