"""The result of a run, and the order of places in a run tree. Source: D-2, D-34, D-38, B-9."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from axe_nb.agents.data_files import write_data
from axe_nb.agents.prompt import Definitions
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.records import from_json, to_json
from axe_nb.errors import AxeError, RunError
from axe_nb.messages import Message, Page, Usage, add_costs
from axe_nb.messages.exchanges import UNASKED, Exchange, Lap
from axe_nb.messages.exchanges import FinalRequest as FinalRequest
from axe_nb.messages.exchanges import Turn as Turn
from axe_nb.pictures.picture import Picture
from axe_nb.secrets import find_filter, redact
from axe_nb.text import hide_in_tab, one_line, plural, printable, quote

if TYPE_CHECKING:
    from axe_nb.session.undo import UndoneFiles
    from axe_nb.views.request import SentRequest
    from axe_nb.views.run_diff import RunDiff

Status = Literal[
    "completed", "max_turns", "max_tool_calls", "max_tokens", "timeout", "cancelled", "error"
]


class RunStopped(Exception):
    """Raised to end a run with a status other than `completed`. Caught by `Run.execute`."""

    def __init__(self, status: Status, error: str, cap: str = "") -> None:
        super().__init__(error)
        self.status: Status = status
        self.cap = cap
        """The cap that was reached, in words; empty if no cap was."""


EXIT_CODES: Mapping[str, int] = {
    "completed": 0, "max_turns": 1, "max_tool_calls": 1, "max_tokens": 1, "timeout": 3,
    "cancelled": 130, "error": 1,
}  # fmt: skip
"""Status → exit code of the command line, unless an error has its own code (D-38)."""

NEXT_STEPS: Mapping[str, str] = {
    "timeout": "give it more time with --timeout",
    "max_turns": "give it a smaller task, or continue it: -c in a notebook, "
    "continue_from= in Python",
}
"""Status → suggested next step after an incomplete run."""

NO_AGENT = "(no agent)"
"""Text shown instead of an agent's name for a run without an agent."""


def name_run(agent: str, model: str) -> str:
    return agent or model or NO_AGENT


