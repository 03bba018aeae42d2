"""Tools and their registry, the context of a tool call, and its result as text for the model.

Source: A-D1, A-1.1, D-7, D-19, D-20, X-37.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import Mode
from axe_nb.conversion.value_text import NoText, write_json
from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.messages import CallTraits, Message, ToolCall, ToolParameter, ToolSpec, dump
from axe_nb.pictures.picture import (
    Illustrated,
    NoPicture,
    Picture,
    close_figure,
    find_parts,
    join_parts,
)
from axe_nb.results import RunResult
from axe_nb.text import cut_bytes, remove_addresses
from axe_nb.tools.kept_files import KeptFiles

Effect = Literal["read", "user", "network", "write", "delegate"]
"""Effect of a tool. `user` stands for a user's function without a declared effect, which mode `ask`
runs without approval (D-19); `network` contacts other machines but changes nothing here (D-50)."""

Verdict = Literal["deny", "ask", "allow"]
VERDICTS = ("deny", "ask", "allow")


class ToolError(Exception):
    """Raised by a tool to report a failure to the model as `Error: <text>` (X-37)."""

    def __init__(self, text: str = "", note: str = "") -> None:
        super().__init__(text)
        self.note = note


class PermissionDenied(ToolError):
    """Raised if a tool call is denied by the run's permissions, a guard or the user."""


def fault_text(error: BaseException) -> str:
    if not isinstance(error, AxeError):
        return f"{type(error).__name__}: {remove_addresses(words(error), error)}"
    known = (kind for kind in type(error).__mro__ if kind.__module__ == AxeError.__module__)
    hint = f"; {error.hint}" if error.hint else ""
    return f"{next(known).__name__}: {words(error)}{hint}"  # the class that a caller may catch


@dataclass(frozen=True, slots=True)
class ToolOutput:
    content: str
    is_error: bool = False
    note: str = ""
    """Short remark for the user on how the result was obtained; not sent to a model."""
    pictures: tuple[Picture, ...] = ()
    """Pictures, in the order of their markers in `content`, such as `[picture 1: …]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Messages that replace the conversation of a forked run when a turn starts."""

    messages: Sequence[Message]
    said: str = ""
    """Text of the last message if the fork added that message; empty if it did not."""


MAX_TURNS = 50  # maximum turns of any run, as a safety limit (A-8.3, A-N2)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; None for no limit."""

    turns: int = MAX_TURNS
    tool_calls: int | None = None
    tokens: int | None = None
    """Maximum context size: input plus output tokens of the latest response (D-18)."""
    seconds: float | None = None
    """Time limit; never more than the parent's remaining time (D-10)."""

    def __post_init__(self) -> None:
        for cap, name in (
            (self.tool_calls, "maxToolCalls must be positive"),
            (self.tokens, "maxTokens must be positive"),
            (self.seconds, "the timeout must be positive"),
            (self.turns, "max_turns must be greater than 0"),
        ):
            if cap is not None and not cap > 0:
                raise ConfigError(name)

    def within(self, above: Limits) -> Limits:
        """Returns a copy capped at the parent's tool calls and tokens (O-9) and 50 turns (X-18)."""
        pairs = ((self.tool_calls, above.tool_calls), (self.tokens, above.tokens))
        tool_calls, tokens = (min(filter(None, pair), default=None) for pair in pairs)
        return Limits(min(self.turns, MAX_TURNS), tool_calls, tokens, self.seconds)


@dataclass(frozen=True, slots=True)
class Job:
    """Task and limits of a child run, the same for every kind of delegation (D-1)."""

    agent: Agent | str
    """The child agent or its name."""
    task: str
    """Task as shown to the user; the model receives `prompt`."""
    prompt: str
    limits: Limits = Limits()
    closing: str = ""
    """Final question, asked without offering tools; the answer becomes the run's text (X-21).
    Empty if there is none."""
    mode: Mode | None = None
    """Mode requested for the child, if any. A stricter mode of the parent takes precedence."""
    is_copy: bool = False
    """True if the child is a copy of the caller, whose `[permissions]` then apply to the child."""
    notes: Callable[[RunResult], Mapping[str, str]] = lambda _: {}
    """Given the child's result, returns entries to add to `RunResult.metadata`."""
    pictures: tuple[Picture, ...] = ()
    history: tuple[Message, ...] = ()
    output: Any = None
    """`Output` that replaces the agent's `[output]`; None to use the agent's own."""
    key: str | int | None = None
    """Identifies the child within its call: an index from 0, or a name of letters, digits and `_`;
    None for the next free index (D-59)."""
    asked: Illustrated | None = None
    """Complete prompt of a forked run; None if the prompt is assembled from the other fields."""
    open_turn: Callable[[int], Opening | None] = lambda turn: None
    """Returns a forked run's new messages for a turn, given its number; None for no change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """Agents, workdir and files of the run that calls a tool, as passed to the tool's guard."""

    agents: tuple[Agent, ...]
    """The calling agent, followed by the agents above it, up to the root."""
    workdir: Path
    sources: Collection[Path] = ()
    """Real paths of the files and folders that the tree's agents were loaded from (D-83)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Requirements for one tool call; they can only make the tool's own permission stricter."""

    floor: Verdict = "allow"
    """The most permissive verdict that the call can get, in any mode."""
    reason: str = ""
    """Reason for `floor`, as a clause such as `setup.pth is protected: Python runs it at start`."""
    key: str = ""
    """TOML setting in the agent's file that would allow the call; empty if there is none."""
    covers: str = ""
    """Describes what the answer "always" also covers, such as `the program git`; may be empty."""
    note: str = ""
    """Line for the approval prompt, such as `in a sandbox, without network`."""
    host: str = ""
    """ASCII name of the host that the call contacts; an approval lasts for the session (D-50)."""
    path: str = ""
    """File that an approval is limited to, relative to the workdir (D-83); empty for no limit."""


