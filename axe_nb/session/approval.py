"""Where runs put questions to the person, and the person's own thread answers them.

Source: D-19, D-48; product.md "Cassettes" (decisions of a person).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from axe_nb.engine.permissions import ApprovalRequest, Decision
from axe_nb.text import cut_chars, reveal

CHOICES = "[y]es  [n]o  [a]lways for this tool  [e]dit the arguments  [s]top"
"""What a person may say to a call."""

LONGEST_SHOWN = 4000
"""Characters of a call or its difference that are shown with the question."""


class Approver:
    """Takes questions from the loop's thread; `serve` answers them in the caller's."""

    def __init__(self, answer: Callable[[ApprovalRequest], Decision]) -> None:
        """Approval by a person.

        Args:
            answer: asks the person and waits; runs in the thread that calls `serve`.
        """
        self._answer = answer
        self._waiting: queue.SimpleQueue[
            tuple[ApprovalRequest, asyncio.AbstractEventLoop, asyncio.Future[Decision]]
        ] = queue.SimpleQueue()

    async def ask_person(self, question: ApprovalRequest) -> Decision:
        """The person's answer; to be awaited on the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Decision] = loop.create_future()
        self._waiting.put((question, loop, future))
        return await future

    async def ask_person_here(self, question: ApprovalRequest) -> Decision:
        """The same where loop and person share a thread: the loop waits too."""
        return self._said(question)

    def serve(self) -> None:
        """Answers what has been asked since the last time; blocks while the person thinks."""
        with contextlib.suppress(queue.Empty):
            while True:
                question, loop, future = self._waiting.get_nowait()
                if not future.done():
                    answer = self._said(question)
                    with contextlib.suppress(RuntimeError):  # the loop is closed
                        loop.call_soon_threadsafe(_settle, future, answer)

    def _said(self, question: ApprovalRequest) -> Decision:
        """The answer; an interrupt or an end of input means stop (D-48)."""
        try:
            with _interrupts_raise():
                return self._answer(question)
        except (KeyboardInterrupt, EOFError):
            return Decision("stop")


def _settle(future: asyncio.Future[Decision], answer: Decision) -> None:
    if not future.done():
        future.set_result(answer)


@contextlib.contextmanager
def _interrupts_raise() -> Iterator[None]:
    """A block in which an interrupt is raised, so that it ends a waiting `input()`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def prompt_person(question: ApprovalRequest) -> Decision:
    """Asks at the notebook's or terminal's prompt, until the answer is one."""
    if not question.tool:
        return Decision("text", input(f"{question.agent} asks: {_bounded(question.detail)}\n> "))
    shown = _bounded(json.dumps(dict(question.arguments), ensure_ascii=False))
    where = f" ({question.run})" if question.run != "0" else ""
    asked = f"{question.agent}{where} wants to call {question.tool}({shown})"
    if question.detail:
        asked += f"\n{_bounded(question.detail)}"
    while True:
        word, _, reason = input(f"{asked}\n{CHOICES}: ").strip().partition(" ")
        match word.lower().rstrip(",.:;"):
            case "y" | "yes":
                return Decision("yes")
            case "a" | "always":
                return Decision("always")
            case "n" | "no":
                return Decision("no", reason.strip())
            case "s" | "stop":
                return Decision("stop")
            case "e" | "edit":
                arguments = _edited()
                if arguments is not None:
                    return Decision("edit", arguments=arguments)
                asked = "The arguments must be a JSON object, as shown above. Nothing has been run."
            case _:
                asked = "Please answer with one of these letters, or the whole word."


def _edited() -> Mapping[str, Any] | None:
    """The arguments to run instead; None where what was typed is no JSON object."""
    try:
        arguments = json.loads(input("arguments, as JSON: "))
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _bounded(text: str) -> str:
    return cut_chars(reveal(text), LONGEST_SHOWN, "\n… {more} more characters")
