"""What is shown has no secrets and no escapes; what is kept in memory is as it came."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, Request, RunResult, call, script
from axe_nb.cell_display.live_tree import LiveAnswer
from axe_nb.cli import main
from axe_nb.events import TextDelta, TurnStarted
from axe_nb.messages import Usage
from axe_nb.results import Turn
from axe_nb.views import html
from axe_nb.views.axe_text import VerboseLines
from axe_nb.views.transcript import Transcript, events_of

VALUE = "corr3ct-horse-b4ttery"
SHAPE = "ghp_" + "a1" * 12
ESCAPE = "\x1b]0;title\x07\x9b2J"
HOSTILE = f"{'say ' * 12}{VALUE} {ESCAPE} {SHAPE}"


@pytest.fixture
def result(project: Path, monkeypatch: pytest.MonkeyPatch) -> RunResult:
    """A run in which every text that a model or a tool can choose is hostile."""
    monkeypatch.setenv("THE_API_KEY", VALUE)

    @axe_nb.tool
    def look(note: str) -> str:
        """Looks."""
        if "fail" in note:
            raise ValueError(HOSTILE)
        return f"{note} {HOSTILE}"

    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            return [
                call("call_agent", agent="helper", task=HOSTILE),
                call("look", note=HOSTILE),
                call("look", note="fail"),
                call(f"none{ESCAPE} {SHAPE}", note=HOSTILE),
            ]
        return HOSTILE

    @script("helper")
    def helper(_: Request) -> str:
        raise ProviderError("server", HOSTILE, status=400, retryable=False)

    axe_nb.define(Agent(name="lead", model="script/lead", tools=("look",), sub_agents=("helper",)))
    axe_nb.define(Agent(name="helper", model="script/helper"))
    return axe_nb.run("lead", HOSTILE, mode="auto")


def check(shown: str, *, beside: str = "\n") -> None:
    """Holds a text against what may be shown, and checks that something was masked in it."""
    assert VALUE not in shown
    assert SHAPE not in shown
    assert "***" in shown
    assert [c for c in shown if not c.isprintable() and c not in beside] == []


@pytest.mark.req("D-60")
def test_tree_twin_verbose_lines_and_reprs_have_no_secrets_or_escapes(result: RunResult) -> None:
    for name, shown in html.twin(result).items():
        check(shown, beside="\n\u2003")
        assert shown.count("***") >= 10, name
    lines: list[str] = []
    verbose = VerboseLines(lines.append)
    for event in events_of(result):
        verbose.show(event)
    assert len(lines) > 8
    for shown in (*html.answer(result).values(), "\n".join(lines), repr(result)):
        check(shown)
    assert result.text == HOSTILE  # memory keeps what came


@pytest.mark.req("D-60")
@pytest.mark.parametrize("options", [[], ["--json"], ["--verbose"], ["--dry-run"]])
def test_what_the_command_prints_has_none(
    options: list[str], result: RunResult, capsys: pytest.CaptureFixture[str],
    piped: Callable[[bytes], None],
) -> None:  # fmt: skip
    assert main(["run", "lead", "-p", HOSTILE, "--mode", "auto", *options]) == 0
    out, err = capsys.readouterr()
    assert VALUE not in out + err
    assert SHAPE not in out + err
    assert "***" in out
    if options == ["--json"]:
        assert json.loads(out)["content"].endswith(f"*** {ESCAPE} ghp_***")
    if options == ["--verbose"]:
        check(err)


@pytest.mark.req("D-60")
def test_errors_of_cells_and_commands_have_none(
    result: RunResult, capsys: pytest.CaptureFixture[str], piped: Callable[[bytes], None]
) -> None:
    with pytest.raises(ProviderError) as caught:
        axe_nb.run("helper", "go").raise_for_status()
    check("".join(caught.value._render_traceback_()), beside="")
    check(str(caught.value), beside="")  # Jupyter saves it beside the traceback
    assert VALUE in caught.value.message
    assert main(["run", "helper", "-p", "go"]) == 3
    check(capsys.readouterr().err)


@pytest.mark.req("D-60")
def test_the_live_answer_shows_no_secret_while_it_is_written_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("THE_API_KEY", VALUE)
    transcript, said = Transcript(), f"it is {VALUE} so"
    log = (Turn(1, said, (), (), "stop", Usage(1, 1)),)
    result = RunResult(status="completed", text=said, agent="a", model="m", turns=1, log=log)
    first, *rest = events_of(result)
    transcript.apply(first, 0)
    assert transcript.root is not None
    answer, shown = LiveAnswer(transcript.root), []
    pieces = [TextDelta("0", 1, 1, piece, "text") for piece in ("it is ", VALUE[:9], VALUE[9:])]
    for event in (TurnStarted("0", 1, 1, 0, False), *pieces, *rest[1:]):
        transcript.apply(event, 0)
        answer.update(len(shown) + 1.0, is_over=event is rest[-1])
        shown.append(answer.blocks)
    assert "it is *** so" in str(answer.blocks)
    assert VALUE not in str(shown)
