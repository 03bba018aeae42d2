"""One agent's conversation with its model: messages, responses, usage and the turn log.

Source: seed 000 §3.8 (A-8.1, A-8.7, A-8.8); D-18, D-28, D-31, D-32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_

from axe_nb.engine.model_client import ModelClient
from axe_nb.engine.plan import Plan
from axe_nb.events import DataForm, TurnFinished, TurnStarted
from axe_nb.exchanges import Exchange
from axe_nb.messages import (
    CallIds,
    Message,
    Request,
    Response,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    close_open_calls,
    dump,
)
from axe_nb.pictures.picture import Picture
from axe_nb.results import Asked, Turn
from axe_nb.text import count_bytes
from axe_nb.times import Kind
from axe_nb.wire_log import WireLog

BYTES_OF_TOKEN = 4
"""UTF-8 bytes of a token, in the middle (D-18)."""


class Conversation:
    """The messages between one agent and its model, and the log of their turns."""

    def __init__(self, plan: Plan) -> None:
        """Continues the job's history, if it has one."""
        self._scope = plan.scope
        self._model = ModelClient(plan)
        self._plan = plan
        self.messages = close_open_calls(plan.job.history)
        self._ids: CallIds | None = None
        """None = no call yet in this run."""
        self._last_text = ""
        self.tools: Sequence[ToolSpec] = plan.toolset.offered
        """The tools that may be offered."""
        self._offered: Sequence[ToolSpec] = ()
        """The tools of the latest request."""
        self._size = _Size(plan.briefing.system)
        self._said = ""
        """The text that a fork has added before the latest turn."""
        self.log: list[Turn] = []
        self.stop_reason = ""
        self.last: Response | None = None
        """The latest response."""
        self.turns = 0
        """Number of answered requests."""
        self.usage = Usage()

    @property
    def text(self) -> str:
        """The model's latest text, including that of an incomplete reply."""
        return self._model.arrived or self._last_text

    @text.setter
    def text(self, text: str) -> None:
        self._last_text = text

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every request so far, with its outcome."""
        return tuple(self._model.exchanges)

    @property
    def retries(self) -> int:
        """Number of requests sent again."""
        return self._model.retries

    def say(self, prompt: str, pictures: tuple[Picture, ...] = ()) -> None:
        """Adds a user message, after marking calls without a result as interrupted."""
        if self.messages and self.messages[-1].role != "user":
            self.messages = close_open_calls(self.messages)
        self.messages.append(Message("user", prompt, pictures=pictures))

    async def turn(
        self,
        tools: Sequence[ToolSpec],
        *,
        with_calls: bool,
        closing: bool = False,
        asked: Asked = "",
        question: str = "",
        output: bool = False,
    ) -> Response:
        """Sends a request and adds the response to the conversation.

        Args:
            tools: the tools offered to the model.
            with_calls: if False, calls in the response will not be run and are left out of history.
            closing: if True, this is the request for a subagent's final summary.
            asked: what the turn asks for at the end of the run, with `question`.
            output: if True, a reply without calls has to be in the form of the run's output.

        Raises:
            ProviderError: the request failed and is not retried any more.
            RunStopped: a cap of the tree has been reached.
            TimeoutError: the time is up.
        """
        scope, agent = self._scope, self._scope.agent
        scope.clock.check()
        self._offered = tools
        self._go_back()
        number, pending = self.turns + 1, len(self.messages[-1].tool_results)
        self._model.check_caps(f"{scope.id}/{number}")
        form = self._find_form() if output else ""
        scope.env.emit(
            TurnStarted(scope.id, number, len(self.messages), pending, closing, asked, form)
        )
        before = len(self._model.exchanges)
        response = await self._send(self.make_request(tools, output=output), number)
        response = self._settle_calls(response)
        calls = response.tool_calls
        self.turns = number
        self.usage += response.usage
        self.stop_reason = response.stop_reason
        self.last = response
        self._last_text = response.content or self._last_text
        kept = with_calls and not response.is_cut
        if response.content.strip() or (kept and calls) or response.is_paused:
            self.messages.append(response.message(calls=kept))
        if not self._model.is_kept:
            scope.meter.charge(scope.name, self.context_size(response), response.usage.cost)
        scope.env.emit(
            TurnFinished(
                scope.id, number, response.content, () if closing else calls,
                response.stop_reason, response.usage, agent.sub_agents_config.parallel, closing,
                asked, question or self._said, tuple(self._model.exchanges[before:]),
                self._model.exchanges[-1].source, response.server_calls, response.sources,
            )
        )  # fmt: skip
        return response

    def _settle_calls(self, response: Response) -> Response:
        """Returns a response whose calls have ids of their own and the traits of their tools."""
        if not response.tool_calls:
            return response
        watch = self._scope.clock.watch
        self._ids = self._ids or CallIds(self.messages)
        calls = self._ids.settle(self._plan.provider.name, watch(response.tool_calls))
        calls = tuple(map(self._plan.toolset.describe, watch(calls)))
        if all(map(is_, calls, response.tool_calls)):
            return response
        return replace(response, tool_calls=calls)

    def _find_form(self) -> DataForm:
        output = self._plan.output
        return "" if output is None else "value" if output.is_wrapped else "object"

    async def _send(self, request: Request, number: int) -> Response:
        """Sends the request of a turn, and notes its time, also if it fails."""
        began = self._scope.seconds
        try:
            return await self._model.send(request, number)
        finally:
            kind: Kind = "replay" if self._model.is_played else "model"
            self._scope.note(kind, began, number)

    def _go_back(self) -> None:
        """Gives a fork the conversation that the run had before a turn, up to its place."""
        origin = self._scope.env.origin
        opening = origin.open_turn(self._scope.id, self.turns + 1) if origin else None
        self._said = opening.said if opening else ""
        if opening is not None and opening.messages:  # a file may be damaged
            self.messages = list(opening.messages)
            self._size = _Size(self._plan.briefing.system)

    def make_request(self, tools: Sequence[ToolSpec], *, output: bool = False) -> Request:
        """Returns the request of the next turn.

        Args:
            tools: the tools offered to the model.
            output: as in `turn`.
        """
        plan, agent = self._plan, self._scope.agent
        return Request(
            plan.model, tuple(self.messages), plan.briefing.system, tools,
            agent.params, agent.name, f"{self._scope.id}/{self.turns + 1}",
            past_tools=() if tools else self.tools,
            system_ends=plan.briefing.system_ends, log=WireLog(),
            output=plan.output.sent if plan.output and output else None,
        )  # fmt: skip

    def finish_turn(
        self,
        response: Response,
        results: tuple[ToolResult, ...] = (),
        *,
        closing: bool = False,
        asked: Asked = "",
        question: str = "",
    ) -> None:
        """Logs the turn, and adds the results of its calls to the conversation."""
        if results:
            self.messages.append(Message("tool", tool_results=results))
        self.log.append(
            Turn(
                self.turns, response.content, () if closing else response.tool_calls, results,
                response.stop_reason, response.usage,
                self._scope.agent.sub_agents_config.parallel, closing, asked,
                question or self._said, self._model.exchanges[-1].source,
                response.server_calls, response.sources,
            )
        )  # fmt: skip

    def context_size(self, response: Response) -> int:
        """Tokens of the latest exchange; UTF-8 bytes / 4 if the API reports none (D-18).

        These are the bytes of the system prompt, the tools, and all messages with their calls;
        pictures count as much text as they cost.
        """
        total = response.usage.total
        return total or self._size.of(self.messages, self._offered) // BYTES_OF_TOKEN


class _Size:
    """Size of a growing conversation in bytes; each message is counted once."""

    def __init__(self, system: str) -> None:
        self._bytes = count_bytes(system)
        self._counted = 0
        self._tools: Sequence[ToolSpec] = ()
        self._bytes_of_tools = 0

    def of(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """UTF-8 bytes of the system prompt, the tools and all messages."""
        if tools is not self._tools:
            self._tools, self._bytes_of_tools = tools, sum(map(_count_tool, tools))
        for message in messages[self._counted :]:
            self._bytes += count_bytes(message.content)
            self._bytes += sum(count_bytes(result.content) for result in message.tool_results)
            self._bytes += sum(map(_count_call, message.tool_calls))
            self._bytes += sum(BYTES_OF_TOKEN * one.tokens for one in message.all_pictures())
        self._counted = len(messages)
        return self._bytes + self._bytes_of_tools


def _count_tool(tool: ToolSpec) -> int:
    return count_bytes(tool.name + tool.description) + len(dump(tool.input_schema()))


def _count_call(call: ToolCall) -> int:
    return count_bytes(call.name) + (count_bytes(call.raw) or len(dump(dict(call.arguments))))
