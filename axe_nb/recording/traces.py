"""OpenTelemetry spans of runs, made of their events, where a program has set OpenTelemetry up.

A run is `invoke_agent`, a turn `chat`, a call `execute_tool`; they are nested as the tree is, below
the span that is current where the run was started. Texts are left out unless the environment allows
them, and pass the filter for secrets. Names are literals because the constants of OpenTelemetry's
own package are private, deprecated and behind the published text.
Source: D-60.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from axe_nb.events import (
    Emit,
    Event,
    PersonAnswered,
    PersonAsked,
    RetryScheduled,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import ToolCall, ToolResult, Usage, dump
from axe_nb.secrets import find_filter
from axe_nb.text import clean, cut_chars, one_line

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

log = logging.getLogger("axe_nb")

OPERATION = "gen_ai.operation.name"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
REQUEST_MODEL = "gen_ai.request.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
ERROR = "error.type"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that allows the four attributes above: `true`."""

PLACE = "axe_nb.place"
STATUS = "axe_nb.status"
RETRY = "axe_nb.retry"
COST = "axe_nb.cost"
SOURCE = "axe_nb.source"
"""Names of our own: the place in the tree, the status of a run, the event of a retry, the price of
a turn or of a run without its children in US dollars, where it is known, and the source of an
answer that a fork did not ask for."""

MAX_TEXT = 10_000
"""Characters of one text."""

MAX_NAME = 200
"""Characters of a name or id, which a model may have made up."""

MAX_MESSAGES = 100_000
"""Bytes of the messages of one request as JSON; the latest ones stay."""


def with_spans(emit: Emit, context: Context) -> Emit:
    """Returns a function that passes events on, and records spans below the context's."""
    spans = Spans(context)

    def pass_on(event: Event) -> None:
        spans.event(event)
        emit(event)

    return pass_on


class Spans:
    """The spans of one tree."""

    def __init__(self, context: Context) -> None:
        """Creates the object without any spans.

        Args:
            context: that of the caller, whose current span becomes the parent.
        """
        self._context = context
        self._open: dict[str, Span] = {}
        """Place of a run, turn (`0/1`) or call (`0#id`) → its span."""
        self._agents: dict[str, tuple[str, str]] = {}
        """Run → its agent and model."""
        self._messages: dict[str, Messages] = {}
        """Run → what was said in it so far; empty if texts are left out."""
        self._has_texts = os.environ.get(CAPTURE_CONTENT, "").lower() == "true"
        self._is_on = True

    def event(self, event: Event) -> None:
        """Takes an event; a failing exporter ends the tracing, never the run."""
        if not self._is_on:
            return
        try:
            self._take(event)
        except Exception as fault:
            self._is_on = False
            log.warning("tracing stopped: %s", one_line(f"{type(fault).__name__}: {fault}", 200))

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._begin_run(event)
            case TurnStarted():
                self._begin_turn(event)
            case RetryScheduled():
                if span := self._open.get(f"{event.run}/{event.turn}"):
                    span.add_event(RETRY, {"attempt": event.attempt, "reason": event.reason})
            case TurnFinished():
                self._end_turn(event)
            case ToolStarted():
                self._begin_call(event)
            case ToolFinished():
                self._end_call(event)
            case RunFinished():
                self._end_run(event)
            case TextDelta() | PersonAsked() | PersonAnswered():
                pass
            case _:
                assert_never(event)

    def _begin(self, key: str, above: str, name: str, attributes: Mapping[str, str]) -> None:
        from opentelemetry import trace

        parent = self._open.get(above)
        context = trace.set_span_in_context(parent, self._context) if parent else self._context
        kind = trace.SpanKind.CLIENT if name.startswith(CHAT) else trace.SpanKind.INTERNAL
        tracer = trace.get_tracer("axe_nb")
        written = {key: write_name(value) for key, value in attributes.items()}
        span = tracer.start_span(write_name(name), context, kind, written)
        if not parent and not span.is_recording():
            self._is_on = False
        self._open[key] = span

    def _begin_run(self, event: RunStarted) -> None:
        self._agents[event.run] = event.agent, event.model
        above = f"{event.parent}#{event.call_id}" if event.parent else ""
        attributes = {
            OPERATION: INVOKE_AGENT,
            AGENT: event.agent,
            **_describe_model(event.model),
            PLACE: event.run,
        }
        name = f"{INVOKE_AGENT} {event.agent}".rstrip()
        self._begin(event.run, above if above in self._open else event.parent, name, attributes)
        if self._has_texts:
            said = self._messages[event.run] = Messages(event.prompt)
            self._open[event.run].set_attribute(INPUT_MESSAGES, said.write())

    def _begin_turn(self, event: TurnStarted) -> None:
        agent, model = self._agents[event.run]
        described = _describe_model(model)
        attributes = {
            OPERATION: CHAT,
            AGENT: agent,
            **described,
            PLACE: f"{event.run}/{event.turn}",
        }
        name = f"{CHAT} {described[REQUEST_MODEL]}"
        key = f"{event.run}/{event.turn}"
        self._begin(key, event.run, name, attributes)
        if said := self._messages.get(event.run):
            self._open[key].set_attribute(INPUT_MESSAGES, said.write())

    def _end_turn(self, event: TurnFinished) -> None:
        key, usage = f"{event.run}/{event.turn}", event.usage
        span = self._open.pop(key, None)
        if span is None:
            return
        span.set_attribute(FINISH_REASONS, [write_name(event.stop_reason)])
        if event.source:
            span.set_attribute(SOURCE, event.source)
        if event.source not in ("", "edited"):  # its tokens were counted when it was asked
            usage = Usage()
        counts = {
            INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens,
            CACHE_READ_TOKENS: usage.cached_tokens,
            CACHE_WRITE_TOKENS: usage.cache_write_tokens,
            REASONING_TOKENS: usage.reasoning_tokens,
        }  # fmt: skip
        span.set_attributes({name: count for name, count in counts.items() if count})
        span.set_attributes(_describe_cost(usage))
        if said := self._messages.get(event.run):
            if event.question:
                said.add("user", make_text(event.question))
                span.set_attribute(INPUT_MESSAGES, said.write())
            text = [make_text(event.text)] if event.text else []
            calls = map(make_call, event.calls)
            said.add("assistant", *text, *calls, finish_reason=event.stop_reason)
            span.set_attribute(OUTPUT_MESSAGES, said.write_last())
        span.end()

    def _begin_call(self, event: ToolStarted) -> None:
        key = f"{event.run}#{event.call.id}"
        attributes = {
            OPERATION: EXECUTE_TOOL,
            TOOL: event.call.name,
            TOOL_CALL: event.call.id,
        }
        self._begin(key, event.run, f"{EXECUTE_TOOL} {event.call.name}", attributes)
        if self._has_texts:
            self._open[key].set_attribute(
                TOOL_ARGUMENTS, dump(_bound(event.call.arguments)).decode()
            )

    def _end_call(self, event: ToolFinished) -> None:
        span = self._open.pop(f"{event.run}#{event.result.call_id}", None)
        if span is None:
            return
        if said := self._messages.get(event.run):
            said.add("tool", make_result(event.result))
            span.set_attribute(TOOL_RESULT, write_text(event.result.content))
        if event.result.is_error:
            _fail(span, "denied" if event.result.is_denied else "tool_error", "")
        span.end()

    def _end_run(self, event: RunFinished) -> None:
        """Ends the span of a run, and all spans within it that are still open."""
        result = event.result
        reason = result.status if not result.cause else getattr(result.cause, "category", "error")
        below = [key for key in self._open if key.startswith((f"{event.run}/", f"{event.run}#"))]
        for key in below:
            unfinished = self._open.pop(key)
            _fail(unfinished, reason, result.error or "")
            unfinished.end()
        span = self._open.pop(event.run, None)
        self._agents.pop(event.run, None)
        said = self._messages.pop(event.run, None)
        if span is None:
            return
        span.set_attributes({
            STATUS: result.status,
            INPUT_TOKENS: result.usage.input_tokens,
            OUTPUT_TOKENS: result.usage.output_tokens,
            **_describe_cost(result.usage),
        })  # fmt: skip
        if said:
            said.add("assistant", make_text(result.text), finish_reason=result.stop_reason)
            span.set_attribute(OUTPUT_MESSAGES, said.write_last())
        if not result.ok:
            _fail(span, reason, result.error or "")
        span.end()


