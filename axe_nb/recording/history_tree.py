"""A tree of runs as rows of the history, one for each event, and back.

A row is compressed text: a header with the version, then JSON. Each text is in one row only: the
end of a run leaves out what follows from its other rows.
Source: D-59, D-60, D-61.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from axe_nb.agents.data_files import format_header, parse_header
from axe_nb.conversion.records import Parts, from_json, to_json
from axe_nb.engine.replay import order_of
from axe_nb.errors import ConfigError
from axe_nb.events import Event, RunFinished, RunStarted, ToolFinished, TurnFinished
from axe_nb.messages import Message, ToolResult, Usage, close_open_calls
from axe_nb.messages.exchanges import Exchange
from axe_nb.results import RunResult, Turn, make_metadata
from axe_nb.secrets import Filter

DIED = "the process ended during this run; what was answered by then is kept"

Known = Literal[
    "text", "agent", "model", "call_id", "prompt", "pictures", "task", "messages", "log",
    "exchanges",
]  # fmt: skip
"""A field of a result that usually follows from the events."""

WORDS = (
    b'"},"status":"completed","duration_ms":,"known":["text","agent","model","call_id","prompt",'
    b'"pictures","task","messages","log","exchanges"],"children":["0.1","times":[{"kind":"run",'
    b'"began":0.0,"ended":0.},{"kind":"model","began":0.,"ended":0.,"turn":,{"kind":"tool",'
    b'"definitions":{"root":{"values":{"name":"","error":{"type":"ProviderError","category":"'
    b'server","message":"","cut":"cancelled","attempt":2,"depth":1,"task":"","prompt":"'
    b'axe_nb history 4.0\n{"at":0.,"run":"0.1","result":{"call_id":"call_","content":"","name":""}}'
    b'axe_nb history 4.0\n{"at":0.,"turn":{"run":"0","turn":1,"text":"","calls":[{"id":"call_",'
    b'"name":"","arguments":{"}}],"stop_reason":"end_turn","tool_calls","usage":{"input_tokens":'
    b',"output_tokens":,"cached_tokens":,"cost":0.00},"parallel":true,"exchanges":[{"turn":1,'
    b'"model":"gpt","claude","protocol":"openai","anthropic","sent":2,"system":{"digest":"'
    b'"},"system_ends":[0],"tools":{"digest":""},"params":{"max_tokens":"streaming":{"stream":true,'
    b'"stream_options":{"include_usage":true}},"response":{"content":"","tool_calls":[{"id":"call_",'
    b'"name":"","arguments":{"}}],"stop_reason":"","usage":{"input_tokens":,"output_tokens":}}}]}}'
)
"""Text that most rows have in common, used as a dictionary for compression: it halves short
rows."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_LEFT_OUT: dict[str, Any] = {
    one.name: "" if one.default is MISSING else one.default
    for one in fields(RunResult)
    if one.name in (*get_args(Known), "children")
}
"""Field → the value that is omitted from a row."""


def compress(text: str) -> bytes:
    packer = zlib.compressobj(1, zdict=WORDS)
    return packer.compress(text.encode("utf-8", "surrogatepass")) + packer.flush()


