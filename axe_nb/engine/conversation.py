"""One agent's conversation with its model: messages out, responses in, counted and logged.

Source: seed 000 §3.8 (A-8.1, A-8.7, A-8.8); D-23, D-28, D-31, D-32.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from axe_nb.agents.agent import Agent
from axe_nb.budget import Tally
from axe_nb.clock import Clock
from axe_nb.errors import ProviderError
from axe_nb.events import Emit, TextDelta, Turn, TurnFinished, TurnStarted
from axe_nb.messages import (
    CallIds,
    Message,
    Request,
    Response,
    ToolResult,
    ToolSpec,
    Usage,
    answered,
)
from axe_nb.providers.base import Provider

RETRY_WAIT = 0.5
"""Seconds before the first retry where the server names none; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Seconds; no wait before a retry is longer, whatever a server asks."""


@dataclass
class Conversation:
    """What is said between one agent and its model."""

    run: str
    """Place of the run in the tree, for events."""
    agent: Agent
    provider: Provider
    model: str
    """Without the provider."""
    system: str
    emit: Emit
    tally: Tally
    clock: Clock
    history: Sequence[Message] = ()
    """An earlier conversation that this one goes on with."""
    messages: list[Message] = field(init=False)
    log: list[Turn] = field(default_factory=list, init=False)
    text: str = field(default="", init=False)
    """The last text that the model said."""
    stop_reason: str = field(default="", init=False)
    turns: int = field(default=0, init=False)
    """Requests answered."""
    usage: Usage = field(default=Usage(), init=False)

    def __post_init__(self) -> None:
        self.messages = answered(self.history)
        self._ids = CallIds(self.messages)

    def say(self, prompt: str) -> None:
        """Adds a user message; calls that are still open are answered as interrupted before."""
        if self.messages and self.messages[-1].role != "user":
            self.messages = answered(self.messages)
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
            Stop: a cap of the tree is reached.
        """
        pending = len(self.messages[-1].tool_results)
        self.emit(TurnStarted(self.run, self.turns + 1, len(self.messages), pending, closing))
        request = Request(
            self.model, tuple(self.messages), self.system, tools, self.agent.params, self.agent.name
        )
        response = await self._send(request)
        calls = self._ids.settle(self.provider.name, response.tool_calls)
        response = replace(response, tool_calls=calls)
        self.turns += 1
        self.usage += response.usage
        self.stop_reason = response.stop_reason
        self.text = response.content or self.text
        kept = with_calls and not response.is_cut
        if response.content.strip() or (kept and calls):
            self.messages.append(response.message(calls=kept))
        self.tally.charge(self.agent.name, self.context_size(response))
        parallel = self.agent.sub_agents_config.parallel
        self.emit(
            TurnFinished(
                self.run, self.turns, response.content, calls, response.stop_reason,
                response.usage, parallel, closing,
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
                response.stop_reason, response.usage, self.agent.sub_agents_config.parallel,
                closing,
            )
        )  # fmt: skip

    def context_size(self, response: Response) -> int:
        """Tokens of the latest exchange; characters / 4 where the API does not count (D-18)."""
        if response.usage.total:
            return response.usage.total
        said = sum(
            len(m.content) + sum(len(r.content) for r in m.tool_results) for m in self.messages
        )
        return (len(self.system) + said) // 4

    async def _send(self, request: Request) -> Response:
        """The response, tried again as often as the agent's `[retry]` says (D-23)."""
        for retry in range(self.agent.retry.max_retries + 1):
            self.tally.request(self.agent.name)
            try:
                response = await self.provider.send(request, self._on_text)
                break
            except ProviderError as error:
                if not error.retryable or retry == self.agent.retry.max_retries:
                    self.text = error.partial_text or self.text
                    raise
                wait = error.retry_after or RETRY_WAIT * 2**retry
                await asyncio.sleep(min(wait, MAX_RETRY_WAIT))
        if response.seconds:
            self.clock.forward(self.clock.ahead + response.seconds)
        return response

    def _on_text(self, text: str) -> None:
        self.emit(TextDelta(self.run, text))
