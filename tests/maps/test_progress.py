"""The progress line: its words, and on a terminal.

Source: product.md "Exploring"; cluster-facts.md §6.
"""

from __future__ import annotations

import io
import re
import time

import pytest

import axe_nb
from axe_nb.commands.console import TerminalLine
from axe_nb.exploring.map_batch import Tally
from axe_nb.exploring.map_driver import Progress
from tests.maps.conftest import Echo

pytestmark = pytest.mark.req("E-8")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_line_has_rate_and_forecast_and_the_line_that_is_kept_neither(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = list(axe_nb.map(echo.agent, ["a", "fail"]))
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tally = Tally("evil\x1b[2J\nname" * 50, 1000, began=now)
    for number in range(100):
        tally.add(results[number > 97], is_from_file=number < 20)
    tally.notes.append("stopped: enough")
    now += 20
    line = tally.format_live()
    assert line.endswith(" · 20 from the file · 4.0/s · about 3 min 45 s left"), "80 in 20 s"
    assert re.search("100 of 1,000 runs, 2 errors", line)
    assert line.isprintable()
    assert len(line) < 200
    assert tally.format_end().endswith("100 of 1,000 runs, 2 errors · stopped: enough")


def test_a_terminal_has_one_line_that_is_rewritten(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    list(axe_nb.map(echo.agent, [f"slow {n}" for n in range(8)], concurrency=2))
    lines = terminal.getvalue().split("\r")
    assert len(lines) > 2
    assert lines[-1] == "echo: 8 of 8 runs, 0 failed · 16 tokens".ljust(len(lines[-1]) - 1) + "\n"
    assert terminal.getvalue().count("\n") == 1
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    list(axe_nb.map(echo.agent, ["a"], display=False))
    monkeypatch.setattr("sys.stderr", piped := io.StringIO())
    list(axe_nb.map(echo.agent, ["a"]))
    assert terminal.getvalue() == piped.getvalue() == ""


def test_a_line_is_updated_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    terminal = Terminal()
    shown = Progress(Tally("a", 5), TerminalLine(terminal))
    for _ in range(1000):
        now += 0.001
        shown.tick()
    assert 8 <= len(re.findall("\r", terminal.getvalue())) <= 10
