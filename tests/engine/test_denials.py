"""Calls that a person could have allowed, where no one can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_nb
from axe_nb import Agent, Request, Response, call, script


def test_a_call_denied_as_no_one_can_be_asked_is_a_warning(project: Path) -> None:
    @script("writer")
    def writer(request: Request) -> Any:
        if request.turn == 1:
            written = {"path": "a.txt", "content": "x"}
            return Response("", (call("write_file", **written), call("write_file", **written)))
        return "Done."

    agent = Agent(name="writer", model="script/writer", tools=("write_file",), mode="ask")
    result = axe_nb.run(agent, "Go")
    assert (result.status, Path("a.txt").exists()) == ("completed", False)
    (warning,) = result.warnings
    assert warning.startswith("write_file was denied: ")
    assert "no one can be prompted here; " in warning
