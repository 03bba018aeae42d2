"""Questions to the user, for approval and at the pauses of a run, and the user's decisions.

`RunScope.ask` asks the questions. Cassettes record the answers, except about the budget.
Source: D-48, D-50, D-56, D-66.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, TypeAlias, get_args

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.errors import ConfigError
from axe_nb.messages import Request, Response, ToolCall, Usage
from axe_nb.messages.exchanges import Exchange, Source
from axe_nb.results import RunStopped
from axe_nb.scripting.rules import stop_reason
from axe_nb.secrets import find_filter, redact
from axe_nb.text import quote, suggestion
from axe_nb.threads import in_thread
from axe_nb.tools.tool import fault_text, output_of

Plain = Literal["go", "skip", "end", "stop"]
"""Decisions that a step function may return as strings."""

Choice = Literal["yes", "no", "always", "edit", "text", "result", "go", "skip", "end", "stop"]
"""Kind of decision. `yes`, `no` and `always` answer an approval request, `text` a model's question,
and `go`, `skip`, `end` and `result` a pause. `edit` changes a call or reply; `stop` ends a tree."""


@dataclass(frozen=True, slots=True)
class Decision:
    choice: Choice
    text: str = ""
    """Answer if `choice` is `text`, reason if it is `no`, or result of a call if it is `result`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """New arguments of a call if `choice` is `edit`; empty for other choices."""
    reply: Response | None = None
    """Reply that the user gave to a request (`result`) or changed (`edit`); None if neither."""
    is_recorded: bool = field(default=False, kw_only=True, compare=False)
    """True if the answer comes from a cassette."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question for the user: approval of a call or a higher budget, or a model's question."""

    run: str
    agent: str
    tool: str
    arguments: Mapping[str, Any]
    detail: str = ""
    """Preview of the call's changes, such as a diff, or the model's question; may be empty."""
    whole: str = ""
    """Name of the argument to show in full, with its line breaks; empty if there is none."""
    always: str = "this tool"
    """Description of the calls that `always` approves; empty if that answer is not offered."""
    reason: str = ""
    """Reason for asking (unless the mode is the reason) and notes on the call, one per line."""
    workdir: str = ""
    host: str = ""
    """Host that an approval allows for the session (D-50); empty if there is none."""
    raises: str = ""
    """Budget after an approval, such as `$0.80`; empty if the question is not about the budget."""
    call_id: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema for edited arguments; if empty, edited arguments are not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A pause of a run at a request, a call or a reply, as passed to `step=function`.

    The function returns `"go"` or None to continue, `"skip"`, `"stop"`, `"end"` to run to the end
    without further pauses, or a decision made with `edit` or `result`.
    """

    kind: Literal["request", "call", "reply"]
    """Action at the pause: a request to send, a tool call to make, or a reply to edit."""
    agent: str
    """Name of the agent; empty for a run without an agent."""
    run: str
    """Place of the run in the tree: `0` is the root, `0.2` the child of the root's second call."""
    turn: int
    """Number of the turn, from 1."""
    model: str
    """Model of the agent, as provider/model."""
    tool: str = ""
    """Name of the tool; empty unless the step is a call."""
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Arguments of the call, including secrets."""
    number: int = 0
    """Number of the call in its run, from 1; 0 unless the step is a call."""
    call_id: str = ""
    """Id of the call; empty unless the step is a call."""
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """JSON Schema of the call's arguments."""
    whole: str = ""
    """Name of the argument to show in full; empty if there is none."""
    request: Request | None = field(default=None, repr=False)
    """Request to send, or request that led to the reply, including secrets; None for a call."""
    protocol: str = ""
    """Protocol of the model's server, or `script` for a script model; empty for a call."""
    response: Response | None = field(default=None, repr=False)
    """Response of the model, including secrets; None unless the step is a reply."""

    @property
    def place(self) -> str:
        """The place of the turn in the tree, such as `0.2/3`; valid in `result.request(place)`."""
        return f"{self.run}/{self.turn}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call, without secrets."""
        cleaned: dict[str, Any] = find_filter().json(dict(self.given))
        return cleaned

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request, without secrets; empty for a call."""
        if self.request is None:
            return {}
        used = self.protocol if self.protocol in PROTOCOLS else OF_SCRIPTS
        body = json.loads(import_module(PROTOCOLS[used].module).body(self.request))
        cleaned: dict[str, Any] = find_filter().json(body)
        return cleaned

    @property
    def text(self) -> str:
        """The text of the reply, or of the last message of the request, without secrets."""
        if self.response is not None:
            return redact(self.response.content)
        return redact(self.request.last) if self.request else ""

    @property
    def calls(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Name and arguments of each tool call in the reply, without secrets."""
        clean, calls = find_filter(), self.response.tool_calls if self.response else ()
        return tuple((call.name, clean.json(dict(call.arguments))) for call in calls)

    def edit(self, value: Any = None) -> Decision:
        """Returns the decision to continue with a change.

        Args:
            value: for a call, its new arguments; for a reply, its replacement, as for `result`;
                for a request, None, to send the request and pause again at its reply.

        Raises:
            ConfigError: if the value cannot be used as a replacement.
        """
        if self.kind == "request":
            if value is not None:
                later = 'return step.edit() here and step.edit(reply) at the step of kind "reply"'
                raise ConfigError(
                    "a reply can be edited only after it has arrived",
                    hint=f"{later}, or step.result(reply) to send nothing",
                )
            return Decision("edit")
        if self.kind == "reply":
            return Decision("edit", reply=_check_reply(value))
        if not isinstance(value, Mapping):
            raise ConfigError("step.edit takes the arguments of a call as a dict")
        return Decision("edit", arguments=dict(value))

    def result(self, value: Any) -> Decision:
        """Returns the decision to use a value instead of running the tool or sending the request.

        Args:
            value: for a call, the return value of its tool; for a request, the reply: text, calls
                or a `Response`.

        Raises:
            ConfigError: if the value cannot be sent to a model or used as a reply.
        """
        if self.kind == "call":
            output = output_of(value)
            if output.pictures:
                raise ConfigError("the result given at a step must be text, without pictures")
            return Decision("result", output.content)
        return Decision("edit" if self.kind == "reply" else "result", reply=_check_reply(value))


