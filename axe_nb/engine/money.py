"""Each attempt against the caps of the tree and the budget of the session.

Source: D-51, D-64; issue 12 (money); product.md `[limits]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from axe_nb.engine.arrival import Partial
from axe_nb.engine.ask_person import put_question
from axe_nb.engine.links import Link
from axe_nb.engine.scope import RunScope
from axe_nb.messages import Request, Response, Usage

CHARACTERS = 4
"""Characters of a token, where nothing better is known."""


@dataclass(slots=True)
class Money:
    """Checks and counts each attempt against the caps, and the budget of the session."""

    scope: RunScope
    partial: Partial
    is_free: bool
    """True if the model costs nothing."""
    next: Link

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        scope = self.scope
        scope.meter.check()
        scope.meter.request(scope.name)
        held, response = await self._hold(request), None
        try:
            response = await self.next.send(request)
            return response
        finally:
            scope.env.purse.budget.settle(
                held, scope.agent.model, response.usage.cost if response else None,
                is_counted=response is not None and not self.is_free,
            )  # fmt: skip

    async def _hold(self, request: Request) -> float:
        """Holds what a request costs at least, within the budget of the session; returns that.

        It is the price of the reply before it, of the first one that of its prompt.
        """
        scope, purse = self.scope, self.scope.env.purse
        if not purse.budget.amount:
            return 0.0
        costs = (one.cost for one in reversed(self.partial.exchanges))
        dollars = next(filter(None, costs), None)
        if dollars is None:
            size = len(request.system) + sum(len(message.content) for message in request.messages)
            usage = Usage(1 + size // CHARACTERS)
            dollars = await scope.env.prices.find_cost(scope.agent.model, usage) or 0.0
        person = scope.env.ask_person
        ask = person and partial(put_question, scope, ask=person)
        await purse.hold(scope.id, scope.agent.name, dollars, ask)
        return dollars
