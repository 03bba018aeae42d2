"""A script model's TOML file: an ordered list of rules, the first that matches answers.

Pure: a text becomes a `Script`, a `Request` becomes a `Reply`; nothing is remembered between
requests, so that parallel runs stay deterministic.
Source: D-27, D-36.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from axe_nb.conversion.jsonable import change_texts, jsonable
from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Request, Response, ToolCall, Usage, dump
from axe_nb.text import format_seconds, one_line, quote

if TYPE_CHECKING:
    import regex

MAX_SEEN = 100_000
"""Maximum number of characters of the last message that a regex searches."""

MAX_SECONDS = 1.0
"""Time limit of all regex searches for one reply, in seconds of CPU time."""

FAULTS = ("timeout", "refused", "cut")
"""Values of `error` without a status: no HTTP reply at all.

After the text of a streamed reply: nothing more comes, the connection is closed in the middle of a
chunk, or the stream ends without its last event.
"""

_PLACE = re.compile(r"\{(\w+)\}")
OWN_PLACES = frozenset({"last", "turn", "agent", "results"})
"""Names that `{…}` in a text can always use, besides the named groups of the rule's regex."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of a model, instead of an answer or after the beginning of a streamed answer."""

    message: str
    """The server's own message; one of FAULTS if there is no status."""
    status: int = 0
    """HTTP status, 400 to 599; 0 = the failure is not an HTTP error."""


Part: TypeAlias = Delta | ToolCall | Fault
"""A piece of a reply as a function yields it; a text is a delta."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A script's reply to one request."""

    response: Response = Response()
    fault: Fault | None = None
    """If set, the script fails; if it streams, after the response."""
    reasoning: str = ""
    """The reasoning before the answer."""
    parts: AsyncIterator[Part] | None = None
    """Pieces of a function that yields them; None = the response is known."""
    delay: float = 0.0
    """Seconds to wait first; 0 on the virtual clock, which uses `response.seconds`."""
    stream: bool = False
    """If true, the reply is streamed word by word."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One `[[rule]]`: its conditions and its reply."""

    last: regex.Pattern[str] | None = None
    """Pattern to find in the text of the last message; None = any text."""
    turn: int = 0
    """Number of the request in the conversation, from 1; 0 = any."""
    agent: str = ""
    """Name of the agent that asks; empty = any."""
    reasoning: str = ""
    text: str = ""
    data: Any = None
    """JSON data that is the answer instead of `text`; None = there is none."""
    calls: tuple[ToolCall, ...] = ()
    stop_reason: str = ""
    """Empty = `tool_calls` if there are calls, else `stop`."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """input_tokens, output_tokens; missing counts are estimated."""
    delay: float = 0.0
    """Seconds."""
    stream: bool = False
    fault: Fault | None = None

    def match(self, request: Request, seconds: float) -> dict[str, str] | None:
        """Returns the named groups of its regex if the rule matches, else None.

        Raises TimeoutError if the regex takes too long.
        """
        if self.turn and self.turn != request.turn:
            return None
        if self.agent and self.agent != request.agent:
            return None
        if self.last is None:
            return {}
        if seconds <= 0:
            raise TimeoutError
        found = self.last.search(request.last[:MAX_SEEN], timeout=seconds)
        return dict(found.groupdict("")) if found else None


@dataclass(frozen=True, slots=True)
class Script:
    """A validated file of rules."""

    rules: tuple[Rule, ...]
    virtual: bool = False
    """If true, delays are reported in `Response.seconds` instead of awaited (D-36)."""

    def answer(self, name: str, request: Request) -> Reply:
        """Returns the reply of the first rule that matches.

        Raises ProviderError if none matches, or the regexes take too long (bad_request).
        """
        ends = time.thread_time() + MAX_SECONDS
        for number, rule in enumerate(self.rules, 1):
            try:
                groups = rule.match(request, ends - time.thread_time())
            except TimeoutError:
                which, take = (f"es of rules 1 to {number}", "take")
                if number == 1:
                    which, take = " of rule 1", "takes"
                raise ProviderError(
                    "bad_request",
                    f"the regex{which} of script {quote(name)} {take} longer than "
                    f"{format_seconds(MAX_SECONDS)}s",
                    hint="use a simpler regex without nested repeats",
                ) from None
            if groups is not None:
                return self._make_reply(rule, request, groups)
        start = quote(one_line(request.last, 60))
        raise ProviderError(
            "bad_request",
            f"no rule of script {quote(name)} matches turn {request.turn} with the message {start}",
            hint="add a final [[rule]] without `when`, which answers everything else",
        )

    def _make_reply(self, rule: Rule, request: Request, groups: Mapping[str, str]) -> Reply:
        delay, seconds = (0.0, rule.delay) if self.virtual else (rule.delay, 0.0)
        words = {
            "last": request.last,
            "turn": str(request.turn),
            "agent": request.agent,
            "results": "\n\n".join(result.content for result in request.results),
            **groups,
        }
        text = fill_in(rule.text, words)
        if rule.data is not None:
            text = write_data(fill_in(rule.data, words), request)
        calls = tuple(ToolCall("", c.name, fill_in(dict(c.arguments), words)) for c in rule.calls)
        usage = (
            rule.usage
            if len(rule.usage) == 2
            else {**estimate_usage(request, text, calls), **rule.usage}
        )
        response = Response(
            text, calls, rule.stop_reason or stop_reason(calls), Usage(**usage), seconds=seconds
        )
        reasoning = fill_in(rule.reasoning, words)
        return Reply(response, rule.fault, reasoning, delay=delay, stream=rule.stream)


def write_data(data: Any, request: Request) -> str:
    """Data as the text of an answer; within an object if the request asks for one."""
    data = jsonable(data)
    if request.output is not None and not isinstance(data, dict):
        data = {"value": data}
    return dump(data).decode()


def fill_in(value: Any, words: Mapping[str, str]) -> Any:
    """Replaces every `{name}` in the texts of a value; replacements are not expanded again."""
    return change_texts(value, lambda text: _PLACE.sub(lambda m: words.get(m[1], m[0]), text))


def stop_reason(calls: tuple[ToolCall, ...]) -> str:
    """Returns the default stop reason of a script model, in OpenAI's terms (A-1.9)."""
    return "tool_calls" if calls else "stop"


def estimate_usage(request: Request, text: str, calls: tuple[ToolCall, ...]) -> dict[str, int]:
    """Estimates tokens as characters // 4 of the request (including tools) and of the answer.

    Counts only what every wire format carries, so that it is the same over a socket.
    """
    sent = len(request.system) + sum(
        len(tool.name) + len(tool.description) + len(dump(tool.input_schema()).decode())
        for tool in request.tools
    )
    for message in request.messages:
        if message.tool_results:
            sent += sum(len(result.content) for result in message.tool_results)
        else:
            sent += len(message.content) + _count_chars(message.tool_calls)
    return {"input_tokens": sent // 4, "output_tokens": (len(text) + _count_chars(calls)) // 4}


def _count_chars(calls: tuple[ToolCall, ...]) -> int:
    return sum(len(call.name) + len(dump(dict(call.arguments)).decode()) for call in calls)
