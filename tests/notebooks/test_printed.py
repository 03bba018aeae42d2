"""What cells print, joined as nbclient does it, but in a time that does not depend on its lines."""

from __future__ import annotations

import time
from typing import Any

import pytest
from nbformat import v4

from axe_nb.notebooks.headless import join_streams


def printed(*texts: tuple[str, str]) -> list[Any]:
    return [v4.new_output("stream", name=name, text=text) for name, text in texts]


@pytest.mark.parametrize(
    ("outputs", "joined"),
    [
        ([("stdout", "a"), ("stdout", "b\n")], [("stdout", "ab\n")]),
        ([("stderr", "e"), ("stdout", "o"), ("stderr", "f")], [("stdout", "o"), ("stderr", "ef")]),
        ([("stdout", " 1%\r"), ("stdout", "99%\ndone\r\n")], [("stdout", "99%\ndone\r\n")]),
        ([("stdout", "a\rb\r")], [("stdout", "b\r")]),
    ],
)
def test_what_a_cell_prints_is_one_output_for_each_stream(outputs: Any, joined: Any) -> None:
    assert join_streams(printed(*outputs)) == printed(*joined)


def test_other_outputs_stay_where_they_are() -> None:
    shown = v4.new_output("display_data")
    assert join_streams([*printed(("stdout", "a")), shown, *printed(("stdout", "b"))]) == [
        *printed(("stdout", "ab")), shown,
    ]  # fmt: skip


def test_a_long_line_is_joined_at_once() -> None:
    began = time.process_time()
    [output] = join_streams(printed(*[("stdout", "x" * 1_000_000)] * 5))
    assert len(output.text) == 5_000_000
    assert time.process_time() - began < 2
