"""Messages, tools, requests and responses, independent of providers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from itertools import zip_longest
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_nb.pictures.picture import Picture

Role = Literal["user", "assistant", "tool"]

DeltaKind = Literal["text", "reasoning", "arguments"]
"""Kind of a streamed piece: reply text, reasoning, or the JSON arguments of a tool call."""

INTERRUPTED = "Error: interrupted before this call had a result."
"""Result that is added for a tool call that was interrupted."""


def dump(value: object) -> bytes:
    """Encodes a value as compact JSON in UTF-8. Replaces lone surrogates, which servers reject."""
    import orjson  # five times as fast as json; each turn encodes the whole conversation

    try:
        options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
        # copied, as orjson's own bytes keep the 4 kB that were reserved for them
        return bytes(memoryview(orjson.dumps(value, option=options)))
    except TypeError:  # lone surrogates, long integers, keys that are not strings
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """One parameter of a tool (A-1.2)."""

    type: str
    """JSON Schema type, such as `string` or `array`; empty if several or all types are allowed."""
    description: str = ""
    required: bool = False
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Other JSON Schema keywords, such as enum, items and minimum."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as described to the model (A-1.1)."""

    name: str
    description: str
    parameters: Mapping[str, ToolParameter]
    schema: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """JSON Schema of the arguments, sent unchanged; if None, it is built from `parameters`."""
    entry: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """A server-side tool's entry in the request, sent unchanged (D-76); None for other tools."""

    def input_schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of the arguments (A-2.2)."""
        if self.schema is not None:
            return dict(self.schema)
        properties = {
            name: {**({"type": p.type} if p.type else {}), "description": p.description, **p.schema}
            for name, p in self.parameters.items()
        }
        required = [name for name, p in self.parameters.items() if p.required]
        return {"type": "object", "properties": properties, "required": required}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTraits:
    """Traits of a called tool that decide how views display the call."""

    delegates: bool = False
    is_one_child: bool = False
    calls_sub_agents: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by a model (A-1.3): its id, the tool's name and the arguments."""

    id: str
    """Id from the API, or a generated id if that is missing or not unique (D-28)."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments as sent by the model (D-11); empty if they were not a JSON object."""
    raw: str = ""
    """Arguments as text, if the model did not send a JSON object; otherwise empty."""
    traits: CallTraits = field(default=CallTraits(), kw_only=True, repr=False, compare=False)
    """Traits of the tool, set by the run for display only."""


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Makes a tool call for a script model, as in `call("call_agent", agent="a", task="…")`."""
    return ToolCall("", name, arguments)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call (A-1.4)."""

    call_id: str
    content: str
    is_error: bool = False
    name: str = ""
    """Name of the tool, which Ollama requires with the result (D-29)."""
    note: str = ""
    """Short note for the user on how the result was obtained; never sent to a model."""
    is_denied: bool = field(default=False, kw_only=True)
    """True if the call was not permitted and did not run."""
    pictures: tuple[Picture, ...] = field(default=(), kw_only=True)
    """Pictures in the content, in the order of their markers: `[picture 1: …]`."""
    edited: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """Arguments that the user substituted for the model's; None if the user changed none."""
    is_skipped: bool = field(default=False, kw_only=True)
    """True if the user skipped the call, so that the tool did not run."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry in a conversation (A-1.7)."""

    role: Role
    content: str = ""
    """Text of the message; not sent if there are tool results."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Parts of a reply to send back unchanged, such as thinking, keyed by protocol (D-32).
    The key `server` holds a digest of the server that sent the parts; no other server receives
    them. `prefix`, if present, holds a digest of everything before the message; if that has
    changed, the parts are left out (D-78)."""
    pictures: tuple[Picture, ...] = field(default=(), kw_only=True)
    """Pictures in the text, in the order of their markers: `[picture 1: …]`."""

    def all_pictures(self) -> Iterator[Picture]:
        """Yields the pictures of the message, then those of its tool results."""
        yield from self.pictures
        for result in self.tool_results:
            yield from result.pictures


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, web searches and cost of one or more replies; a count that is not reported is 0.

    Cached tokens are part of the input tokens, and reasoning tokens are part of the output tokens.
    Two usages can be added with `+`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = field(default=0, kw_only=True)
    """Input tokens read from the provider's prompt cache, at a lower price."""
    cache_write_tokens: int = field(default=0, kw_only=True)
    """Input tokens written to the prompt cache, for which some providers charge more."""
    reasoning_tokens: int = field(default=0, kw_only=True)
    searches: int = field(default=0, kw_only=True)
    """Number of web searches that the model's server ran, usually at a price per search."""
    priced_tokens: int = field(default=0, kw_only=True, compare=False, repr=False)
    """Tokens whose price was known when they were used."""
    dollars: float = field(default=0.0, kw_only=True, compare=False, repr=False)
    """Cost of `priced_tokens` in US dollars."""

    def __add__(self, other: Usage) -> Usage:
        names = [one.name for one in fields(self)]
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def at_cost(self, dollars: float | None) -> Usage:
        """Returns a copy in which all tokens together cost `dollars`; self if `dollars` is None."""
        if dollars is None:
            return self
        return replace(self, priced_tokens=self.total, dollars=dollars)

    @property
    def cost(self) -> float | None:
        """Cost in US dollars; None if the price of any token is unknown, or there are no tokens."""
        return self.dollars if self.total and self.priced_tokens == self.total else None

    def counts(self) -> dict[str, int]:
        """Returns the token counts, keyed by field name, such as `input_tokens`."""
        names = [one.name for one in fields(self) if one.name.endswith("_tokens")]
        return {name: getattr(self, name) for name in names if name != "priced_tokens"}

    @property
    def total(self) -> int:
        """Sum of input and output tokens."""
        return self.input_tokens + self.output_tokens


