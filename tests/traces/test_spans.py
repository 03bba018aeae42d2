"""Spans of runs, as a program with OpenTelemetry's SDK receives them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import axe_nb
from axe_nb import Agent, Request, Response, ToolCall, Usage, call, script
from axe_nb.recording.traces import CAPTURE_CONTENT
from tests.files import settings

PROVIDER = TracerProvider()
"""OpenTelemetry takes one for the whole process."""

SECRET = "sk-canary-0123456789abcdef0123"


class Switch(SpanExporter):
    target: Any = None

    def export(self, spans: Any) -> SpanExportResult:
        return self.target.export(spans) if self.target else SpanExportResult.SUCCESS


SWITCH = Switch()
PROVIDER.add_span_processor(SimpleSpanProcessor(SWITCH))


@pytest.fixture(autouse=True)
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    if trace.get_tracer_provider() is not PROVIDER:
        trace.set_tracer_provider(PROVIDER)
    memory = InMemorySpanExporter()
    monkeypatch.setattr(SWITCH, "target", memory)
    return memory


@pytest.fixture
def lead(project: Path) -> Agent:
    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn > 1:
            return f"done {SECRET}"
        calls = tuple(call("call_agent", agent="helper", task=f"task {n}") for n in "ab")
        usage = Usage(100, 20, cached_tokens=60, reasoning_tokens=5)
        return Response("Let me ask.", (*calls, call("nope")), "tool_calls", usage)

    script("helper")(lambda request: f"found {request.last}")
    axe_nb.define(Agent("helper", "script/helper"))
    return Agent("lead", "script/lead", sub_agents=("helper",))


def tree(spans: tuple[ReadableSpan, ...]) -> dict[str, list[str]]:
    """Name of each span with its place → the names of those below it, sorted."""
    by_id = {span.context.span_id: span for span in spans}
    found: dict[str, list[str]] = {}
    for span in spans:
        above = by_id.get(span.parent.span_id) if span.parent else None
        found.setdefault(above.name if above else "", []).append(span.name)
    return {name: sorted(below) for name, below in found.items()}


def test_spans_are_nested_as_the_tree_is(lead: Agent, exported: InMemorySpanExporter) -> None:
    with trace.get_tracer("mine").start_as_current_span("my cell"):
        axe_nb.run(lead, "go")
    spans = exported.get_finished_spans()
    assert tree(spans) == {
        "": ["my cell"],
        "my cell": ["invoke_agent lead"],
        "invoke_agent lead": [
            "chat lead", "chat lead", "execute_tool call_agent", "execute_tool call_agent",
            "execute_tool nope",
        ],
        "execute_tool call_agent": ["invoke_agent helper"] * 2,
        "invoke_agent helper": ["chat helper"] * 2,
    }  # fmt: skip
    assert len({span.context.trace_id for span in spans}) == 1
    assert "task a" not in str([dict(span.attributes) for span in spans]), "no texts"


def test_attributes_have_the_conventions_names(lead: Agent, exported: InMemorySpanExporter) -> None:
    axe_nb.run(lead, "go")
    spans = {str(s.attributes["axe_nb.place"]): s for s in exported.get_finished_spans()
             if "axe_nb.place" in s.attributes}  # fmt: skip
    turn = spans["0/1"]
    assert turn.kind is trace.SpanKind.CLIENT
    assert dict(turn.attributes) == {
        "gen_ai.operation.name": "chat", "gen_ai.agent.name": "lead",
        "gen_ai.provider.name": "script", "gen_ai.request.model": "lead", "axe_nb.place": "0/1",
        "gen_ai.response.finish_reasons": ("tool_calls",), "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20, "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
    }  # fmt: skip
    run = spans["0"].attributes
    assert (run["gen_ai.operation.name"], run["axe_nb.status"]) == ("invoke_agent", "completed")
    [failed] = [s for s in exported.get_finished_spans() if s.name == "execute_tool nope"]
    assert failed.attributes["error.type"] == "tool_error"
    assert failed.status.status_code is trace.StatusCode.ERROR


def test_a_turn_has_the_conversation_in_the_form_of_the_conventions(
    lead: Agent, exported: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE_CONTENT, "true")
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    axe_nb.run(lead, f"go {SECRET}")
    first, second = [
        {key: json.loads(str(text)) for key, text in span.attributes.items() if "messages" in key}
        for span in exported.get_finished_spans()
        if span.name == "chat lead"
    ]
    [asked] = first["gen_ai.input.messages"]
    assert asked == {"role": "user", "parts": [{"type": "text", "content": "go ***"}]}
    [said] = first["gen_ai.output.messages"]
    assert (said["role"], said["finish_reason"]) == ("assistant", "tool_calls")
    text, call_a, call_b, nope = said["parts"]
    assert text == {"type": "text", "content": "Let me ask."}
    arguments = {"agent": "helper", "task": "task a"}
    assert call_a.items() >= {
        "type": "tool_call", "name": "call_agent", "arguments": arguments
    }.items()  # fmt: skip
    _, again, *results = second["gen_ai.input.messages"]
    assert again["parts"] == said["parts"]
    told = {part["id"]: part["response"] for one in results for part in one["parts"]}
    assert {one["role"] for one in results} == {"tool"}
    assert told.keys() == {call_a["id"], call_b["id"], nope["id"]}
    assert "found" in told[call_b["id"]]
    assert second["gen_ai.output.messages"][0]["parts"][0]["content"] == "done ***"


def test_what_a_turn_and_a_run_cost_is_in_dollars(
    project: Path, exported: InMemorySpanExporter
) -> None:
    settings('[prices."script/m"]\ninput = 3\noutput = 15\n')
    usage = Usage(1000, 100)
    script("m")(lambda request: Response("x", (), "stop", usage))
    axe_nb.run(Agent("a", "script/m"), "hi")
    costs = [span.attributes["axe_nb.cost"] for span in exported.get_finished_spans()]
    assert costs == pytest.approx([0.0045, 0.0045])


@pytest.mark.req("D-60")
@pytest.mark.parametrize("captured", ["true", "false"])
def test_names_that_a_model_writes_are_bounded_and_without_secrets(
    captured: str, project: Path, exported: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    monkeypatch.setenv(CAPTURE_CONTENT, captured)
    evil = f"{SECRET}\ud800\x1b" + "n" * 1_000_000
    script("evil")(lambda r: ToolCall(evil, evil, {"x": evil}) if r.turn == 1 else evil)
    axe_nb.run(Agent("a", "script/evil", tools=("read_file",)), evil)
    spans = exported.get_finished_spans()
    told = "".join(f"{span.name} {dict(span.attributes or {})}" for span in spans)
    told.encode()  # an exporter loses all spans of a batch otherwise
    assert "execute_tool ***\ufffd" in told
    assert SECRET not in told
    assert len(told) < 200_000


def test_unfinished_spans_end_with_their_run(project: Path, exported: InMemorySpanExporter) -> None:
    async def slow(request: Request) -> str:
        await asyncio.sleep(60)
        return ""

    script("slow")(slow)
    result = axe_nb.run(Agent("a", "script/slow"), "hi", timeout=0.2)
    assert result.status == "timeout"
    spans = exported.get_finished_spans()
    assert [span.name for span in spans] == ["chat slow", "invoke_agent a"]
    assert [span.attributes["error.type"] for span in spans] == ["timeout", "timeout"]


def test_a_fault_of_the_exporter_never_reaches_the_run(
    lead: Agent, exported: InMemorySpanExporter
) -> None:
    SWITCH.target = object()  # which cannot export
    assert axe_nb.run(lead, "go").ok


def test_without_opentelemetry_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, axe_nb; axe_nb.script('m')(lambda r: 'x'); "
        "print(axe_nb.run(axe_nb.Agent('a', 'script/m'), 'hi').ok, "
        "any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
