"""One run of the tree that is forked: what it was asked, what it was answered, what it called.

Source: D-59, D-60, D-66.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, takewhile

from axe_nb.engine.dispatch import is_refused
from axe_nb.exchanges import Exchange
from axe_nb.messages import Message, ToolCall, ToolResult, close_open_calls
from axe_nb.recording.asked import Asked, Describer
from axe_nb.redaction import Filter
from axe_nb.results import RunResult, Turn
from axe_nb.tools.tool import Opening


@dataclass(eq=False)
class RecordedRun:
    """One run, as its result has kept it."""

    result: RunResult
    clean: Filter
    """Removes secrets before requests are compared."""
    _asked: dict[int, Asked] = field(default_factory=dict)

    @cached_property
    def exchanges(self) -> Mapping[tuple[int, int], Exchange]:
        """(turn, attempt) → exchange."""
        return {(one.turn, one.attempt): one for one in self.result.exchanges}

    @cached_property
    def log(self) -> Mapping[int, Turn]:
        """Number of a turn → the turn; the latest may be missing, if the run was broken off."""
        return {turn.number: turn for turn in self.result.log}

    @property
    def last(self) -> int:
        """The latest turn that was asked."""
        return max((one.turn for one in self.result.exchanges), default=0)

    def find(self, turn: int, attempt: int = 1) -> Exchange | None:
        """Returns an exchange that brought an answer or an error; None = there is none."""
        exchange = self.exchanges.get((turn, attempt))
        if exchange is None or exchange.cut:
            return None
        return exchange if exchange.response or exchange.error else None

    def list_attempts(self, turn: int) -> Sequence[Exchange]:
        """Returns the attempts of a turn, up to the first that was cut."""
        attempts = (self.find(turn, number) for number in count(1))
        return [one for one in takewhile(bool, attempts) if one]

    def keep(self, exchange: Exchange) -> Exchange:
        """Returns an exchange for a fork: the ids of its calls are those of the run."""
        response = exchange.response
        if response is not None:
            response = replace(response, seconds=0.0, tool_calls=self.list_calls(exchange.turn))
        return replace(exchange, response=response, source="recorded")

    def get_asked(self, turn: int) -> Asked:
        """Returns what a turn added to the one before it, as `Describer` describes it."""
        if not self._asked:
            describer, run = Describer(self.clean), self.result
            provider = run.model.partition("/")[0]
            for (number, attempt), exchange in self.exchanges.items():
                if attempt == 1:
                    request = exchange.request(run.messages, run.agent, run.id)
                    model = f"{provider}/{exchange.model}"
                    self._asked[number] = describer.describe(request, model)
        return self._asked[turn]

    @cached_property
    def sent(self) -> Mapping[int, int]:
        """Turn → number of messages in its request."""
        return {one.turn: one.sent for one in reversed(self.result.exchanges)}

    def _find_reply(self, turn: int) -> tuple[int, Message | None]:
        """Returns the position of a turn's reply among the messages; None = it has no message."""
        sent, messages = self.sent.get(turn, 0), self.result.messages
        reply = messages[sent] if sent < len(messages) else None
        return sent, reply if reply is not None and reply.role == "assistant" else None

    def list_calls(self, turn: int) -> tuple[ToolCall, ...]:
        """Returns the calls of a turn's reply."""
        _, reply = self._find_reply(turn)
        if reply is not None and reply.tool_calls:
            return reply.tool_calls
        answers = [one.response for (at, _), one in self.exchanges.items() if at == turn]
        latest = answers[-1] if answers else None
        return latest.tool_calls if latest else ()

    def find_results(self, turn: int) -> Mapping[str, ToolResult]:
        """Returns id of a call → its result, of the calls of a turn that have one."""
        sent, reply = self._find_reply(turn)
        after = self.result.messages[sent + 1 : sent + 2]
        found = after[0].tool_results if reply is not None and after else ()
        own = {call.id for call in self.list_calls(turn)}
        return {one.call_id: one for one in found if one.call_id in own}

    @cached_property
    def _turns_of_calls(self) -> Mapping[str, int]:
        """Id of a call → its turn."""
        return {call.id: turn for turn in reversed(self.sent) for call in self.list_calls(turn)}

    def find_call_turn(self, call_id: str) -> int:
        """Returns the turn that made a call; 0 = none did."""
        return self._turns_of_calls.get(call_id, 0)

    def count_calls_before(self, turn: int) -> int:
        """Returns the number of calls that were made in the turns before one."""
        count = 0
        for number in self.sent:
            if number < turn:
                results = self.find_results(number).values()
                count += len(self.list_calls(number)) - sum(map(is_refused, results))
        return count

    @cached_property
    def _children(self) -> Mapping[str, Sequence[RunResult]]:
        """Id of a call → the runs that it started."""
        found: dict[str, list[RunResult]] = {}
        for child in self.result.children:
            found.setdefault(child.call_id, []).append(child)
        return found

    def list_children(self, call_id: str) -> Sequence[RunResult]:
        """Returns the runs that a call started."""
        return self._children.get(call_id, ())

    def open_turn(self, turn: int) -> Opening:
        """Returns the conversation before a turn, also before the one after the last."""
        if turn > self.last:
            return Opening(messages=self._close(self.last))
        logged = self.log.get(turn)
        said = logged.question if logged and not logged.asked else ""
        return Opening(messages=self.result.messages[: self.sent.get(turn, 0)], said=said)

    def _close(self, turn: int) -> Sequence[Message]:
        """Returns the conversation up to the results of a turn; open calls are interrupted."""
        sent, reply = self._find_reply(turn)
        if reply is None:
            return self.result.messages[:sent]
        results = tuple(self.find_results(turn).values())
        return close_open_calls(
            [*self.result.messages[:sent], reply, Message("tool", tool_results=results)]
        )
