"""One attempt at a request: its slot, the caps, its price, and the record of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeAlias

from axe_nb.engine.meter import OverBudget, estimate_tokens
from axe_nb.engine.partial_reply import Partial
from axe_nb.engine.person import ApprovalRequest
from axe_nb.engine.replay import turn_of
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.messages import Request, Response, Usage, WireLog
from axe_nb.messages.exchanges import Cut, Exchange
from axe_nb.providers.prices import COUNTED
from axe_nb.providers.protocol import OnDelta, Provider
from axe_nb.text import format_dollars

Send: TypeAlias = Callable[[Request], Awaitable[Response]]
"""One concern of a request: (request) → the complete response; asks the next link.

Raises ProviderError if the request failed and is not retried any more; RunStopped if a cap of the
tree has been reached, or the person stopped it; TimeoutError if the time is up.
"""


@dataclass(slots=True)
class Attempt:
    """An attempt in progress."""

    request: Request
    on_delta: OnDelta | None
    response: Response | None = None


@dataclass(slots=True)
class Attempts:
    """Makes one attempt, within the slots, the caps and the budget; keeps its exchange."""

    scope: RunScope
    provider: Provider
    partial: Partial
    keeps_replies: bool
    """True if a cassette records the bytes of the replies."""

    async def send(self, request: Request) -> Response:
        """A link: see `Send`."""
        scope, budget, model = self.scope, self.scope.env.budget, self.scope.agent.model
        async with scope.in_flight.requests.take():
            scope.env.halt.check()
            scope.clock.check()
            scope.meter.check()
            scope.meter.request(scope.name)
            held = await self._hold(request) if budget.amount else 0.0
            response: Response | None = None
            try:
                with self.record(request) as made:
                    answer = await self.provider.send(made.request, made.on_delta)
                    if all(call.name in COUNTED for call in answer.server_calls):
                        cost = await scope.env.prices.find_cost(model, answer.usage)
                        if cost is not None:
                            answer = replace(answer, usage=answer.usage.at_cost(cost))
                    made.response = answer
                response = answer
                return response
            finally:
                budget.settle(
                    held, model, response.usage.cost if response else None,
                    is_counted=response is not None and self.provider.name != "script",
                )  # fmt: skip

    async def _hold(self, request: Request) -> float:
        """Reserves the minimum cost of a request within the session's budget; returns that cost.

        That is the price of the previous reply; for the first request, that of its prompt. The
        person is asked before the budget would be exceeded; without approval, the tree ends.
        """
        scope, budget = self.scope, self.scope.env.budget
        costs = (one.cost for one in reversed(self.partial.exchanges))
        dollars = next(filter(None, costs), None)
        if dollars is None:
            usage = Usage(1 + estimate_tokens(request.system, (), request.messages))
            dollars = await scope.env.prices.find_cost(scope.agent.model, usage) or 0.0
        while not budget.try_hold(dollars):
            higher = budget.find_next(dollars)
            problem = budget.describe_end(dollars)
            if scope.env.ask_person is None:
                why = f"{problem}; raise it with %axe budget {higher:.6g}"
                raise scope.env.halt.end_tree(OverBudget("error", why))
            question = ApprovalRequest(
                scope.id, scope.agent.name, "", {}, reason=problem, raises=format_dollars(higher)
            )
            answer = await scope.ask(question, lambda: budget.has_room(dollars))
            if answer.choice != "yes":
                why = f"{problem}; it was not raised"
                raise scope.env.halt.end_tree(OverBudget("error", why))
            if not budget.has_room(dollars):
                budget.amount = max(budget.amount, higher)
        return dollars

    @contextmanager
    def record(
        self,
        request: Request,
        recorded: Exchange | None = None,
        hang: Callable[[], Awaitable[None]] | None = None,
    ) -> Iterator[Attempt]:
        """Records the exchange of an attempt, which is made in the block, whatever its outcome.

        Args:
            request: the request.
            recorded: the exchange that is played; None = the provider is asked now.
            hang: ends the recorded exchange, if it did not end by itself.
        """
        log, partial, scope = WireLog(), self.partial, self.scope
        log.keeps = self.keeps_replies and recorded is None
        if recorded is not None:
            log.recorded, log.protocol, log.hang = recorded.reply, recorded.protocol, hang
            log.refused, log.server = frozenset(recorded.refused), recorded.server
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        made = Attempt(replace(request, log=log), partial.begin(request))
        try:
            try:
                yield made
            finally:
                partial.flush()
                if task.cancelling() > cancelled_before:  # even if the provider swallowed it
                    made.response = None
                    raise asyncio.CancelledError
            cut = ""
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            response, reply = made.response, log.reply if log.keeps else None
            is_last = error and error.retryable and request.attempt > scope.retries
            exchange = Exchange(
                turn=turn_of(request.place), attempt=request.attempt, model=request.model,
                protocol=log.protocol or self.provider.name,
                sent=len(request.messages), system=request.system,
                system_ends=request.system_ends, tools=request.tools,
                past_tools=request.past_tools, output=request.output,
                refused=tuple(sorted(log.refused)), server=log.server, params=request.params,
                streaming=log.streaming, reply=reply, response=response,
                deltas=tuple(partial.deltas) if log.keeps and not reply else (), error=error,
                was_last=bool(is_last or (recorded and recorded.was_last)),
                cut="timeout" if cut and scope.clock.is_late else cut,
                cost=response.usage.cost if response else None,
            )  # fmt: skip
            partial.exchanges.append(exchange)
