"""Formats runs in plain text like the Axe command line, for `--dry-run` and `--verbose`.

Source: A-8.5..A-8.8, A-7.5, B-10, B-11, D-10, D-14, D-49.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from axe_nb.agents.agent_tables import DEFAULT_LIMITS, TreeLimits
from axe_nb.engine.plan import Plan
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
from axe_nb.messages import ToolResult, dump
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.text import clean, cut_chars, format_dollars, format_seconds, quote
from axe_nb.views.rows import format_cost
from axe_nb.views.transcript import CallNode, Node, Transcript, TreeNode, TurnNode

_LINE_END = re.compile(r"\r\n|\n|\r")


def preview(text: str) -> str:
    """Formats a text as one line of up to 80 characters, followed by `...` if it was cut (D-14)."""
    return cut_chars(_LINE_END.sub(" ", text), 80)


def dry_run(plan: Plan) -> str:
    """Formats a planned run's settings, prompts and tools, for `--dry-run` (B-10, A-8.5)."""
    agent = plan.agent
    files = [path for path, _ in plan.briefing.files]
    stream = "yes" if plan.is_streamed else "" if agent.stream else "no"
    params = {"temperature": 0, "max_tokens": 0, **agent.params}  # as 0 if they are not set (D-49)
    setup = [f"Model:    {agent.model}", *_list_setup(plan, params)]
    setup += [f"Stream:   {stream}"] if stream else []
    schema = json.dumps(plan.output.sent, ensure_ascii=False, indent=2) if plan.output else ""
    config, own = agent.sub_agents_config, plan.scope.limits.seconds
    caller = next((tool for tool in plan.toolset.tools.values() if tool.calls_sub_agents), None)
    is_capped = own is not None and config.timeout > own
    note = f" (capped by the run's {_format_limit(own)})" if is_capped else ""
    sub_agents = (
        f"{', '.join(agent.sub_agents)}\n"
        f"Max Depth: {plan.scope.max_depth(caller)}\n"
        f"Parallel:  {'yes' if config.parallel else 'no'}\n"
        f"Timeout:   {format_seconds(config.timeout)}s{note}"
        if caller
        else ""
    )
    blocks = {
        "System Prompt": plan.briefing.prompt,
        "Skill": plan.briefing.skill,
        f"Files ({len(files)})": "\n".join(files),
        "Stdin": plan.job.prompt,
        **({"Tools": _format_tools(plan)} if agent.tools else {}),
        **({"Output": schema} if plan.output else {}),
        "Sub-Agents": sub_agents,
    }
    texts = (
        f"--- {title} ---\n{text.rstrip() if text.strip() else '(none)'}"
        for title, text in blocks.items()
    )
    return "\n\n".join(["=== Dry Run ===", "\n".join(setup), *texts])


def _format_tools(plan: Plan) -> str:
    tools, policy = plan.toolset.tools, plan.scope.policy
    offered = [s.name for s in plan.toolset.offered if not tools[s.name].calls_sub_agents]
    verdicts = {tool.name: policy.decide(tool)[0] for tool in tools.values()}
    caps, budget = list_caps(plan.agent.limits), plan.agent.sub_agents_config.budget
    if "Requests" in caps:
        caps["Requests"] += " in the tree"
    asks = policy.mode != "auto" and any(tool.effect == "network" for tool in tools.values())
    told = (
        f"{budget.max_tool_calls} tool calls, {budget.max_tokens} tokens, "
        f"{format_seconds(budget.timeout_ms / 1000)}s for each child"
    )
    rows = {
        "Mode": policy.mode,
        "Asked": ", ".join(name for name, verdict in verdicts.items() if verdict == "ask"),
        "Denied": ", ".join(name for name, verdict in verdicts.items() if verdict == "deny"),
        "Hosts": f"{', '.join(plan.agent.allowed_hosts) or 'none'} without asking" if asks else "",
        "Budget": told if any(tool.is_budgeted for tool in tools.values()) else "",
        **caps,
    }
    lines = [f"{label + ':':<11}{value}" for label, value in rows.items() if value]
    return "\n".join([", ".join(offered) or "(none)", *lines])


def list_caps(limits: TreeLimits) -> dict[str, str]:
    """Returns label → text for each non-default limit on requests, tokens or cost."""
    caps = {}
    if limits.max_requests not in (0, DEFAULT_LIMITS.max_requests):
        caps["Requests"] = f"at most {limits.max_requests}"
    if limits.max_total_tokens:
        caps["Tokens"] = f"at most {limits.max_total_tokens}"
    if limits.max_cost:
        caps["Cost"] = f"at most {format_dollars(limits.max_cost)}"
    return caps