@dataclass(slots=True)
class FileLog:
    """Files that the tools of a run have used, relative to the workdir, in order of first use."""

    files_read: dict[str, None] = field(default_factory=dict)
    files_modified: dict[str, None] = field(default_factory=dict)
    kept: KeptFiles | None = None
    """Stores the old contents of modified files; None if they are not stored."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the user, for instance about changes to protected files."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context of one tool call, for a tool with a parameter annotated `ToolContext`.

    The context describes the caller (`agent`, `depth`) and the absolute folder that tools must not
    leave (`workdir`), and starts children with `await ctx.delegate(task)`.
    """

    call: ToolCall
    agent: Agent
    depth: int
    """Depth of the caller in the tree of runs; 0 for the root."""
    max_depth: int
    """Depth at which a run can no longer delegate with this tool."""
    workdir: Path
    file_log: FileLog
    start: Callable[[Job], Awaitable[RunResult]]
    """Runs a child and returns its result. Raises ConfigError or ToolError if it cannot start."""
    tools: tuple[str, ...] = ()
    """Names of the caller's tools."""
    ask: Callable[[str], Awaitable[str]] | None = None
    """Asks the user a question, and returns the answer; None if the caller cannot ask."""
    nest: Callable[[Any], Awaitable[RunResult]] | None = None
    """Runs the child for a call to `axe_nb.run` inside the tool, on any event loop (D-57)."""
    limits: Limits = Limits()
    """Limits of the caller, which the caller's children cannot exceed."""
    delegation: Callable[..., Awaitable[RunResult]] | None = None
    """Called by `delegate` with this context and all arguments; None if no child can start."""
    guard: Guard | None = None
    """Requirements that the tool's guard returned when the call was permitted."""
    allows_host: Callable[[str], bool] = lambda _: False
    """Returns True if the call may follow a redirect to a host without asking the user (D-50)."""
    sources: Collection[Path] = ()
    """Real paths of the files and folders that the tree's agents were loaded from (D-83)."""
    above: tuple[Agent, ...] = ()
    """The agents above the caller, up to the root."""

    async def delegate(
        self,
        task: str,
        agent: Agent | str | None = None,
        tools: Sequence[str] | None = None,
        scope: str | None = None,
        mode: Mode | None = None,
        limits: Mapping[str, float] | None = None,
        key: str | int | None = None,
    ) -> RunResult:
        """Runs a child agent to completion and returns its result, whatever the status.

        A child that is still running when the tool call ends is cancelled.

        Args:
            task: the child's task.
            agent: a named, independent agent; by default a copy of the caller.
            tools: the caller's tools that a copy may use; by default all of them.
            scope: folder or file to focus on; advice in the child's prompt, not a limit.
            mode: plan, ask or auto; never laxer than the caller's.
            limits: limits of the child, a dict of `turns`, `tool_calls`, `tokens` and `seconds`;
                unset limits come from `[sub_agents_config]`.
            key: identifies the child within the call: an index from 0, or a name; by
                default the next free index.

        Raises:
            ToolError: if the depth limit is reached or an argument is invalid.
            ConfigError: if the child cannot start.
        """
        if self.delegation is None:
            raise ToolError("sub-agents cannot be started from here")
        return await self.delegation(self, task, agent, tools, scope, mode, limits, key)