def add_costs(costs: Iterable[float | None]) -> float | None:
    """Returns the sum of costs, or None if any cost is unknown."""
    known = list(costs)
    return None if None in known else math.fsum(filter(None, known))


@dataclass(frozen=True, slots=True)
class Page:
    """A web page that the model's server has found, or that an answer cites."""

    title: str
    """Title as sent by the server; empty if it sent none."""
    url: str
    """Address that begins with http:// or https://."""


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call to a server-side tool, as reported in a reply (D-76)."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Page, ...] = ()
    error: str = ""
    """Error message from the server; empty if the call succeeded."""


def is_link(url: str) -> bool:
    """True if a text is an http or https URL of reasonable length without unsafe characters."""
    if not url.isprintable() or len(escape(url).encode()) > 2000 or set(url) & set(' <>"'):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


@dataclass(slots=True)
class SentLog:
    """Record of how the provider sent a request; describes only the last of several attempts."""

    streaming: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the body that requested a stream; empty if none was requested."""
    refused: frozenset[str] = frozenset()
    """Names of the parts that were left out of the request, such as `tool_choice`."""
    server: str = ""
    """Digest of provider, URL and model; empty if neither request nor reply has an `echo`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request to a model (A-1.5), independent of any provider's format.

    Functions of script models receive this object: `last` is the text of the last message,
    `results` holds the results of the previous turn's calls, and `turn` counts from 1.
    """

    model: str
    """Name of the model, without the provider."""
    messages: Sequence[Message]
    system: str = ""
    """System prompt; not sent if empty."""
    system_ends: tuple[int, ...] = field(default=(), kw_only=True, repr=False)
    """Offsets in `system` at which the agent's prompt and its skill end; not sent."""
    tools: Sequence[ToolSpec] = ()
    """Tools offered to the model; not sent if empty."""
    past_tools: Sequence[ToolSpec] = field(default=(), kw_only=True)
    """Tools of earlier turns, for servers that reject old calls without their tools (D-17)."""
    output: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """JSON Schema of the final answer (a reply without tool calls); None for plain text."""
    must_call: str = field(default="", kw_only=True)
    """Name of the tool that the model must call; empty if the model may choose."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """`[params]` of the agent: temperature, max_tokens, and provider-specific parameters."""
    agent: str = ""
    """Name of the agent, for script models; not sent."""
    place: str = ""
    """Place of the request in the run tree: `0.2/3` is turn 3 of run `0.2` (D-59); not sent."""
    attempt: int = 1
    """Number of the attempt, from 1; later attempts are retries under the agent's `[retry]`."""
    server: str = field(default="", kw_only=True, repr=False, compare=False)
    """Digest of the provider, the server's URL and the model; empty if unknown."""
    refused: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False, compare=False)
    """Names of the parts not to send, because the server refuses them or the model ignores them."""
    encoded: dict[object, Any] = field(
        default_factory=dict, kw_only=True, repr=False, compare=False
    )
    """Cache of encoded messages, shared by the requests of a conversation."""
    log: SentLog | None = field(default=None, kw_only=True, repr=False, compare=False)
    """Log that the provider fills in, or None if no log is needed."""

    @property
    def turn(self) -> int:
        """Number of the turn in the conversation, from 1; the same for each attempt."""
        return 1 + sum(message.role == "assistant" for message in self.messages)

    @property
    def last(self) -> str:
        """Text of the last message; several tool results are separated by blank lines."""
        if not self.messages:
            return ""
        message = self.messages[-1]
        return "\n\n".join(r.content for r in message.tool_results) or message.content

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Pictures of all messages, in order."""
        return tuple(one for message in self.messages for one in message.all_pictures())

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Tool results in the last message; empty if it has none."""
        return self.messages[-1].tool_results if self.messages else ()


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply, passed on as it arrives."""

    text: str
    kind: DeltaKind = "text"
    call: int = 0
    """Position of the tool call in the reply, from 0, if the piece is part of its arguments."""
    name: str = ""
    """Name of the called tool, if this piece announces the name; otherwise empty."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response from a model (A-1.6), independent of any provider's format.

    A script model can return just text, tool calls or data; anything more needs a Response.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls to run, unless the reply `is_cut`; other stop reasons are ignored (A-1.9)."""
    stop_reason: str = ""
    """Stop reason in the provider's terms, such as `stop`, `end_turn` or `length`."""
    usage: Usage = Usage()
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Parts of the reply to send back to the provider unchanged, keyed by protocol (D-32)."""
    seconds: float = 0.0
    """Virtual duration in seconds, for script models (D-36); otherwise 0."""
    reasoning: str = field(default="", kw_only=True)
    """Text or summary of the model's thinking, if the server sends it; never sent back."""
    server_calls: tuple[ServerCall, ...] = field(default=(), kw_only=True)
    """Calls to server-side tools, which the model's server ran."""
    sources: tuple[Page, ...] = field(default=(), kw_only=True)
    """Pages that the text cites, without duplicates."""

    @property
    def is_cut(self) -> bool:
        """True if a token limit or the model's context window cut off the reply (D-31)."""
        return self.stop_reason in ("length", "max_tokens", "model_context_window_exceeded")

    @property
    def is_paused(self) -> bool:
        """True if the server paused the reply; it continues when the conversation is sent again."""
        return self.stop_reason == "pause_turn"

    def message(self, *, calls: bool = True) -> Message:
        """Returns the response as a message of the conversation, with or without its calls."""
        return Message("assistant", self.content, self.tool_calls if calls else (), echo=self.echo)

    def describe_cut(self, when: str = "") -> str:
        """Returns the reason why the reply was cut off, and a remedy; empty if it was not."""
        reason = self.stop_reason
        if reason == "model_context_window_exceeded":
            step = "start a new conversation, or shorten the prompt, files and results of tools"
            return f"the reply was cut because the model's context is full{when} ({reason}); {step}"
        has_thought = bool(self.reasoning or self.echo or self.usage.reasoning_tokens)
        if self.is_cut and has_thought and not self.content.strip() and not self.tool_calls:  # D-79
            step = "raise params.max_tokens, or lower params.thinking"
            return f"thinking used up the tokens of the answer ({reason}){when}; {step}"
        if self.is_cut:
            return f"the token limit cut the reply ({reason}){when}; raise params.max_tokens"
        if reason == "refusal":
            return f"the model cut the reply short ({reason}); rephrase the prompt"
        if reason.startswith("content_filter"):
            return f"a content filter cut the reply short ({reason}); rephrase the prompt"
        return ""