def _describe_model(model: str) -> dict[str, str]:
    provider, _, name = model.partition("/")
    return {PROVIDER: provider, REQUEST_MODEL: name}


def _describe_cost(usage: Usage) -> dict[str, float]:
    return {} if usage.cost is None else {COST: usage.cost}


def _fail(span: Span, reason: str, error: str) -> None:
    """Marks a span as failed; the error is the run's own line, without secrets."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(ERROR, reason)
    span.set_status(Status(StatusCode.ERROR, write_text(error)))


class Messages:
    """The messages of one run so far, each as JSON."""

    def __init__(self, prompt: str) -> None:
        """Begins with the prompt."""
        self._written: list[str] = []
        self.add("user", make_text(prompt))

    def add(self, role: str, *parts: Mapping[str, Any], **more: str) -> None:
        """Adds a message."""
        named = {key: write_name(value) for key, value in more.items()}
        self._written.append(dump({"role": role, "parts": list(parts), **named}).decode())

    def write_last(self) -> str:
        """Returns a JSON list with the last message alone."""
        return f"[{self._written[-1]}]"

    def write(self) -> str:
        """Returns the latest messages as a JSON list."""
        size, first = 0, len(self._written)
        while first and (size := size + len(self._written[first - 1])) <= MAX_MESSAGES:
            first -= 1
        return f"[{','.join(self._written[first:])}]"


def write_text(text: str) -> str:
    """Returns a text without secrets, cut.

    Without what cannot be written in UTF-8 too: one such character can cost an exporter a batch.
    """
    return cut_chars(clean(find_filter().text(text)), MAX_TEXT, "…")


def write_name(name: str) -> str:
    """Returns a name or id without secrets on one line, cut."""
    return one_line(find_filter().text(name), MAX_NAME)


def make_text(text: str) -> dict[str, Any]:
    """Returns the part of a message that is text."""
    return {"type": "text", "content": write_text(text)}


def make_call(call: ToolCall) -> dict[str, Any]:
    """Returns the part of a message that is a call."""
    named = {"id": write_name(call.id), "name": write_name(call.name)}
    return {"type": "tool_call", **named, "arguments": _bound(call.arguments)}


def make_result(result: ToolResult) -> dict[str, Any]:
    """Returns the part of a message that is the result of a call."""
    response = write_text(result.content)
    return {"type": "tool_call_response", "id": write_name(result.call_id), "response": response}


def _bound(arguments: Mapping[str, Any]) -> Any:
    """Returns arguments without secrets; a text that is cut if they are too long."""
    masked = find_filter().json(arguments)
    text = dump(masked).decode()
    return masked if len(text) <= MAX_TEXT else cut_chars(text, MAX_TEXT, "…")
