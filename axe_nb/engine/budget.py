"""The budget of a session, in dollars, and the person's word before it is passed.

Replies that are played from a cassette spend nothing. A reply of unknown price cannot be counted.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from axe_nb.engine.person import ApprovalRequest, AskPerson
from axe_nb.limits import RunStopped
from axe_nb.text import format_dollars


@dataclass(slots=True)
class Budget:
    """The spending of a session's runs since it began, and the most that they may spend in all."""

    amount: float = 0.0
    """US dollars; 0 = no budget."""
    spent: float = 0.0
    held: float = 0.0
    """The price of the requests in progress, as far as it can be told."""
    unpriced: dict[str, int] = field(default_factory=dict)
    """provider/model → number of replies whose price is unknown."""
    step: float = 0.0
    """The dollars that a yes adds to the amount."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Held while counts change: the loops of several threads may run a session's runs."""

    def copy(self) -> Budget:
        """A budget with the same counts, and nothing in progress."""
        counts = dict(self.unpriced)
        return Budget(self.amount, self.spent, unpriced=counts, step=self.step)

    def set(self, amount: float) -> None:
        """Sets what may be spent in all; 0 = there is no budget any more."""
        self.amount = self.step = amount

    def try_hold(self, dollars: float) -> bool:
        """Holds the price of a request; returns False if the budget would be passed."""
        with self.lock:
            if self.amount and self.spent + self.held + dollars > self.amount:
                return False
            self.held += dollars
            return True

    def settle(self, held: float, model: str, dollars: float | None, *, is_counted: bool) -> None:
        """Counts an answered request instead of what was held for it.

        Args:
            held: what was held.
            model: provider/model.
            dollars: its price; None = unknown, or it was not answered.
            is_counted: True if it was answered.
        """
        with self.lock:
            self.held = max(0.0, self.held - held)
            self.spent += dollars or 0.0
            if is_counted and dollars is None:
                self.unpriced[model] = self.unpriced.get(model, 0) + 1

    def find_next(self, dollars: float) -> float:
        """Returns the amount that a yes sets, so that a request of that price fits."""
        missing = max(0.0, self.spent + self.held + dollars - self.amount)
        return self.amount + missing - missing % self.step + self.step


@dataclass(slots=True, eq=False)
class TreeBudget:
    """The budget of the session, as one tree of runs uses it."""

    session: Budget = field(default_factory=Budget)
    _refused: float | None = None
    """The amount that was not raised."""
    _prompt_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def hold(self, run: str, agent: str, dollars: float, ask: AskPerson | None) -> None:
        """Holds the price of a request; asks the person before the budget would be passed.

        Raises:
            RunStopped: the budget was not raised, or the person stopped the run.
        """
        while self.is_refused or not self.session.try_hold(dollars):
            async with self._prompt_lock:
                if not self.is_refused and self.session.try_hold(dollars):
                    return  # raised by the answer to another request
                await self._ask(run, agent, dollars, ask)

    @property
    def is_refused(self) -> bool:
        """True if the tree has met the present budget, which was not raised: it sends no more."""
        return self._refused == self.session.amount

    async def _ask(self, run: str, agent: str, dollars: float, ask: AskPerson | None) -> None:
        budget = self.session
        amount, higher = budget.amount, budget.find_next(dollars)
        about = f" and {format_dollars(budget.held)} in progress" if budget.held else ""
        problem = (
            f"the budget of this session ({format_dollars(amount)}) would be exceeded: "
            f"{format_dollars(budget.spent)} spent{about}, this request about "
            f"{format_dollars(dollars)} or more"
        )
        if ask is None or self.is_refused:
            self._refused = amount
            raise RunStopped("error", f"{problem}; raise it with %axe budget {higher:.6g}")
        request = ApprovalRequest(run, agent, "", {}, reason=problem, raises=format_dollars(higher))
        answer = await ask(request)
        if answer.choice == "yes":
            budget.amount = max(budget.amount, higher)
        else:
            self._refused = amount
            raise RunStopped("error", f"{problem}; it was not raised")
