"""Tools of each effect, and a person who is asked whether they may be used."""

from __future__ import annotations

import asyncio

from axe_nb import call
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.messages import ToolCall
from axe_nb.tools.tool import Effect, Tool, ToolContext
from tests.delegation.copies import tool

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
        self.asking = 0
        self.most_at_once = 0

    async def ask_person(self, question: ApprovalRequest) -> Decision:
        self.questions.append(question)
        self.asking += 1
        self.most_at_once = max(self.asking, self.most_at_once)
        await asyncio.sleep(self.seconds)
        self.asking -= 1
        return self.answers.pop(0)
