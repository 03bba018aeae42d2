"""The sandbox as users meet it: the key, the question, the row, the note about the network."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, call
from axe_nb.agents.user_config import config_path
from axe_nb.builtin import shell
from axe_nb.engine.person import Decision
from axe_nb.errors import ConfigError
from axe_nb.sandbox import find, process
from axe_nb.sandbox.find import find_sandbox
from axe_nb.sandbox.view import View, cover, fill_view, make_view
from axe_nb.tools.tool import CallSite, Guard, ToolError
from axe_nb.views.outline import as_text
from tests.calls import context
from tests.delegation.approvals import Person, run_with
from tests.delegation.copies import said, told
from tests.doctor.test_doctor import found, of
from tests.engine.in_process import agent
from tests.sandbox.cages import find_method, use_only

pytestmark = pytest.mark.req("D-82")


def ask(person: Person | None = None, command: str = "echo hi", **fields: Any) -> RunResult:
    lead = agent(
        "lead", said(call("run_command", command=command), "done"), tools=("run_command",), **fields
    )
    return run_with(person, lead)


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "METHODS", {})


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def level(workdir: Path) -> str:
    found = find_sandbox("auto", make_view(workdir)).level
    assert found in ("full", "files")
    return found


def test_question_and_row_name_the_level_and_its_promises(workdir: Path, level: str) -> None:
    person = Person(Decision("yes"))
    result = ask(person=person, mode="ask")
    [question] = person.questions
    assert question.reason.startswith(f"in a sandbox ({level}), no network; writes no")
    assert question.reason.endswith("; reaches no network")
    assert told(result) == "hi\n"
    assert f"in a sandbox ({level}), no network" in as_text(result)
    [answer] = result.messages[-2].tool_results
    assert answer.note.endswith(f"in a sandbox ({level}), no network")
    assert "sandbox" not in answer.content, "the model is not told at each command"


def test_auto_without_a_sandbox_asks_for_each_command(workdir: Path, no_sandbox: None) -> None:
    person = Person(Decision("yes"))
    ask(person=person, mode="auto", permissions={"run_command": "allow"})
    [question] = person.questions
    assert question.reason.startswith(
        "there is no sandbox here: a command can do anything you can\nno sandbox here"
    )


@pytest.mark.req("D-43", "D-77")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("awk '/two/ {print $1}' f", "two\n"), ("sed '/^$/d' f", "one\ntwo words\n"),
        ("grep -rn '/api/v1' src", "src/a.py:1:get('/api/v1')\n"),
        ("cat <<'EOF'\nas it is: $x\nEOF", "as it is: $x\n"), ("eval echo hello", "hello\n"),
        ("ls /usr/bin/env; cd src && ls ../f", "/usr/bin/env\n../f\n"),
    ],
)  # fmt: skip
def test_in_a_sandbox_a_command_is_not_judged_by_its_words(
    workdir: Path, command: str, output: str
) -> None:
    (workdir / "f").write_text("one\n\ntwo words\n")
    (workdir / "src").mkdir()
    (workdir / "src" / "a.py").write_text("get('/api/v1')\n")
    assert told(ask(mode="auto", command=command)) == output


@pytest.mark.req("D-43", "D-77")
def test_without_a_sandbox_the_words_of_a_command_are_judged_and_each_needs_a_yes(
    workdir: Path, no_sandbox: None
) -> None:
    for command in ("cat ~/.netrc", "sed '/etc/d' f", "sudo ls"):
        person = Person()
        result = ask(mode="auto", command=command, person=person)
        assert "blocked by safety validator" in as_text(result)
        assert person.questions == []
    assert told(ask(mode="auto")) == (
        "Error: permission denied for run_command: there is no sandbox here: a command can do "
        "anything you can, and no one can be prompted here; "
        'set sandbox = "off" in agent "lead"'
    )


def test_off_is_the_word_of_the_user(workdir: Path) -> None:
    (workdir.parent / "outside.txt").write_text("outside")
    result = ask(mode="auto", sandbox="off", command="cd $PWD/$(printf '\\056\\056'); ls")
    assert "outside.txt" in told(result)
    assert "sandbox turned off" in as_text(result)


def test_a_child_has_the_sandbox_of_the_agents_above_it(workdir: Path, level: str) -> None:
    auto = Agent("lead", "script/x")
    off = Agent("child", "script/x", sandbox="off", allowed_hosts=("*",))
    assert shell.choose_sandbox([off], workdir).level == "none"
    assert shell.choose_sandbox([off, off], workdir).view.network
    inner = shell.choose_sandbox([off, auto], workdir)
    assert (inner.level, inner.view.network) == (level, False)
    for hosts, expected in (((), False), (("python.org",), False), (("*",), True)):
        one = auto.but(allowed_hosts=hosts)
        assert shell.choose_sandbox([one], workdir).view.network is expected


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("getent ahosts example.org || echo EAI_AGAIN; exit 1", "there is no network in this"),
        ("git init -q .", "commands cannot write .git/hooks, .git/config, axe"),
        ("cat ~/.profile", "each command starts with an empty home folder and an empty /tmp"),
    ],
)
def test_a_command_that_meets_a_limit_of_the_sandbox_is_told_its_limits_in_one_note(
    workdir: Path, command: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_only(monkeypatch, "bubblewrap")
    *_, last = told(ask(mode="auto", command=command)).splitlines()
    assert last[0] + last[-1] == "()"
    assert note in last


def test_changed_protected_files_make_the_result_an_error_and_a_warning(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_only(monkeypatch, "Landlock")
    result = ask(mode="auto", command="mkdir .vscode; echo x > .vscode/tasks.json; echo done")
    assert told(result) == (
        "Error: the command ended without an error, but protected files were changed meanwhile\n"
        'done\n".vscode" is protected, and was created'
    )
    assert result.warnings == (
        'while a command ran: ".vscode" is protected, and was created; nothing was undone',
    )
    assert (workdir / ".vscode" / "tasks.json").exists(), "it is seen, not undone"


@pytest.mark.parametrize("value", ["full", "", "docker:", "docker:-v", "docker:a b", "Off"])
def test_an_invalid_value_names_the_key(value: str) -> None:
    with pytest.raises(ConfigError, match="sandbox must be auto, off or docker:IMAGE"):
        Agent(name="x", model="script/x", sandbox=value)


def test_the_doctor_names_the_level_and_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    find_method("bubblewrap")
    [(state, message, step)] = of("sandbox", found())
    assert (state, step) == ("right", "")
    assert ("may change modes of devices" in message) is (os.geteuid() == 0)
    assert message.startswith("full (bubblewrap): a command writes nothing outside the workdir")
    monkeypatch.setattr(find, "METHODS", {})
    why = "no sandbox works here, so commands need approval"
    assert of("sandbox", found()) == [("note", why, "install bubblewrap, if your system has it")]


def test_a_container_sees_the_workdir_and_no_network(workdir: Path) -> None:
    (workdir / ".env").write_text("KEY=1")
    (workdir / "axe").mkdir()
    launch = find.wrap_docker(
        "docker", "debian:12", ["sh", "-c", "true"], fill_view(make_view(workdir))
    )
    words = list(launch.words)
    assert words[-4:] == ["debian:12", "sh", "-c", "true"]
    for flags in (["--cap-drop", "ALL"], ["--network", "none"], ["--pull", "never"]):
        place = words.index(flags[0])
        assert words[place : place + 2] == flags
    mounts = [words[i + 1] for i, word in enumerate(words) if word == "--mount"]
    assert f'"type=bind","source={workdir}","target={workdir}"' in mounts
    assert f'"type=bind","source={workdir}/axe","target={workdir}/axe","readonly"' in mounts
    assert f'"type=bind","source=/dev/null","target={workdir}/.env","readonly"' in mounts
    assert list(launch.end)[:2] == ["docker", "kill"]
    assert launch.end[2] == words[words.index("--name") + 1]


def test_a_profile_of_macos_names_what_is_protected_also_where_links_lead(tmp_path: Path) -> None:
    workdir = tmp_path / 'a "quoted" folder'
    (workdir / "store").mkdir(parents=True)
    (workdir / "store" / "HEAD").touch()
    (workdir / ".git").write_text("gitdir: store\n")
    (workdir / "axe").symlink_to("shared/agents")
    (workdir / ".env").touch()
    view = fill_view(View(workdir=workdir, home=tmp_path))
    profile = find.make_profile(view)
    path = f'{tmp_path}/a \\"quoted\\" folder'
    assert profile.count("(") == profile.count(")")
    assert f'(subpath "{path}")' in profile
    assert f'(deny file-read* file-write* (subpath "{path}/.env"))' in profile
    after = profile[profile.index("(deny file-write*") :]
    for name in (".vscode", "store/hooks", "store/config", ".git", "axe", "shared/agents"):
        assert f'(subpath "{path}/{name}")' in after
    assert "network" not in profile
    assert "(allow network*)" in find.make_profile(replace(view, network=True))


@pytest.fixture
def asked() -> list[int]:
    turns: list[int] = []

    @axe_nb.script("counted")
    def answer(request: Request) -> str:
        turns.append(request.turn)
        return "done"

    return turns


def refuse(agent: Agent, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        axe_nb.run(agent, "go", display=False)


OFF = {"raw": {"command": ["true"], "sandbox": "off"}}


@pytest.mark.parametrize("where", ["environment", "config.toml"])
def test_a_required_sandbox_that_is_missing_is_an_error_before_the_first_request(
    workdir: Path, no_sandbox: None, where: str, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_sandbox(where, monkeypatch)
    lead = Agent("lead", "script/counted", tools=("run_command",))
    for one in (lead, lead.but(tools=("terminal",))):
        refuse(one, r'required, but agent "lead" has run_command, and no')
    assert asked == []
    Agent("worker", "script/counted", tools=("run_command",)).save(config_path().parent / "agents")
    caller = agent(
        "lead", said(call("call_agent", agent="worker", task="go"), "done"), sub_agents=("worker",)
    )
    needs = 'required, but agent "worker" has run_command, and no'
    assert needs in told(axe_nb.run(caller, "go", display=False))
    assert asked == []


@pytest.mark.parametrize("where", ["environment", "config.toml"])
def test_a_required_sandbox_cannot_be_turned_off_and_other_values_are_errors(
    workdir: Path, asked: list[int], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_method("bubblewrap")
    lead = Agent("lead", "script/counted", tools=("run_command",))
    with monkeypatch.context() as patch:
        require_sandbox(where, patch, "yes")
        key = "AXE_NB_SANDBOX" if where == "environment" else "sandbox"
        refuse(lead, f"{key} must be auto or required")
    require_sandbox(where, monkeypatch)
    assert axe_nb.run(lead, "go", display=False).text == "done"
    refuse(lead.but(sandbox="off"), r'sandbox = "off" of agent "lead" is not allowed')
    server = lead.but(tools=(), mcp_servers=OFF)
    refuse(server, r'mcp_servers.raw.sandbox = "off" of agent "lead" is')


def require_sandbox(where: str, monkeypatch: pytest.MonkeyPatch, value: str = "required") -> None:
    if where == "environment":
        monkeypatch.setenv("AXE_NB_SANDBOX", value)
        return
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(f'sandbox = "{value}"\n')


def test_level_files_is_refused_where_the_workdir_is_home(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_only(monkeypatch, "Landlock")
    monkeypatch.setenv("HOME", str(workdir))
    with pytest.raises(ConfigError, match="is the home folder, and its keys") as refused:
        find_sandbox("auto", make_view(workdir))
    assert refused.value.hint.startswith("use a project folder as workdir")
    assert "permission denied for run_command: the workdir" in told(ask(mode="auto"))


def test_a_sandbox_that_cannot_be_chosen_denies_the_call(workdir: Path) -> None:
    """Also where the same sandbox works in another workdir."""
    assert shell.choose_sandbox([Agent(name="x", model="script/x")], workdir).level != "none"
    site = CallSite(agents=(Agent(name="x", model="script/x"),), workdir=workdir / "missing")
    guard = shell.guard_command({"command": "ls"}, site)
    assert (guard.floor, bool(guard.reason)) == ("deny", True)


def test_without_a_sandbox_a_command_that_no_one_approved_does_not_run(
    workdir: Path, no_sandbox: None
) -> None:
    for guard in (None, Guard(note="in a sandbox (full), no network")):
        ctx = replace(context(workdir), guard=guard)
        with pytest.raises(ToolError, match="the sandbox no longer works"):
            asyncio.run(shell.run_command(ctx, "touch made"))
    assert not (workdir / "made").exists()


def test_always_covers_the_same_level_only(
    workdir: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weaken(_: Request) -> Any:
        monkeypatch.setattr(find, "METHODS", {})
        return command

    command = call("run_command", command="echo hi")
    person = Person(Decision("always"), Decision("no"))
    lead = agent("lead", said(command, command, weaken, "done"), tools=("run_command",), mode="ask")
    run_with(person, lead)
    assert [q.always for q in person.questions] == [
        f"the program echo, in a sandbox ({level}), no network",
        "the program echo, no sandbox here",
    ]


def test_docker_that_does_not_answer_is_an_error_and_a_child_is_in_the_same_container(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(*settings: str) -> str:
        """The setting that a chain of agents ends with, the caller first."""
        agents = [Agent(name="x", model="script/x", sandbox=setting) for setting in settings]
        with pytest.raises(ConfigError, match="does not work here") as refused:
            shell.choose_sandbox(agents, workdir)
        return str(refused.value)

    text = told(ask(mode="auto", sandbox="docker:debian:12"))
    assert text.startswith(
        "Error: permission denied for run_command: "
        'sandbox = "docker:debian:12" does not work here: '
    )
    assert 'start docker and run: docker pull debian:12; or set sandbox = "auto"' in text
    monkeypatch.setattr(process, "PROGRAM_FOLDERS", ())
    for settings in (
        ("auto", "docker:a"), ("off", "docker:a"), ("auto", "auto", "docker:a"),
        ("off", "auto", "docker:a", "docker:b"), ("docker:a", "docker:b"), ("docker:a", "off"),
    ):  # fmt: skip
        assert '"docker:a"' in choose(*settings)


def test_without_a_rule_for_signals_no_end_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command could kill what would end it."""
    for version, expected in ((5, False), (6, True)):
        monkeypatch.setattr(find, "find_landlock_version", lambda version=version: version)
        [method] = [m for m in find.list_landlock() if m.level == "files"]
        assert ("leaves no process behind" in method.promises) is expected


def test_a_process_that_is_forked_while_a_command_runs_blocks_no_other(workdir: Path) -> None:
    reader, writer = os.pipe()
    with cover(make_view(workdir), "mounts"):
        assert (workdir / ".vscode").exists()
        child = os.fork()
        if not child:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    assert not (workdir / ".vscode").exists()
    assert told(ask(mode="auto")) == "hi\n"
    os.close(writer)
    os.waitpid(child, 0)
    os.close(reader)