def make_metadata(id: str, depth: int, usage: Usage) -> dict[str, str]:
    """Returns a child run's id, token count and depth as strings for `metadata` (D-34)."""
    return {"task_id": id, "token_estimate": str(usage.total), "depth": str(depth)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of an agent's run, whatever its status (D-2).

    `turns`, `tool_calls` (numbers; the calls are in `log`), `usage` and `cost` omit child runs.
    """

    status: Status
    text: str
    """The final answer, or the text so far if the run did not complete."""
    agent: str
    model: str
    """The model, as provider/model."""
    data: Any = field(default=None, repr=False)
    """The answer as data, of the type required by `output=` or `[output]`; plain JSON data in a
    result loaded from a file. None if no data was required or the answer does not fit the
    schema."""
    error: str | None = None
    """The error message in one line; None if the run completed."""
    turns: int = 0
    """Number of requests that got a response."""
    tool_calls: int = 0
    """Number of executed tool calls."""
    retries: int = 0
    """Number of requests that were sent again after a failure (D-23)."""
    children: tuple[RunResult, ...] = ()
    """Child runs, in the order of the calls that started them."""
    usage: Usage = Usage()
    """Total usage of this run's own turns (A-8.8)."""
    stop_reason: str = ""
    """Stop reason of the last response, as reported by the provider."""
    duration_ms: int = 0
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The conversation, as sent to and received from the model."""
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Metadata that the delegation tool adds to a child run (D-34); `task_id` is the run's id."""
    warnings: tuple[str, ...] = ()
    """Problems that did not stop the run, such as load warnings or a truncated reply."""
    log: tuple[Turn, ...] = field(default=(), repr=False)
    """The turns of the run, with their calls and results."""
    id: str = "0"
    """Dotted path in the run tree: `0` is the root, and `0.2` the child started by its second
    call."""
    call_id: str = ""
    """Id of the parent's call that started this run; empty for a root run."""
    prompt: str = field(default="", repr=False)
    """The complete prompt."""
    pictures: tuple[Picture, ...] = field(default=(), repr=False)
    """Pictures in the prompt, including those from the agent's files."""
    task: str = field(default="", repr=False)
    """The task, without the context that the caller adds to a child's prompt."""
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False, compare=False)
    """Requests to the model and their outcomes, in order."""
    times: tuple[Lap, ...] = field(default=(), repr=False, compare=False)
    """Timings of the run and of its requests, calls and waits; empty if not recorded."""
    origin: str = ""
    """The place at which a fork departs from the original run; empty except in a fork's root."""
    definitions: Definitions | None = field(default=None, repr=False, compare=False)
    """The agents of the run tree (D-53), for forks; None in a child, or if they were not kept."""
    undo_id: str = field(default="", repr=False, compare=False)
    """Id under which the old contents of changed files are kept; empty in a child, or if
    nothing is kept."""
    cause: AxeError | None = field(default=None, repr=False, compare=False)
    """The exception that `error` reports; None if there is none."""

    __dir__ = hide_in_tab(
        "afork", "call_id", "cause", "definitions", "duration_ms", "exchanges", "from_dict", "id",
        "log", "metadata", "origin", "pictures", "retries", "stop_reason", "task", "times",
        "to_dict", "to_json", "undo_id",
    )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.id, self.status, self.agent, self.model, self.text))

    def __repr__(self) -> str:
        who = printable(name_run(self.agent, self.model))
        facts = [who, self.status, plural(self.turns, "turn")]
        facts += [plural(len(self.children), "child run")] if self.children else []
        text = one_line(redact(self.text if self.ok else self.error or self.text), 80)
        return redact(f"RunResult({', '.join(facts)}: {quote(text)})")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from axe_nb.cell_display.front_end import is_notebook
        from axe_nb.views import html

        return {} if is_notebook() else html.twin(self, name="(result)")  # `install` displays it

    def __axe_text__(self) -> str:
        """The text that represents the result in prompts and tool results."""
        return self.text or self.error or ""

    @property
    def ok(self) -> bool:
        """True if the run completed."""
        return self.status == "completed"

    @property
    def sources(self) -> tuple[Page, ...]:
        """The pages that the answer cites, each with `title` and `url`."""
        return self.log[-1].sources if self.log else ()

    @property
    def total_usage(self) -> Usage:
        """Total usage of this run and all its descendants."""
        return sum((result.usage for result in self.walk()), Usage())

    @property
    def cost(self) -> float | None:
        """Cost of this run's own turns in US dollars; None if the cost of any turn is unknown."""
        counted = (turn for turn in self.log if turn.source not in UNASKED)
        if any(not turn.usage.total for turn in counted):  # the server does not count tokens
            return None
        return self.usage.cost if self.turns else 0.0

    @property
    def total_cost(self) -> float | None:
        """Cost of this run and all its descendants in US dollars; None if any cost is unknown."""
        return add_costs(result.cost for result in self.walk())

    def walk(self) -> Iterator[RunResult]:
        """Yields this result and the results of all its descendants, depth first, in call order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def request(self, place: str | int | None = None, protocol: str | None = None) -> SentRequest:
        """Returns a sent request: its body, what fills the context, and what is new in this turn.

        Args:
            place: `0.2/3` is the third turn of run `0.2`, and `0.2` its last turn; a number is a
                turn of this run; None is its last turn.
            protocol: encodes the body for this protocol (`anthropic`, `openai`, `responses` or
                `ollama`); by default, the provider's protocol.

        Raises:
            ConfigError: if there is no request at that place.
        """
        from axe_nb.views.request import find_request

        return find_request(self, place, protocol)

    def diff(self, other: RunResult) -> RunDiff:
        """Returns the differences between this run tree and the tree of `other`."""
        from axe_nb.views.run_diff import diff_runs

        return diff_runs(self, other)

    def fork(
        self,
        place: str | int | None = None,
        *,
        prompt: Any = None,
        system_prompt: str | None = None,
        reply: Any = None,
        results: Mapping[int | str, Any] | None = None,
        **options: Any,
    ) -> RunResult:
        """Runs the tree again with a change at a place; replays what does not depend on the change.

        Args:
            place: the turn, as in `request`, or the turn after the last, which begins with the
                results of the last turn's calls.
            prompt: at turn 1, replaces the prompt, or a sub-agent's task; at a later turn, is added
                before that turn.
            system_prompt: new system prompt of the agent at the place.
            reply: text, calls or a `Response` to use instead of the model's reply.
            results: new results or exceptions of calls in the turn, by id or number of the call.
            options: as for `axe_nb.run`; those that change an agent apply to the run at the place.

        Raises:
            ConfigError: if there is no such place or call; nothing has been sent.
        """
        from axe_nb.api import fork

        changes = {"system_prompt": system_prompt, "reply": reply, "results": results}
        return fork(self, place, prompt=prompt, **changes, **options)

    async def afork(self, place: str | int | None = None, **changes: Any) -> RunResult:
        """Like `fork`, but runs on the caller's own event loop."""
        from axe_nb.api import afork

        return await afork(self, place, **changes)

    def undo(self, *, force: bool = False, dry: bool = False) -> UndoneFiles:
        """Restores the files that `write_file` and `edit_file` changed in this tree of runs.

        Files that have changed since are left alone. Commands and other tools are not undone.

        Args:
            force: also restores files that have changed since; their current content is lost.
            dry: changes nothing, and only returns what would be done.

        Raises:
            ConfigError: if this is the result of a child, or the kept contents cannot be read.
        """
        from axe_nb.session.undo import undo

        return undo(self, force=force, dry=dry)

    def raise_for_status(self) -> RunResult:
        """Returns this result if the run completed; otherwise raises `cause` or a RunError."""
        if self.ok:
            return self
        if self.cause:
            # a copy, as an exception that is raised twice collects tracebacks
            failure: AxeError = copy(self.cause)
        else:
            hint = NEXT_STEPS.get(self.status, "")
            code = EXIT_CODES[self.status]
            failure = RunError(self.error or self.status, exit_code=code, hint=hint)
        failure.place = describe_end(self)
        raise failure

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Converts the result and its children to JSON types.

        Args:
            full: if True, includes everything, even secrets, in the form that `from_dict` reads; if
                False, omits messages, turns and other details.
        """
        if full:
            return to_json(self)
        names = [
            "agent", "model", "status", "text", "error", "stop_reason", "turns", "tool_calls",
            "retries", "cost", "total_cost", "duration_ms", "files_read", "files_modified",
            "warnings", "metadata",
        ]  # fmt: skip
        names += [] if self.data is None else ["data"]
        names += [name for name in ("sources", "origin") if getattr(self, name)]
        return {
            **{name: jsonable(getattr(self, name)) for name in names},
            "usage": self.usage.counts(),
            "total_usage": self.total_usage.counts(),
            "children": [child.to_dict() for child in self.children],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunResult:
        """Reverses `to_dict(full=True)`. Raises ConfigError if a value is missing or invalid."""
        return from_json(cls, data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the result, without secrets, to a file that `axe_nb.load` can read (D-60, D-61)."""
        write_data(Path(path), "run", to_json(self, find_filter()))

    def to_json(self) -> str:
        """Returns the one-line JSON that `--json` prints: seven keys, sorted (B-9, A-8.6)."""
        line = {
            "content": self.text, "duration_ms": self.duration_ms,
            "input_tokens": self.usage.input_tokens, "model": self.model,
            "output_tokens": self.usage.output_tokens, "stop_reason": self.stop_reason,
            "tool_calls": self.tool_calls,
        }  # fmt: skip
        return json.dumps(line, ensure_ascii=False)


