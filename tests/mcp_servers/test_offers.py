"""What agents have of their servers: tools by name and permission, resources, prompts."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import axe_nb
from axe_nb import ConfigError, Request, ToolCall, call
from axe_nb.commands.actions import diagnose, list_tools
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from axe_nb.views import agent_summary
from tests.engine.in_process import agent, heard, texts
from tests.mcp_servers.servers import caller, play, raw, stage
from tests.protocols import settings

pytestmark = pytest.mark.req("D-46")


def offer(on: Any, **fields: Any) -> dict[str, str]:
    """Name → description of the tools that a model is offered."""
    asked: list[Request] = []

    def model(request: Request) -> str:
        asked.append(request)
        return "done"

    fields = {"mcp_servers": {"raw": raw()}, "mode": "auto", **fields}
    result = play(on, agent("offered", model, **fields))
    assert result.text == "done", result.error
    return {tool.name: tool.description for tool in asked[0].tools}


def settle(name: str, table: dict[str, Any]) -> None:
    settings(tomli_w.dumps({"mcp_servers": {name: table}}))


@pytest.fixture
def ended() -> Any:
    yield
    session.servers.close()


def test_an_agent_has_all_tools_of_a_server_or_those_that_it_names() -> None:
    with stage() as on:
        assert len(offer(on)) == 18
        assert list(offer(on, tools=("raw__pid", "grep"))) == ["raw__pid", "grep"]


@pytest.mark.req("D-19")
def test_permissions_are_those_of_tools_that_write_unless_the_user_says_that_they_do_not() -> None:
    some = {"raw": raw(read_only=["echo"])}
    with stage() as on:
        assert list(offer(on, mode="plan", mcp_servers=some)) == ["raw__echo"]
        assert len(offer(on, mode="plan", mcp_servers={"raw": raw(read_only=True)})) == 18
        fields = {"mode": "ask", "mcp_servers": some}
        result = play(on, caller(call("raw__echo", text="x"), call("raw__pid"), **fields))
        assert texts(result, 0) == ["x"]
        assert heard(result, 1)[0].is_denied
        denied = {"raw": "deny", "raw__pid": "allow"}
        result = play(on, caller(call("raw__echo", text="x"), call("raw__pid"), permissions=denied))
        assert heard(result, 0)[0].is_denied
        assert 'permissions.raw is "deny"' in texts(result, 0)[0]
        assert not heard(result, 1)[0].is_denied


def test_ten_thousand_tools_are_cut_but_each_can_be_named() -> None:
    with stage() as on:
        many = {"raw": raw("many")}
        assert len(offer(on, mcp_servers=many)) == 128
        assert list(offer(on, mcp_servers=many, tools=("raw__t9999",))) == ["raw__t9999"]
        on.root = agent("warned", "x", mcp_servers=many)
        assert any("10,000 tools" in warning for warning in warnings_of(on))


def warnings_of(on: Any) -> tuple[str, ...]:
    return asyncio.run(on.session.plan(RunRequest(agent=on.root))).warnings


def test_hostile_names_and_texts_are_bounded_and_cleaned() -> None:
    with stage() as on:
        offered = offer(on, mcp_servers={"raw": raw("hostile")})
        with pytest.raises(ConfigError, match="the answer could not be read"):
            offer(on, mcp_servers={"raw": raw("deep")})
    assert len(offered) == 5, "too deep and too large schemas are left out"
    for name, description in offered.items():
        assert re.fullmatch("raw__[A-Za-z0-9_-]{1,59}", name)
        assert len(description) <= 4100
        assert not set("\x1b\u202e") & set(description)
    assert offered["raw__a_b"] == "fine"


@pytest.mark.req("D-19", "D-27")
def test_a_permission_that_names_no_tool_of_its_server_is_an_error() -> None:
    with stage() as on:
        with pytest.raises(ConfigError, match='unknown tool "raw__ecoh" in agent') as raised:
            offer(on, permissions={"raw__ecoh": "deny"})
        assert raised.value.hint == 'did you mean "raw__echo"?'
        assert list(offer(on, tools=("raw__pid",), permissions={"raw__echo": "deny"})) == [
            "raw__pid"
        ]


@pytest.mark.usefixtures("ended")
def test_servers_of_the_settings_are_named_by_agents_and_listed() -> None:
    settle("raw", raw("hostile"))
    namer = agent("namer", "done", mcp_servers=("raw",), mode="auto")
    assert axe_nb.run(namer, "go", display=False).text == "done"
    shown = agent_summary.all_tools(session.servers.list_running())
    for text in (repr(shown), repr(list_tools(namer))):
        assert "raw__a_b" in text
        assert "<script>" in text
        assert not set("\x1b\u202e") & set(text)
        assert max(map(len, text.split("\n"))) < 200


def test_a_variable_that_is_not_set_is_an_error_that_names_it() -> None:
    servers = {"raw": raw(env={"TOKEN": "${NO_SUCH_VARIABLE}"})}
    with stage() as on, pytest.raises(ConfigError, match="NO_SUCH_VARIABLE, which is not set"):
        play(on, caller(mcp_servers=servers))


def test_doctor_tries_each_server(project: Path) -> None:
    settle("raw", raw())
    session.define(agent("own", "done", mcp_servers={"bad": raw("crash")}))
    found = {finding.what: finding for finding in diagnose(None)}
    assert found["mcp raw"].state == "right"
    assert found["mcp raw"].message.startswith("18 tools: echo, tree, fail, die, hang and 13 more")
    bad = found["mcp bad"]
    assert bad.state == "wrong"
    assert "exited with code 3" in bad.message


def test_a_copy_has_only_the_servers_of_the_tools_that_it_is_given() -> None:
    seen: list[list[str]] = []

    def copy(tool: str) -> ToolCall:
        return call("subagent", label="x", task_prompt="work", allowed_tools=[tool])

    def model(request: Request) -> Any:
        seen.append([tool.name for tool in request.tools])
        if len(seen) == 1:
            return copy("raw__pid"), call("raw__pid"), copy("grep")
        if seen[-1][:1] == ["raw__pid"] and request.turn == 1:
            return call("raw__pid")
        return "\n".join(result.content for result in request.results) or "done"

    lead = agent(
        "lead", model, mcp_servers={"raw": raw(sandbox="off"), "other": raw()}, mode="auto",
        tools=("subagent", "grep"), permissions={"other": "deny", "other__echo": "deny"},
        sub_agents_config={"parallel": False},
    )  # fmt: skip
    with stage() as on:
        result = play(on, lead)
    assert seen[1] == ["raw__pid", "subagent"]
    assert ["grep", "subagent"] in seen
    _, child, other = result.walk()
    assert texts(child) == texts(result)[1:2], "the child has asked the same process"
    assert (child.error, other.error) == (None, None)
