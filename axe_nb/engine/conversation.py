"""One agent's conversation with its model: messages, responses, usage and the turn log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axe_nb.engine.chain import connect_model
from axe_nb.engine.meter import estimate_tokens
from axe_nb.engine.partial_reply import Partial
from axe_nb.engine.plan import Plan
from axe_nb.errors import ProviderError
from axe_nb.events import DataForm, TurnFinished, TurnStarted, discard
from axe_nb.messages import (
    CallIds,
    Message,
    Request,
    Response,
    ToolResult,
    ToolSpec,
    Usage,
    close_open_calls,
)
from axe_nb.messages.answer_tool import OUTPUT
from axe_nb.messages.exchanges import ASKED_NOW, Exchange
from axe_nb.pictures.picture import Picture
from axe_nb.results import FinalRequest, Turn


class Conversation:
    """The messages between one agent and its model, and the log of their turns."""

    def __init__(self, plan: Plan) -> None:
        """Continues the job's history, if it has one."""
        self._plan, self._scope = plan, plan.scope
        emit = plan.scope.env.emit if plan.streams else discard
        self._partial = Partial(plan.scope.id, emit, is_streamed=plan.is_streamed)
        self._send = connect_model(plan, self._partial)
        self._encoded: dict[object, object] = {}
        self._ids: CallIds | None = None
        """Ids of the calls; None = no call yet in this run."""
        self._last_text = ""
        self.messages = close_open_calls(plan.job.history)
        self.tools: Sequence[ToolSpec] = plan.toolset.offered
        """The tools that may be offered."""
        self.log: list[Turn] = []
        """The finished turns."""
        self.last: Turn | None = None
        """The latest answered turn, without the results of its calls while they run."""
        self.response = Response("")
        """The latest response."""
        self.turns = 0
        """Number of answered requests."""
        self.usage = Usage()

    @property
    def text(self) -> str:
        """The model's latest text, including that of an incomplete reply."""
        return self._partial.text or self._last_text

    @text.setter
    def text(self, text: str) -> None:
        self._last_text = text

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """Every request so far, with its outcome."""
        return self._partial.exchanges

    def say(self, prompt: str, pictures: tuple[Picture, ...] = ()) -> None:
        """Adds a user message, after marking calls without a result as interrupted."""
        if self.messages and self.messages[-1].role != "user":
            self.messages = close_open_calls(self.messages)
        self.messages.append(Message("user", prompt, pictures=pictures))

    async def turn(
        self,
        tools: Sequence[ToolSpec],
        *,
        with_calls: bool = False,
        output: bool = False,
        closing: bool = False,
        asked: FinalRequest = "",
        question: str = "",
    ) -> Response:
        """Sends a request and adds the response to the conversation; raises what `Send` does.

        Calls in the response are left out of history unless `with_calls`. A reply without calls has
        to be in the form of the run's output if `output`. The others are those of `TurnFinished`.
        """
        scope, plan, partial, number = self._scope, self._plan, self._partial, self.turns + 1
        scope.env.halt.check()
        scope.clock.check()
        opening = plan.job.open_turn(number)
        if opening is not None and opening.messages:  # a file may be damaged
            self.messages = list(opening.messages)
        scope.admit(f"{scope.id}/{number}")
        wanted = plan.output if output else None
        form: DataForm = "" if wanted is None else "value" if wanted.is_wrapped else "object"
        sent, pending = len(self.messages), len(self.messages[-1].tool_results)
        scope.env.emit(TurnStarted(scope.id, number, sent, pending, closing, asked, form))
        before = len(partial.exchanges)
        try:
            response = await self._send(self.make_request(tools, output=output, asked=asked))
        except ProviderError as error:
            partial.failed = error.partial_text
            raise
        partial.clear()  # also if the time was up before the virtual reply had arrived
        if response.seconds:  # of a script, on the virtual clock (D-36)
            scope.clock.forward(scope.clock.ahead + response.seconds)
        response = self._add(response, with_calls=with_calls)
        source = partial.exchanges[-1].source
        if source in ASKED_NOW:
            tokens = self.count_context(response, tools)
            scope.meter.charge(scope.name, tokens, response.usage.cost)
        self.last = turn = Turn(
            number, response.content, () if closing else response.tool_calls, (),
            response.stop_reason, response.usage, scope.agent.sub_agents_config.parallel, closing,
            asked, question or (opening.said if opening else ""), source, response.server_calls,
            response.sources,
        )  # fmt: skip
        scope.env.emit(
            TurnFinished(
                scope.id, number, turn.text, turn.calls, turn.stop_reason, turn.usage,
                turn.parallel, closing, asked, turn.question, tuple(partial.exchanges[before:]),
                source, turn.server_calls, turn.sources,
            )
        )  # fmt: skip
        return response

    def _add(self, response: Response, *, with_calls: bool) -> Response:
        """Adds a response; its calls get ids of their own, and the traits of their tools."""
        if response.tool_calls:
            self._ids = self._ids or CallIds(self.messages)
            calls = self._ids.settle(self._plan.provider.name, response.tool_calls)
            calls = tuple(map(self._plan.toolset.describe, calls))
            response = replace(response, tool_calls=calls)
        self.turns += 1
        self.response = response
        self.usage += response.usage
        self._last_text = response.content or self._last_text
        has_calls = with_calls and bool(response.tool_calls) and not response.is_cut
        if response.content.strip() or has_calls or response.is_paused:
            self.messages.append(response.message(calls=has_calls))
        return response

    async def ask(self, question: str, *, asked: FinalRequest = "", closing: bool = False) -> None:
        """Asks a last question, without tools; the reply is the run's text unless it is empty."""
        before = self.text
        self.say(question)
        said = "" if closing else question
        response = await self.turn(
            (), output=bool(asked), closing=closing, asked=asked, question=said
        )
        self.text = response.content if response.content.strip() else before
        self.finish_turn()

    def finish_turn(self, results: Sequence[ToolResult] = ()) -> None:
        """Logs the turn, and adds the results of its calls to the conversation."""
        assert self.last is not None
        if results:
            self.messages.append(Message("tool", tool_results=tuple(results)))
        self.log.append(replace(self.last, results=tuple(results)))

    def make_request(
        self, tools: Sequence[ToolSpec], *, output: bool = False, asked: FinalRequest = ""
    ) -> Request:
        """Returns the request of the next turn."""
        plan, agent = self._plan, self._scope.agent
        ignores_form = asked == "repair" and "{" not in self.text
        return Request(
            plan.model, tuple(self.messages), plan.briefing.system, tools,
            agent.params, agent.name, f"{self._scope.id}/{self.turns + 1}",
            past_tools=() if tools else self.tools,
            system_ends=plan.briefing.system_ends,
            output=plan.output.sent if plan.output and output else None,
            refused=frozenset({OUTPUT} if ignores_form else ()), encoded=self._encoded,
        )  # fmt: skip

    def count_context(self, response: Response, tools: Sequence[ToolSpec]) -> int:
        """Tokens of the latest exchange, estimated if the API reports none (D-18)."""
        system = self._plan.briefing.system
        return response.usage.total or estimate_tokens(system, tools, self.messages)