def describe_end(result: RunResult) -> str:
    """Names the agent and turn in which a run ended, and an HTTP status that its error omits."""
    who = f"agent {result.agent}" if result.agent else f"model {result.model}"
    status = getattr(result.cause, "status", None) or 0
    is_new = status >= 300 and str(status) not in (result.error or "")
    return f"in {who}, turn {max(result.turns, 1)}" + f" (HTTP status {status})" * is_new


# Places: `0.2/3` is the third turn of run `0.2`, the child of the root's second call.

_PLACE = re.compile(r"0(?:\.\d{1,9}(?:-[A-Za-z0-9_]{1,40})?){0,100}/\d{1,9}")

CallOrder: TypeAlias = "tuple[int, int, str]"
"""Sort key of a child run: number of the call that started it, position in the call, id suffix."""

Order: TypeAlias = "tuple[tuple[CallOrder, ...], int]"
"""Sort key of a place: the sort keys of all runs on the way to it, and the turn number."""


def is_place(text: str) -> bool:
    return _PLACE.fullmatch(text) is not None


def run_of(place: str) -> str:
    return place.partition("/")[0]


def turn_of(place: str) -> int:
    return int(place.rpartition("/")[2])


def is_below(place: str, other: str) -> bool:
    """True if `place` lies in the same run as `other`, or in a descendant of that run."""
    return f"{run_of(place)}.".startswith(f"{run_of(other)}.")


def order_of(place: str) -> Order:
    """Returns the sort key of a place; sorts parents before children, and runs in call order."""
    run, _, turn = place.partition("/")
    return tuple(map(order_child, run.split("."))), int(turn or 0)


def order_child(run: str) -> CallOrder:
    number, _, key = run.rpartition(".")[2].partition("-")
    named = 1_000_000 if key else 0  # sorts named runs after numbered ones
    position = int(key) if key.isdecimal() and len(key) < 7 else named
    return int(number) if number.isdecimal() and len(number) < 10 else 0, position, key
