"""`--dry-run --full` shows the body that a run would send first, and sends nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from axe_nb import cli, script, script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.views.requests import LONG

AGENT = """\
name = "lead"
model = "{provider}/lead"
system_prompt = "Lead {long} them."
tools = ["list_directory"]
[params]
temperature = 0.5
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.req("D-62", "B-10")
def test_it_is_the_body_that_is_sent_then(
    protocol: Protocol, project: Path, capsys: pytest.CaptureFixture[str], piped: object
) -> None:
    agent = AGENT.format(provider=provider_of(protocol), long=LONG.replace("\n", " "))
    (project / "axe" / "agents" / "lead.toml").write_text(agent)
    script("lead")(lambda request: "fine")
    words = ["run", "lead", "-p", "Who is there?", "--workdir", str(project)]
    with script_server(protocol) as server:
        assert cli.main([*words, "--dry-run"]) == 0
        letters = capsys.readouterr().out
        assert cli.main([*words, "--dry-run", "--full"]) == 0
        shown = capsys.readouterr().out
        assert server.requests == []
        assert cli.main(words) == 0
    assert shown.startswith(letters)
    head, _, body = shown.removeprefix(letters).partition(" bytes):\n")
    assert json.loads(body) == server.requests[0]
    lines = head.splitlines()
    assert lines[:2] == ["", "--- Request ---"]
    assert lines[2].startswith(f"lead · {provider_of(protocol)}/lead · 0/1 · about 1,")
    assert lines[2].endswith(" tokens · nothing was sent")
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        "system prompt", "tool schemas", "prompt",
    ]  # fmt: skip


@pytest.mark.req("D-62", "B-10")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_no_key_is_needed_where_nothing_is_sent(
    provider: str, project: Path, capsys: pytest.CaptureFixture[str], piped: object
) -> None:
    agent = AGENT.format(provider=provider, long=LONG.replace("\n", " "))
    (project / "axe" / "agents" / "lead.toml").write_text(agent)
    words = ["run", "lead", "-p", "Who is there?"]
    for more in ["--dry-run"], ["--dry-run", "--full"]:
        assert cli.main([*words, *more]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(f"=== Dry Run ===\n\nModel:    {provider}/lead\n")
        assert shown.err.startswith(f'warning: no API key for provider "{provider}": set ')
        assert shown.err.count("\n") == 1
    assert cli.main(words) == 3
    assert capsys.readouterr().err.startswith(f'error: no API key for provider "{provider}"')