Describe: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, ToolParameter]
    fn: Callable[[ToolContext, Mapping[str, Any]], Awaitable[str | ToolOutput]]
    """Runs a call and returns its result for the model. Raises ToolError if the call fails."""
    effect: Effect = "write"
    """Effect of the tool, which determines its permission in each mode (D-19)."""
    _: KW_ONLY
    guard: Callable[[Mapping[str, Any], CallSite], Guard | None] | None = None
    """Returns the requirements of a call. None means that the tool's permission is enough, and that
    the answer "always" covers all calls to the tool. Runs in a thread. Raises ToolError if the
    call is rejected."""
    default_depth: int = 3
    """Default maximum depth of delegation with this tool (D-3)."""
    preview: Callable[[Mapping[str, Any], Path], str] | None = None
    """Returns a preview of a call's changes in a workdir, for the approval prompt."""
    shown_whole: str = ""
    """Name of the argument that the approval prompt shows in full, with its line breaks."""
    adapt: Callable[[Agent, Describe], Tool] | None = None
    """Returns the tool adapted to an agent; the second argument describes agents by name."""
    in_plan: bool = False
    """True if the tool may be used in plan mode; runs that it starts are then in plan mode, too."""
    denied_below: str = ""
    """Reason why children may not use the tool; empty if they may."""
    is_one_child: bool = False
    """True if each call is exactly one child run, so that views show call and run as one row."""
    copies_caller: bool = False
    """True if the children of the tool are copies of the caller."""
    calls_sub_agents: bool = False
    """True if the tool calls `sub_agents`; it is given only to agents with sub-agents (D-44)."""
    record: bool = False
    """True if cassettes record the tool's outputs and replay them instead of running the tool."""
    is_budgeted: bool = False
    """True if `[sub_agents_config.budget]` limits the children of the tool."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema used instead of `parameters`; the tool must then check its arguments itself."""
    server: str = ""
    """Name of the tool's MCP server; a `[permissions]` entry for this name covers all its tools."""
    by_server: bool = False
    """True if the model's server runs the tool, which is then offered only if permitted (D-76)."""

    @property
    def traits(self) -> CallTraits:
        return CallTraits(
            delegates=self.effect == "delegate", is_one_child=self.is_one_child,
            calls_sub_agents=self.calls_sub_agents,
        )  # fmt: skip

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters, schema=self.schema)


@dataclass(frozen=True, slots=True)
class ToolTable:
    """Tools of one source: the package itself, a session or an agent (D-20)."""

    tools: dict[str, Tool | str] = field(default_factory=dict)
    """Name → tool, or the name of the module to import, whose `TOOLS` contains the tool."""
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Toolset or alias → tool names."""

    def find(self, name: str) -> Tool | None:
        found = self.tools.get(name)
        if isinstance(found, str):
            tools: Mapping[str, Tool] = import_module(found).TOOLS
            return tools[name]
        return found


@dataclass(frozen=True, slots=True)
class Registry:
    """All known tools; if two sources have a tool of the same name, the first source wins."""

    sources: tuple[ToolTable, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for source in self.sources for name in source.tools))

    @property
    def toolsets(self) -> tuple[str, ...]:
        sets = (item for source in self.sources for item in source.sets.items())
        return tuple(name for name, tools in sets if len(tools) > 1)

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.names).union(*(source.sets for source in self.sources))

    def expand(self, name: str) -> tuple[str, ...]:
        """Expands a toolset or alias to its tools; returns any other name unchanged."""
        sets = (source.sets[name] for source in self.sources if name in source.sets)
        return (name,) if name in self.names else next(sets, (name,))

    def find(self, name: str) -> Tool | None:
        name, *others = self.expand(name)
        found = (source.find(name) for source in self.sources if name in source.tools)
        return None if others else next(found, None)

    def __iter__(self) -> Iterator[Tool]:
        return (tool for name in self.names if (tool := self.find(name)))


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """Returns an argument as text: strings unchanged, other values as JSON, "" if absent (D-11)."""
    value = arguments.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else dump(value).decode()


MAX_OUTPUT = 65536


def output_of(answer: object) -> ToolOutput:
    """Converts a return value to text and pictures; closes figures, so that no cell shows them."""
    given = answer if isinstance(answer, ToolOutput) else ToolOutput(answer)  # type: ignore[arg-type]
    content: object = given.content
    try:
        parts = () if given.pictures else find_parts(content)
    except NoPicture as error:
        raise ToolError(f"{error.message}; {error.hint}") from None
    if parts:
        for value in content if isinstance(content, list | tuple) else (content,):
            close_figure(value)
        texts = (part if isinstance(part, Picture) else as_text(part) for part in parts)
        text, pictures = join_parts(texts, "\n")
    else:  # the text already has a marker for each picture
        text, pictures = as_text(content), tuple(given.pictures)
    return ToolOutput(text, bool(given.is_error), as_text(given.note), pictures)


def as_text(result: object) -> str:
    """Converts a result to text: strings unchanged, None to "", tables to CSV, others to JSON."""
    if isinstance(result, str):
        return result
    if result is None:
        return ""
    if inspect.iscoroutine(result):
        result.close()  # otherwise Python warns that it was never awaited
    if inspect.isawaitable(result):
        raise ToolError("the tool returned a coroutine or future: await it and return the result")
    if isinstance(result, Iterator | AsyncIterator):
        kind = type(result).__name__
        raise ToolError(f"the tool returned an iterator ({kind}): return a list")
    try:
        return write_json(result, MAX_OUTPUT)
    except NoText as error:
        raise ToolError(f"the tool's result {error}") from None


def cut_output(text: str) -> str:
    return cut_bytes(text, MAX_OUTPUT, "\n... (truncated: the first {limit} of {size} bytes)")
