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
PARTS: dict[str, dict[str, Any]] = {
    "a number as source": {"source": 5},
    "no source": {"source": None},
    "a surrogate": {"source": "\ud800"},
    "tags": {"metadata": {"tags": 5}},
    "a tag": {"metadata": {"tags": [{}]}},
    "outputs": {"outputs": {}},
    "an empty output": {"outputs": [{}]},
    "a kind": {"outputs": [{"output_type": "odd"}]},
    "a stream": {"outputs": [{"output_type": "stream", "name": "stdout", "text": 5}]},
    "an error": {"outputs": [{"output_type": "error"}]},
}


@pytest.mark.req("D-68")
@pytest.mark.parametrize("command", ["check", "freeze"])
def test_a_file_that_is_no_notebook_is_refused_in_two_lines(
    command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = WHOLE | {name: json.dumps(make(**changes)) for name, changes in PARTS.items()}
    for name, content in odd.items():
        data = content if isinstance(content, bytes) else content.encode()
        Path("odd.ipynb").write_bytes(data)
        assert main([command, "odd.ipynb"]) == 2, name
        shown = capsys.readouterr()
        assert shown.out == "", name
        first, second = shown.err.splitlines()
        assert first.startswith("error: odd.ipynb is not a notebook: "), name
        assert len(first) < 300, name
        assert second == "open the notebook in Jupyter and save it, or repair the file"
        assert Path("odd.ipynb").read_bytes() == data
