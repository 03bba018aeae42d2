"""Streamed replies of OpenAI's Chat Completions API, and of compatible servers.

Source: D-24, D-31; seed 000 §3.3 (A-3.*).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from axe_nb.messages import dump
from axe_nb.providers import wire
from axe_nb.providers.assembly import Deltas, add_part, append_text, check_parts, settle
from axe_nb.providers.decoders import SSEDecoder
from axe_nb.providers.reply_errors import error_in_reply
from axe_nb.providers.streamed_reply import Streaming

REASONING = ("reasoning_content", "reasoning")
"""Keys of reasoning as text; some servers send it under both."""


@dataclass
class _Call:
    """A tool call that is arriving."""

    number: int
    """Position of the call in the reply."""
    entry: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] = field(default_factory=dict)
    last: str = ""
    """The last piece of its arguments that is not blank."""

    def is_another(self, id: object, name: str, arguments: object) -> bool:
        """True if a piece under this call's index begins another call.

        Some servers number all calls 0; they repeat the name, or send another id with it.
        """
        if not name or (id and id == self.entry.get("id")):
            return False
        if id and self.entry.get("id"):
            return True
        if name != self.function.get("name", name):
            return bool(self.last)
        starts = isinstance(arguments, dict) or wire.text(arguments).lstrip().startswith("{")
        return self.last.endswith("}") and starts

    def is_whole(self) -> bool:
        """True if its arguments are a JSON object, and so not cut."""
        try:
            return isinstance(wire.loads_part(settle(self.function.get("arguments", ""))), dict)
        except ValueError:
            return False

    def add(self, piece: dict[str, Any], function: dict[str, Any]) -> str:
        """Adds a piece; returns its part of the arguments."""
        own = self.entry.get("id")
        self.entry.update((key, value) for key, value in piece.items() if value is not None)
        if own:
            self.entry["id"] = own
        name, known = wire.text(function.get("name")), wire.text(self.function.get("name"))
        if name and name != known:
            # in pieces, or each time with what has arrived before
            self.function["name"] = name if name.startswith(known) else known + name
        return self._add_arguments(function.get("arguments"))

    def _add_arguments(self, arguments: object) -> str:
        if arguments is None or arguments == "":
            return ""
        if not isinstance(arguments, str):
            arguments = dump(arguments).decode()
        append_text(self.function, "arguments", arguments)
        self.last = arguments.strip() or self.last
        return arguments


LISTED = ("annotations", "executed_tools")
"""Keys of lists whose entries arrive in several chunks."""


class OpenAIAssembly:
    """The first choice of a streamed reply."""

    def __init__(self, deltas: Deltas) -> None:
        self.is_complete = False
        self.has_ended = False
        self._deltas = deltas
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._usage: object = None
        self._stop: object = None
        self._calls: list[_Call] = []
        self._by_index: dict[int | str, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def end(self) -> None:
        """Notes the end mark `[DONE]`, which completes an answer without a finish reason too.

        Some servers give a reason only where they cut an answer (vllm-mlx), or never. But gateways
        also send the mark behind an answer that broke off on its way to them: an empty one, or one
        with half a call, is not complete. Half a text cannot be told from a whole one.
        """
        self.has_ended = True
        self.is_complete = self.is_complete or self._holds_answer()

    def _holds_answer(self) -> bool:
        """True if something has been said or called, and no call is cut."""
        says = any(settle(self._message.get(key)) for key in ("content", "refusal"))
        return (says or bool(self._calls)) and all(call.is_whole() for call in self._calls)

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds a chunk."""
        self._top.update(data)
        if "usage" in data or "x_groq" in data:
            self._add_usage(data)
        for choice in wire.tables(data.get("choices"), "choices"):
            index, first = choice.get("index"), self._choice.get("index")
            if index == first or index is None or first is None:
                self._add_choice(choice)

    def _add_usage(self, entry: dict[str, Any]) -> None:
        """Keeps the latest usage; some servers have it in the choice, or under `x_groq`."""
        if usage := entry.get("usage") or wire.table(entry.get("x_groq")).get("usage"):
            self._usage = usage

    def _add_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("error"):
            raise error_in_reply(choice, self._deltas.secrets)
        self._choice.update(choice)
        if "usage" in choice:
            self._add_usage(choice)
        delta = choice.get("delta") or (not self._message and choice.get("message"))
        if isinstance(delta, dict):
            for key, value in delta.items():
                if value is not None:
                    self._add_value(key, value, delta)
        if stop := choice.get("finish_reason"):
            self._stop = stop
            self.is_complete = True

    def _add_value(self, key: str, value: object, delta: dict[str, Any]) -> None:
        message = self._message
        if key == "content":
            self._add_content(value)
        elif key == "tool_calls":
            self._add_calls(value)
        elif key in REASONING and isinstance(value, str):
            append_text(message, key, value)
            if not any(delta.get(other) for other in REASONING[: REASONING.index(key)]):
                self._deltas.add(value, "reasoning")
        elif key == "reasoning_details" and isinstance(value, list):
            self._add_details(value, is_shown=not any(delta.get(other) for other in REASONING))
        elif key == "refusal" and isinstance(value, str):
            append_text(message, key, value)
        elif key in LISTED and isinstance(value, list):
            held = message.setdefault(key, [])
            check_parts(len(held) + len(value))
            held += value
        else:
            message[key] = value

    def _add_content(self, value: object) -> None:
        held = self._message.get("content")
        if isinstance(value, str) and not isinstance(held, list):
            if value or held is None:
                append_text(self._message, "content", value)
                self._deltas.add(value)
            return
        if not isinstance(held, list):
            before = {"type": "text", "text": held} if held else None
            held = self._message["content"] = [before] if before else []
        said = [{"type": "text", "text": value}] if isinstance(value, str) else value
        for part in wire.tables(said, "content"):
            add_part(held, part)
            self._deltas.add(wire.text(part.get("text")))
            for thought in wire.tables(part.get("thinking"), "thinking"):
                self._deltas.add(wire.text(thought.get("text")), "reasoning")

    def _add_details(self, value: list[Any], *, is_shown: bool) -> None:
        held = self._message.setdefault("reasoning_details", [])
        for detail in wire.tables(value, "reasoning_details"):
            add_part(held, detail)
            if is_shown:
                thought = wire.text(detail.get("text")) or wire.text(detail.get("summary"))
                self._deltas.add(thought, "reasoning")

    def _add_calls(self, value: object) -> None:
        for piece in wire.tables(value, "tool_calls"):
            function = wire.table(piece.get("function"))
            call = self._find_call(piece, function)
            if isinstance(id := piece.get("id"), str):
                self._by_id[id] = call
            known = call.function.get("name")
            arguments = call.add(piece, function)
            if call.function.get("name") != known:
                self._deltas.begin_call(call.number, call.function["name"])
            if arguments:
                self._deltas.add(arguments, "arguments", call.number)

    def _find_call(self, piece: dict[str, Any], function: dict[str, Any]) -> _Call:
        """Returns the call that a piece belongs to: by its index or id, or else the last one."""
        index, id, name = piece.get("index"), piece.get("id"), wire.text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(index, int) or (isinstance(index, str) and index):
            call = self._by_index.get(index)
            if call is None or call.is_another(id, name, arguments):
                call = self._by_index[index] = self._begin_call()
            return call
        if isinstance(id, str) and id in self._by_id and not name:
            return self._by_id[id]
        same = [call for call in self._calls[-1:] if not id or call.entry.get("id") in (None, id)]
        # a piece without an index continues the last call, unless it names a tool
        return same[0] if same and not (name and same[0].function) else self._begin_call()

    def _begin_call(self) -> _Call:
        check_parts(len(self._calls) + 1)
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call

    def reply(self) -> dict[str, Any]:
        """Returns the object that a whole reply has."""
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [
                {**call.entry, "function": call.function} for call in self._calls
            ]
        choice = {**self._choice, "message": message, "finish_reason": self._stop}
        choice.pop("delta", None)
        choices = [choice] if self._choice else []
        return {**self._top, "choices": choices, "usage": self._usage}


STREAMING = Streaming(
    fields=({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
    decoder=SSEDecoder,
    assembly=OpenAIAssembly,
)
