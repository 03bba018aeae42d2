"""`%axe cassette` without a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb.nb.line_magic import run_command
from axe_nb.recording import cassette
from axe_nb.session.session import session


def test_naming_the_cassette_again_keeps_what_was_not_written_yet(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cassette, "SHARE", 1e9)
    shell: Any = None
    axe_nb.script("one")(lambda request: request.last)
    axe_nb.define(axe_nb.Agent("one", "openai/one"))
    try:
        with axe_nb.script_server("openai"):
            run_command(shell, "cassette one.axe --mode auto", {}, print)
            axe_nb.run("one", "first")
            axe_nb.run("one", "second")
        run_command(shell, "cassette one.axe --mode replay", {}, print)
        assert [axe_nb.run("one", task).text for task in ("first", "second")] == ["first", "second"]
    finally:
        session.use_cassette(None)
