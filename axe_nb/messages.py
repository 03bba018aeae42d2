"""What travels between a run and a model, in no provider's wire format.

Source: seed 000 §3.1 (A-1.*); D-11, D-28, D-32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Role = Literal["user", "assistant", "tool"]

DeltaKind = Literal["text", "reasoning", "arguments"]
"""The answer itself, the thinking before it, or the JSON of a call's arguments."""

INTERRUPTED = "Error: interrupted before this call had a result."
"""What a call without a result is answered with when its conversation goes on."""


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dump(value: object) -> bytes:
    """JSON as bytes of UTF-8, compact; lone surrogates, which no server takes, are replaced."""
    text = _compact(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


class WireCache(dict[str, bytes]):
    """Protocol → the bytes that something was serialised to.

    It belongs to one object: a changed copy, a deep copy and a pickle each begin with an empty one,
    so that what is sent is always what the object says.
    """

    def __reduce__(self) -> tuple[type[WireCache], tuple[()]]:
        return WireCache, ()


def _cache() -> Any:
    """A field that holds a cache: empty in every new object, also one made by `replace`."""
    return field(default_factory=WireCache, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """One parameter of a tool (A-1.2)."""

    type: str
    """JSON Schema type: string, integer, number, boolean, array, object; empty = several or any."""
    description: str = ""
    required: bool = False
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON Schema keywords: enum, items, minimum."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it (A-1.1)."""

    name: str
    description: str
    parameters: Mapping[str, ToolParameter]
    wire: WireCache = _cache()
    """The tool serialised: it is offered on every turn and written once."""

    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments; `required` lists the required parameters (A-2.2)."""
        properties = {
            name: {
                **({"type": p.type} if p.type else {}),
                "description": p.description,
                **p.schema,
            }
            for name, p in self.parameters.items()
        }
        required = [name for name, p in self.parameters.items() if p.required]
        return {"type": "object", "properties": properties, "required": required}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool run (A-1.3)."""

    id: str
    """The API's own id where it sent one, else made unique over the conversation (D-28)."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The JSON object as the model sent it (D-11); empty where it was no JSON object."""
    raw: str = ""
    """What the model sent instead of a JSON object; empty where it sent one. For display only."""


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A tool call, for script models: `call("call_agent", agent="a", task="…")`."""
    return ToolCall("", name, arguments)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call came to (A-1.4)."""

    call_id: str
    content: str
    is_error: bool = False
    name: str = ""
    """The tool's name; Ollama wants it beside the result (D-29)."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation (A-1.7)."""

    role: Role
    content: str = ""
    """Text; ignored where there are tool results."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Protocol → parts that this provider wants back unchanged (thinking), D-32."""
    wire: WireCache = _cache()
    """The message serialised: each is written once, however long the conversation."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the API reports them; 0 where it does not."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model, whole (A-1.5)."""

    model: str
    """The model's name, without the provider."""
    messages: Sequence[Message]
    system: str = ""
    """Empty = none is sent."""
    tools: Sequence[ToolSpec] = ()
    """Empty = none are sent."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """`[params]` of the agent: temperature, max_tokens, and what the provider alone understands."""
    agent: str = ""
    """Name of the agent that asks; for script models, on no wire."""
    place: str = ""
    """Place of the turn in the tree: `0.2/3` is the third turn of run `0.2` (D-59); on no wire."""
    attempt: int = 1
    """1 = the first; more = the same request again, as the agent's `[retry]` says."""

    @property
    def turn(self) -> int:
        """Which request of its conversation this is, from 1."""
        return 1 + sum(message.role == "assistant" for message in self.messages)

    @property
    def last(self) -> str:
        """Text of the last message; of tool results, all of them, separated by blank lines."""
        if not self.messages:
            return ""
        message = self.messages[-1]
        return "\n\n".join(r.content for r in message.tool_results) or message.content

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results that this request brings; empty on a first turn."""
        return self.messages[-1].tool_results if self.messages else ()


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply, handed on as it arrives."""

    text: str
    kind: DeltaKind = "text"
    call: int = 0
    """Of `arguments`: the call that they belong to, by its position in the reply from 0."""


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer, whole (A-1.6)."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Decides whether the conversation goes on; `stop_reason` never does (A-1.9)."""
    stop_reason: str = ""
    """In the provider's words; for information."""
    usage: Usage = Usage()
    echo: Mapping[str, Any] = field(default_factory=dict)
    """As in `Message.echo`."""
    seconds: float = 0.0
    """Virtual time that the answer took: script models on the virtual clock (D-36), else 0."""

    @property
    def is_cut(self) -> bool:
        """Whether the token limit cut the reply (D-31)."""
        return self.stop_reason in ("length", "max_tokens", "model_context_window_exceeded")

    def message(self, *, calls: bool = True) -> Message:
        """This answer as an entry of the conversation; without its calls where they are dropped."""
        return Message("assistant", self.content, self.tool_calls if calls else (), echo=self.echo)


class CallIds:
    """Gives every call of one conversation an id that no other has (D-28)."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._seen = {c.id for m in messages for c in m.tool_calls}
        self._next = 0

    def settle(self, prefix: str, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls in order; a blank or repeated id becomes `<prefix>_<n>`.

        n is the call's position where that is free (A-4.3), else the next that is.
        """
        return tuple(self._settled(prefix, call, index) for index, call in enumerate(calls))

    def _settled(self, prefix: str, call: ToolCall, index: int) -> ToolCall:
        if not call.id.strip() or call.id in self._seen:
            self._next = max(self._next, index)
            while (free := f"{prefix}_{self._next}") in self._seen:
                self._next += 1
            call = replace(call, id=free)
        self._seen.add(call.id)
        return call


def close_open_calls(messages: Sequence[Message]) -> list[Message]:
    """The conversation with every open call answered as interrupted, so that it can go on (D-32).

    Assistant turns with neither text nor calls are left out, and so are results that are not
    those of the calls right before them: no server takes them back.
    """
    closed: list[Message] = []
    for i, message in enumerate(messages):
        if message.role == "assistant" and not (message.content.strip() or message.tool_calls):
            continue
        if message.role == "tool":
            continue  # written below, beside its calls
        closed.append(message)
        if message.tool_calls:
            after = messages[i + 1] if i + 1 < len(messages) else Message("tool")
            closed.append(_results_of(message, after))
    return closed


def _results_of(calls: Message, results: Message) -> Message:
    if [r.call_id for r in results.tool_results] == [c.id for c in calls.tool_calls]:
        return results
    by_id = {r.call_id: r for r in results.tool_results}
    return Message(
        "tool",
        tool_results=tuple(
            by_id.get(c.id, ToolResult(c.id, INTERRUPTED, is_error=True, name=c.name))
            for c in calls.tool_calls
        ),
    )
