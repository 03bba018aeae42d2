"""Outputs of two runs of a notebook: what counts as a difference, and the words for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from axe_nb.testing.check import HeadlessRun, Problem, describe_problems, find_problems, normalize

v4 = nbformat.v4


def make(*outputs: Any, source: str = "run()", number: int | None = 1) -> Any:
    cell = v4.new_code_cell(source, outputs=list(outputs), execution_count=number)
    return v4.new_notebook(cells=[cell])


def show(text: str, html: str = "", **metadata: Any) -> Any:
    data = {"text/plain": text} | ({"text/html": html} if html else {})
    return v4.new_output("display_data", data, metadata=metadata)


def fail(name: str, text: str, *trace: str) -> Any:
    return v4.new_output("error", ename=name, evalue=text, traceback=list(trace))


def say(text: str, name: str = "stdout") -> Any:
    return v4.new_output("stream", name=name, text=text)


def problems(saved: Any, ran: Any) -> list[str]:
    return [f"{one.cell}: {one.what}" for one in find_problems(saved, ran)]


@pytest.mark.parametrize(
    ("saved", "ran"),
    [
        (make(show("a", id=1)), make(show("a", id=2))),
        (make(say("a\n"), say("b\n")), make(say("a\nb\n"))),
        (make(say("a"), say("!", "stderr")), make(say("!", "stderr"), say("a"))),
        (make(show("a")), make(number=None)),
        (make(show("a"), source="# NBVAL_IGNORE_OUTPUT\nx"), make(source="# NBVAL_IGNORE_OUTPUT")),
        (
            make(fail("E", "e", "at 1"), source="# NBVAL_RAISES_EXCEPTION"),
            make(fail("E", "e", "at 2"), source="# NBVAL_RAISES_EXCEPTION"),
        ),
        (
            make(v4.new_output("display_data", {"text/plain": "a", "image/png": "1"})),
            make(v4.new_output("display_data", {"text/plain": "a", "image/png": "2"})),
        ),
    ],
    ids=["metadata", "streams", "order of streams", "not run", "ignored", "trace", "picture"],
)
def test_outputs_that_count_as_equal(saved: Any, ran: Any) -> None:
    assert problems(saved, ran) == []


@pytest.mark.parametrize(
    ("saved", "ran", "what"),
    [
        (make(show("a\nb")), make(show("a\nc")), 'its output changed in line 2: "b" → "c"'),
        (make(show("a", "<b>")), make(show("b", "<i>")), 'its output changed: "a" → "b"'),
        (make(show("a", "<b>")), make(show("a", "<i>")),
         'its output as HTML changed: "<b>" → "<i>"'),
        (make(say("a")), make(), 'its printed text changed: "a" → nothing'),
        (make(), make(fail("KeyError", "'a'\nb", "long", "trace")), "KeyError: 'a'"),
        (make(), make(fail("E", "e", "E: e", "in agent a", "do it")), "E: e; in agent a; do it"),
        (make(v4.new_output("display_data", {"application/json": [1]})),
         make(v4.new_output("display_data", {"application/json": [2]})),
         'its application/json changed: "[1]" → "[2]"'),
    ],
)  # fmt: skip
def test_a_difference_is_told_in_one_line(saved: Any, ran: Any, what: str) -> None:
    assert problems(saved, ran) == [f"1: {what}"]


def test_after_a_failure_only_misses_are_listed() -> None:
    outputs = [
        fail("CassetteMiss", "cassette a.axe has no answer"), fail("NameError", "no x"),
        show("other"), fail("CassetteMiss", "nor for this"),
    ]  # fmt: skip
    saved, ran = make(), make()
    saved.cells = [make().cells[0] for _ in outputs]
    ran.cells = [make(one, number=at).cells[0] for at, one in enumerate(outputs, 1)]
    assert problems(saved, ran) == ["1: cassette a.axe has no answer", "4: nor for this"]


def test_a_frozen_notebook_has_nothing_that_varies_and_keeps_the_rest() -> None:
    book = make(source="# NBVAL_RAISES_EXCEPTION", number=7)
    book.metadata.update(kernelspec={"name": "mine", "display_name": "Mine"}, widgets={"state": {}})
    book.cells[0].metadata.update(tags=["a"], execution={"iopub.status.idle": "12:00"})
    first = make(show("a", seconds=1, same=True), fail("E", "e", "at /tmp/1"))
    second = make(show("a", seconds=2, same=True), fail("E", "e", "at /tmp/2"))
    frozen = normalize(book, first, second)
    cell = frozen.cells[0]
    assert (cell.execution_count, cell.source) == (1, "# NBVAL_RAISES_EXCEPTION")
    assert cell.metadata == {"tags": ["a"]}
    assert frozen.metadata == {"kernelspec": {"name": "mine", "display_name": "Mine"}}
    assert cell.outputs[0].metadata == {"same": True}
    assert cell.outputs[1].traceback == ["E: e"]
    nbformat.validate(frozen)


def test_a_cell_without_its_answer_names_the_command_that_records_it(project: Path) -> None:
    problems = [
        Problem(cell=2, what="cassette a.axe has no answer", is_miss=True),
        Problem(cell=4, what="KeyError: 1"),
    ]
    stopped = HeadlessRun(book=None, stopped="the kernel died", begun=4)
    assert describe_problems(Path("my lesson.ipynb"), stopped, problems) == [
        "my lesson.ipynb, cell 2: cassette a.axe has no answer; "
        "record it with: axe-nb freeze 'my lesson.ipynb'",
        "my lesson.ipynb, cell 4: the kernel died",
    ]
