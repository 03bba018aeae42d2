"""Trees of agents whose models are functions: played in process, every event kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import axe_nb
from axe_nb import Agent, AxeError, Request, RunResult, ToolCall, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import AskPerson
from axe_nb.events import Emit, Event, RunFinished, RunStarted, ToolFinished, ToolStarted
from axe_nb.messages import Message, ToolResult
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from axe_nb.tools.tool import Tool, ToolContext
from tests.protocols import provider_of

Model = Callable[[Request], Any]


def agent(name: str, model: Model | str, **fields: Any) -> Agent:
    """An agent whose model is the function, or always says the text."""

    async def says(_: Request) -> Any:
        return model

    axe_nb.script(name)(model if callable(model) else says)
    return Agent(name, f"script/{name}", **fields)


def said(*replies: Any) -> Model:
    """A model that says these in turn; a function among them is called with the request."""

    def model(request: Request) -> Any:
        reply = replies[min(request.turn, len(replies)) - 1]
        return reply(request) if callable(reply) else reply

    return model


def keeping(name: str, *replies: Any, **fields: Any) -> tuple[list[Request], Agent]:
    """An agent that says these in turn, "ok" if there are none, and what its model was sent."""
    sent: list[Request] = []
    model = said(*replies or ("ok",))

    def kept(request: Request) -> Any:
        sent.append(request)
        return model(request)

    return sent, agent(name, kept, **fields)


def exit_code(result: RunResult) -> int:
    """The code that the command line exits with after this run."""
    try:
        result.raise_for_status()
    except AxeError as error:
        return error.exit_code
    return 0


def failed(name: str, why: str) -> str:
    """What call_agent says of a child that failed."""
    return (
        f'Error: sub-agent "{name}" failed - {why}. You may retry or proceed without this result.'
    )


def lead(*calls: ToolCall, then: str = "", name: str = "lead", **config: Any) -> Agent:
    """An agent that makes the calls in its first turn and then says `then`, else the results."""

    def model(request: Request) -> Any:
        if request.turn == 1:
            return calls
        return then or "\n".join(result.content for result in request.results)

    names = dict.fromkeys(str(c.arguments.get("agent")) for c in calls if c.name == "call_agent")
    return agent(name, model, sub_agents=tuple(names), sub_agents_config=SubAgentsConfig(**config))


def ask(name: str, task: str = "work", **more: Any) -> ToolCall:
    return call("call_agent", agent=name, task=task, **more)


async def ask_session(
    session: Session,
    agent: Agent | str,
    prompt: str,
    overrides: Overrides | None = None,
    emit: Emit = id,
    *,
    continue_from: RunResult | None = None,
    ask_person: AskPerson | None = None,
    streams: bool = True,
) -> RunResult:
    """The result of one run in the caller's event loop."""
    request = RunRequest(
        agent=agent, prompt=prompt, overrides=overrides or Overrides(), continue_from=continue_from
    )
    return await session.start(request).execute(emit, ask_person, streams=streams)


@dataclass
class Stage:
    """A session of its own, and all that it has told."""

    session: Session = field(default_factory=Session)
    events: list[Event] = field(default_factory=list)
    root: Agent | None = None
    emit: Emit | None = None
    """Takes the events instead."""

    async def ask(
        self, prompt: str = "go", continue_from: RunResult | None = None, **overrides: Any
    ) -> RunResult:
        """The result of the first agent; the events are kept also where it is cancelled."""
        assert self.root
        return await ask_session(
            self.session, self.root, prompt, Overrides(**overrides),
            self.emit or self.events.append, continue_from=continue_from,
        )  # fmt: skip

    def play(self, prompt: str = "go", **overrides: Any) -> RunResult:
        """`ask`, with an event loop of its own."""
        return asyncio.run(self.ask(prompt, **overrides))


def stage(*agents: Agent) -> Stage:
    """A stage for the agents; the first one is the root."""
    made = Stage(root=agents[0])
    for one in agents:
        made.session.define(one)
    return made


def play(*agents: Agent, **overrides: Any) -> RunResult:
    return stage(*agents).play(**overrides)


def over(protocol: str, one: Agent) -> Agent:
    """The agent with its model behind the protocol's server."""
    return replace(one, model=one.model.replace("script/", f"{provider_of(protocol)}/"))


def tool(name: str, fn: Callable[[ToolContext], Any]) -> Tool:
    async def run(ctx: ToolContext, _: Any) -> Any:
        return await fn(ctx)

    return Tool(name, "A tool.", {}, run, "read")


def heard(result: RunResult, turn: int = 0) -> tuple[ToolResult, ...]:
    """What the model was told of the calls of a turn."""
    return result.log[turn].results


def texts(result: RunResult, turn: int = 0) -> list[str]:
    return [one.content for one in heard(result, turn)]


def check_history(messages: Sequence[Message]) -> None:
    """What every server wants: each call answered once, in order, at once; nothing empty."""
    ids = [c.id for m in messages for c in m.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for index, message in enumerate(messages):
        if message.role == "assistant":
            assert message.content.strip() or message.tool_calls
        if message.tool_calls:
            answers = messages[index + 1]
            assert answers.role == "tool"
            assert [r.call_id for r in answers.tool_results] == [c.id for c in message.tool_calls]
        if message.role == "tool":
            assert messages[index - 1].tool_calls


def check_events(events: Sequence[Event], result: RunResult) -> None:
    """One start and one end per run, in pairs, a child's within those of its call."""
    open_runs: list[str] = []
    open_calls: set[tuple[str, str]] = set()
    for event in events:
        match event:
            case RunStarted():
                if event.parent:
                    assert event.parent in open_runs
                    assert (event.parent, event.call_id) in open_calls
                open_runs.append(event.run)
            case RunFinished():
                assert not [r for r in open_runs if r.startswith(f"{event.run}.")]
                open_runs.remove(event.run)
                open_calls = {one for one in open_calls if one[0] != event.run}
            case ToolStarted():
                open_calls.add((event.run, event.call.id))
            case ToolFinished():
                open_calls.remove((event.run, event.result.call_id))
            case _:
                assert event.run in open_runs
    assert open_runs == []
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.result is result
    started = {e.run for e in events if isinstance(e, RunStarted)}
    assert started == {r.id for r in result.walk()}
