"""Approval prompts: runs ask on the event loop, and the user answers in the caller's thread.

Source: D-19, D-48.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

from axe_nb.engine.person import Decision, Question, Step
from axe_nb.session.prompts import (
    WrongInput,
    format_answer_mark,
    format_model_question,
    format_question,
    prompt_step,
    read_arguments,
)

PAUSE = 0.2
"""Seconds between a question and its prompt, so that the view can show the call."""


class Approver:
    """Queues questions from the event loop's thread; `serve` answers them in the caller's."""

    def __init__(self, answer: Callable[[Question], Decision]) -> None:
        """Creates an approver."""
        self._answer = answer
        self._asked_at = -math.inf
        """Time of the newest question."""
        self._questions: queue.SimpleQueue[
            tuple[Question, asyncio.AbstractEventLoop, asyncio.Future[Decision]]
        ] = queue.SimpleQueue()

    async def ask_person(self, question: Question) -> Decision:
        """Queues the question and returns the user's answer; awaited on the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Decision] = loop.create_future()
        self._asked_at = time.monotonic()
        self._questions.put((question, loop, future))
        return await future

    async def ask_person_here(self, question: Question) -> Decision:
        """Prompts soon, blocking the event loop, if it shares a thread with the user."""
        await asyncio.sleep(PAUSE)
        return self._prompt(question)

    def serve(
        self, meanwhile: Callable[[], contextlib.AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Answers the next question, if the view had time to show its call; blocks meanwhile.

        Args:
            meanwhile: makes the block within which the person is asked.
        """
        if time.monotonic() < self._asked_at + PAUSE:
            return
        with contextlib.suppress(queue.Empty):
            question, loop, future = self._questions.get_nowait()
            if not future.done():
                with meanwhile():
                    answer = self._prompt(question)
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(
                        lambda: None if future.done() else future.set_result(answer)
                    )

    def _prompt(self, question: Question) -> Decision:
        """Prompts the user; an interrupt or end of input means stop (D-48)."""
        try:
            with _raise_on_interrupt():
                return self._answer(question)
        except (KeyboardInterrupt, EOFError):
            return Decision("stop")


@contextlib.contextmanager
def _raise_on_interrupt() -> Iterator[None]:
    """Raises KeyboardInterrupt on SIGINT within the block, to end a waiting `input()`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def prompt_person(request: Question) -> Decision:
    """Prompts in the notebook or terminal until the answer is valid."""
    if isinstance(request, Step):
        return prompt_step(request)
    if not request.tool and not request.raises:
        mark = format_answer_mark(request)
        return Decision("text", input(f"\n{format_model_question(request)}\n{mark}"))
    question = format_question(request)
    prompt = f"\n{question.text}"  # apart from the last answer
    while True:
        word, _, more = input(f"{prompt}\n{question.choices}: ").strip().partition(" ")
        word, reason = word.lower().rstrip(",.:;!"), more.strip()
        answer = question.find(word)
        if answer is None:
            prompt = "Please answer with one of these letters, or the whole word."
        elif answer.needs_word and word != answer.choice:
            prompt = f"Type the whole word, because {question.caution}."
        elif reason and not answer.takes_reason:  # "yes, but not in sub" is no yes
            prompt = "Only a no can be followed by a reason. Nothing has been run."
        elif answer.choice != "edit":
            return Decision(answer.choice, reason)
        else:
            try:
                return Decision("edit", arguments=read_arguments(request.schema))
            except WrongInput as error:
                prompt = f"{error} Nothing has been run."
