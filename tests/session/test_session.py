"""What a session puts together and keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request
from axe_nb.session.drive import NullView, drive, drive_here
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session, apply_overrides
from tests.engine.in_process import agent, ask_session


def echo(name: str) -> list[Request]:
    """Registers a model that repeats its last message, and keeps its requests."""
    sent: list[Request] = []

    @axe_nb.script(name)
    def model(request: Request) -> str:
        sent.append(request)
        return request.last

    return sent


def test_what_a_run_changes_is_changed_for_it_alone() -> None:
    one = Agent("one", "script/a", params={"temperature": 0.5, "max_tokens": 9}, mode="ask")
    other = apply_overrides(
        one, Overrides(model="script/b", params={"temperature": 1, "seed": 7}, mode="plan")
    )
    assert (other.model, other.mode) == ("script/b", "plan")
    assert other.params == {"temperature": 1, "max_tokens": 9, "seed": 7}
    assert (one.model, one.mode, one.params["temperature"]) == ("script/a", "ask", 0.5)
    assert apply_overrides(one, Overrides()) is one


@pytest.mark.req("D-25", "A-C4")
def test_settings_are_read_anew_for_every_run(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what the server sets is taken away while it runs, and back when it ends
    with axe_nb.script_server("openai") as server, monkeypatch.context() as environ:
        echo("echo")
        environ.delenv("OPENAI_API_KEY")
        environ.delenv("AXE_OPENAI_BASE_URL")
        session = Session()
        one = session.define(Agent("one", "openai/echo"))
        with pytest.raises(ConfigError, match="no API key"):
            asyncio.run(ask_session(session, one, "x"))
        (tmp_path / "config/axe").mkdir(parents=True)
        (tmp_path / "config/axe/config.toml").write_text(
            f'[providers.openai]\napi_key = "k"\nbase_url = "{server.base_url}/v1"'
        )
        assert asyncio.run(ask_session(session, one, "x")).text == "x"


@pytest.mark.req("D-2")
def test_a_handle_is_one_run_and_sends_nothing_a_second_time() -> None:
    sent = echo("echo")
    handle = Session().start(RunRequest(agent=Agent("one", "script/echo"), prompt="hello"))

    async def work() -> None:
        assert [event async for event in handle.events()]
        with pytest.raises(RuntimeError, match="this run of one has already been started"):
            assert [event async for event in handle.events()]

    asyncio.run(work())
    assert len(sent) == 1
    assert handle.result(0).text == "hello"


@pytest.mark.parametrize(
    "shows",
    [drive, lambda handle, view: asyncio.run(drive_here(handle, view))],
    ids=["drive", "drive_here"],
)
def test_a_view_that_fails_at_a_tick_stops_the_run_and_is_told(shows: Any) -> None:
    @axe_nb.script("slow")
    async def model(request: Request) -> str:
        await asyncio.sleep(30)
        return "late"

    class Broken(NullView):
        def tick(self) -> None:
            raise ZeroDivisionError("of the view")

    handle = Session().start(RunRequest(agent=Agent("one", "script/slow"), prompt="go"))
    with pytest.raises(ZeroDivisionError, match="of the view"):
        shows(handle, Broken())
    assert handle.finished is not None
    assert handle.finished.status == "cancelled"


@pytest.mark.req("D-8")
def test_nobody_waits_for_a_handle_that_is_cancelled_before_anyone_runs_it() -> None:
    handle = Session().start(RunRequest(agent=agent("one", "hi")))
    handle.cancel()
    assert handle.done

    async def wait() -> None:
        await handle

    for waiting in (lambda: handle.result(5), lambda: asyncio.run(wait())):
        with pytest.raises(axe_nb.AxeError, match="cancelled before it began"):
            waiting()
