"""Turns the events of runs into OpenTelemetry spans, if the program has set up OpenTelemetry.

Runs are `invoke_agent` spans, turns `chat`, and calls `execute_tool`. They are nested like the run
tree, below the caller's current span. Messages, arguments and results are omitted unless an
environment variable allows them; secrets in them are masked. Attribute names are literals, as the
constants of OpenTelemetry's package are private and outdated. Source: D-60.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from axe_nb.events import (
    Emit,
    Event,
    RetryScheduled,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import Usage, dump
from axe_nb.secrets import find_filter
from axe_nb.text import clean, cut_chars, one_line

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

log = logging.getLogger("axe_nb")

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable; `true` includes messages, arguments and results in spans."""

MAX_TEXT = 10_000

MAX_MESSAGES = 100_000
"""Maximum number of characters in the JSON of a request's messages; early ones are omitted."""


def with_spans(emit: Emit, context: Context) -> Emit:
    """Wraps `emit` to record events as spans. An error stops the tracing, not the run."""
    spans = Spans(context)

    def pass_on(event: Event) -> None:
        try:
            if spans.is_on:
                spans.take(event)
        except Exception as fault:
            spans.is_on = False
            log.warning("tracing stopped: %s", one_line(f"{type(fault).__name__}: {fault}", 200))
        emit(event)

    return pass_on


