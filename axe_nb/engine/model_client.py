"""One run's connection to its model, in layers: each method adds one concern to the next.

`send` keeps partial text, `_send_stepped` asks the person first, `_send_with_retries` applies the
agent's `[retry]`, `_send_metered` waits for its turn, `_send_recorded` counts requests against the
caps of the tree and keeps the exchange with its price or plays a recorded one, and `_send_once`
passes the request to the provider and its deltas to the views.
Source: D-23, D-24; second form §2; product.md `[retry]`.
"""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count

from axe_nb.agents.names import parse_model
from axe_nb.engine.given import make_given
from axe_nb.engine.given_up import make_last_error, make_late_error
from axe_nb.engine.payment import hold, price, settle
from axe_nb.engine.pieces import Pieces
from axe_nb.engine.plan import Plan
from axe_nb.engine.retry_wait import add_jitter, compute_wait
from axe_nb.engine.stepping import step_reply, step_request
from axe_nb.engine.tape import play
from axe_nb.errors import ProviderError
from axe_nb.events import RetryScheduled, discard
from axe_nb.exchanges import Cut, Exchange
from axe_nb.limits import RunStopped
from axe_nb.make_provider import find_player
from axe_nb.messages import Request, Response
from axe_nb.wire_log import WireLog


class ModelClient:
    """Sends the requests of one run."""

    def __init__(self, plan: Plan) -> None:
        self._scope = plan.scope
        self._provider = plan.provider
        self._streams = plan.is_streamed
        self._emit = plan.scope.env.emit if plan.streams else discard
        self._pieces: Pieces | None = None
        """Those of the reply that is streamed now, or was cut."""
        self._partial = ""
        """The text that came with the failure of the latest request."""
        self._kept: Exchange | None = None
        """The exchange that a fork has for the first attempt of the latest request."""
        self.is_played = False
        """True if the last exchange was a recorded one."""
        self.is_kept = False
        """True if it was taken from the run that this one forks."""
        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.retries = 0
        """Requests sent again so far."""

    @property
    def arrived(self) -> str:
        """Text of an unfinished reply; empty between requests."""
        return self._partial or (self._pieces.text if self._pieces else "")

    async def send(self, request: Request, turn: int) -> Response:
        """Sends a request and returns the complete reply.

        If it fails or is cancelled, `arrived` has the text so far.

        Args:
            request: the request; its attempt number is set here.
            turn: the number of the turn in the conversation, from 1.

        Raises:
            ProviderError: the request failed and is not retried any more.
            RunStopped: a cap of the tree has been reached.
            TimeoutError: the time is up.
        """
        self._pieces, self._partial = None, ""
        try:
            response = await self._send_stepped(request, turn)
        except ProviderError as error:
            self._partial = error.partial_text
            raise
        self._pieces = None
        return response

    def check_caps(self, place: str, attempt: int = 1, *, is_live: bool = False) -> None:
        """Checks that a request may be sent, or is recorded.

        Args:
            place: its place.
            attempt: from 1.
            is_live: if True, it is not going to be played.

        Raises:
            RunStopped: a cap of the tree has been reached, now or when the request was recorded.
        """
        tape, meter, origin = self._scope.env.tape, self._scope.meter, self._scope.env.origin
        if not is_live and origin is not None and origin.holds(place, attempt):
            return
        if not is_live and tape is not None and tape.admits(place, attempt, meter.has_cap):
            return
        try:
            meter.check()
        except RunStopped as stop:
            if tape is not None:
                tape.keep_refusal(place, attempt, stop)
            raise

    async def _send_stepped(self, request: Request, turn: int) -> Response:
        scope, protocol = self._scope, self._provider.name
        self._kept = self._find_kept(request)
        if scope.env.stepper is None or self._kept is not None:
            return await self._send_with_retries(request, turn)
        decision = await step_request(scope, request, turn, protocol)
        if decision.choice == "skip":
            return self._give(request, make_given(request, turn, Response(), "skipped"))
        if decision.reply is not None:
            return self._give(request, make_given(request, turn, decision.reply))
        response = await self._send_with_retries(request, turn)
        if decision.choice != "edit":
            return response
        edited = await step_reply(scope, request, turn, protocol, response)
        if edited is not None:
            self.exchanges[-1] = replace(self.exchanges[-1], response=edited, source="edited")
        return edited or response

    async def _send_with_retries(self, request: Request, turn: int) -> Response:
        for attempt in count(1):
            try:
                return await self._send_metered(request, turn, attempt)
            except ProviderError as error:
                if not error.retryable:
                    raise
                if self.exchanges[-1].was_last:
                    raise make_last_error(error, attempt) from None
                await self._wait_to_retry(error, request.place, turn, attempt + 1)
        raise AssertionError("it is sent until it is answered, or was the last attempt")

    async def _wait_to_retry(
        self, error: ProviderError, place: str, turn: int, attempt: int
    ) -> None:
        """Waits before an attempt, at least as long as the server asks for; a recorded one at once.

        Raises:
            ProviderError: the time that is left does not suffice.
        """
        scope = self._scope
        tape = scope.env.tape
        is_recorded = self.is_played and self._holds(place, attempt)
        left = scope.clock.left
        seconds = compute_wait(error, attempt)
        is_over = self.is_kept or (self.is_played and tape is not None and not tape.may_ask)
        if ((left is not None and seconds >= left) or is_over) and not is_recorded:
            raise make_late_error(error)
        seconds = add_jitter(seconds, left)
        reason = str(error.status or error.category)
        scope.env.emit(
            RetryScheduled(scope.id, turn, attempt, seconds, reason, error.message, scope.retries)
        )
        began = scope.seconds
        try:
            if is_recorded:
                await asyncio.sleep(0.0)
            elif self._is_virtual:
                scope.clock.forward(scope.clock.ahead + seconds)
            else:
                await asyncio.sleep(seconds)
        finally:
            scope.note("retry", began, turn)
        self.retries += 1

    @property
    def _is_virtual(self) -> bool:
        """True if the model is a script on the virtual clock (D-36)."""
        is_virtual = getattr(self._provider, "is_virtual", None)
        return bool(is_virtual and is_virtual(parse_model(self._scope.agent.model)[1]))

    def _holds(self, place: str, attempt: int) -> bool:
        """True if what was played last has such an attempt."""
        tape, origin = self._scope.env.tape, self._scope.env.origin
        if self.is_kept:
            return origin is not None and origin.holds(place, attempt)
        return tape is not None and tape.holds(place, attempt)

    async def _send_metered(self, request: Request, turn: int, attempt: int) -> Response:
        scope = self._scope
        slots = scope.in_flight.requests
        if not slots.acquire_now():
            await slots.acquire()
        try:
            scope.env.halt.check()
            scope.clock.check()
            response = await self._send_recorded(request, turn, attempt)
        finally:
            slots.release()
        if response.seconds:
            try:
                scope.clock.forward(scope.clock.ahead + response.seconds)
            except TimeoutError:  # in virtual time, nothing has arrived yet
                self._pieces = None
                raise
        return response

    async def _send_recorded(self, request: Request, turn: int, attempt: int) -> Response:
        tape, clock, meter = self._scope.env.tape, self._scope.clock, self._scope.meter
        recorded = None
        if attempt > 1 or request.log is None:
            request = replace(request, attempt=attempt, log=WireLog())
        log = request.log
        assert log is not None
        log.keeps = tape is not None
        if kept := self._kept if attempt == 1 else self._find_kept(request):
            return self._take(request, kept)
        self.check_caps(request.place, attempt)
        if tape is not None:
            recorded = tape.find(request, self._scope.agent.model)
            if recorded is None:  # also one that is recorded, but was asked otherwise
                self.check_caps(request.place, attempt, is_live=True)
        meter.request(self._scope.name)
        self.is_played, self.is_kept = recorded is not None, False
        if recorded:
            log.recorded, log.protocol = recorded.reply, recorded.protocol
            log.refused, log.server = frozenset(recorded.refused), recorded.server
            if recorded.cut:
                log.hang = partial(self._cut, recorded.cut)
        held = 0.0 if recorded else await hold(self._scope, request, self.exchanges)
        response: Response | None = None
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        try:
            response = await self._send_once(request, turn, recorded)
            cut = ""
            response = await price(self._scope, response, recorded)
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            if not recorded:
                is_free = self._provider.name == "script"
                settle(self._scope, held, response, is_free=is_free)
            exchange = Exchange(
                turn=turn, attempt=attempt, model=request.model,
                protocol=log.protocol or self._provider.name,
                sent=len(request.messages), system=request.system,
                system_ends=request.system_ends, tools=request.tools,
                past_tools=request.past_tools, output=request.output,
                refused=tuple(sorted(log.refused)), server=log.server, params=request.params,
                streaming=log.streaming, response=response, error=error,
                was_last=self._is_last(error, attempt, recorded),
                cut="timeout" if cut and clock.is_late else cut,
                cost=response.usage.cost if response else None,
            )  # fmt: skip
            self.exchanges.append(exchange)
            if tape is not None:
                pieces = self._pieces.deltas if self._pieces and not log.reply else ()
                tape.keep(request, replace(exchange, reply=log.reply, deltas=tuple(pieces)))

    def _is_last(
        self, error: ProviderError | None, attempt: int, recorded: Exchange | None
    ) -> bool:
        """True if a request failed for now, and no further attempt is, or was, allowed."""
        if recorded is not None and recorded.was_last:
            return True
        return bool(error and error.retryable) and attempt > self._scope.retries

    def _find_kept(self, request: Request) -> Exchange | None:
        """The exchange that a fork takes from the run that it forks; None = the request is sent."""
        origin = self._scope.env.origin
        return origin.find(request, self._scope.agent.model) if origin else None

    def _give(self, request: Request, given: Exchange) -> Response:
        """Takes the reply of the person: nothing is sent, and nothing is paid.

        Raises:
            CassetteMiss: the request is not the one for which it was recorded.
        """
        scope = self._scope
        self.is_played = self.is_kept = True
        scope.meter.settle()
        self.exchanges.append(given)
        if scope.env.tape is not None and not scope.env.tape.find(request, scope.agent.model):
            scope.env.tape.keep(request, given)
        assert given.response is not None
        return given.response

    def _take(self, request: Request, kept: Exchange) -> Response:
        """Takes an exchange of the run that this one forks: nothing is sent, and nothing is paid.

        Raises:
            ProviderError: the request had failed.
        """
        scope = self._scope
        self.is_played = self.is_kept = True
        scope.meter.settle()
        self.exchanges.append(kept)
        if scope.env.tape is not None:
            scope.env.tape.note(request, scope.agent.model, kept)
        if kept.response is None:
            assert kept.error is not None
            raise copy(kept.error)
        return kept.response

    async def _send_once(self, request: Request, turn: int, recorded: Exchange | None) -> Response:
        scope, task = self._scope, asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        send = self._provider.send
        if recorded and recorded.reply is None:
            send = partial(play, recorded)
        elif recorded:
            send = find_player(self._provider, recorded.protocol).send
        self._pieces = None
        if self._streams:
            self._pieces = Pieces(self._emit, scope.id, turn, request.attempt)
        try:
            return await (send(request, self._pieces.add) if self._pieces else send(request))
        finally:
            if self._pieces:
                self._pieces.flush()
            if task.cancelling() > before:  # even if the provider swallowed the cancellation
                raise asyncio.CancelledError

    async def _cut(self, cut: Cut) -> None:
        """Ends a recorded exchange as it was ended by the run's time, or by a person.

        Raises:
            TimeIsUp: its time was up.
            asyncio.CancelledError: it was cancelled.
        """
        clock, tape = self._scope.clock, self._scope.env.tape
        if cut == "timeout":
            if clock.deadline is None:
                raise RunStopped("timeout", "timeout, as recorded")
            if tape is None or self._is_virtual or clock.deadline.run == self._scope.id:
                clock.forward(clock.ahead + (clock.left or 0.0))
            else:  # the time of a run above ends all that is below it at once
                await tape.wait_until_quiet(clock.deadline.run)
                clock.deadline.expire()
        if cut == "cancelled" and tape is not None:
            await tape.wait_until_quiet("0")
            tape.cancel()
        await asyncio.Event().wait()  # until the tool stops waiting for it
