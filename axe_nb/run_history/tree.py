"""A tree of runs as the parts that the history keeps, one for each event, and back.

Each text is in one part only: an exchange leaves out what it has in common with the one before it
and with its turn, the end of a run what its other parts tell.
Source: D-59, D-61; product.md "Runs are recordings".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from axe_nb.errors import ConfigError
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.messages import Message, ToolResult
from axe_nb.recording.place import order_of
from axe_nb.records.convert import from_json
from axe_nb.records.shelf import TABLE, Shelf, read_table, use_shelf, write_table
from axe_nb.redaction import Filter
from axe_nb.results import RunResult
from axe_nb.run_history.exchange_parts import (
    Pieces,
    clean_exchanges,
    read_exchanges,
    write_exchanges,
)
from axe_nb.run_history.log import Log, read_parts
from axe_nb.run_history.story import DIED, TOLD, RunStory
from axe_nb.run_history.text import Part, encode, is_clean, spare_words, spread
from axe_nb.times import write_laps

REQUIRED = ("text", "agent", "model")
"""Fields `TOLD` without a default."""

MAX_DRAFTS = 20_000
"""Characters of drafts that are kept in memory."""


class Draft(NamedTuple):
    """A part that may have secrets."""

    line: str
    """The text of its data."""
    exchanges: Sequence[Pieces]
    texts: Sequence[str]
    """The texts in which secrets are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run, as read."""

    result: RunResult
    """The result without the fields that the events tell."""
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
    """Pictures that were written or read."""

    log: Log = field(default_factory=Log)
    """The log of the events that were written."""
    _drafts: list[Draft] = field(default_factory=list)
    _size: int = 0
    """Characters of the texts of all drafts."""
    _text: list[bytes] = field(default_factory=list)
    """Text made of drafts since the last `take`."""

    def add(self, event: Event, at: float, clean: Filter) -> None:
        """Adds an event.

        Args:
            event: the event.
            at: its time, in seconds from the start of the root.
            clean: removes secrets.

        Raises:
            ConfigError: it is nested too deeply.
        """
        at, exchanges = round(at, 4), list[Pieces]()
        data = self._write(event, at, exchanges)
        if data is None:
            return
        with use_shelf({}) as shelf:
            line = encode(data)
        if new := {digest: one for digest, one in shelf.items() if digest not in self.pictures}:
            self.pictures.update(new)
            self._drafts.append(Draft(encode({"at": at, TABLE: write_table(new)}), (), ()))
        texts = [line]
        for one in exchanges:
            texts += one.list_texts()
        self._drafts.append(Draft(line, exchanges, texts))
        self._size += sum(map(len, texts))
        if self._size > MAX_DRAFTS:
            self._finish(clean)

    def take(self, clean: Filter) -> list[str | bytes]:
        """Returns the events that were added as rows of the history, each after its pictures.

        Args:
            clean: removes secrets.
        """
        self._finish(clean)
        text, self._text = b"".join(self._text), []
        return list(self.log.write(text)) if text else []

    def _finish(self, clean: Filter) -> None:
        """Makes parts of drafts; secrets, which are seldom there, are looked for in all at once."""
        clean = spare_words(clean)
        drafts, self._drafts, self._size = self._drafts, [], 0
        are_clean = is_clean([text for draft in drafts for text in draft.texts], clean)
        for line, exchanges, texts in drafts:
            if are_clean or is_clean(texts, clean):
                bodies = [one.beside for one in exchanges]
            else:
                line, bodies = encode(clean_exchanges(json.loads(line), exchanges, clean)), []
            self._text += (line.encode(errors="backslashreplace"), b"\n", *bodies)

    def _write(self, event: Event, at: float, exchanges: list[Pieces]) -> dict[str, Any] | None:
        """Adds an event; returns its data, and fills the list of its exchanges."""
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
                return {"at": at, "run": event.run, **_write_next(story, event, exchanges)}
        return None

    def read(self, rows: Iterable[object]) -> None:
        """Adds the events in rows of the history.

        Raises:
            ConfigError: they are damaged, or of a later major version.
        """
        try:
            with use_shelf(self.pictures):
                for part in read_parts(rows):
                    self._read(part, part.data, float(part.data["at"]))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ConfigError(f"part of it is damaged: {error!r}"[:200]) from None

    def _read(self, part: Part, data: Mapping[str, Any], at: float) -> None:
        if TABLE in data:
            self.pictures.update(read_table(data[TABLE]))
            return
        if "start" in data:
            start = from_json(RunStarted, data["start"])
            order_of(start.run)
            history = tuple(from_json(Message, one) for one in data.get("history", ()))
            self.runs[start.run] = RunStory(start, history, at, at)
            return
        story = self.runs[data["run"]]
        story.latest = at
        if "turn" in data:
            turn = from_json(TurnFinished, data["turn"])
            exchanges = read_exchanges(story, part, turn)
            story.turns.append(replace(turn, exchanges=exchanges))
        elif "result" in data:
            result = from_json(ToolResult, data["result"])
            story.results[result.call_id] = result
        elif "end" in data:
            read_exchanges(story, part)
            self.ends[story.start.run] = RunEnd(
                result=from_json(RunResult, dict.fromkeys(REQUIRED, "") | data["end"]),
                told=[name for name in TOLD if name in data["told"]],
                children=[str(child) for child in data["children"]],
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
            raise ConfigError("part of it is missing")
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
    story: RunStory, event: TurnFinished | ToolFinished | RunFinished, exchanges: list[Pieces]
) -> dict[str, Any]:
    match event:
        case TurnFinished():
            exchanges += write_exchanges(story, event.exchanges, event)
            story.turns.append(event)
            turn = spread(event, ("exchanges",))
            return {"turn": turn, "exchanges": [one.data for one in exchanges]}
        case ToolFinished():
            story.results[event.result.call_id] = event.result
            return {"result": event.result}
        case RunFinished():
            return _write_end(story, event.result, exchanges)


def _write_end(story: RunStory, result: RunResult, exchanges: list[Pieces]) -> dict[str, Any]:
    exchanges += write_exchanges(story, result.exchanges[len(story.exchanges) :])
    told = [name for name, own in story.list_told().items() if own == getattr(result, name)]
    end = spread(result, (*told, "children", "times"))
    return {
        "end": end | {"times": write_laps(result.times)},
        "told": told,
        "children": [child.id for child in result.children],
        "exchanges": [one.data for one in exchanges],
    }  # fmt: skip
