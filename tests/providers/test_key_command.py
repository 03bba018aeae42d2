"""Keys that a command prints: `key_command` of config.toml.

Each test has a server that accepts one token at a time, and a command that prints the token of that
moment and notes that it was run.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.agents.user_config import Config, config_path
from axe_nb.commands.doctor import Finding, examine
from axe_nb.errors import ConfigError
from axe_nb.providers import key_command
from axe_nb.session.session import Session
from tests.protocols import settings
from tests.providers.dialects import BY_NAME
from tests.wire.replay import Asked, Replay

pytestmark = pytest.mark.req("B-3")

TOKEN = "ya29-canary-0123456789"


class Vertex(Replay):
    """A server that accepts the token in a file, and repeats the token of a refused request."""

    def __init__(self, folder: Path) -> None:
        super().__init__({})
        self.token, self.noted = folder / "token", folder / "noted"
        self.token.write_text(TOKEN)
        self.keys: list[str] = []

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        key = asked.headers.get("authorization", "").removeprefix("Bearer ")
        self.keys.append(key)
        if key != self.token.read_text():
            return {"status": 401, "body": {"error": {"message": f"{key} has expired"}}}
        said = BY_NAME["openai"].reply(f"your key is {key}", (), "stop")
        return {"body": {**said, "data": [{"id": "gemini"}]}}

    @property
    def runs(self) -> int:
        return len(self.noted.read_text()) if self.noted.exists() else 0

    def settings(self, script: str = "", more: str = "") -> None:
        """Writes config.toml, with a command that notes its run and prints the token."""
        print_token = f"print(open({str(self.token)!r}).read())"
        script = f"open({str(self.noted)!r}, 'a').write('.'); {script or print_token}"
        command = json.dumps([sys.executable, "-Ic", script])
        settings(
            f'[providers.vertex]\nprotocol = "openai"\n'
            f'base_url = "{self.root}/v1"\nkey_command = {command}\n{more}'
        )


@pytest.fixture
def vertex(tmp_path: Path) -> Iterator[Vertex]:
    with Vertex(tmp_path) as server:
        yield server


def run(prompt: str = "hi", **more: Any) -> Any:
    return axe_nb.run(Agent(name="a", model="vertex/gemini"), prompt, **more)


def examined() -> dict[str, Finding]:
    found = asyncio.run(examine(Session()))
    return {finding.what: finding for finding in found}


def test_a_key_comes_from_the_command_without_a_shell_and_is_never_shown(
    vertex: Vertex, project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = f"import sys; print('to stderr', file=sys.stderr); print({TOKEN!r})"
    vertex.settings(f"{said} # ; touch injected $(touch injected)")
    for mode in ("record", "replay"):  # which runs no command
        with axe_nb.cassette(tmp_path / "one.axe", mode=mode):
            result = run()
        assert (vertex.keys, vertex.runs, result.text) == ([TOKEN], 1, "your key is ***")
    assert not any(folder.joinpath("injected").exists() for folder in (project, Path.home()))
    cassette = (tmp_path / "one.axe").read_text()
    printed = capfd.readouterr()
    for text in (cassette, repr(result), str(Config.load()), printed.out, printed.err):
        assert TOKEN not in text
        assert "to stderr" not in text


def test_requests_share_a_key_ten_minutes(vertex: Vertex, monkeypatch: pytest.MonkeyPatch) -> None:
    vertex.settings()
    for _ in range(3):
        run()
    assert (vertex.runs, key_command.FRESH_SECONDS) == (1, 600)
    monkeypatch.setattr(key_command, "FRESH_SECONDS", 0)
    run()
    assert (vertex.runs, len(vertex.keys)) == (2, 4)


def test_many_requests_share_one_run_of_the_command_also_once_its_key_has_expired(
    vertex: Vertex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_command, "PAUSE", 0)
    vertex.settings(f"import time; time.sleep(0.5); print(open({str(vertex.token)!r}).read())")
    for runs in (1, 2):
        results = axe_nb.map(Agent(name="a", model="vertex/gemini"), [f"p{n}" for n in range(20)])
        assert [result.status for result in results] == ["completed"] * 20
        assert vertex.runs == runs
        vertex.token.write_text("ya29-the-next-one-456")


def test_many_requests_whose_key_is_refused_do_not_ask_again_at_once(
    vertex: Vertex, monkeypatch: pytest.MonkeyPatch
) -> None:
    vertex.settings("print('ya29-not-accepted-789')")
    agent = Agent(name="a", model="vertex/gemini")
    results = list(axe_nb.map(agent, [f"p{n}" for n in range(12)], concurrency=3))
    assert {result.error for result in results} == {"auth: *** has expired"}
    assert vertex.runs == 1
    monkeypatch.setattr(key_command, "PAUSE", 0)
    assert not run().ok
    assert vertex.runs == 2, "after a while it may print another"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (f"print({TOKEN!r}); raise SystemExit(3)", "it failed with exit status 3"),
        ("print('  ')", "it printed no key"),
        ("print('ya29-\\x1b[1m')", "it printed no key"),
        ("print('ya29-schlüssel')", "it printed no key"),
    ],
)
def test_a_command_without_a_key_is_one_line_with_its_place(
    vertex: Vertex, script: str, reason: str
) -> None:
    vertex.settings(script)
    error = run().cause
    assert error.message == (
        f'auth: no key from the command "{Path(sys.executable).name}": {reason} (key_command '
        "under [providers.vertex] in $XDG_CONFIG_HOME/axe/config.toml)"
    )
    assert error.hint == "run the command in a terminal: what it prints is never shown here"
    assert (vertex.keys, error.exit_code) == ([], 3)


def test_a_command_that_takes_too_long_is_ended(
    vertex: Vertex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_command, "SECONDS", 1.0)
    vertex.settings("import time; time.sleep(60)")
    assert ": it did not end within 1s (key_command under" in run().cause.message


def test_a_program_beside_config_toml_is_never_one_of_the_project(
    vertex: Vertex, project: Path
) -> None:
    vertex.settings()
    for folder, token in ((project, "wrong"), (config_path().parent, TOKEN)):
        program = folder / "token.sh"
        program.write_text(f"#!/bin/sh\n[ -t 0 ] || read line\necho {token}\n")
        program.chmod(0o700)
    text = config_path().read_text().split("key_command")[0]
    config_path().write_text(f'{text}key_command = ["./token.sh"]\n')
    assert run().status == "completed"
    assert vertex.keys == [TOKEN]


def test_the_environments_key_comes_first(vertex: Vertex, monkeypatch: pytest.MonkeyPatch) -> None:
    vertex.settings()
    monkeypatch.setenv("VERTEX_API_KEY", TOKEN)
    assert run().status == "completed"
    assert vertex.runs == 0
    assert examined()["vertex key"].message == "set (VERTEX_API_KEY)"


@pytest.mark.parametrize("other", ["api_key", "api_key_env"])
def test_a_second_place_for_the_key_is_a_mistake(vertex: Vertex, other: str) -> None:
    vertex.settings(more=f'{other} = "k"')
    with pytest.raises(ConfigError) as raised:
        Config.load()
    assert raised.value.lines() == [
        "failed to parse config file: providers.vertex.key_command cannot be combined with "
        f"{other}", "in $XDG_CONFIG_HOME/axe/config.toml, line 4", "remove one of them",
    ]  # fmt: skip


def test_a_projects_file_cannot_bring_a_command(project: Path) -> None:
    marker = project / "ran"
    table = f'[providers.openai]\nkey_command = ["touch", {json.dumps(str(marker))}]\n'
    (project / "axe" / "agents" / "a.toml").write_text(f'name = "a"\nmodel = "script/a"\n{table}')
    for name in ("config.toml", "axe/config.toml", "axe/agents/config.toml"):
        (project / name).write_text(table)
    assert not Config.load().provider("openai").key_command
    with pytest.raises(ConfigError):
        Agent.from_file("a").prompt  # noqa: B018
    examined()
    assert not marker.exists()


def test_doctor_tries_the_command_and_says_where_the_key_is_from(vertex: Vertex) -> None:
    vertex.settings()
    found = examined()
    name = Path(sys.executable).name
    assert found["vertex key"] == Finding(
        "right", "vertex key",
        f'printed by "{name}" (key_command under [providers.vertex] in config.toml)',
    )  # fmt: skip
    assert found["vertex server"].message.endswith("/v1, 1 model")
    assert vertex.runs == 1
