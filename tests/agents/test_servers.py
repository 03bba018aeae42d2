"""The tables of MCP servers, in `config.toml` and in agent files."""

from __future__ import annotations

import pytest

from axe_nb import Agent, ConfigError, secrets
from axe_nb.agents.agent_tables import McpServer, expand_variables, keep_servers, parse_servers

pytestmark = pytest.mark.req("D-46")

START = 'name = "a"\nmodel = "script/a"\n'

BEARER = {"Authorization": "Bearer ${T}"}

FORMS = {
    "names": ('mcp_servers = ["files", "web"]\n', {"files": None, "web": None}),
    "tables": (
        '[mcp_servers.files]\ncommand = ["serve", "."]\nread_only = ["list"]\n',
        {"files": McpServer(command=("serve", "."), read_only=("list",))},
    ),
    "the Axe command line": (
        '[[mcp_servers]]\nname = "web"\nurl = "https://x.example/mcp"\n'
        'transport = "sse"\nheaders = { Authorization = "Bearer ${T}" }\n',
        {"web": McpServer(url="https://x.example/mcp", transport="sse", headers=BEARER)},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read_and_written_again(form: str) -> None:
    text, found = FORMS[form]
    agent = Agent.from_toml(START + text)
    assert parse_servers(agent.mcp_servers) == found
    assert agent.warnings == ()
    assert Agent.from_toml(agent.to_toml()) == agent
    assert keep_servers(agent.mcp_servers, ["grep", "other__x"]) in ((), {})
    kept = keep_servers(agent.mcp_servers, [f"{next(iter(found))}__x"])
    assert list(parse_servers(kept)) == [next(iter(found))]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('mcp_servers = "files"', "mcp_servers must be a list of strings, or tables"),
        ("mcp_servers = [1]", "mcp_servers must be names, or tables with a name"),
        ('mcp_servers = ["a", "a"]', 'mcp_servers lists "a" twice'),
        ('mcp_servers = ["a__b"]', 'mcp_servers contains the invalid name "a__b"'),
        ('mcp_servers = ["a_"]', 'mcp_servers contains the invalid name "a_"'),
        ('[[mcp_servers]]\nurl = "http://x"', "mcp_servers must be names, or tables with a name"),
        ("[mcp_servers.f]", "mcp_servers.f needs either command or url"),
        ('[mcp_servers.f]\ncommand = ["x"]\nurl = "http://x"', "needs either command or url"),
        ('[mcp_servers.f]\ncommand = "x"', "mcp_servers.f.command must be a list of strings"),
        ('[mcp_servers.f]\ncomand = ["x"]', 'unknown key "mcp_servers.f.comand"'),
        ('[mcp_servers.f]\nurl = "file:///etc/passwd"', "mcp_servers.f.url must be a valid URL"),
        ('[mcp_servers.f]\nurl = "http://x:99999"', "mcp_servers.f.url must be a valid URL"),
        (
            '[mcp_servers.f]\nurl = "http://x"\ntransport = "tcp"',
            'mcp_servers.f.transport must be streamable-http or sse, not "tcp"',
        ),
        (
            '[mcp_servers.f]\ncommand = ["x"]\nsandbox = "on"',
            'mcp_servers.f.sandbox must be auto, off or docker:IMAGE, not "on"',
        ),
        ('[mcp_servers.f]\ncommand = ["x"]\nstart_timeout = inf', "start_timeout must be a number"),
        (
            '[mcp_servers.f]\ncommand = ["x"]\nstart_timeout = 0',
            "start_timeout must be more than 0",
        ),
        ('[mcp_servers.f]\nurl = "http://x"\nheaders = { "a b" = "c" }', "must have names made of"),
        ('[mcp_servers.f]\ncommand = ["x"]\nenv = { "A=B" = "c" }', "must have names without"),
    ],
)
def test_a_mistake_is_named_by_its_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Agent.from_toml(START + text)
    assert problem in str(raised.value)


@pytest.mark.req("D-60")
def test_secrets_of_a_table_are_kept_out_of_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMO", "v4lue-of-the-variable")
    given = {"X-Api-Token": "hunter2-and-more", "X-Memo": "${MEMO}!"}
    assert expand_variables(given, "s", "headers") == {
        "X-Api-Token": "hunter2-and-more",
        "X-Memo": "v4lue-of-the-variable!",
    }
    assert secrets.redact("it says hunter2-and-more") == "it says ***"
