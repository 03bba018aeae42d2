"""One run as reconstructed from its events, and the result that follows from them.

It is the result of a run whose process died. The end of any other run adds what the events lack.
Source: D-59; product.md "Runs are recordings".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from axe_nb.endings import make_metadata
from axe_nb.events import RunStarted, TurnFinished
from axe_nb.exchanges import Exchange
from axe_nb.messages import Message, ToolResult, Usage, close_open_calls
from axe_nb.results import RunResult, Turn

DIED = "the process ended during this run; what was answered by then is kept"

TOLD = (
    "text", "agent", "model", "call_id", "prompt", "pictures", "task", "messages", "log",
    "exchanges",
)  # fmt: skip
"""Fields of a result that usually follow from the events."""


@dataclass
class RunStory:
    """One run of a tree."""

    start: RunStarted
    history: Sequence[Message] = ()
    """The conversation that it continues."""
    began: float = 0.0
    """Seconds from the start of the root."""
    latest: float = 0.0
    """Time of the latest event, in seconds from the start of the root."""
    turns: list[TurnFinished] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    """Id of a call → its result."""
    exchanges: list[Exchange] = field(default_factory=list)

    def tell(self, why: str) -> RunResult:
        """Returns the result that the run would have if stopped after the latest event.

        Args:
            why: the error.
        """
        start = self.start
        result = RunResult(
            status="cancelled", error=why, id=start.run, origin=start.origin,
            undo_id=start.undo_id,
            turns=len(self.turns), tool_calls=len(self.results),
            retries=sum(one.attempt > 1 for one in self.exchanges),
            usage=sum((turn.usage for turn in self.turns), Usage()),
            stop_reason=self.turns[-1].stop_reason if self.turns else "",
            duration_ms=round((self.latest - self.began) * 1000), **self.list_told(),
        )  # fmt: skip
        if not start.parent:
            return result
        return replace(result, metadata=make_metadata(start.run, start.depth, result.usage))

    def list_told(self) -> dict[str, Any]:
        """Returns the fields `TOLD` of the result."""
        start = self.start
        text = next((turn.text for turn in reversed(self.turns) if turn.text), "")
        told = (
            text, start.agent, start.model, start.call_id, start.prompt, start.pictures, start.task,
            tuple(self._list_messages()), tuple(map(self._log, self.turns)), tuple(self.exchanges),
        )  # fmt: skip
        return dict(zip(TOLD, told, strict=True))

    def _list_messages(self) -> list[Message]:
        messages = close_open_calls(self.history)
        messages.append(Message("user", self.start.prompt, pictures=self.start.pictures))
        for turn in self.turns:
            if turn.question:
                messages.append(Message("user", turn.question))
            messages += _say(turn)
            if results := self._find_results(turn):
                messages.append(Message("tool", tool_results=results))
        return messages

    def _log(self, turn: TurnFinished) -> Turn:
        return Turn(
            turn.turn, turn.text, turn.calls, self._find_results(turn), turn.stop_reason,
            turn.usage, turn.parallel, turn.closing, turn.asked, turn.question, turn.source,
            turn.server_calls, turn.sources,
        )  # fmt: skip

    def _find_results(self, turn: TurnFinished) -> tuple[ToolResult, ...]:
        return tuple(self.results[call.id] for call in turn.calls if call.id in self.results)


def _say(turn: TurnFinished) -> list[Message]:
    """Returns the message of the model, if the turn has one."""
    response = turn.exchanges[-1].response if turn.exchanges else None
    calls = () if response and response.is_cut else turn.calls
    if not (turn.text.strip() or calls or (response and response.is_paused)):
        return []
    return [Message("assistant", turn.text, calls, echo=response.echo if response else {})]
