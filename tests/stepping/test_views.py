"""While the person is asked, the tree stays live: the view hears of what others do."""

from __future__ import annotations

import threading

import pytest

from axe_nb.engine.person import Decision, Question
from axe_nb.events import Event, PersonAsked, RunFinished
from axe_nb.results import RunResult
from axe_nb.session.drive import Approver, drive
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from tests.engine.in_process import agent, ask, lead, stage


class Seen:
    """A view that notes who waits, and when the other child has ended."""

    streams = False

    def __init__(self, *, is_live: bool) -> None:
        self.is_live = is_live
        self.other_ended = threading.Event()
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()

    def event(self, event: Event) -> None:
        self.threads.add(threading.current_thread())
        if isinstance(event, PersonAsked):
            self.asked.append(event.run)
        if isinstance(event, RunFinished) and event.run == "0.2":
            self.other_ended.set()

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None: ...


def step(view: Seen, may_end: threading.Event, seconds: float) -> list[bool]:
    """Steps through the first of two children; whether the end of the other was shown meanwhile."""
    shown: list[bool] = []

    def answer(question: Question) -> Decision:
        may_end.set()
        shown.append(view.other_ended.wait(seconds))
        return Decision("go")

    def other(_: object) -> str:
        may_end.wait(20)
        return "done"

    made = stage(lead(ask("first"), ask("other")), agent("first", "x"), agent("other", other))
    overrides = Overrides(step=True, break_at=("agent:first",))
    handle = made.session.start(RunRequest(agent="lead", prompt="go", overrides=overrides))
    assert drive(handle, view, Approver(answer)).ok
    assert view.asked == ["0.1"]
    return shown


def test_a_live_view_goes_on_while_the_prompt_is_open_and_a_terminal_is_left_alone() -> None:
    live, terminal = Seen(is_live=True), Seen(is_live=False)
    assert step(live, threading.Event(), 20) == [True]
    assert len(live.threads) == 2
    assert step(terminal, threading.Event(), 0.3) == [False]
    assert terminal.threads == {threading.current_thread()}


def test_a_view_that_fails_meanwhile_ends_the_run() -> None:
    class Broken(Seen):
        def event(self, event: Event) -> None:
            super().event(event)
            if self.other_ended.is_set():
                raise LookupError("broken view")

    with pytest.raises(LookupError, match="broken view"):
        step(Broken(is_live=True), threading.Event(), 20)
