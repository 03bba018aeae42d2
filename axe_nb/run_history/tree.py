"""A tree of runs as the parts that the history keeps, one for each event, and back.

Each text is in one part only: an exchange leaves out what it has in common with the one before it
and with its turn, the end of a run what its other parts tell.
Source: D-59, D-61; product.md "Runs are recordings".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.messages import Message, ToolResult
from axe_nb.recording.place import order_of
from axe_nb.records.convert import from_json
from axe_nb.records.shelf import TABLE, Shelf, read_table, use_shelf, write_table
from axe_nb.redaction import Filter
from axe_nb.results import RunResult
from axe_nb.run_history.exchange_parts import clean_part, read_exchanges, write_exchanges
from axe_nb.run_history.story import DIED, RunStory
from axe_nb.run_history.text import format_part, spread

TOLD = (
    "text", "agent", "model", "call_id", "prompt", "pictures", "task", "messages", "log",
    "exchanges",
)  # fmt: skip
"""Fields of a result that its other parts usually tell."""

REQUIRED = ("text", "agent", "model")
"""Those of them without a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run, as read."""

    result: RunResult
    """Without what is told."""
    told: Sequence[str]
    children: Sequence[str]
    """Ids, in call order."""


@dataclass
class Tree:
    """The runs of one root so far, in the process that runs them or as read."""

    history: Sequence[Message] = ()
    """The conversation that the root continues."""
    runs: dict[str, RunStory] = field(default_factory=dict)
    ends: dict[str, RunEnd] = field(default_factory=dict)
    """The ends that were read."""
    ended: set[str] = field(default_factory=set)
    """The runs whose ends were written."""
    pictures: Shelf = field(default_factory=dict)
    """Those that were written, or read."""

    def write(self, event: Event, at: float, clean: Filter) -> list[str]:
        """Adds an event; returns its part as text, after one with its pictures that are new.

        No part means that it is not kept.

        Args:
            event: the event.
            at: its time, in seconds from the start of the root.
            clean: removes secrets.

        Raises:
            ConfigError: it is nested too deeply.
        """
        part = self._write(event, round(at, 4), clean)
        if part is None:
            return []
        with use_shelf({}) as shelf:
            text = format_part(part, clean, clean_part)
        new = {digest: one for digest, one in shelf.items() if digest not in self.pictures}
        if not new:
            return [text]
        self.pictures.update(new)
        kept = {"at": round(at, 4), TABLE: write_table(new)}
        return [format_part(kept, Filter(()), lambda data, _: data), text]

    def _write(self, event: Event, at: float, clean: Filter) -> dict[str, Any] | None:
        match event:
            case RunStarted():
                history = () if event.parent else self.history
                self.runs[event.run] = RunStory(event, history, at, at)
                return {"at": at, "start": event, **({"history": history} if history else {})}
            case TurnFinished() | ToolFinished() | RunFinished() if event.run in self.runs:
                story = self.runs[event.run]
                story.latest = at
                if isinstance(event, RunFinished):
                    self.ended.add(event.run)
                return {"at": at, "run": event.run, **_write_next(story, event, clean)}
        return None

    def read(self, part: Mapping[str, Any]) -> None:
        """Adds a part as it was read.

        Raises:
            ConfigError: it is damaged.
        """
        try:
            with use_shelf(self.pictures):
                self._read(part, float(part["at"]))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ConfigError(f"a part of it is damaged: {error!r}"[:200]) from None

    def _read(self, part: Mapping[str, Any], at: float) -> None:
        if TABLE in part:
            self.pictures.update(read_table(part[TABLE]))
            return
        if "start" in part:
            start = from_json(RunStarted, part["start"])
            order_of(start.run)
            history = tuple(from_json(Message, one) for one in part.get("history", ()))
            self.runs[start.run] = RunStory(start, history, at, at)
            return
        story = self.runs[part["run"]]
        story.latest = at
        if "turn" in part:
            turn = from_json(TurnFinished, part["turn"])
            exchanges = read_exchanges(story, part.get("exchanges", ()), turn)
            story.turns.append(replace(turn, exchanges=exchanges))
        elif "result" in part:
            result = from_json(ToolResult, part["result"])
            story.results[result.call_id] = result
        elif "end" in part:
            read_exchanges(story, part.get("exchanges", ()))
            data = dict.fromkeys(REQUIRED, "") | part["end"]
            self.ends[story.start.run] = RunEnd(
                result=from_json(RunResult, data),
                told=[name for name in TOLD if name in part["told"]],
                children=[str(child) for child in part["children"]],
            )

    def tell(self, run: str = "0", why: str = DIED) -> RunResult:
        """Returns the result of a run with its children.

        Args:
            run: its id.
            why: the error of runs without an end.

        Raises:
            ConfigError: its start is missing.
        """
        if run not in self.runs:
            raise ConfigError("a part of it is missing")
        told, end = self.runs[run].tell(why), self.ends.get(run)
        if end is None:
            begun = [one for one in self.runs if self.runs[one].start.parent == run]
            result, children = told, sorted(begun, key=order_of)
        else:
            result = replace(end.result, **{name: getattr(told, name) for name in end.told})
            children = [one for one in end.children if one in self.runs]
        below = (child for child in children if child.startswith(f"{run}."))
        return replace(result, children=tuple(self.tell(child, why) for child in below))


def _write_next(
    story: RunStory, event: TurnFinished | ToolFinished | RunFinished, clean: Filter
) -> dict[str, Any]:
    match event:
        case TurnFinished():
            turn = spread(event)
            turn.pop("exchanges", None)
            exchanges = write_exchanges(story, event.exchanges, clean, event)
            story.turns.append(event)
            return {"turn": turn, "exchanges": exchanges}
        case ToolFinished():
            story.results[event.result.call_id] = event.result
            return {"result": event.result}
        case RunFinished():
            return _write_end(story, event.result, clean)


def _write_end(story: RunStory, result: RunResult, clean: Filter) -> dict[str, Any]:
    exchanges = write_exchanges(story, result.exchanges[len(story.exchanges) :], clean)
    own = story.tell("")
    told = [name for name in TOLD if getattr(own, name) == getattr(result, name)]
    end = spread(result)
    for name in (*told, "children"):
        end.pop(name, None)
    children = [child.id for child in result.children]
    return {"end": end, "told": told, "children": children, "exchanges": exchanges}
