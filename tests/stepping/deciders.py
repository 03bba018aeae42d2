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
