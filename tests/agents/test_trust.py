"""Agent files of a project run restricted until the user trusts its folder."""

import json
import os
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Request, call
from axe_nb.agents import trust
from axe_nb.agents.agent import Agent, init_agent
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.agents.trust import is_trusted
from axe_nb.cli import main
from axe_nb.commands import actions
from axe_nb.engine.toolbox import BUILT_IN
from axe_nb.errors import ConfigError
from tests.files import put

on_posix = pytest.mark.skipif(os.name == "nt", reason="needs links and permission bits")

pytestmark = pytest.mark.req("D-81")


def put_agent(name: str = "worker", folder: str = "axe/agents", **keys: object) -> Path:
    """An agent's file with these keys; `worker` uses the script `worker`."""
    table = {"name": name, "model": "script/worker", **keys}
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in table.items()]
    return put(Path(folder, f"{name}.toml"), "".join(lines))


@pytest.fixture
def clone(project: Path) -> Path:
    """A project that nobody has trusted, with a script for its agents."""
    trust.trust_file().unlink()
    put("axe/scripts/worker.toml", '[[rule]]\ntext = "done"\n')
    return project


@pytest.fixture
def writer() -> None:
    """A model that writes a file, and then repeats what it was told."""

    @axe_nb.script("writer")
    def write(request: Request) -> object:
        if request.turn == 1:
            return call("write_file", path="harm.txt", content="x")
        return request.last


def left_out(name: str = "worker") -> str:
    """What the warnings of a run say that its agent lacks; empty if nothing."""
    warnings = axe_nb.run(name, "go", display=False).raise_for_status().warnings
    parts = [one.partition(": left out ")[2].partition("; to trust it")[0] for one in warnings]
    return "".join(parts)


def accept(target: str | None = None) -> list[str]:
    """Says yes to what `%axe trust` asks; returns the lines that it showed."""
    shown: list[str] = []
    assert actions.trust(target, None, shown.append, lambda _: "yes")
    return shown


def test_an_agent_that_stays_in_its_project_loses_nothing(clone: Path) -> None:
    put("axe/skills/s.md", "Be kind.")
    put("src/a.py")
    put_agent(workdir="src", skill="skills/s.md", files=["*.py"], tools=["file_ops", "fetch"])
    assert left_out() == ""
    assert Agent.load("worker").warnings == ()


@pytest.mark.parametrize(
    ("table", "lost", "gone"),
    [
        ('workdir = "~"', "workdir", "workdir"),
        ('workdir = "/"', "workdir", "workdir"),
        ('workdir = ".."', "workdir", "workdir"),
        ('skill = "~/.ssh/id_rsa"', "skill", "skill"),
        ('skill = "../../secret.md"', "skill", "skill"),
        ('skill = "config.toml"', "skill", "skill"),
        ('mcp_servers = ["files"]', "mcp_servers", "mcp_servers"),
        ('[mcp_servers.x]\ncommand = ["sh"]', "mcp_servers", "mcp_servers"),
        ('allowed_hosts = ["*"]', "allowed_hosts", "allowed_hosts"),
        ('sandbox = "off"', "sandbox", "sandbox"),
        ('mode = "auto"', 'mode = "auto"', "mode"),
        ('tools = ["run_command"]', "run_command", "tools"),
        ('tools = ["terminal", "x__y"]', "terminal, x__y", "tools"),
        ('[permissions]\nfetch = "allow"', "permissions.fetch", "permissions"),
        ("[params]\nbase_url = 'http://evil'", "params.base_url", "params"),
        ("[params]\nstop = [['a']]\ntools = [{}]", "params.stop, params.tools", "params"),
        ("[limits]\nmax_requests = 0", "limits.max_requests", "limits"),
        ("[limits]\nmax_requests = 1001", "limits.max_requests", "limits"),
    ],
)
def test_what_leads_out_or_takes_rights_is_left_out_until_the_folder_is_trusted(
    table: str, lost: str, gone: str, clone: Path, tmp_path: Path
) -> None:
    put(tmp_path / "config/axe/config.toml", "")
    put(tmp_path / "secret.md", "SECRET")
    path = put("axe/agents/worker.toml", f'name = "worker"\nmodel = "script/worker"\n{table}\n')
    plain = Agent("worker", "script/worker")
    assert left_out() == lost
    assert getattr(Agent.load("worker"), gone) == getattr(plain, gone)
    assert getattr(Agent.from_toml(path.read_text(), path=str(path)), gone) != getattr(plain, gone)
    accept()
    assert getattr(Agent.load("worker"), gone) != getattr(plain, gone)
    assert Agent.load("worker").warnings == ()