class CallIds:
    """Gives every call of one conversation a unique id (D-28)."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._seen = {c.id for m in messages for c in m.tool_calls}
        self._next = 0

    def settle(self, prefix: str, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """Returns the calls with unique ids, replacing a blank or repeated id with `<prefix>_<n>`.

        `n` is the call's position or, if that id is taken, the next free number (A-4.3).
        """
        settled = []
        for index, call in enumerate(calls):
            if not call.id.strip() or call.id in self._seen:
                self._next = max(self._next, index)
                while (free := f"{prefix}_{self._next}") in self._seen:
                    self._next += 1
                call = replace(call, id=free)
            self._seen.add(call.id)
            settled.append(call)
        return tuple(settled)


def close_open_calls(messages: Sequence[Message]) -> list[Message]:
    """Adds an error result for each call without a result, so that more messages can follow (D-32).

    Leaves out empty assistant messages, and results that do not belong to the calls in the message
    before, because servers reject both.
    """
    closed: list[Message] = []
    for message, after in zip_longest(messages, messages[1:], fillvalue=Message("tool")):
        is_empty = not (message.content.strip() or message.tool_calls or message.echo)
        if message.role == "tool" or (message.role == "assistant" and is_empty):
            continue  # results are added after their calls
        closed.append(message)
        if message.tool_calls:
            known = {result.call_id: result for result in after.tool_results}
            results = [
                known.get(c.id) or ToolResult(c.id, INTERRUPTED, is_error=True, name=c.name)
                for c in message.tool_calls
            ]
            closed.append(Message("tool", tool_results=tuple(results)))
    return closed
