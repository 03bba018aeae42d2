"""Trees that are stepped through by functions, and what these were shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from axe_nb import Agent, Request, Step, call
from axe_nb.messages import ToolParameter
from axe_nb.tools.tool import Tool, ToolContext
from tests.engine.in_process import agent


async def _measure(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    return f"{arguments['town']} has {len(str(arguments['town']))} letters"


MEASURE = Tool(
    "measure", "Measures a town.", {"town": ToolParameter("string", required=True)}, _measure,
    "read",
)  # fmt: skip


def surveyor(name: str = "lead", *towns: str) -> Agent:
    """An agent that measures the towns in its first turn, and then says the results."""

    def model(request: Request) -> Any:
        if request.results:
            return "; ".join(result.content for result in request.results)
        return [call("measure", town=town) for town in towns or ("Rome",)]

    return agent(name, model, tools=("measure",))


class Decider:
    """Decides by place and kind, goes on elsewhere; keeps all steps."""

    def __init__(self, **decisions: Callable[[Step], Any]) -> None:
        self.decisions = decisions
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> Any:
        self.steps.append(step)
        decide = self.decisions.get(f"{step.kind}{step.number or step.turn}")
        return decide(step) if decide else None

    @property
    def seen(self) -> list[str]:
        """The steps in words: `0/1 request`, `0/1 call measure`."""
        return [f"{s.place} {s.kind} {s.tool}".strip() for s in self.steps]


def _edit_reply(step: Step) -> Any:
    if step.kind == "request":
        return step.edit()
    return step.edit("mine") if step.kind == "reply" and step.turn == 2 else None


ROME, OSLO = "Rome has 4 letters", "Oslo has 4 letters"

DECISIONS: dict[str, tuple[Callable[[Step], Any], str, str]] = {
    "edited": (
        lambda s: s.edit({"town": "Trondheim"}) if s.number == 1 else None,
        "Trondheim has 9 letters\n(The user changed the arguments of this call to "
        f'{{"town":"Trondheim"}}); {OSLO}', '(edited by the user) {"town": "Trondheim"}',
    ),
    "given": (
        lambda s: s.result({"letters": 7}) if s.number == 2 else None,
        f'{ROME}; {{"letters": 7}}', "given by the user",
    ),
    "skipped": (
        lambda s: "skip" if s.number == 1 else None,
        f"Error: skipped by the user; the call was not made; {OSLO}", "skipped by the user",
    ),
    "reply given": (lambda s: s.result("I say so") if s.turn == 2 else None, "I say so", "given"),
    "first reply given": (
        lambda s: (
            s.result(call("measure", town="Bergen")) if s.place == "0/1" and not s.tool else None
        ),
        "Bergen has 6 letters", "given",
    ),
    "reply edited": (_edit_reply, "mine", "edited"),
    "request skipped": (lambda s: "skip" if s.turn == 2 else None, "", "skipped"),
    "run to the end": (lambda s: "end" if s.number == 2 else None, f"{ROME}; {OSLO}", "Rome"),
    "stopped": (lambda s: "stop" if s.turn == 2 else None, "", "stopped by the user"),
}  # fmt: skip
"""Name → what decides, the answer, and a part of the run as text."""