@pytest.mark.parametrize("value", ['["auto"]', "{ x = 1 }", "[[1]]", "0"])
@pytest.mark.parametrize(
    "key", ["mode", "tools", "permissions", "params", "limits", "workdir", "skill", "model"]
)
def test_values_of_odd_types_are_refused_as_in_a_trusted_file(
    key: str, value: str, clone: Path
) -> None:
    path = put("axe/agents/worker.toml", f'name = "worker"\n{key} = {value}\nmode2 = 1\n')
    with pytest.raises(ConfigError):
        Agent.load("worker")
    with pytest.raises(ConfigError):
        Agent.from_toml(path.read_text())


def test_every_built_in_tool_that_runs_programs_needs_trust() -> None:
    running = {tool.name for tool in BUILT_IN if tool.effect == "write" and tool.preview is None}
    sets = {name: tools for source in BUILT_IN.sources for name, tools in source.sets.items()}
    assert running | {n for n, tools in sets.items() if running & set(tools)} == trust.COMMANDS
    assert running


def test_trust_is_of_the_whole_git_repository_and_of_no_other(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    for folder in ("a", "b/c", "vendor/evil"):
        put_agent(folder=f"{folder}/axe/agents", mode="auto")
        put(f"{folder}/axe/scripts/worker.toml", '[[rule]]\ntext = "done"\n')
    subprocess.run(["git", "init", "-q", "vendor/evil"], check=True)
    monkeypatch.chdir("a")
    assert left_out() == 'mode = "auto"'
    accept()
    assert left_out() == ""
    monkeypatch.chdir("../b/c")
    assert left_out() == ""
    monkeypatch.chdir("../../vendor/evil")  # a clone inside is another project
    assert left_out() == 'mode = "auto"'


@pytest.mark.parametrize("way", ["init", "trusted"])
def test_folders_that_keep_a_command_from_making_them_change_no_trust(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty `.git` and an empty `axe`, as they are in a workdir while a command runs there."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "sub"
    (folder / ".git").mkdir(parents=True)
    (folder / "axe").mkdir()
    monkeypatch.chdir(folder)
    if way == "init":
        init_agent("other")
    else:
        trust.remember_trust(os.path.realpath(tmp_path))
    put("axe/scripts/worker.toml", '[[rule]]\ntext = "done"\n')
    put_agent(mode="auto")
    assert left_out() == ""


def test_the_users_own_agents_need_no_trust(clone: Path, tmp_path: Path) -> None:
    put(tmp_path / "config/axe/scripts/worker.toml", '[[rule]]\ntext = "mine"\n')
    put_agent(folder=str(tmp_path / "config/axe/agents"), workdir="~", mode="auto")
    assert Agent.load("worker").mode == "auto"
    assert left_out() == ""


@pytest.mark.parametrize("way", ["init", "save", "start"])
def test_a_folder_that_axe_nb_made_is_the_users_own(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if way == "init":
        init_agent("worker")
    elif way == "save":
        Agent("worker", "script/worker").save()
    else:
        assert main(["start", "--no-open"]) == 0
    put("axe/scripts/worker.toml", '[[rule]]\ntext = "done"\n')
    put_agent(mode="auto")
    assert left_out() == ""


def test_ci_trusts_every_folder(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_agent(mode="auto")
    monkeypatch.setenv("AXE_NB_TRUST", "0")
    assert left_out() == 'mode = "auto"'
    monkeypatch.setenv("AXE_NB_TRUST", "1")
    assert left_out() == ""


def test_a_folder_after_a_link_and_two_dots_is_not_that_of_the_links_project(
    clone: Path, tmp_path: Path
) -> None:
    put_agent()
    accept()
    other = tmp_path / "other"
    (other / "below").mkdir(parents=True)
    (clone / "link").symlink_to(other / "below")
    (other / "axe" / "agents").mkdir(parents=True)
    text = 'name = "worker"\nmodel = "script/x"\nmode = "auto"\n'
    (other / "axe" / "agents" / "worker.toml").write_text(text)
    assert Agent.load("worker", clone / "link" / ".." / "axe" / "agents").is_restricted


def test_a_restricted_agent_is_not_saved_over_its_file(clone: Path, tmp_path: Path) -> None:
    path = put_agent(mode="auto", description="old")
    before, other = path.read_text(), tmp_path / "other" / "axe" / "agents"
    for folder in (None, other):
        with pytest.raises(ConfigError, match="was loaded without some entries of its file"):
            Agent.load("worker").but(description="new").save(folder)
    assert path.read_text() == before
    assert not is_trusted(other / "worker.toml"), "nothing was made there"
    accept()
    Agent.load("worker").but(description="new").save()
    assert 'mode = "auto"' in path.read_text()


def test_a_hostile_file_cannot_hide_anything_from_the_review(clone: Path) -> None:
    put_agent(
        tools=["x\n\x1b[2Jfetch\u202e", "run_command\x1b[1A", "a\nb__c"],
        mode="auto",
        sub_agents=["b\naxe/agents/good.toml: mode plan, no tools"],
    )
    shown: list[str] = []
    actions.trust(None, None, shown.append, None)
    assert not any(bad in line for line in shown for bad in "\x1b\u202e")
    starts = ("axe/agents/worker.toml: ", "  ! restricted", " " * 6)
    lines = "\n".join(shown[:-1]).split("\n")
    assert [line for line in lines if not line.startswith(starts)] == []
    warning = axe_nb.run("worker", "go", model="script/worker", tools=[]).warnings[0]
    assert "\n" not in warning
    assert "\x1b" not in warning


def test_below_an_agent_in_auto_a_restricted_agent_still_asks(clone: Path, writer: None) -> None:
    put_agent(model="script/writer", tools=["write_file"])

    @axe_nb.script("lead")
    def lead(request: Request) -> object:
        return call("call_agent", agent="worker", task="go") if request.turn == 1 else request.last

    mine = Agent("lead", "script/lead", mode="auto", sub_agents=("worker",))
    result = axe_nb.run(mine, "go")
    assert "sub-agents cannot ask" in result.text
    assert not Path("harm.txt").exists()
    asking = mine.but(sub_agents_config=SubAgentsConfig(inherit_mode=False))
    axe_nb.run(asking, "go")
    assert not Path("harm.txt").exists()
    accept()
    assert axe_nb.run(mine, "go").ok
    assert Path("harm.txt").exists()


@pytest.mark.parametrize("given", ['mode = "auto"', '[permissions]\nwrite_file = "allow"'])
def test_a_denial_of_a_restricted_agent_names_the_trust_that_it_lacks_not_a_key(
    clone: Path, writer: None, given: str
) -> None:
    start = 'name = "worker"\nmodel = "script/writer"\ntools = ["write_file"]\n'
    put("axe/agents/worker.toml", f"{start}{given}\n")
    denied = axe_nb.run("worker", "go", display=False).text
    assert denied.endswith(
        'no one can be prompted here; the project of agent "worker" is not trusted: '
        "run `%axe trust`, or `axe-nb trust` in a shell"
    )
    accept()
    assert axe_nb.run("worker", "go", display=False).ok
    assert Path("harm.txt").exists()


def test_a_denial_of_a_restricted_agent_that_asks_for_nothing_names_trust_and_key(
    clone: Path, writer: None
) -> None:
    put(
        "axe/agents/worker.toml",
        'name = "worker"\nmodel = "script/writer"\ntools = ["write_file"]\n',
    )
    denied = axe_nb.run("worker", "go", display=False).text
    assert 'the project of agent "worker" is not trusted' in denied
    assert ', then set mode = "auto" or permissions.write_file = "allow" in worker.toml' in denied


def test_a_restricted_agent_cannot_have_the_users_own_agent_run_commands(
    clone: Path, tmp_path: Path
) -> None:
    own = 'name = "shell"\nmodel = "script/shell"\ntools = ["run_command"]\nmode = "auto"\n'
    own += 'sandbox = "off"\n[permissions]\nrun_command = "allow"\n'
    put(tmp_path / "config/axe/agents/shell.toml", own)

    @axe_nb.script("shell")
    def shell(request: Request) -> object:
        return call("run_command", command="touch harm.txt") if request.turn == 1 else request.last

    put_agent(model="script/lead", sub_agents=["shell"])

    @axe_nb.script("lead")
    def lead(request: Request) -> object:
        return call("call_agent", agent="shell", task="go") if request.turn == 1 else request.last

    denied = axe_nb.run("worker", "go", mode="auto", display=False)
    assert 'the project of agent "worker" is not trusted: run `%axe trust`' in denied.text
    assert not Path("harm.txt").exists()
    given = axe_nb.run("worker", "go", mode="auto", tools=("run_command",), display=False)
    assert given.ok
    assert Path("harm.txt").exists(), "the person's own words give it"
    Path("harm.txt").unlink()
    accept()
    axe_nb.run("worker", "go", mode="auto", display=False).raise_for_status()
    assert Path("harm.txt").exists()


@on_posix
def test_the_list_is_text_with_a_version_that_the_user_alone_may_write(clone: Path) -> None:
    put_agent()
    accept()
    lines = trust.trust_file().read_text("utf-8").splitlines()
    assert lines == ["axe-nb trusted folders 1.0", json.dumps(str(clone))]
    assert stat.S_IMODE(trust.trust_file().stat().st_mode) == 0o600
    trust.trust_file().chmod(0o666)
    with pytest.raises(ConfigError, match="other users can change the list"):
        Agent.load("worker")


@pytest.mark.parametrize("text", ["", "axe-nb trusted folders 2.0\n", '["x"]\n', "x\x00y"])
def test_a_list_of_another_format_trusts_nothing(text: str, clone: Path) -> None:
    put_agent(mode="auto")
    put(trust.trust_file(), text)
    with pytest.raises(ConfigError, match="cannot read the list of trusted folders") as caught:
        Agent.load("worker")
    assert "trusted_folders" in caught.value.hint


@pytest.mark.parametrize("value", ["state", "./state", "../state"])
def test_a_project_cannot_bring_the_list(
    value: str, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    put_agent(mode="auto")
    accept()
    assert not list(clone.rglob("trusted_folders"))
    assert (tmp_path / "home/.local/state/axe/trusted_folders").exists()


def test_yeses_that_are_given_at_the_same_time_are_all_remembered(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(8)]
    begin = threading.Barrier(len(folders))

    def remember(folder: Path) -> None:
        begin.wait()
        trust.remember_trust(os.path.realpath(folder))

    with ThreadPoolExecutor(len(folders)) as people:
        list(people.map(remember, folders))
    assert set(trust.load_trusted()) == {str(folder) for folder in folders}


def test_another_agents_folder_is_a_project_as_well(clone: Path, tmp_path: Path) -> None:
    put(tmp_path / "team/skills/s.md", "s")
    put(tmp_path / "team/scripts/worker.toml", '[[rule]]\ntext = "done"\n')
    put(tmp_path / "s.md", "SECRET")
    folder = str(tmp_path / "team/agents")
    put_agent("in", folder=folder, skill="skills/s.md")
    put_agent("out", folder=folder, skill="../s.md")
    assert axe_nb.run("in", "go", agents_dir=folder).warnings == ()
    [warning] = axe_nb.run("out", "go", agents_dir=folder).warnings
    assert 'you have not trusted "team": left out skill' in warning


def test_an_agent_that_hides_one_of_the_users_own_says_so(clone: Path, tmp_path: Path) -> None:
    put_agent()
    put_agent(folder=str(tmp_path / "config/axe/agents"))
    assert "hides your own agent of the same name" in "".join(Agent.load("worker").warnings)


@pytest.mark.parametrize("depth", [90, 488, 900, 20_000])
def test_a_value_nested_however_deep_hides_nothing(depth: int, clone: Path) -> None:
    text = f'name = "worker"\nmodel = "script/worker"\nx = {"[" * depth}{"]" * depth}\n'
    put("axe/agents/worker.toml", f'{text}mode = "auto"\ntools = ["run_command"]\n')
    with pytest.raises(ConfigError):
        axe_nb.run("worker", "go")


@pytest.mark.parametrize(
    "written",
    [
        "{} = 1", '"\\"".{} = 1', "[{}]", '[["\\\\". {}]]', "x = {{'y' = 1, \t{} = 1}}",
        'x = [{{"".{} = 1}}]',
    ],
)  # fmt: skip
def test_a_key_of_thousands_of_parts_is_refused_at_once(clone: Path, written: str) -> None:
    agent = put_agent()
    agent.write_text(agent.read_text() + written.format(".".join(["a"] * 2_000)) + "\n")
    with pytest.raises(ConfigError, match="a key with more than 32 parts") as caught:
        axe_nb.run("worker", "go")
    assert "line 3" in str(caught.value)
