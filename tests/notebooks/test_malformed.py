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


BOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [CODE]}
CHANGES: list[dict[str, Any]] = [
    {"cells": {}}, {"cells": "ab"}, {"cells": None}, {"metadata": 5}, {"nbformat": 99},
    {"nbformat": 3, "nbformat_minor": 0, "worksheets": 5},
]  # fmt: skip
CHANGES_OF_THE_CELL: list[dict[str, Any]] = [
    {"source": 5}, {"source": None}, {"source": "\ud800"}, {"metadata": {"tags": 5}},
    {"metadata": {"tags": [{}]}}, {"outputs": {}}, {"outputs": [{}]},
    {"outputs": [{"output_type": "odd"}]}, {"outputs": [{"output_type": "error"}]},
    {"outputs": [{"output_type": "stream", "name": "stdout", "text": 5}]},
]  # fmt: skip
ODD: list[str | bytes] = [
    "", "hello", b"\xff\xfe\x00", "null", "[]", "[" * 100_000 + "]" * 100_000,
    '{"cells": [], "metadata": ' + '{"a": ' * 20_000 + "1" + "}" * 20_001,
    *(json.dumps(BOOK | changes) for changes in CHANGES),
    *(json.dumps(BOOK | {"cells": [CODE | changes]}) for changes in CHANGES_OF_THE_CELL),
]  # fmt: skip


@pytest.mark.req("D-68")
@pytest.mark.parametrize("command", ["check", "freeze"])
def test_a_file_that_is_no_notebook_is_refused_in_two_lines(
    command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in ODD:
        data = content if isinstance(content, bytes) else content.encode()
        Path("odd.ipynb").write_bytes(data)
        assert main([command, "odd.ipynb"]) == 2, content[:100]
        shown = capsys.readouterr()
        first, second = shown.err.splitlines()
        assert first.startswith("error: odd.ipynb is not a notebook: "), content[:100]
        assert (shown.out, len(first) < 300) == ("", True), content[:100]
        assert second == "open the notebook in Jupyter and save it, or repair the file"
        assert Path("odd.ipynb").read_bytes() == data
