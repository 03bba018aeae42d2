"""The one line that shows on a terminal who is at work."""

import io
import re

import pytest

import axe_nb
from axe_nb import Agent
from axe_nb.commands.console import TextView
from axe_nb.commands.parser import parse_run
from axe_nb.events import RunStarted, TextDelta, ToolStarted, TurnFinished, TurnStarted
from axe_nb.messages import ToolCall, Usage
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no size")


LOOKS = (ToolCall("1", "look"), ToolCall("2", "look"))


def started(run: str, agent: str) -> RunStarted:
    """A root begins, or a child of its second call."""
    parent, depth = ("", 0) if run == "0" else ("0", 1)
    return RunStarted(run, parent, "2" if depth else "", agent, "p/m", depth, "task", "prompt")


def view(terminal: Terminal) -> TextView:
    axe_nb.define(Agent(name="lead", model="script/lead"))
    handle = session.start(RunRequest(agent="lead", prompt="Go"))
    options = parse_run(["lead"], "command")
    return TextView(handle, options, print, print, piped=False, terminal=terminal, pause=0.0)


def line_after(*agents: str) -> Terminal:
    """A status line that has just been drawn, with these agents at work below the first."""
    terminal = Terminal()
    status = view(terminal)
    for event in (
        started("0", agents[0]),
        TurnStarted("0", 1, 1, 0),
        TurnFinished("0", 1, "text", LOOKS, "tool_calls", Usage(), True),
        *(ToolStarted("0", call) for call in LOOKS),
        *(started(f"0.2-{number}", agent) for number, agent in enumerate(agents[1:], 1)),
    ):
        status.event(event)
    status.tick()
    return terminal


def untimed(terminal: Terminal) -> str:
    return re.sub(r"· \d+s\b", "· 0s", terminal.getvalue())


def test_the_line_shows_the_tree_at_work_and_counts() -> None:
    terminal = line_after("lead", "a", "b")
    assert untimed(terminal) == "\rlead › a, b · 1 turn · 2 calls · 0s"


def test_the_line_is_no_wider_than_the_terminal_and_cannot_command_it() -> None:
    terminal = line_after("le\x1bad\n" + "x" * 200)
    assert terminal.getvalue() == "\r" + ("le�ad " + "x" * 200)[:78] + "…"


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (TextDelta("0", 1, 1, "Twenty\nseven keys."), "Twenty seven keys."),
        (TextDelta("0", 1, 1, "Why?", "reasoning"), "thinks: Why?"),
        (TextDelta("0", 1, 1, '{"path"', "arguments", 0, "grep"), 'calls grep {"path"'),
        (TextDelta("0", 1, 1, "\x1b]0;evil\x07"), "�]0;evil�"),
    ],
)
def test_the_line_ends_in_the_last_words_of_the_model(piece: TextDelta, words: str) -> None:
    terminal = Terminal()
    status = view(terminal)
    for event in (started("0", "lead"), TurnStarted("0", 1, 1, 0), piece):
        status.event(event)
    status.tick()
    assert untimed(terminal) == f"\rlead · 1 turn · 0 calls · 0s · {words}"
