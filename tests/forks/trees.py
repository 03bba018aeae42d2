"""A tree whose requests and tools are counted: a lead notes, asks two towns, files a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import axe_nb
from axe_nb import Agent, Request, RunResult, call, script, script_server, tool
from axe_nb.messages import Delta
from axe_nb.scripting.server import ScriptServer
from axe_nb.scripting.wire import Protocol
from tests.protocols import provider_of


@dataclass
class Counted:
    """What the models were asked, and what the tools did."""

    asked: list[str] = field(default_factory=list)
    """`lead 2`: model and turn, in order of arrival."""
    ran: list[str] = field(default_factory=list)
    """`note x`: tool and argument."""
    server: ScriptServer | None = None

    def clear(self) -> None:
        self.asked.clear()
        self.ran.clear()
        if self.server:
            self.server.requests.clear()

    def take(self) -> tuple[list[str], list[str]]:
        """What was asked and what ran since the last time, sorted; the server has seen as many."""
        if self.server:
            assert len(self.server.requests) == len(self.asked)
        taken = sorted(self.asked), sorted(self.ran)
        self.clear()
        return taken


def define_tree(protocol: str, counted: Counted, **fields: Any) -> None:
    """A lead of three turns over two towns of two turns each."""

    @tool(read_only=True)
    def note(what: str) -> str:
        counted.ran.append(f"note {what}")
        return f"noted {what}"

    @tool(read_only=True)
    def file_report(text: str) -> str:
        counted.ran.append("file_report")
        return f"filed: {text}"

    provider = provider_of(protocol)
    town_agent = Agent("town", f"{provider}/town", tools=(note,), system_prompt="You are a town.")
    axe_nb.define(town_agent)
    axe_nb.define(
        Agent(
            "lead", f"{provider}/lead", sub_agents=("town",), tools=(note, file_report),
            system_prompt="You lead.", **fields,
        )
    )  # fmt: skip

    @script("lead")
    async def lead(request: Request) -> Any:
        counted.asked.append(f"lead {request.turn}")
        if request.turn == 1:
            yield Delta("Whom shall I ask?", "reasoning")
            yield "Let me ask. "
            yield call("note", what="start")
            yield call("call_agent", agent="town", task="Rome")
            yield call("call_agent", agent="town", task="Oslo")
        elif request.turn == 2:
            yield call("file_report", text=request.last)
        else:
            yield f"{request.last} ({request.system} {request.messages[0].content})"

    @script("town")
    def town(request: Request) -> Any:
        counted.asked.append(f"town {request.turn}")
        if request.turn == 1:
            return call("note", what=request.last.removeprefix("Task: "))
        return f"{request.last}, said by: {request.system}"


@contextmanager
def counted_tree(protocol: Protocol | None, **fields: Any) -> Iterator[tuple[RunResult, Counted]]:
    """The finished run of the tree, and what is counted from then on; None = in process."""
    counted = Counted()
    with script_server(protocol) if protocol else nullcontext() as counted.server:
        define_tree(protocol or "script", counted, **fields)
        result = axe_nb.run("lead", "Compare", display=False).raise_for_status()
        asked, ran = counted.take()
        assert asked == ["lead 1", "lead 2", "lead 3", "town 1", "town 1", "town 2", "town 2"]
        assert ran == ["file_report", "note Oslo", "note Rome", "note start"]
        yield result, counted


def list_sources(result: RunResult) -> dict[str, str]:
    """Place of each turn in a tree → where its answer came from."""
    return {
        f"{run.id}/{turn.number}": turn.source for run in result.walk() for turn in run.log
    }  # fmt: skip


def fork(run: RunResult, place: Any = None, **changes: Any) -> RunResult:
    return run.fork(place, display=False, **changes)


def play(agent: Agent | str, **options: Any) -> RunResult:
    return axe_nb.run(agent, "go", display=False, **options)
