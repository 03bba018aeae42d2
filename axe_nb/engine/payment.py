"""The price of one request: held before it is sent, known when it is answered.

Source: issue 12 (money).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from axe_nb.engine.ask_person import put_question
from axe_nb.engine.questions import Question
from axe_nb.engine.scope import RunScope
from axe_nb.engine.step import Decision
from axe_nb.exchanges import Exchange
from axe_nb.messages import Request, Response, Usage
from axe_nb.prices import COUNTED

CHARACTERS = 4
"""Characters of a token, where nothing better is known."""


async def hold(scope: RunScope, request: Request, earlier: Sequence[Exchange]) -> float:
    """Holds what a request costs at least, within the budget of the session; returns that.

    It is the price of the reply before it, of the first one that of its prompt.

    Args:
        scope: the run.
        request: the request.
        earlier: the exchanges of the run.

    Raises:
        RunStopped: the budget would be passed.
    """
    purse, prices = scope.env.purse, scope.env.prices
    if not purse.budget.amount:
        return 0.0
    dollars = next(filter(None, (one.cost for one in reversed(earlier))), None)
    if dollars is None:
        size = len(request.system) + sum(len(message.content) for message in request.messages)
        usage = Usage(1 + size // CHARACTERS)
        dollars = await prices.find_cost(scope.agent.model, usage) or 0.0
    await purse.hold(scope.id, scope.agent.name, dollars, partial(_ask, scope))
    return dollars


async def _ask(scope: RunScope, question: Question) -> Decision:
    ask_person = scope.env.purse.ask_person
    assert ask_person is not None
    return await put_question(scope, question, ask_person)


async def price(scope: RunScope, response: Response, recorded: Exchange | None) -> Response:
    """Returns a response with its price; a recorded one has that of its time."""
    usage = response.usage
    if recorded is not None:
        return replace(response, usage=usage.at_cost(recorded.cost))
    if any(call.name not in COUNTED for call in response.server_calls):
        return response
    cost = await scope.env.prices.find_cost(scope.agent.model, usage)
    return response if cost is None else replace(response, usage=usage.at_cost(cost))


def settle(scope: RunScope, held: float, response: Response | None, *, is_free: bool) -> None:
    """Counts what a request has cost instead of what was held for it.

    Args:
        scope: the run.
        held: what was held.
        response: None = it was not answered.
        is_free: True if its model costs nothing.
    """
    cost = response.usage.cost if response else None
    is_counted = response is not None and not is_free
    scope.env.purse.budget.settle(held, scope.agent.model, cost, is_counted=is_counted)
