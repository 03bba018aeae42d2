"""Files that are no notebooks, or whose parts have odd types, are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from axe_nb.cli import main

CODE = {
    "cell_type": "code", "id": "a", "execution_count": None, "metadata": {}, "outputs": [],
    "source": "1",
}  # fmt: skip


def make(**changes: Any) -> dict[str, Any]:
    """A notebook whose only cell is changed."""
    return {
        "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [CODE | changes],
    }  # fmt: skip


WHOLE: dict[str, str | bytes] = {
    "empty": "",
    "text": "hello",
    "not UTF-8": b"\xff\xfe\x00",
    "null": "null",
    "a list": "[]",
    "without cells": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}}),
    "cells in an object": json.dumps(make() | {"cells": {}}),
    "cells in a text": json.dumps(make() | {"cells": "ab"}),
    "metadata is a number": json.dumps(make() | {"metadata": 5}),
    "an unknown format": json.dumps(make() | {"nbformat": 99}),
    "an old format": json.dumps({"nbformat": 3, "nbformat_minor": 0, "worksheets": 5}),
    "nested": "[" * 100_000 + "]" * 100_000,
    "nested metadata": '{"cells": [], "metadata": ' + '{"a": ' * 20_000 + "1" + "}" * 20_001,
}
PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a number as source": ({"source": 5}, "its source is not text"),
    "no source": ({"source": None}, "its source is not text"),
    "a surrogate": ({"source": "\ud800"}, "its source is not text"),
    "tags": ({"metadata": {"tags": 5}}, "its metadata is malformed"),
    "a tag": ({"metadata": {"tags": [{}]}}, "its metadata is malformed"),
    "outputs": ({"outputs": {}}, "its outputs are malformed"),
    "an empty output": ({"outputs": [{}]}, "its outputs are malformed"),
    "a kind": ({"outputs": [{"output_type": "odd"}]}, "its outputs are malformed"),
    "a stream": (
        {"outputs": [{"output_type": "stream", "name": "stdout", "text": 5}]},
        "its outputs are malformed",
    ),
    "an error": ({"outputs": [{"output_type": "error"}]}, "its outputs are malformed"),
}


@pytest.mark.req("D-68")
@pytest.mark.parametrize("command", ["check", "freeze"])
def test_a_file_that_is_no_notebook_is_refused_in_one_line(
    command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in WHOLE.items():
        data = content if isinstance(content, bytes) else content.encode()
        Path("odd.ipynb").write_bytes(data)
        assert main([command, "odd.ipynb"]) == 2, name
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == ("", "error: odd.ipynb is not a notebook\n"), name
        assert Path("odd.ipynb").read_bytes() == data


@pytest.mark.req("D-68")
@pytest.mark.parametrize("command", ["check", "freeze"])
def test_a_cell_with_parts_of_odd_types_is_named(
    command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (changes, fault) in PARTS.items():
        Path("odd.ipynb").write_text(json.dumps(make(**changes)))
        assert main([command, "odd.ipynb"]) == 2, name
        first, second = capsys.readouterr().err.splitlines()
        assert first == f"error: odd.ipynb, cell 1: {fault}", name
        assert second.startswith("open the notebook in Jupyter"), name
