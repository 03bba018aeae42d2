"""A run as plain text, to the letter of the Axe command line: dry run and verbose lines.

Source: seed 000 §8.5-8.8, §7.5 (A-8.5..A-8.8, A-7.5), B-10, B-11; D-10, D-14, D-49.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from axe_nb.delegation.inheritance import calls_sub_agents
from axe_nb.engine.loop import Run
from axe_nb.events import (
    Event,
    RunFinished,
    RunResult,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from axe_nb.messages import dump
from axe_nb.text import clean, cut_chars, format_seconds, quote

PREVIEW = 80
"""Characters of a task in one line."""

_LINE_END = re.compile(r"\r\n|\n|\r")


def preview(text: str) -> str:
    """The text in one line; `...` only where it is cut (D-14)."""
    return cut_chars(_LINE_END.sub(" ", text), PREVIEW)


def shown_path(path: Path) -> str:
    """The path, relative to the current folder where it lies below it: it says no machine."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def dry_run(run: Run, prompt: str, timeout: float | None) -> str:
    """What would be sent, and to whom (B-10, A-8.5)."""
    files = "\n".join(path for path, _ in run.briefing.files)
    blocks = [
        f"=== Dry Run ===\n\n{_setup(run, timeout, model=True)}",
        _block("System Prompt", run.agent.system_prompt),
        _block("Skill", run.briefing.skill),
        _block(f"Files ({len(run.briefing.files)})", files),
        _block("Stdin", prompt),
        *_tools(run),
        _block("Sub-Agents", _sub_agents(run, timeout)),
    ]
    return "\n\n".join(blocks)


def _tools(run: Run) -> list[str]:
    """The block of an agent that has tools, other than its sub-agents; none for the others."""
    if not run.agent.tools:
        return []
    offered = [tool.name for tool in run.toolset.offered if not calls_sub_agents(tool.name)]
    decided: dict[str, list[str]] = {"ask": [], "deny": []}
    for tool in run.toolset.tools.values():
        decided.setdefault(run.place.permit.decide(tool)[0], []).append(tool.name)
    limits, budget = run.agent.limits, run.agent.sub_agents_config.budget
    rows = (
        ("Mode", run.place.permit.mode),
        ("Asked", ", ".join(decided["ask"])),
        ("Denied", ", ".join(decided["deny"])),
        (
            "Budget",
            f"{budget.max_tool_calls} tool calls, {budget.max_tokens} tokens, "
            f"{format_seconds(budget.timeout_ms / 1000)}s for each worker"
            if any(tool.is_budgeted for tool in run.toolset.tools.values())
            else "",
        ),
        ("Requests", f"at most {limits.max_requests} in the tree" if limits.max_requests else ""),
        ("Tokens", f"at most {limits.max_total_tokens}" if limits.max_total_tokens else ""),
    )
    told = [f"{label + ':':<11}{value}" for label, value in rows if value]
    return [_block("Tools", "\n".join([", ".join(offered) or "(none)", *told]))]


def _setup(run: Run, timeout: float | None, *, model: bool) -> str:
    lines = [f"Model:    {run.agent.model}"] if model else []
    lines += [
        f"Workdir:  {shown_path(run.briefing.workdir)}",
        f"Timeout:  {_limit(timeout)}",
        f"Params:   {_params(run.agent.params)}",
    ]
    return "\n".join(lines)


def _limit(seconds: float | None) -> str:
    return "none" if seconds is None else f"{format_seconds(seconds)}s"


def _params(params: Any) -> str:
    """Temperature and max_tokens always, 0 where absent (D-49); then the others."""
    shown = {"temperature": 0, "max_tokens": 0, **params}
    return ", ".join(f"{key}={text_of(value)}" for key, value in shown.items())


