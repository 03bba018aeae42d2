"""Agents use the tools of an MCP server, which may die, flood, lie and send what it likes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from axe_nb import ConfigError, Request, call
from axe_nb.session.session import Session
from tests.engine.in_process import Stage, agent, heard, texts
from tests.mcp_servers.raw_server import TREE
from tests.mcp_servers.servers import caller, play, processes_with, raw, stage, wait_until

pytestmark = pytest.mark.req("D-46")


def test_schemas_reach_the_model_and_arguments_the_server_unchanged() -> None:
    asked: list[Request] = []
    arguments = {"root": {"next": {"next": {}}}, "size": None, "ω": [1.5, True]}

    def first(request: Request) -> Any:
        asked.append(request)
        return call("raw__tree", **arguments)

    with stage() as on:
        result = play(on, caller(first, call("raw__echo", text="hé\n")))
    offered = {tool.name: tool for tool in asked[0].tools}
    assert list(offered)[:2] == ["raw__echo", "raw__tree"]
    assert offered["raw__echo"].description == "Does echo."
    assert offered["raw__tree"].schema == TREE
    assert list(offered["raw__tree"].schema) == list(TREE)
    assert json.loads(texts(result, 0)[0]) == arguments
    assert texts(result, 1) == ["hé\n"]


def test_failures_and_data_become_text_and_pictures_are_seen() -> None:
    calls = [call(f"raw__{name}") for name in ("fail", "picture", "data", "ask")]
    with stage() as on:
        result = play(on, caller(*calls))
    [failed] = heard(result, 0)
    assert (failed.is_error, failed.content) == (True, "Error: it failed")
    [seen] = texts(result, 1)
    assert seen.startswith("see\n[a picture, image/png, 12 kB]\n[picture 1: 1×1 PNG")
    assert [p.format for p in result.log[1].results[0].pictures] == ["PNG"]
    assert texts(result, 2) == ['{"answer": [1, null, "é", "Infinity"]}']
    assert texts(result, 3) == ["[true, true]"], "requests of the server are refused"


def test_a_server_that_dies_in_a_call_is_started_again_by_the_next_one() -> None:
    with stage() as on:
        result = play(on, caller(call("raw__pid"), call("raw__die"), call("raw__echo", text="new")))
        again = play(on, caller(call("raw__pid")))
    [died] = heard(result, 1)
    assert died.is_error
    assert died.content.startswith(
        'Error: MCP server "raw" exited during this call (it exited with code 7; its last output: '
        '"killed by the test"); the call may or may not have taken effect. '
        "The next call starts it again"
    )
    assert texts(result, 2) == ["new"]
    assert again.text.isdigit(), "a run on another loop uses it too"


def test_another_call_ends_although_one_never_does() -> None:
    async def both() -> tuple[Any, Any]:
        with stage() as on:
            on.root = caller(call("raw__hang"), name="patient")
            hanging = asyncio.create_task(on.ask(timeout=2))
            other = Stage(on.session, root=caller(call("raw__echo", text="quick")))
            return await other.ask(), await hanging

    quick, hung = asyncio.run(both())
    assert quick.text == "quick"
    assert hung.status == "timeout"


def test_a_cancelled_call_is_cancelled_in_the_server_too() -> None:
    with stage() as on:

        def is_told() -> bool:
            hanging = caller(call("raw__hang"), name="patient")
            assert play(on, hanging, timeout=2).status == "timeout"
            return int(play(on, caller(call("raw__cancelled"))).text) > 0

        wait_until(is_told)  # the time of the first run may be up before its call begins


def test_what_a_server_sends_is_bounded_and_harms_no_run() -> None:
    calls = [call(f"raw__{name}") for name in ("large", "big", "nag", "lie", "flood", "lie")]
    with stage() as on:
        result = play(on, caller(*calls, mcp_servers={"raw": raw("chatty")}))
    [large] = texts(result, 0)
    assert large.startswith("xxx")
    assert len(large) < 70_000
    assert "it sent a message larger than 16 MB" in texts(result, 1)[0]
    assert "it sent 100 requests without reading an answer" in texts(result, 2)[0]
    told = [texts(result, turn) for turn in range(3, 6)]
    assert told == [["truth"], ["after the flood"], ["truth"]]


@pytest.mark.req("D-82", "D-43")
def test_a_server_gets_no_keys_but_those_that_its_table_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-for-servers")
    monkeypatch.setenv("MEMO_TOKEN", "for-the-memo-server-1")
    servers = {"raw": raw(env={"TOKEN": "Bearer ${MEMO_TOKEN}", "LANG": "C"})}
    with stage() as on:
        result = play(on, caller(call("raw__environ"), mcp_servers=servers))
    environment = json.loads(result.text)
    assert environment["TOKEN"] == "Bearer for-the-memo-server-1"
    assert environment["LANG"] == "C"
    assert "ANTHROPIC_API_KEY" not in environment
    assert "MEMO_TOKEN" not in environment


@pytest.mark.req("D-82")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_nothing_is_left_of_a_server_once_its_session_ends(sandbox: str) -> None:
    mark = f"mark-{os.getpid()}-{sandbox}"
    servers = {"raw": raw("usual", sandbox=sandbox, env={"X": "1"})}
    servers["raw"]["command"].append(mark)
    with stage() as on:
        result = play(on, caller(call("raw__spawn", text=mark), mcp_servers=servers))
        assert result.text == "spawned"
        wait_until(lambda: len(processes_with(mark)) > 1)
    if sandbox == "auto":  # else what it started in a session of its own is out of reach
        wait_until(lambda: not processes_with(mark))
    wait_until(lambda: not processes_with(f"usual\0{mark}"))
    for left in processes_with(mark):
        os.kill(left, signal.SIGKILL)


NODE_ENDS = """import sys; sys.exit('''node:internal/modules:9
Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'
    at node:internal/modules:9 {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v26.13.1''')"""


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (raw("silent", start_timeout=1), "no answer within 1 s"),
        (raw("crash"), 'it exited with code 3; its last output: "no�[31mdisplay: cannot <b>'),
        ({"command": [sys.executable, "-c", NODE_ENDS]},
         """its last output: "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'\""""),
        ({"command": ["no-such-program-here"]}, "program not found"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_start_is_an_error_before_the_first_request(
    table: dict[str, Any], problem: str
) -> None:
    asked: list[Request] = []
    with stage() as on, pytest.raises(ConfigError) as raised:
        play(on, caller(asked.append, mcp_servers={"raw": table}))
    assert 'MCP server "raw" did not start: ' in str(raised.value)
    assert problem in str(raised.value)
    assert "mcp_servers.raw.command" in raised.value.hint
    assert "\n" not in str(raised.value)
    assert asked == []


def test_a_server_that_is_not_in_the_settings_is_named() -> None:
    with pytest.raises(ConfigError, match='unknown MCP server "files" in agent "a"'):
        Stage(Session(), root=agent("a", "x", mcp_servers=("files",))).play()
