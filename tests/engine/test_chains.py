"""The chains of a run: what stands before its model and its tools."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from axe_nb import engine
from axe_nb.engine.scope import Env
from axe_nb.recording.cassette import Cassette
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from tests.engine.in_process import agent

PLAIN = "Arrival Retries Slots Money Exchanges"


def links(top: Any) -> str:
    names = []
    while top is not None:
        names.append(type(top).__name__)
        top = getattr(top, "next", None)
    return " ".join(names)


@pytest.mark.parametrize(
    ("is_recorded", "is_stepped", "model", "tools"),
    [
        (False, False, PLAIN, "Told Authorised ToolRun"),
        (True, False, "Arrival CassetteReplay Retries Slots Money Exchanges",
         "Told Authorised CassetteCalls ToolRun"),
        (False, True, "Arrival Steps Retries Slots Money Exchanges",
         "Told StepCalls Authorised ToolRun"),
        (True, True, "Arrival Steps CassetteReplay Retries Slots Money Exchanges",
         "Told StepCalls Authorised CassetteCalls ToolRun"),
    ],
)  # fmt: skip
def test_a_run_has_the_links_that_it_needs(
    is_recorded: bool, is_stepped: bool, model: str, tools: str, tmp_path: Path
) -> None:
    if is_recorded:
        session.use_cassette(Cassette(tmp_path / "c", "record"))
    steps = Overrides(step=lambda step: "go") if is_stepped else Overrides()
    handle = session.start(RunRequest(agent=agent("one", "said"), prompt="go", overrides=steps))
    assert asyncio.run(handle.execute(lambda event: None)).text == "said"
    session.use_cassette(None)
    assert handle._run is not None
    assert links(handle._run.conversation._model) == model
    assert links(handle._run.dispatch._chain) == tools


def test_the_loop_sees_neither_fork_nor_cassette_nor_pauses() -> None:
    folder = Path(engine.__file__).parent
    names = re.compile(r"\benv\.(fork|cassette|stepper)\b|Replay\b")
    for name in ("loop", "conversation", "links", "dispatch", "call_links", "children", "call"):
        source = (folder / f"{name}.py").read_text("utf-8").partition("\ndef connect_")[0]
        found = names.findall(source)
        assert found == [], name
    assert {"fork", "cassette", "stepper"} <= set(Env.__slots__)