def text_of(value: Any) -> str:
    """A parameter as `--param` takes it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else dump(value).decode()


def _block(title: str, content: str) -> str:
    return f"--- {title} ---\n{content.rstrip() if content.strip() else '(none)'}"


def _sub_agents(run: Run, timeout: float | None) -> str:
    agent = run.agent
    config = agent.sub_agents_config
    tool = next((tool for tool in run.toolset.tools.values() if tool.calls_sub_agents), None)
    if tool is None:
        return ""
    capped = timeout is not None and config.timeout > timeout
    note = f" (capped by the run's {_limit(timeout)})" if capped else ""
    return "\n".join(
        [
            ", ".join(agent.sub_agents),
            f"Max Depth: {run.place.ceiling.of(tool)}",
            f"Parallel:  {'yes' if config.parallel else 'no'}",
            f"Timeout:   {format_seconds(config.timeout)}s{note}",
        ]
    )


def verbose_header(run: Run, timeout: float | None, *, piped: bool) -> str:
    """The lines before the first turn (B-11)."""
    setup = _setup(run, timeout, model=False).split("\n")
    return "\n".join(
        [
            f"Model:    {run.agent.model}",
            setup[0],
            f"Skill:    {run.agent.skill.strip() or '(none)'}",
            f"Files:    {len(run.briefing.files)} file(s)",
            f"Stdin:    {'yes' if piped else 'no'}",
            *setup[1:],
        ]
    )


def verbose_footer(result: RunResult) -> str:
    """The lines after the last turn (B-11, A-8.8)."""
    cumulative = " (cumulative)" if result.turns > 1 else ""
    usage = result.usage
    return "\n".join(
        [
            f"Duration: {result.duration_ms}ms",
            f"Tokens:   {usage.input_tokens} input, {usage.output_tokens} output{cumulative}",
            f"Stop:     {result.stop_reason}",
        ]
    )


class VerboseLines:
    """Events → the lines of `--verbose`: turns of the root, starts and ends of all children."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._agents: dict[str, str] = {}
        """Run → its agent."""
        self._waiting: dict[tuple[str, str], str] = {}
        """(run, call) → agent that it asks for, until a child has started."""

    def show(self, event: Event) -> None:
        """Writes the event's lines, if it has any."""
        for line in self._lines(event):
            self._write(clean(_LINE_END.sub(" ", line)))

    def _lines(self, event: Event) -> Iterator[str]:
        match event:
            case RunStarted(parent=""):
                pass
            case RunStarted():
                self._agents[event.run] = event.agent
                self._waiting.pop((event.parent, event.call_id), "")
                task = preview(event.task)
                yield (
                    f"[sub-agent] Calling {quote(event.agent)} (depth {event.depth}) "
                    f"with task: {task}"
                )
            case TurnStarted(run="0"):
                yield (
                    f"[turn {event.turn}] Sending request "
                    f"({event.messages} messages, {event.pending} tool calls pending)"
                )
            case TurnFinished(run="0"):
                yield (
                    f"[turn {event.turn}] Received response: "
                    f"{event.stop_reason} ({len(event.calls)} tool calls)"
                )
            case ToolStarted() if calls_sub_agents(event.call.name):
                asked = str(event.call.arguments.get("agent", ""))
                self._waiting[event.run, event.call.id] = asked
            case ToolStarted():
                arguments = preview(dump(dict(event.call.arguments)).decode())
                yield f"[tool] {event.call.name} {arguments}"
            case ToolFinished() if not calls_sub_agents(event.result.name):
                yield self._done(event)
            case ToolFinished():
                key = (event.run, event.result.call_id)
                if key in self._waiting:
                    asked = quote(self._waiting.pop(key))
                    yield f"[sub-agent] {asked} failed: {_reason(asked, event.result.content)}"
            case RunFinished() if event.run in self._agents:
                yield self._ended(quote(self._agents[event.run]), event.result)
            case _:
                pass

    @staticmethod
    def _done(event: ToolFinished) -> str:
        result = event.result
        if result.is_error:
            return f"[tool] {result.name} failed: {preview(result.content)}"
        took = f"{round(event.seconds * 1000)}ms ({len(result.content)} chars returned)"
        return f"[tool] {result.name} completed in {took}"

    @staticmethod
    def _ended(agent: str, result: RunResult) -> str:
        if not result.ok:
            return f"[sub-agent] {agent} failed: {result.error}"
        return (
            f"[sub-agent] {agent} completed in {result.duration_ms}ms "
            f"({len(result.text)} chars returned)"
        )


def _reason(agent: str, told: str) -> str:
    """What went wrong, out of the sentence that the parent's model was told."""
    return (
        told.removeprefix(f"Error: sub-agent {agent} failed - ")
        .removeprefix("call_agent error: ")
        .removesuffix(". You may retry or proceed without this result.")
    )
