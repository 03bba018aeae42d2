"""How a run is told to people: signs, states, counts, one-line and cut texts. Pure.

Source: product.md "Notebook" (deterministic, cut with a pointer); design README; D-6, D-11.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping

from axe_nb.messages import ToolCall
from axe_nb.text import clean, one_line, plural
from axe_nb.toolbox import delegates, is_one_child
from axe_nb.views.tree import CallNode, Node, State, TurnNode

SIGNS: Mapping[State, str] = {
    "running": "●",
    "completed": "✓",
    "error": "✗",
    "timeout": "◷",
    "cancelled": "⊘",
    "max_turns": "■",
    "max_tool_calls": "■",
    "max_tokens": "■",
    "not run": "–",
}
"""State → sign; all of them are in DejaVu and in Segoe UI Symbol."""

LINE = 72
"""Characters of what a row was asked."""

WHO = 32
"""Characters of a name."""

LINES = 12
"""Lines of a text before it is cut."""

SECONDS = re.compile(r"(\b\d+ tool calls?), \d+(?:\.\d+)?s\b")
"""The seconds in what spawn_agent tells the model: they differ from run to run (D-6)."""

NOT_NOTED = frozenset({"task_id", "depth", "token_estimate", "duration_ms"})
"""Metadata that the tree itself shows, or that is not the same in two equal runs."""


def steady(text: str) -> str:
    """The text, cleaned, without what differs between two equal runs."""
    return SECONDS.sub(r"\1, …s", clean(text))


def line(text: str, size: int = LINE) -> str:
    """The beginning of a text in one line."""
    return one_line(SECONDS.sub(r"\1, …s", text[: 8 * size]), size)


def beginning(text: str, room: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters of it are left out.

    Args:
        text: whatever came from a model or a tool.
        room: characters; a text that is hardly longer is shown whole.
    """
    text = text.strip("\n")
    end = len(text) if len(text) <= room * 5 // 4 else room
    lines = text[: end + 1].split("\n", LINES)
    if len(lines) > LINES:
        end = min(end, sum(map(len, lines[:LINES])) + LINES - 1)
    return steady(text[:end]), len(text) - end


def written(call: ToolCall) -> str:
    """The arguments as the model wrote them (D-11)."""
    return call.raw or json.dumps(call.arguments, ensure_ascii=False)


def asked(call: CallNode) -> str:
    """What a call was asked, in one line: its task where it delegates, else its arguments."""
    if is_one_child(call.call.name):
        for name in ("task", "task_prompt"):
            if isinstance(value := call.call.arguments.get(name), str):
                return line(value)
    return line(written(call.call))


def who(call: CallNode) -> str:
    """Who does a call: the sub-agent where it is one, else the tool."""
    if call.child:
        return line(call.child.agent, WHO)
    for name in ("agent", "label"):
        value = call.call.arguments.get(name)
        if delegates(call.call.name) and isinstance(value, str) and value.strip():
            return line(value, WHO)
    return line(call.call.name, WHO)


def asks(turn: TurnNode) -> str:
    """What a turn does, in a few words."""
    if not turn.calls:
        if turn.state == "running":
            return _writing(turn) or "waits for the model"
        if turn.state != "completed":
            return "no answer"
        return "answers" if turn.text.strip() else "answers with no text"
    if turn.lone:
        return line(f"{who(turn.lone)} {written(turn.lone.call)}")
    agents = [who(c) for c in turn.calls if delegates(c.call.name)]
    tools = [who(c) for c in turn.calls if not delegates(c.call.name)]
    told = [
        f"{verb} {_names(names, noun)}"
        for verb, names, noun in (("asks", agents, "agent"), ("calls", tools, "tool"))
        if names
    ]
    together = "" if len(turn.calls) == 1 else " at once" if turn.parallel else " one by one"
    return ", ".join(told) + together


def _writing(turn: TurnNode) -> str:
    """What is being written: of a child its end, the root's is shown whole."""
    if turn.run.depth == 0:
        return "writes" if turn.streamed else ""
    return line(turn.streamed[-LINE:])


def _names(names: list[str], noun: str) -> str:
    counts = Counter(names)
    listed = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
    return listed if len(counts) <= 3 and len(listed) <= 40 else plural(len(names), noun)


def size(text: str) -> str:
    """How much a tool gave back."""
    lines = text.strip("\n").count("\n") + 1
    if not text.strip():
        return "empty"
    return plural(lines, "line") if lines > 1 else plural(len(text), "character")


def cost_of_call(call: CallNode) -> str:
    """What a call came to."""
    if call.result is None:
        return call.state if call.state == "not run" else ""
    return "failed" if call.result.is_error else size(call.result.content)


def cost_of_turn(turn: TurnNode) -> str:
    """What a turn took, and whether its only call failed."""
    tokens = plural(turn.usage.total, "token") if turn.usage.total else ""
    failed = turn.lone and turn.lone.state in ("error", "not run")
    return " · ".join(
        filter(None, (cost_of_call(turn.lone) if turn.lone and failed else "", tokens))
    )


def cost_of_run(node: Node) -> str:
    """How a run ended, unless it completed, and what it took."""
    return " · ".join(filter(None, (ending(node), *_took(node))))


def _took(node: Node) -> list[str]:
    """Turns and tokens, where there are any."""
    counts = ((len(node.turns), "turn"), (node.total.total, "token"))
    return [plural(count, noun) for count, noun in counts if count]


def ending(node: Node) -> str:
    """How a run ended, in a word or two; empty where it completed or has not ended."""
    if node.state in ("completed", "running"):
        return ""
    error = node.result.error if node.result else None
    return error if error and node.state == "timeout" and len(error) <= 24 else node.state


def summary(node: Node) -> str:
    """The line that sums up a whole run."""
    below = list(node.below())
    ended = Counter(n.state for n in below if n.state not in ("completed", "running"))
    troubles = ", ".join(f"{n} {state}" for state, n in ended.items())
    calls = sum(len(t.calls) for t in node.turns) - sum(
        bool(c.children) for t in node.turns for c in t.calls
    )
    facts = [
        line(node.model, 2 * WHO),
        node.state,
        plural(len(node.turns), "turn") if node.turns else "",
        plural(calls, "tool call") if calls else "",
        plural(len(below), "sub-agent") + (f" ({troubles})" if troubles else "") if below else "",
        plural(node.total.total, "token") if node.total.total else "",
        plural(len(node.result.warnings), "warning")
        if node.result and node.result.warnings
        else "",
    ]
    return " · ".join(filter(None, facts))


def noted(metadata: Mapping[str, str]) -> str:
    """A child's metadata in one line, without what the tree shows or what differs between runs."""
    return " · ".join(f"{key} {value}" for key, value in metadata.items() if key not in NOT_NOTED)