def _list_setup(plan: Plan, params: Mapping[str, Any]) -> list[str]:
    here, workdir = Path.cwd(), plan.briefing.workdir
    # relative if possible, so that it is the same on every machine
    shown = workdir.relative_to(here).as_posix() if workdir.is_relative_to(here) else workdir
    given = ", ".join(f"{key}={text_of(value)}" for key, value in params.items())
    timeout = f"Timeout:  {_format_limit(plan.scope.limits.seconds)}"
    return [f"Workdir:  {shown}", timeout, *([f"Params:   {given}"] if given else [])]


def _format_limit(seconds: float | None) -> str:
    return "none" if seconds is None else f"{format_seconds(seconds)}s"


def text_of(value: Any) -> str:
    """Formats the value of a param or variable: strings unchanged, anything else as JSON."""
    return value if isinstance(value, str) else dump(value).decode()


def verbose_header(plan: Plan, *, piped: bool) -> str:
    """Formats the `--verbose` lines printed before the first turn (B-11)."""
    workdir, *setup = _list_setup(plan, plan.agent.params)
    lines = (
        f"Model:    {plan.agent.model}",
        workdir,
        f"Skill:    {plan.agent.skill.strip() or '(none)'}",
        f"Files:    {len(plan.briefing.files)} file(s)",
        f"Stdin:    {'yes' if piped else 'no'}",
        *setup,
    )
    return "\n".join(lines)


def verbose_footer(result: RunResult) -> str:
    """Formats the `--verbose` lines printed after the last turn (B-11, A-8.8)."""
    cumulative = " (cumulative)" if result.turns > 1 else ""
    usage, cost = result.usage, format_cost(result.total_usage)
    of_tree = " (with sub-agents)" if result.children else ""
    lines = (
        f"Duration: {result.duration_ms}ms",
        f"Tokens:   {usage.input_tokens} input, {usage.output_tokens} output{cumulative}",
        f"Cost:     {cost}{of_tree}" if cost else "",
        f"Stop:     {result.stop_reason}",
    )
    return "\n".join(filter(None, lines))


class VerboseLines:
    """Writes `--verbose` lines: the root run's turns, and the whole tree's calls and sub-agents."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._transcript = Transcript()

    def show(self, event: Event) -> None:
        changed = self._transcript.apply(event, time.monotonic())
        if changed:
            for line in _format_lines(event, changed[-1]):
                self._write(clean(_LINE_END.sub(" ", line)))


def _format_lines(event: Event, about: TreeNode) -> Iterator[str]:
    match event, about:
        case RunStarted(), Node() if about.depth:
            agent, task = quote(about.agent), preview(about.task)
            yield f"[sub-agent] Calling {agent} (depth {about.depth}) with task: {task}"
        case RunFinished(), Node(result=RunResult() as result) if about.depth:
            took = f"completed in {result.duration_ms}ms ({len(result.text)} chars returned)"
            end = took if result.ok else f"failed: {result.error}"
            yield f"[sub-agent] {quote(about.agent)} {end}"
        case TurnStarted(), TurnNode() if not about.run.depth:
            yield (
                f"[turn {about.number}] Sending request "
                f"({event.messages} messages, {event.pending} tool calls pending)"
            )
        case RetryScheduled(), TurnNode() if not about.run.depth:
            yield f"[turn {about.number}] {redact(event.error)}; {about.waits}"
        case TurnFinished(), TurnNode() | CallNode():
            turn = about if isinstance(about, TurnNode) else about.turn
            if not turn.run.depth:
                calls = f"({len(turn.calls)} tool calls)"
                yield f"[turn {turn.number}] Received response: {event.stop_reason} {calls}"
        case ToolStarted(), CallNode(call=call) if not call.traits.calls_sub_agents:
            yield f"[tool] {call.name} {preview(dump(dict(call.arguments)).decode())}"
        case ToolFinished(), CallNode(result=ToolResult() as result):
            if result.edited is not None:
                given = preview(dump(dict(result.edited)).decode())
                yield f"[tool] {result.name} edited by the user: {given}"
            if not about.call.traits.calls_sub_agents:
                size, ms = len(result.content), round(about.seconds * 1000)
                end = f"completed in {ms}ms ({size} chars returned)"
                end = f"failed: {preview(result.content)}" if result.is_error else end
                yield f"[tool] {result.name} {end}"
            elif not about.children:
                asked = quote(str(about.call.arguments.get("agent", "")))
                # only the cause in the sentence that the parent's model received
                cause = (
                    result.content.removeprefix(f"Error: sub-agent {asked} failed - ")
                    .removeprefix("call_agent error: ")
                    .removesuffix(". You may retry or proceed without this result.")
                )
                yield f"[sub-agent] {asked} failed: {cause}"