Question: TypeAlias = ApprovalRequest | Step
"""A question to the user: an approval, a question from the model, or a pause of a run."""

AskPerson: TypeAlias = Callable[[Question], Awaitable[Decision]]
"""Function that asks the user in the notebook or terminal, and returns the decision (D-48)."""

OF_SCRIPTS = "openai"  # protocol for displaying requests to models without a server


def _check_reply(value: Any) -> Response:
    reply = make_reply(value)
    if reply is None:
        problem = f"a reply must be text, calls or a Response, not {type(value).__name__}"
        step = 'for example step.result("42"), or step.result(axe_nb.call("grep", pattern="x"))'
        raise ConfigError(problem, hint=step)
    calls = reply.tool_calls
    return Response(reply.content, calls, reply.stop_reason or stop_reason(calls))


def make_reply(given: Any) -> Response | None:
    """Converts text, tool calls or a `Response` to a reply; returns None for anything else."""
    match [given] if isinstance(given, ToolCall) else given:
        case Response() as reply:
            return reply
        case str() as text:
            return Response(text, (), stop_reason(()))
        case [_, *_] as calls if all(isinstance(one, ToolCall) for one in calls):
            return Response("", tuple(calls), stop_reason(tuple(calls)))
    return None


def make_decided(step: Step, decision: Decision) -> Exchange | None:
    """Returns the exchange for a request that the user answered or skipped, or else None."""
    is_skipped = decision.choice == "skip"
    reply = Response() if is_skipped else decision.reply
    if step.kind != "request" or step.request is None or reply is None:
        return None
    return make_given(step.request, reply, "skipped" if is_skipped else "given")


def make_given(request: Request, reply: Response, source: Source = "given") -> Exchange:
    """Creates an exchange whose reply the user supplied, with no usage and no cost."""
    reply = replace(reply, usage=Usage())
    return Exchange.of(request, protocol="script", response=reply, cost=0.0, source=source)


StepFunction: TypeAlias = Callable[[Step], Decision | str | Awaitable[Decision | str | None] | None]
"""Function, passed as `step=`, that decides at each pause instead of the user; may be async."""

BreakKind = Literal["tool", "agent", "depth"]


@dataclass(frozen=True, slots=True)
class Breakpoint:
    kind: BreakKind
    value: str
    """Name of the tool or agent, or the depth."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"

    def matches(self, step: Step) -> bool:
        match self.kind:
            case "tool":
                return step.kind == "call" and step.tool in REGISTRY.expand(self.value)
            case "agent":
                return step.agent == self.value
            case "depth":
                return step.run.count(".") == int(self.value)

    @classmethod
    def parse(cls, text: str) -> Breakpoint:
        word, _, value = (part.strip() for part in text.partition(":"))
        form = "[0-9]{1,3}" if word == "depth" else ".+"
        for kind in get_args(BreakKind):
            if word == kind and re.fullmatch(form, value):
                return cls(kind, str(int(value)) if kind == "depth" else value)
        hint = "use tool:NAME, agent:NAME or depth:N; separate several with commas"
        near = "" if word in get_args(BreakKind) else suggestion(word, get_args(BreakKind))
        raise ConfigError(f"--break: {quote(text)} is not a breakpoint", hint=near or hint)


@dataclass(eq=False)
class Stepper:
    """Pauses the runs of a tree; used only on the tree's event loop."""

    breaks: tuple[Breakpoint, ...] = ()
    """Breakpoints to pause at; if empty, the runs pause at each request and call."""
    function: StepFunction | None = None
    is_over: bool = False
    """True if the tree runs to its end without further pauses."""
    _reached: set[Breakpoint] = field(default_factory=set)

    @property
    def flag(self) -> str:
        return "--break" if self.breaks else "--step"

    def pauses_at(self, step: Step) -> bool:
        met = [one for one in self.breaks if one.matches(step)]
        self._reached.update(met)
        return not self.is_over and bool(met or not self.breaks)

    async def decide(self, step: Step) -> Decision:
        """Calls the step function. Raises RunStopped if it fails or returns an invalid decision."""
        assert self.function is not None
        try:
            if inspect.iscoroutinefunction(self.function):
                said: Any = await self.function(step)
            else:
                said = await in_thread(self.function, step)
                if inspect.isawaitable(said):
                    said = await said
        except Exception as error:
            raise RunStopped("error", f"the step function failed: {fault_text(error)}") from None
        if said is None:
            return Decision("go")
        if isinstance(said, str) and said in get_args(Plain):
            return Decision(said)  # type: ignore[arg-type]  # one of `Plain`
        if isinstance(said, Decision) and said.choice in ("edit", "result", *get_args(Plain)):
            return said
        given = quote(said) if isinstance(said, str) else type(said).__name__
        raise RunStopped(
            "error",
            f"the step function returned {given}, which is not a decision; "
            'return "go", "skip", "end", "stop", step.edit(…) or step.result(…)',
        )

    def describe_missed(self) -> Iterator[str]:
        """Yields a warning for each breakpoint not reached, unless the pauses were ended early."""
        for one in () if self.is_over else self.breaks:
            if one not in self._reached:
                yield f"the run never reached --break {one}"
