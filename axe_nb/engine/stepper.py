"""The pauses of a tree that is stepped through: where they are, and who decides."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from axe_nb.engine.person import Decision, Question, Step
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.errors import ConfigError
from axe_nb.limits import RunStopped
from axe_nb.text import quote, suggestion
from axe_nb.threads import in_thread
from axe_nb.tools.tool import fault_text

StepFunction: TypeAlias = Callable[[Step], Decision | str | Awaitable[Decision | str | None] | None]
"""Decides at each pause, in place of a person; may be async."""

BreakKind = Literal["tool", "agent", "depth", "turn"]
KINDS: tuple[BreakKind, ...] = get_args(BreakKind)

WHERE = "tool:NAME, agent:NAME, depth:N or turn"
"""The places of `--break`."""

Plain = Literal["go", "skip", "end", "stop"]
"""Decisions that a function may return as text."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place of `--break`."""

    kind: BreakKind
    value: str = ""
    """Name of the tool or agent, or the depth."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" if self.value else self.kind

    def matches(self, step: Step) -> bool:
        """True if a pause is at this place."""
        match self.kind:
            case "tool":
                return step.kind == "call" and step.tool in REGISTRY.expand(self.value)
            case "agent":
                return step.agent == self.value
            case "depth":
                return step.run.count(".") == int(self.value)
            case "turn":
                return step.kind == "request"


def parse_break(text: str) -> Breakpoint:
    """Returns the place that a text of `--break` names.

    Raises:
        ConfigError: it names none.
    """
    word, colon, value = (part.strip() for part in text.partition(":"))
    hint = f"use {WHERE}; separate several with commas"
    kind = next((one for one in KINDS if one == word), None)
    if kind is None:
        near = suggestion(word, KINDS)
        raise ConfigError(f"--break: unknown place {quote(text)}", hint=near or hint)
    if bool(value) == (kind == "turn") or (colon and not value):
        raise ConfigError(f"--break: {quote(text)} is not a place", hint=hint)
    if kind == "depth" and not (value.isascii() and value.isdecimal() and len(value) < 4):
        problem = f"a depth must be a whole number, not {quote(value)}"
        raise ConfigError(f"--break: {problem}", hint=hint)
    return Breakpoint(kind, value.lstrip("0") or "0" if kind == "depth" else value)


@dataclass(eq=False)
class Stepper:
    """Steps through one tree of runs; used on its event loop only."""

    breaks: tuple[Breakpoint, ...] = ()
    """The places of the pauses; none = before each request and call."""
    function: StepFunction | None = None
    """Decides; None = the person does."""
    is_over: bool = False
    """True once the tree is to run to its end without further pauses."""
    _reached: set[Breakpoint] = field(default_factory=set)

    @property
    def flag(self) -> str:
        """The option that asks for the pauses."""
        return "--break" if self.breaks else "--step"

    def pauses_at(self, step: Step) -> bool:
        """True if there is a pause."""
        met = [one for one in self.breaks if one.matches(step)]
        self._reached.update(met)
        return not self.is_over and bool(met or not self.breaks)

    async def decide(self, question: Question) -> Decision:
        """Has the function decide; an `AskPerson`.

        Raises:
            RunStopped: it failed, or what it returned is not a decision.
        """
        assert self.function is not None
        assert isinstance(question, Step)
        try:
            if inspect.iscoroutinefunction(self.function):
                said: Any = await self.function(question)
            else:
                said = await in_thread(self.function, question)
                if inspect.isawaitable(said):
                    said = await said
        except Exception as error:
            raise RunStopped("error", f"the step function failed: {fault_text(error)}") from None
        return _read_decision(said, question)

    def describe_missed(self) -> Iterator[str]:
        """Yields a warning for each place that the tree never came to."""
        if not self.is_over:
            for one in self.breaks:
                if one not in self._reached:
                    yield f"the run never reached --break {one}"


def _read_decision(said: Any, step: Step) -> Decision:
    """Returns what a function has decided."""
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


def make_stepper(step: bool | StepFunction | None, breaks: Iterable[str] | None) -> Stepper | None:
    """Returns what steps through a tree, at the places of `--break` if any; None = nothing does."""
    places = tuple(map(parse_break, breaks or ()))
    if not step and not places:
        return None
    return Stepper(places, step if callable(step) else None)
