"""A request to a model as it is kept and compared: in no provider's format, and without ids.

Each turn of a run is described by what it adds to the turn before: the new messages, and the fields
that changed. Two runs have been asked the same if all these descriptions are equal.
Source: D-59, D-60.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from axe_nb.jsonable import jsonable
from axe_nb.messages import Message, Request, ToolCall, ToolSpec
from axe_nb.redaction import Filter

Asked: TypeAlias = "dict[str, Any]"
"""A description: `model`, `system`, `params`, `tools`, `messages`, of which those that changed."""


@dataclass
class Describer:
    """Describes the requests of one run, one turn after another."""

    clean: Filter
    _before: Request | None = None
    _fields: Asked = field(default_factory=dict)

    def describe(self, request: Request, model: str) -> Asked:
        """Returns what a request adds to the one before.

        Args:
            request: the next request of the run.
            model: provider/model.
        """
        before, self._before = self._before, request
        sent = len(before.messages) if before else 0
        asked: Asked = {}
        for name, value in self._list_fields(before, request, model):
            if self._fields.get(name) != value:
                self._fields[name] = asked[name] = value
        asked["messages"] = [_describe_message(m, self.clean) for m in request.messages[sent:]]
        return asked

    def _list_fields(
        self, before: Request | None, request: Request, model: str
    ) -> Sequence[tuple[str, Any]]:
        """Returns the fields that can have changed, with their values."""
        listed: list[tuple[str, Any]] = [("model", self.clean.text(model))]
        if before is None or before.system is not request.system:
            listed.append(("system", self.clean.text(request.system)))
        if before is None or before.params is not request.params:
            listed.append(("params", self.clean.json(jsonable(request.params))))
        if before is None or before.tools is not request.tools:
            listed.append(("tools", [_describe_tool(tool, self.clean) for tool in request.tools]))
        return listed


def _describe_message(message: Message, clean: Filter) -> dict[str, Any]:
    if message.tool_results:
        results = [
            {
                "tool": result.name,
                **({"error": True} if result.is_error else {}),
                "text": clean.text(result.content),
            }
            for result in message.tool_results
        ]
        return {"results": results}
    described: dict[str, Any] = {message.role: clean.text(message.content)}
    if message.tool_calls:
        described["calls"] = [_describe_call(call, clean) for call in message.tool_calls]
    return described


def _describe_call(call: ToolCall, clean: Filter) -> dict[str, Any]:
    said = {"raw": clean.text(call.raw)} if call.raw else {}
    return {"tool": call.name, "arguments": clean.json(jsonable(call.arguments)), **said}


def _describe_tool(tool: ToolSpec, clean: Filter) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, **tool.input_schema()}
    cleaned: dict[str, Any] = clean.json(jsonable(described))
    return cleaned
