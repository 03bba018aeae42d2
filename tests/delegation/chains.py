"""Trees of one child per level, each made by one of the four ways to delegate."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from axe_nb import Request, RunResult, call
from axe_nb.agents.agent_tables import TreeLimits
from axe_nb.engine.toolbox import tool as python_tool
from axe_nb.messages import ToolCall, close_open_calls
from axe_nb.tools.tool import Tool
from tests.engine.in_process import Stage, agent, check_events, check_history, stage

WAYS = ("call_agent", "subagent", "spawn_agent", "delegate_task")


@python_tool
def mixed_peek() -> str:
    """Look at nothing."""
    return "nothing"


Reply = Callable[[int, Request], Any]


def by(way: str, level: int) -> ToolCall:
    task = f"level {level}"
    match way:
        case "call_agent":
            return call(way, agent="helper", task=task)
        case "subagent":
            return call(way, label=f"sub {level}", task_prompt=task)
        case "spawn_agent":
            return call(way, task=task)
    return call(way, plan="go down", subtasks=[{"task": task}])


def level_of(request: Request) -> int:
    found = re.search(r"level (\d+)", request.messages[0].content)
    return int(found[1]) if found else 0


def last_heard(request: Request) -> str:
    return next(
        (m.tool_results[0].content for m in reversed(request.messages) if m.tool_results), ""
    )


@dataclass
class Chain:
    """A tree of one child per level; who is at a level delegates once more, in its way."""

    ways: Sequence[str]
    reply: Reply | None = None
    """(level, request) -> what is said instead, where it is not None."""

    def model(self, request: Request) -> Any:
        level = level_of(request)
        if self.reply and (said := self.reply(level, request)) is not None:
            return said
        if request.turn == 1 and level < len(self.ways):
            return by(self.ways[level], level + 1)
        return f"<{level} {last_heard(request)}>"

    def set_up(self, **fields: Any) -> Stage:
        fields.setdefault("tools", ("mixed_peek", "subagent", "spawn_agent", "delegate_task"))
        lead = agent("lead", self.model, sub_agents=("helper",), **fields)
        return stage(lead, replace(lead, name="helper", limits=TreeLimits()))

    def play(self, mine: Sequence[Tool] = (), **fields: Any) -> RunResult:
        made = self.set_up(**fields)
        result = made.play(tools=(*mine, *made.session.agents["lead"].tools))
        check_events(made.events, result)
        for one in result.walk():
            check_history(close_open_calls(one.messages))
        return result
