"""One agent's conversation with its model: messages out, responses in, counted and logged.

Source: seed 000 §3.8 (A-8.1, A-8.7, A-8.8); D-18, D-28, D-31, D-32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axe_nb.engine.model import ModelClient
from axe_nb.engine.plan import Plan
from axe_nb.events import Turn, TurnFinished, TurnStarted
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


class Conversation:
    """The messages between one agent and its model, and the log of their turns."""

    def __init__(self, plan: Plan) -> None:
        """Goes on with the job's history, if it has one."""
        self._scope = plan.scope
        self._model = ModelClient(plan.scope, plan.provider)
        self._plan = plan
        # fresh copies: a message that the caller changed in place must not go out as it was
        self.messages = [replace(message) for message in close_open_calls(plan.job.history)]
        self._ids = CallIds(self.messages)
        self._said = ""
        self._size = _Size(plan.briefing.system)
        self.log: list[Turn] = []
        self.stop_reason = ""
        self.turns = 0
        """Requests answered."""
        self.usage = Usage()

    @property
    def text(self) -> str:
        """The last text that the model said, also of a reply that broke off."""
        return self._model.arrived or self._said

    @text.setter
    def text(self, said: str) -> None:
        self._said = said

    def say(self, prompt: str) -> None:
        """Adds a user message; calls that are still open are answered as interrupted before."""
        if self.messages and self.messages[-1].role != "user":
            self.messages = close_open_calls(self.messages)
        self.messages.append(Message("user", prompt))

    async def turn(
        self, tools: Sequence[ToolSpec], *, with_calls: bool, closing: bool = False
    ) -> Response:
        """One request and its response, added to the conversation.

        Args:
            tools: those that the model is told of.
            with_calls: whether its calls are going to be run; else they are dropped from history.
            closing: whether it is the summary that a subagent is asked for at its end.

        Raises:
            ProviderError: the request failed for good.
            RunStopped: a cap of the tree is reached.
            TimeoutError: the time is up.
        """
        scope, agent = self._scope, self._scope.agent
        scope.clock.check()
        scope.meter.check()
        number, pending = self.turns + 1, len(self.messages[-1].tool_results)
        scope.env.emit(TurnStarted(scope.id, number, len(self.messages), pending, closing))
        request = Request(
            self._plan.model, tuple(self.messages), self._plan.briefing.system, tools,
            agent.params, agent.name, f"{scope.id}/{number}",
        )  # fmt: skip
        response = await self._model.send(request, number)
        calls = self._ids.settle(self._plan.provider.name, response.tool_calls)
        response = replace(response, tool_calls=calls)
        self.turns = number
        self.usage += response.usage
        self.stop_reason = response.stop_reason
        self._said = response.content or self._said
        kept = with_calls and not response.is_cut
        if response.content.strip() or (kept and calls):
            self.messages.append(response.message(calls=kept))
        scope.meter.charge(agent.name, self.context_size(response))
        scope.env.emit(
            TurnFinished(
                scope.id, number, response.content, () if closing else calls,
                response.stop_reason, response.usage, agent.sub_agents_config.parallel, closing,
            )
        )  # fmt: skip
        return response

    def finish_turn(
        self, response: Response, results: tuple[ToolResult, ...] = (), *, closing: bool = False
    ) -> None:
        """Logs the turn, and adds the results of its calls to the conversation."""
        if results:
            self.messages.append(Message("tool", tool_results=results))
        self.log.append(
            Turn(
                self.turns, response.content, () if closing else response.tool_calls, results,
                response.stop_reason, response.usage,
                self._scope.agent.sub_agents_config.parallel, closing,
            )
        )  # fmt: skip

    def context_size(self, response: Response) -> int:
        """Tokens of the latest exchange; bytes of UTF-8 / 4 if the API does not count (D-18)."""
        return response.usage.total or self._size.of(self.messages) // 4


class _Size:
    """Bytes of a conversation that grows; each message is counted once."""

    def __init__(self, system: str) -> None:
        self._bytes = _utf8(system)
        self._counted = 0

    def of(self, messages: Sequence[Message]) -> int:
        """Bytes of UTF-8 of the system prompt and all messages."""
        for message in messages[self._counted :]:
            self._bytes += _utf8(message.content)
            self._bytes += sum(_utf8(result.content) for result in message.tool_results)
        self._counted = len(messages)
        return self._bytes


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
