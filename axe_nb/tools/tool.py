"""What a model can call: a name, a schema, a function; and what one call may know.

Source: seed 000 §3.1, §3.6 (A-D1, A-1.1); D-7, D-19, D-20, X-37.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.tables import Mode
from axe_nb.errors import AxeError, words
from axe_nb.events import RunResult
from axe_nb.limits import Limits
from axe_nb.messages import Message, ToolCall, ToolParameter, ToolSpec, dump

Effect = Literal["read", "user", "write", "delegate"]
"""`user`: a function of the user's own without a mark; `ask` mode lets it run unasked (D-19)."""


class ToolError(Exception):
    """A failure for the model to hear, as `Error: <text>` (X-37): what failed, what to do next."""


def fault_text(error: BaseException) -> str:
    """An exception in the words that a model hears: its class, its message, its hint."""
    hint = error.hint if isinstance(error, AxeError) else ""
    return f"{type(error).__name__}: {words(error)}" + (f"; {hint}" if hint else "")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's answer where it is not simply text: the words as they are, error or not."""

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What a parent asks of a child; every way to delegate comes down to one of these (D-1)."""

    agent: Agent | str
    """The child, or the name of its file."""
    task: str
    """What it is asked, for people."""
    prompt: str
    """What it is told, whole."""
    limits: Limits = Limits()
    closing: str = ""
    """A last question, asked without tools, whose answer is the run's text (X-21); empty = none."""
    mode: Mode | None = None
    """A mode that the child is to have, where it is not laxer than the parent's."""
    is_copy: bool = False
    """Whether the child is a copy of the caller: its settings stand in the caller's file."""
    notes: Callable[[RunResult], Mapping[str, str]] = lambda _: {}
    """(result) -> what the delegation tool notes about it, for `RunResult.metadata`."""
    history: tuple[Message, ...] = ()
    """An earlier conversation to go on with."""
    key: str | int | None = None
    """Tells the children of one call apart, whatever order they begin in: a position from 0, or a
    name of letters, digits and `_`; None = in the order in which they begin (D-59)."""


@dataclass(slots=True)
class FileLog:
    """What one run's tools really did, in order of first use; paths relative to the workdir."""

    files_read: dict[str, None] = field(default_factory=dict)
    files_modified: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wish:
    """The arguments of `ToolContext.delegate`, as they are explained there."""

    agent: Agent | str | None = None
    tools: Sequence[str] | None = None
    scope: str | None = None
    mode: Mode | None = None
    limits: Limits | None = None
    key: str | int | None = None


Delegation: TypeAlias = "Callable[[ToolContext, str, Wish], Awaitable[RunResult]]"
"""(context, task, wish) -> the child's result."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """All that one call may know."""

    call: ToolCall
    agent: Agent
    """Who calls."""
    depth: int
    """Of the caller; 0 = root."""
    max_depth: int
    """Depth from which on nobody in this tree may delegate by this tool."""
    workdir: Path
    """Folder of the caller's files, absolute; tools stay inside."""
    file_log: FileLog
    """Where a tool notes what it did; its run's own."""
    start: Callable[[Job], Awaitable[RunResult]]
    """Runs a child to its end. Raises ConfigError where it cannot begin; never for how it ends."""
    tools: tuple[str, ...] = ()
    """Names of the tools that the caller has."""
    ask: Callable[[str], Awaitable[str]] | None = None
    """Puts a question to the person at the notebook; None = nobody can be asked."""
    limits: Limits = Limits()
    """The caller's own; its children never have laxer ones."""
    delegation: Delegation | None = None
    """The design behind `delegate`; None = this context cannot delegate."""

    async def delegate(
        self,
        task: str,
        agent: Agent | str | None = None,
        tools: Sequence[str] | None = None,
        scope: str | None = None,
        mode: Mode | None = None,
        limits: Limits | None = None,
        key: str | int | None = None,
    ) -> RunResult:
        """Runs a child to its end, for tools written in Python: its result, however it ended.

        A child that still runs when the call ends is cancelled.

        Args:
            task: what it is to do.
            agent: a named agent with its own everything; None = a copy of the caller.
            tools: those of the caller's that a copy is to have; None = all of them.
            scope: folder or file to keep to.
            mode: plan, ask or auto; never laxer than the caller's.
            limits: what is None in it is taken from `[sub_agents_config]`.
            key: for a tool that starts several in an order of its own: tells the child from its
                siblings, by position from 0 or by name; None = in the order in which they begin.

        Raises:
            ToolError: the tree is deep enough, or what is asked for makes no sense.
            ConfigError: the child cannot begin.
        """
        if self.delegation is None:
            raise ToolError("sub-agents cannot be started from here")
        wish = Wish(agent, tools, scope, mode, limits, key)
        return await self.delegation(self, task, wish)


ToolFunction: TypeAlias = Callable[[ToolContext, Mapping[str, Any]], Awaitable["str | ToolOutput"]]


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that a model can call."""

    name: str
    description: str
    parameters: Mapping[str, ToolParameter]
    fn: ToolFunction
    """(context, arguments) -> the text for the model. Raises ToolError for the model to hear."""
    effect: Effect = "write"
    """What it may do; plan mode refuses what it does not know to be harmless (D-19)."""
    default_depth: int = field(default=3, kw_only=True)
    """The maximum depth for delegating by this tool where nothing is configured (D-3)."""
    preview: Callable[[Mapping[str, Any], Path], str] | None = field(default=None, kw_only=True)
    """(arguments, workdir) -> what a call would change, for the person who is asked."""
    adapt: Callable[[Agent], Tool] | None = field(default=None, kw_only=True)
    """(agent) -> this tool as that agent has it, if its description depends on the agent."""
    in_plan: bool = field(default=False, kw_only=True)
    """Allowed in plan mode although it does not only read; its children are in plan mode too."""
    denied_below: str = field(default="", kw_only=True)
    """The reason why children may not use it; empty = they may."""
    is_one_child: bool = field(default=False, kw_only=True)
    """Each call is exactly one child run: views show the two as one row."""
    copies_caller: bool = field(default=False, kw_only=True)
    """Its children are copies of the caller."""
    calls_sub_agents: bool = field(default=False, kw_only=True)
    """Its children are those of `sub_agents`: offered if there are any, and only then (D-44)."""
    is_budgeted: bool = field(default=False, kw_only=True)
    """Its children work within `[sub_agents_config.budget]`."""

    def for_agent(self, agent: Agent) -> Tool:
        """This tool as the agent has it."""
        return self.adapt(agent) if self.adapt else self

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model is told of it."""
        return ToolSpec(self.name, self.description, self.parameters)


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """An argument as text: strings as they are, other values as JSON, absent as "" (D-11)."""
    value = arguments.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else dump(value).decode()