def decompress(row: bytes) -> str:
    """Reverses `compress`. Raises zlib.error, TypeError or ValueError for a damaged row."""
    reader = zlib.decompressobj(zdict=WORDS)
    text = reader.decompress(row).decode("utf-8", "surrogatepass")
    if not reader.eof:
        raise ValueError("a row was cut")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One event of a tree."""

    at: float
    """Seconds from the start of the root."""
    run: str = "0"
    start: RunStarted | None = None
    history: tuple[Message, ...] = ()
    """For the start of a root: the conversation that it continues."""
    turn: TurnFinished | None = None
    result: ToolResult | None = None
    end: RunResult | None = None
    """The result of the run, without the fields that can be derived from its other events."""
    known: tuple[Known, ...] = ()
    """Names of the fields left out of `end`."""
    children: tuple[str, ...] = ()
    """Ids of the children, in call order."""
    exchanges: tuple[Exchange, ...] = ()
    """For the end: exchanges that belong to no turn."""


@dataclass
class RunSoFar:
    """One run of a tree, built from its events."""

    start: RunStarted
    history: Sequence[Message] = ()
    began: float = 0.0
    latest: float = 0.0
    """Time of its latest event in seconds from the start of the root, like the one above."""
    turns: list[TurnFinished] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    """Call id → result."""
    exchanges: list[Exchange] = field(default_factory=list)

    def add(self, part: Part) -> None:
        self.latest = part.at
        self.exchanges += part.exchanges
        if part.turn is not None:
            self.turns.append(part.turn)
            self.exchanges += part.turn.exchanges
        if part.result is not None:
            self.results[part.result.call_id] = part.result

    def make_result(self, why: str) -> RunResult:
        """Returns the result of the run if it is stopped now."""
        start = self.start
        result = RunResult(
            status="cancelled", error=why, id=start.run, origin=start.origin,
            undo_id=start.undo_id, turns=len(self.turns), tool_calls=len(self.results),
            retries=sum(one.attempt > 1 for one in self.exchanges),
            usage=sum((turn.usage for turn in self.turns), Usage()),
            stop_reason=self.turns[-1].stop_reason if self.turns else "",
            duration_ms=round((self.latest - self.began) * 1000), **self.list_known(),
        )  # fmt: skip
        if not start.parent:
            return result
        return replace(result, metadata=make_metadata(start.run, start.depth, result.usage))

    def make_end(self, result: RunResult, at: float) -> Part:
        """Returns the end of the run, without the fields that follow from its other events."""
        left = result.exchanges[len(self.exchanges) :]
        known = replace(self, exchanges=[*self.exchanges, *left]).list_known().items()
        same = tuple(name for name, own in known if own == getattr(result, name))
        end = replace(result, **{name: _LEFT_OUT[name] for name in (*same, "children")})
        children = tuple(child.id for child in result.children)
        return Part(at=at, run=result.id, end=end, known=same, children=children, exchanges=left)

    def list_known(self) -> dict[Known, Any]:
        """Returns the fields of the result that follow from the events."""
        start = self.start
        messages, log = close_open_calls(self.history), list[Turn]()
        messages.append(Message("user", start.prompt, pictures=start.pictures))
        for turn in self.turns:
            results = tuple(self.results[one.id] for one in turn.calls if one.id in self.results)
            log.append(Turn(
                turn.turn, turn.text, turn.calls, results, turn.stop_reason, turn.usage,
                turn.parallel, turn.closing, turn.asked, turn.question, turn.source,
                turn.server_calls, turn.sources,
            ))  # fmt: skip
            if turn.question:
                messages.append(Message("user", turn.question))
            response = turn.exchanges[-1].response if turn.exchanges else None
            calls = () if response and response.is_cut else turn.calls
            if turn.text.strip() or calls or (response and response.is_paused):
                echo = response.echo if response else {}
                messages.append(Message("assistant", turn.text, calls, echo=echo))
            if results:
                messages.append(Message("tool", tool_results=results))
        text = next((turn.text for turn in reversed(self.turns) if turn.text), "")
        return {
            "text": text, "agent": start.agent, "model": start.model, "call_id": start.call_id,
            "prompt": start.prompt, "pictures": start.pictures, "task": start.task,
            "messages": tuple(messages), "log": tuple(log), "exchanges": tuple(self.exchanges),
        }  # fmt: skip


@dataclass
class Tree:
    """The runs of one root so far: in the process that runs them, or read from the history."""

    history: Sequence[Message] = ()
    """The conversation that the root continues."""
    runs: dict[str, RunSoFar] = field(default_factory=dict)
    ends: dict[str, Part] = field(default_factory=dict)
    """Run → its end."""
    _shared: Parts = field(default_factory=Parts)
    """Texts that earlier rows hold for later ones."""

    def add(self, event: Event, at: float, clean: Filter) -> bytes | None:
        """Adds an event; returns its row, or None if the event is not recorded.

        Raises:
            ConfigError: it is nested too deeply.
            ValueError: a number has too many digits.
        """
        at, so_far = round(at, 4), self.runs.get(getattr(event, "run", ""))
        match event:
            case RunStarted():
                history = () if event.parent else tuple(self.history)
                part = Part(at=at, run=event.run, start=event, history=history)
            case TurnFinished() if so_far:
                part = Part(at=at, run=event.run, turn=event)
            case ToolFinished() if so_far:
                part = Part(at=at, run=event.run, result=event.result)
            case RunFinished() if so_far:
                part = so_far.make_end(event.result, at)
            case _:
                return None
        data = to_json(part, clean, self._shared)
        try:
            row = compress(f"{format_header('history')}{_encode(data)}")
        except Exception:
            self._shared.forget(data)
            raise
        self._add(part)
        return row

    def _add(self, part: Part) -> None:
        if part.start is not None:
            self.runs[part.run] = RunSoFar(part.start, part.history, part.at, part.at)
            return
        self.runs[part.run].add(part)
        if part.end is not None:
            self.ends[part.run] = part

    def read(self, rows: Iterable[bytes]) -> None:
        """Adds the events in rows of the history.

        Raises ConfigError: they are damaged, or of another major version.
        """
        try:
            for row in rows:
                text = decompress(row)
                _, begin = parse_header("history", text)
                part = from_json(Part, json.loads(text[begin:]), self._shared)
                order_of(part.run)
                self._add(part)
        except ConfigError as error:
            raise ConfigError(f"part of it is damaged: {error.message}", hint=error.hint) from None
        except (zlib.error, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"part of it is damaged: {error!r}"[:200]) from None

    def make_result(self, run: str = "0", why: str = DIED) -> RunResult:
        """Returns the result of a run with its children.

        Raises ConfigError: its start is missing.
        """
        if run not in self.runs:
            raise ConfigError("part of it is missing")
        result, end = self.runs[run].make_result(why), self.ends.get(run)
        if end is None or end.end is None:
            begun = [one for one in self.runs if self.runs[one].start.parent == run]
            children = sorted(begun, key=order_of)
        else:
            known = {name: getattr(result, name) for name in end.known}
            result = replace(end.end, **known)
            children = [one for one in end.children if one in self.runs]
        below = (child for child in children if child.startswith(f"{run}."))
        return replace(result, children=tuple(self.make_result(child, why) for child in below))
