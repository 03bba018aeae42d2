"""Tools of each effect, and a person who is asked whether they may be used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from axe_nb import Agent, RunResult, call
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.messages import ToolCall
from axe_nb.session.overrides import Overrides
from axe_nb.session.session import Session
from axe_nb.tools.tool import Effect, Tool, ToolContext
from tests.delegation.copies import tool
from tests.engine.in_process import ask_session, stage

EFFECTS: tuple[Effect, ...] = ("read", "user", "write")
MODES = ("plan", "ask", "auto")


def tools(used: list[str]) -> tuple[Tool, ...]:
    """One tool of each effect; each notes who used it."""

    def one(effect: Effect) -> Tool:
        async def use(ctx: ToolContext) -> str:
            used.append(f"{ctx.agent.name} {effect}")
            return "used"

        return tool(f"{effect}_it", effect, use)

    return tuple(one(effect) for effect in EFFECTS)


def uses(effect: str) -> ToolCall:
    return call(f"{effect}_it")


class Person:
    """Answers in turn, and notes what was asked."""

    def __init__(self, *answers: Decision, seconds: float = 0.0) -> None:
        self.answers = list(answers)
        self.seconds = seconds
        self.questions: list[ApprovalRequest] = []

    async def ask_person(self, question: ApprovalRequest) -> Decision:
        self.questions.append(question)
        await asyncio.sleep(self.seconds)
        return self.answers.pop(0)


def run_with(
    person: Person | None,
    lead: Agent,
    *others: Agent,
    tools: Sequence[Any] = (),
    session: Session | None = None,
    **options: Any,
) -> RunResult:
    """The result of an agent with these tools beside its own; None = nobody can be asked."""
    overrides = Overrides(tools=(*tools, *lead.tools), **options)
    own = session or stage(lead, *others).session
    ask_person: Any = person.ask_person if person else None
    return asyncio.run(ask_session(own, lead, "level 0", overrides, ask_person=ask_person))
