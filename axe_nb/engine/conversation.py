"""One agent's conversation with its model: messages, responses, usage, and the last answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from axe_nb.engine.attempts import Attempts, Send
from axe_nb.engine.limits import estimate_tokens
from axe_nb.engine.plan import Plan
from axe_nb.errors import ProviderError, RunError
from axe_nb.events import DataForm, TurnStarted, finish_turn
from axe_nb.messages import (
    CallIds,
    Message,
    Request,
    Response,
    ToolResult,
    ToolSpec,
    Usage,
    close_open_calls,
    dump,
)
from axe_nb.messages.answer_tool import OUTPUT
from axe_nb.messages.exchanges import ASKED_NOW, Exchange
from axe_nb.pictures.picture import Picture
from axe_nb.results import FinalRequest, Turn
from axe_nb.text import one_line
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Output, WrongOutput


class Conversation:
    """The messages between one agent and its model, and the log of their turns."""

    def __init__(self, plan: Plan) -> None:
        """Continues the job's history, if it has one."""
        self._plan, self._scope = plan, plan.scope
        self._attempts = attempts = Attempts(plan)
        self.exchanges: Sequence[Exchange] = attempts.exchanges
        self._send: Send = attempts.send
        if plan.scope.env.stepper or plan.scope.env.replays:
            from axe_nb.engine.interceptors import connect_model

            self._send = connect_model(attempts)
        self._encoded: dict[object, object] = {}
        self._ids: CallIds | None = None
        self.messages = close_open_calls(plan.job.history)
        self.tools: Sequence[ToolSpec] = plan.toolset.offered
        self.log: list[Turn] = []
        """The answered turns; the last one is without results while its calls run."""
        self.response = Response("")
        self.answer = ""
        """The latest text of a complete reply."""

    @property
    def text(self) -> str:
        """The model's latest text, including that of an incomplete reply."""
        return self._attempts.partial.text or self.answer

    @property
    def turns(self) -> int:
        return len(self.log)

    @property
    def usage(self) -> Usage:
        return sum((turn.usage for turn in self.log), Usage())

    def say(self, prompt: str, pictures: tuple[Picture, ...] = ()) -> None:
        """Adds a user message, after marking calls without a result as interrupted."""
        if self.messages and self.messages[-1].role != "user":
            self.messages = close_open_calls(self.messages)
        self.messages.append(Message("user", prompt, pictures=pictures))

    async def turn(
        self, *, closing: bool = False, asked: FinalRequest = "", question: str = ""
    ) -> Response:
        """Sends a request and adds the response to the conversation; raises what `Send` does.

        The arguments are those of `TurnFinished`, for a last question, which offers no tools.
        """
        scope, plan, number = self._scope, self._plan, self.turns + 1
        scope.env.halt.check()
        scope.clock.check()
        opening = plan.job.open_turn(number)
        if opening is not None and opening.messages:  # a file may be damaged
            self.messages = list(opening.messages)
        scope.admit(f"{scope.id}/{number}")
        request = self.make_request(closing=closing, asked=asked)
        form: DataForm = ""
        if plan.output and request.output is not None:
            form = "value" if plan.output.is_wrapped else "object"
        sent, pending = len(self.messages), len(self.messages[-1].tool_results)
        scope.env.emit(TurnStarted(scope.id, number, sent, pending, closing, asked, form))
        before = len(self.exchanges)
        try:
            response = await self._send(request)
        except ProviderError as error:
            self.answer = error.partial_text or self.answer
            raise
        # also if the time is up before the virtual reply would have arrived
        self._attempts.partial.deltas.clear()
        if response.seconds:  # of a script, on the virtual clock (D-36)
            scope.clock.forward(scope.clock.ahead + response.seconds)
        is_last = closing or bool(asked)
        response = self._add(response, has_calls=bool(plan.toolset.tools) and not is_last)
        source = self.exchanges[-1].source
        self.log.append(
            Turn(
                number, response.content, () if closing else response.tool_calls, (),
                response.stop_reason, response.usage, scope.agent.sub_agents_config.parallel,
                closing, asked, question or (opening.said if opening else ""), source,
                response.server_calls, response.sources,
            )
        )  # fmt: skip
        if source in ASKED_NOW:
            tokens = self.count_context(request.tools)
            scope.meter.charge(scope.name, tokens, response.usage.cost)
        scope.env.emit(finish_turn(scope.id, self.log[-1], self.exchanges[before:]))
        return response

    def _add(self, response: Response, *, has_calls: bool) -> Response:
        """Adds a response; its calls get ids of their own, and the traits of their tools.

        They are left out of history unless `has_calls`.
        """
        if response.tool_calls:
            self._ids = self._ids or CallIds(self.messages)
            calls = self._ids.settle(self._plan.provider.name, response.tool_calls)
            calls = tuple(map(self._plan.toolset.describe, calls))
            response = replace(response, tool_calls=calls)
        self.response, self.answer = response, response.content or self.answer
        has_calls = has_calls and bool(response.tool_calls) and not response.is_cut
        if response.content.strip() or has_calls or response.is_paused:
            self.messages.append(response.message(calls=has_calls))
        return response

    async def ask(self, question: str, *, asked: FinalRequest = "") -> None:
        """Asks a last question: for data, or to close; an empty reply changes no answer."""
        before = self.answer
        self.say(question)
        await self.turn(closing=not asked, asked=asked, question=question if asked else "")
        if not self.response.content.strip():
            self.answer = before

    def add_results(self, results: Sequence[ToolResult]) -> None:
        """Adds the results of the latest turn's calls."""
        if results:
            self.messages.append(Message("tool", tool_results=tuple(results)))
        self.log[-1] = replace(self.log[-1], results=tuple(results))

    def make_request(self, *, closing: bool = False, asked: FinalRequest = "") -> Request:
        plan, agent, is_last = self._plan, self._scope.agent, closing or bool(asked)
        has_form = bool(asked) if is_last else not plan.asks_at_end
        ignores_form = asked == "repair" and "{" not in self.text
        return Request(
            plan.model, tuple(self.messages), plan.briefing.system, () if is_last else self.tools,
            agent.params, agent.name, f"{self._scope.id}/{self.turns + 1}",
            past_tools=self.tools if is_last else (), system_ends=plan.briefing.system_ends,
            output=plan.output.sent if plan.output and has_form else None,
            refused=frozenset({OUTPUT} if ignores_form else ()), encoded=self._encoded,
        )  # fmt: skip

    def count_context(self, tools: Sequence[ToolSpec]) -> int:
        """Tokens of the latest exchange, estimated if the API reports none (D-18)."""
        system = self._plan.briefing.system
        return self.response.usage.total or estimate_tokens(system, tools, self.messages)

    async def take_data(self, output: Output) -> Any:
        """Returns the last answer as data; requests a correction, once, if it does not fit.

        Raises RunError if it is not whole, still does not fit, or may not be asked for again.
        """
        schema = dump(dict(output.sent)).decode()
        data, mistakes = await self._read_answer(output)
        if mistakes and self._plan.asks_at_end:
            question = f"Now give your final answer as JSON that fits this JSON Schema:\n{schema}"
            await self.ask(question, asked="output")
            data, mistakes = await self._read_answer(output)
        when = "even after one repair"
        if mistakes and self.turns >= self._scope.limits.turns:
            when = "no turn was left to repair it"
        elif mistakes:
            question = (
                f"Your answer does not fit its JSON Schema:\n{mistakes}\nGive the whole answer "
                f"again, as JSON only, without these mistakes. The schema:\n{schema}"
            )
            await self.ask(question, asked="repair")
            data, mistakes = await self._read_answer(output)
        if mistakes:
            reason = one_line(mistakes.replace("\n", "; "), 1000)
            raise RunError(
                f"the answer does not match its schema ({when}): {reason}",
                exit_code=1,
                hint="its text is kept; simplify the schema, or clarify in the prompt what it "
                "leaves open",
            )
        return data

    async def _read_answer(self, output: Output) -> tuple[Any, str]:
        """Reads the latest reply as data, in a thread (checks may take long); and its mistakes."""
        try:
            answer = await in_thread(output.read, self.response.content)
        except WrongOutput as wrong:
            if reason := tell_incomplete(self.response):
                raise RunError(f"the answer is not complete: {reason}", exit_code=1) from None
            return None, str(wrong)
        self.answer = answer.text
        return answer.value, ""


def tell_incomplete(response: Response, when: str = "") -> str:
    """Returns the reason why an answer is not whole, and the next step; empty if it is."""
    reason = response.stop_reason
    if response.is_full:
        step = "start a new conversation, or shorten the prompt, files and results of tools"
        return f"the reply was cut because the model's context is full{when} ({reason}); {step}"
    if response.is_used_up:  # D-79
        step = "raise params.max_tokens, or lower params.thinking"
        return f"thinking used up the tokens of the answer ({reason}){when}; {step}"
    if response.is_cut:
        return f"the token limit cut the reply ({reason}){when}; raise params.max_tokens"
    if not response.is_withheld:
        return ""
    who = "the model" if reason == "refusal" else "a content filter"
    return f"{who} cut the reply short ({reason}); rephrase the prompt"
