"""The spans of one tree of runs, made of its events.

A run is `invoke_agent`, a turn `chat`, a call `execute_tool`; they are nested as the tree is, below
the span that is current where the run was started. Texts are left out unless the environment allows
them, and pass the filter for secrets.
Source: issue 12 "Traces"; D-60; library-facts "OpenTelemetry".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from axe_nb.events import (
    Event,
    RetryScheduled,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.text import one_line
from axe_nb.traces import names
from axe_nb.traces.content import (
    Messages,
    make_call,
    make_result,
    make_text,
    write_arguments,
    write_name,
    write_text,
)
from axe_nb.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

log = logging.getLogger("axe_nb")


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
        self._has_texts = os.environ.get(names.CAPTURE_CONTENT, "").lower() == "true"
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
                    span.add_event(names.RETRY, {"attempt": event.attempt, "reason": event.reason})
            case TurnFinished():
                self._end_turn(event)
            case ToolStarted():
                self._begin_call(event)
            case ToolFinished():
                self._end_call(event)
            case RunFinished():
                self._end_run(event)

    def _begin(self, key: str, above: str, name: str, attributes: Mapping[str, str]) -> None:
        from opentelemetry import trace

        parent = self._open.get(above)
        context = trace.set_span_in_context(parent, self._context) if parent else self._context
        kind = trace.SpanKind.CLIENT if name.startswith(names.CHAT) else trace.SpanKind.INTERNAL
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
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT: event.agent,
            **_describe_model(event.model),
            names.PLACE: event.run,
        }
        name = f"{names.INVOKE_AGENT} {event.agent}".rstrip()
        self._begin(event.run, above if above in self._open else event.parent, name, attributes)
        if self._has_texts:
            said = self._messages[event.run] = Messages(event.prompt)
            self._open[event.run].set_attribute(names.INPUT_MESSAGES, said.write())

    def _begin_turn(self, event: TurnStarted) -> None:
        agent, model = self._agents[event.run]
        described = _describe_model(model)
        attributes = {
            names.OPERATION: names.CHAT,
            names.AGENT: agent,
            **described,
            names.PLACE: f"{event.run}/{event.turn}",
        }
        name = f"{names.CHAT} {described[names.REQUEST_MODEL]}"
        key = f"{event.run}/{event.turn}"
        self._begin(key, event.run, name, attributes)
        if said := self._messages.get(event.run):
            self._open[key].set_attribute(names.INPUT_MESSAGES, said.write())

    def _end_turn(self, event: TurnFinished) -> None:
        key, usage = f"{event.run}/{event.turn}", event.usage
        span = self._open.pop(key, None)
        if span is None:
            return
        span.set_attribute(names.FINISH_REASONS, [write_name(event.stop_reason)])
        if event.source:
            span.set_attribute(names.SOURCE, event.source)
        if event.source not in ("", "edited"):  # its tokens were counted when it was asked
            usage = Usage()
        counts = {
            names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens,
            names.CACHE_READ_TOKENS: usage.cached_tokens,
            names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
            names.REASONING_TOKENS: usage.reasoning_tokens,
        }  # fmt: skip
        span.set_attributes({name: count for name, count in counts.items() if count})
        span.set_attributes(_describe_cost(usage))
        if said := self._messages.get(event.run):
            if event.question:
                said.add("user", make_text(event.question))
                span.set_attribute(names.INPUT_MESSAGES, said.write())
            text = [make_text(event.text)] if event.text else []
            calls = map(make_call, event.calls)
            said.add("assistant", *text, *calls, finish_reason=event.stop_reason)
            span.set_attribute(names.OUTPUT_MESSAGES, said.write_last())
        span.end()

    def _begin_call(self, event: ToolStarted) -> None:
        key = f"{event.run}#{event.call.id}"
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: event.call.name,
            names.TOOL_CALL: event.call.id,
        }
        self._begin(key, event.run, f"{names.EXECUTE_TOOL} {event.call.name}", attributes)
        if self._has_texts:
            self._open[key].set_attribute(names.TOOL_ARGUMENTS, write_arguments(event.call))

    def _end_call(self, event: ToolFinished) -> None:
        span = self._open.pop(f"{event.run}#{event.result.call_id}", None)
        if span is None:
            return
        if said := self._messages.get(event.run):
            said.add("tool", make_result(event.result))
            span.set_attribute(names.TOOL_RESULT, write_text(event.result.content))
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
            names.STATUS: result.status,
            names.INPUT_TOKENS: result.usage.input_tokens,
            names.OUTPUT_TOKENS: result.usage.output_tokens,
            **_describe_cost(result.usage),
        })  # fmt: skip
        if said:
            said.add("assistant", make_text(result.text), finish_reason=result.stop_reason)
            span.set_attribute(names.OUTPUT_MESSAGES, said.write_last())
        if not result.ok:
            _fail(span, reason, result.error or "")
        span.end()


def _describe_model(model: str) -> dict[str, str]:
    provider, _, name = model.partition("/")
    return {names.PROVIDER: provider, names.REQUEST_MODEL: name}


def _describe_cost(usage: Usage) -> dict[str, float]:
    return {} if usage.cost is None else {names.COST: usage.cost}


def _fail(span: Span, reason: str, error: str) -> None:
    """Marks a span as failed; the error is the run's own line, without secrets."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(names.ERROR, reason)
    span.set_status(Status(StatusCode.ERROR, write_text(error)))