class Spans:
    """The OpenTelemetry spans of one run tree, below the current span of a context."""

    def __init__(self, context: Context) -> None:
        self.is_on = True
        self._context = context
        self._open: dict[str, Span] = {}
        """Open spans, keyed by run (`0`), turn (`0/1`) or call (`0#id`)."""
        self._agents: dict[str, tuple[str, str]] = {}
        self._messages: dict[str, list[str]] = {}
        """Each run's messages so far, as JSON strings, keyed by run; empty if texts are omitted."""
        self._has_texts = os.environ.get(CAPTURE_CONTENT, "").lower() == "true"

    def take(self, event: Event) -> None:
        match event:
            case RunStarted(run=run):
                self._agents[run] = event.agent, event.model
                caller = f"{event.parent}#{event.call_id}" if event.parent else ""
                above = caller if caller in self._open else event.parent
                self._begin("invoke_agent", event.agent, run, above)
                if self._has_texts:
                    self._say(run, "user", _make_text(event.prompt))
                    self._tell_asked(run, run)
            case TurnStarted():
                key = f"{event.run}/{event.turn}"
                self._begin("chat", self._agents[event.run][1].partition("/")[2], key, event.run)
                self._tell_asked(key, event.run)
            case RetryScheduled():
                if span := self._open.get(f"{event.run}/{event.turn}"):
                    told: dict[str, int | str] = {"attempt": event.attempt, "reason": event.reason}
                    span.add_event("axe_nb.retry", told)
            case TurnFinished():
                self._end_turn(event)
            case ToolStarted(call=call):
                key = f"{event.run}#{call.id}"
                self._begin("execute_tool", call.name, key, event.run, call.id)
                if self._has_texts:
                    arguments = dump(_bound(call.arguments)).decode()
                    self._open[key].set_attribute("gen_ai.tool.call.arguments", arguments)
            case ToolFinished(result=result):
                if span := self._open.pop(f"{event.run}#{result.call_id}", None):
                    if event.run in self._messages:
                        response = _write_text(result.content)
                        answer = {"type": "tool_call_response", "response": response}
                        self._say(event.run, "tool", {**answer, "id": _write_name(result.call_id)})
                        span.set_attribute("gen_ai.tool.call.result", response)
                    if result.is_error:
                        _fail(span, "denied" if result.is_denied else "tool_error", "")
                    span.end()
            case RunFinished():
                self._end_run(event)

    def _begin(self, kind: str, name: str, key: str, above: str, call_id: str = "") -> None:
        from opentelemetry import trace

        described = {"gen_ai.operation.name": kind}
        if kind == "execute_tool":
            described |= {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id}
        else:
            agent, model = self._agents[key.partition("/")[0]]
            provider, _, model_name = model.partition("/")
            described |= {
                "gen_ai.agent.name": agent, "gen_ai.provider.name": provider,
                "gen_ai.request.model": model_name, "axe_nb.place": key,
            }  # fmt: skip
        parent = self._open.get(above)
        span = trace.get_tracer("axe_nb").start_span(
            _write_name(f"{kind} {name}".rstrip()),
            trace.set_span_in_context(parent, self._context) if parent else self._context,
            trace.SpanKind.CLIENT if kind == "chat" else trace.SpanKind.INTERNAL,
            {key: _write_name(value) for key, value in described.items()},
        )
        if not parent and not span.is_recording():
            self.is_on = False
        self._open[key] = span

    def _say(self, run: str, role: str, *parts: Mapping[str, Any], **more: str) -> None:
        named = {key: _write_name(value) for key, value in more.items()}
        said = dump({"role": role, "parts": list(parts), **named}).decode()
        self._messages.setdefault(run, []).append(said)

    def _tell_asked(self, key: str, run: str) -> None:
        said, size = self._messages.get(run, []), 0
        first = len(said)
        while first and (size := size + len(said[first - 1])) <= MAX_MESSAGES:
            first -= 1
        if said:
            self._open[key].set_attribute("gen_ai.input.messages", f"[{','.join(said[first:])}]")

    def _end_turn(self, event: TurnFinished) -> None:
        key, usage = f"{event.run}/{event.turn}", event.usage
        span = self._open.get(key)
        if span is None:
            return
        span.set_attribute("gen_ai.response.finish_reasons", [_write_name(event.stop_reason)])
        if event.source:
            span.set_attribute("axe_nb.source", event.source)
        if event.source not in ("", "edited"):  # no tokens were used now
            usage = Usage()
        counts = {
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
            "cache_read.input_tokens": usage.cached_tokens,
            "cache_write.input_tokens": usage.cache_write_tokens,
            "reasoning.output_tokens": usage.reasoning_tokens,
        }  # fmt: skip
        told = {f"gen_ai.usage.{name}": count for name, count in counts.items() if count}
        span.set_attributes({**told, **_describe_cost(usage)})
        if said := self._messages.get(event.run):
            if event.question:
                self._say(event.run, "user", _make_text(event.question))
                self._tell_asked(key, event.run)
            parts = [_make_text(event.text)] if event.text else []
            for one in event.calls:
                named = {"id": _write_name(one.id), "name": _write_name(one.name)}
                parts.append({"type": "tool_call", **named, "arguments": _bound(one.arguments)})
            self._say(event.run, "assistant", *parts, finish_reason=event.stop_reason)
            span.set_attribute("gen_ai.output.messages", f"[{said[-1]}]")
        self._open.pop(key).end()

    def _end_run(self, event: RunFinished) -> None:
        run, result = event.run, event.result
        reason = result.status if not result.cause else getattr(result.cause, "category", "error")
        below = [key for key in self._open if key.startswith((f"{run}/", f"{run}#"))]
        for key in below:
            unfinished = self._open.pop(key)
            _fail(unfinished, reason, result.error or "")
            unfinished.end()
        span = self._open.pop(run, None)
        self._agents.pop(run, None)
        if span is None:
            return
        span.set_attributes({
            "axe_nb.status": result.status,
            "gen_ai.usage.input_tokens": result.usage.input_tokens,
            "gen_ai.usage.output_tokens": result.usage.output_tokens,
            **_describe_cost(result.usage),
        })  # fmt: skip
        if run in self._messages:
            self._say(run, "assistant", _make_text(result.text), finish_reason=result.stop_reason)
            span.set_attribute("gen_ai.output.messages", f"[{self._messages.pop(run)[-1]}]")
        if not result.ok:
            _fail(span, reason, result.error or "")
        span.end()


def _describe_cost(usage: Usage) -> dict[str, float]:
    return {} if usage.cost is None else {"axe_nb.cost": usage.cost}


def _fail(span: Span, reason: str, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", reason)
    span.set_status(Status(StatusCode.ERROR, _write_text(error)))


def _write_text(text: str) -> str:
    """Masks secrets and harmful characters in a text, and shortens the text."""
    return cut_chars(clean(find_filter().text(text)), MAX_TEXT, "…")


def _write_name(name: str) -> str:
    return one_line(find_filter().text(name), 200)


def _make_text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": _write_text(text)}


def _bound(arguments: Mapping[str, Any]) -> Any:
    """Masks secrets in arguments; if they are too long, returns shortened JSON text."""
    masked = find_filter().json(arguments)
    text = dump(masked).decode()
    return masked if len(text) <= MAX_TEXT else cut_chars(text, MAX_TEXT, "…")
