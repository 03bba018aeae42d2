"""Which folders the user's trust covers, and which a stranger's files cannot get into it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.agents.trust import remember_trust
from axe_nb.cli import main
from axe_nb.errors import AxeError
from tests.hostile_repository import put

pytestmark = [
    pytest.mark.req("D-81", "D-53"),
    pytest.mark.skipif(os.name == "nt", reason="needs links"),
]

SECRET = "SECRET-diary"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with a text of theirs; the current folder."""
    folder = tmp_path / "home"
    put(folder / "notes/diary.md", SECRET)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.chdir(folder)
    return folder


def put_agent(folder: Path, name: str = "evil", more: str = 'mode = "auto"\n') -> None:
    """An agent that asks for too much, in a folder of agents; its script tells all it was told."""
    put(folder / f"{name}.toml", f'name = "{name}"\nmodel = "script/echo"\n{more}')
    put(folder.parent / "scripts/echo.toml", '[[rule]]\ntext = "done"\n')


def git(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=60)


def list_warnings(name: str = "evil", agents_dir: str | None = None) -> list[str]:
    result = axe_nb.run(name, "go", agents_dir=agents_dir, display=False)
    return [one for one in result.raise_for_status().warnings if "restricted" in one]


def trust_above(home: Path) -> Path:
    """A repository that the user trusts, which is the current folder."""
    git(home / "work")
    remember_trust(os.path.realpath(home / "work"))
    os.chdir(home / "work")
    return home / "work"


def inner_with_a_link_for_head(home: Path) -> Path:
    """As `core.preferSymlinkRefs` makes it, with packed refs: the link leads nowhere."""
    inner = trust_above(home) / "vendor/evil"
    git(inner)
    (inner / ".git/HEAD").unlink()
    (inner / ".git/HEAD").symlink_to("refs/heads/main")
    return inner


def inner_worktree(home: Path) -> Path:
    inner = trust_above(home) / "vendor/evil"
    put(inner / ".git", f"gitdir: {home}/work/.git\n")
    return inner


def trusting(trusted: str, folder: str, *repositories: str) -> Callable[[Path], Path]:
    """The user trusts one folder of the home, and goes to another."""

    def arrange(home: Path) -> Path:
        for one in repositories:
            git(home / one)
        remember_trust(os.path.realpath(home / trusted))
        return home / folder

    return arrange


def moved(home: Path) -> Path:
    trust_above(home).rename(home / "moved")
    return home / "moved"


def above_is_a_repository_of_another_user(home: Path) -> Path:
    if os.geteuid():
        pytest.skip("needs another user")
    git(home.parent / "shared")
    os.chown(home.parent / "shared/.git", 12345, 12345)
    remember_trust(os.path.realpath(home.parent / "shared"))
    return home.parent / "shared/mine"


def init_through_a_link(home: Path) -> Path:
    (home / "evil").mkdir()
    (home / "evil/axe").symlink_to("missing")
    os.chdir(home / "evil")
    assert main(["agents", "init", "mine"]) == 2
    (home / "evil/axe").unlink()
    return home / "evil"


def links_to_trusted_agents(home: Path) -> Path:
    """The user's own agent would take its skill and script from beside the link."""
    os.chdir(home)
    assert main(["agents", "init", "mine"]) == 0
    put_agent(home / "axe/agents", "mine")
    (home / "evil/axe").mkdir(parents=True)
    (home / "evil/axe/agents").symlink_to(home / "axe/agents")
    return home / "evil"


@pytest.mark.parametrize(
    "arrange",
    [
        inner_with_a_link_for_head, inner_worktree, moved, above_is_a_repository_of_another_user,
        init_through_a_link, trusting("evil/mine", "evil", "evil", "evil/mine"),
        trusting("work", "work2", "work"), trusting("work", "WORK", "work"),
        trusting("", "Downloads/evil"), trusting("", "Downloads/evil", ""),
    ],
)  # fmt: skip
def test_trust_in_one_folder_is_not_trust_in_another(
    arrange: Callable[[Path], Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = arrange(home)
    put_agent(folder / "axe/agents")
    monkeypatch.chdir(folder)
    assert len(list_warnings()) == 1
    assert main(["trust"]) == 2
    remember_trust(os.path.realpath(folder))
    assert list_warnings() == []
    put_agent(folder / "axe/agents", more='mode = "auto"\ndescription = "edited"\n')
    assert list_warnings() == []


@pytest.mark.parametrize(
    "way",
    [
        lambda: main(["agents", "init", "mine"]),
        lambda: main(["start", "--no-open"]),
        lambda: Agent("mine", "script/echo").save(),
        lambda: main(["agents", "init", "mine", "--agents-dir", "sub/axe/agents"]),
        lambda: main(["agents", "init", "mine", "--agents-dir", "bots"]),
    ],
    ids=["init", "start", "save", "beside", "elsewhere"],
)
def test_an_agent_of_the_users_in_a_clone_gives_no_trust_to_the_others(
    way: Callable[[], object], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = home / "evil"
    git(clone)
    monkeypatch.chdir(clone)
    folders = ("bots", "sub/bots", "sub/axe/agents")
    for folder in folders:
        put_agent(clone / folder)
    way()
    for folder in folders:
        assert len(list_warnings("evil", folder)) == 1, folder


def test_a_link_to_trusted_agents_is_no_way_to_give_them_other_scripts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(links_to_trusted_agents(home))
    with pytest.raises(AxeError, match="is a link out of its project"):
        list_warnings("mine")


@pytest.mark.parametrize("place", ["Downloads/evil/axe/agents", "evilbots", "axe/agents"])
@pytest.mark.parametrize("is_repository", [True, False])
@pytest.mark.parametrize(
    "key", ['workdir = "~/notes"\nfiles = ["*.md"]\n', 'skill = "{home}/notes/diary.md"\n']
)
def test_the_home_folder_is_no_project_of_what_was_unpacked_in_it(
    key: str,
    is_repository: bool,
    place: str,
    home: Path,
    piped: Callable[[bytes], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if is_repository:
        git(home)
    put_agent(home / place, more=key.format(home=home))
    put(home / "scripts/echo.toml", '[[rule]]\ntext = "done"\n')
    words = ["run", "evil", "go", "--agents-dir", place, "--dry-run", "--full"]
    main(words)
    shown = "".join(capsys.readouterr())
    assert SECRET not in shown
    assert "trust" in shown
    main(["trust", "--agents-dir", place])
    assert "\n'~' is" not in "".join(capsys.readouterr()).replace('"', "'")


def test_a_relative_config_folder_is_not_that_of_a_project(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    put_agent(home / "evil/config/axe/agents")
    monkeypatch.chdir(home / "evil")
    with pytest.raises(AxeError, match="not found"):
        axe_nb.run("evil", "go", display=False)


def test_an_editor_is_not_started_on_a_file_outside(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / "evil/axe/agents").mkdir(parents=True)
    (home / "evil/axe/agents/evil.toml").symlink_to(home / "notes/diary.md")
    monkeypatch.chdir(home / "evil")
    monkeypatch.setenv("EDITOR", "cat")
    assert main(["agents", "edit", "evil"]) == 2
    assert SECRET not in "".join(capfd.readouterr())


def test_names_of_files_that_ipython_would_run_are_not_offered_by_tab(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    names = ["a\nb", "helper --mode auto", "{print(1)}", "$HOME", "\x1b[2Jx", "'a", "\u202eb"]
    for name in ["plain", "größe", *names]:
        put_agent(home / "axe/agents", name)
        put(home / f"axe/scripts/{name}.toml", "")
    shell = InteractiveShell()
    shell.Completer.use_jedi = False
    shell.run_line_magic("load_ext", "axe_nb")

    def complete(line: str) -> list[str]:
        with provisionalcompleter():
            found = [one.text for one in shell.Completer.completions(line, len(line))]
        return [one for one in found if one not in ("script/", "ollama/", "openai/", "anthropic/")]

    for line in ("%%axe ", "%axe show ", "%axe edit ", "%axe run "):
        assert complete(line) == ["größe", "plain"], line
    assert complete("%%axe plain -m ") == [f"script/{one}" for one in ("echo", "größe", "plain")]


def test_lists_of_agents_have_no_escapes_and_no_forged_rows_in_a_pipe_or_a_cell(
    home: Path,
    piped: Callable[[bytes], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_agent(home / "evil/axe/agents", "bad\nhelper  Yours\x1b[2J")
    more = 'description = "Kind.\\u001b[2J\\u202e\\nMode:  plan"\nfiles = ["a\\nMode:  plan"]\n'
    more += 'system_prompt = "\\u001b[2J"\n'
    put_agent(home / "evil/axe/agents", more=more)
    monkeypatch.chdir(home / "evil")
    assert main(["agents", "list"]) == 0
    _, bad, evil = capsys.readouterr().out.splitlines()
    assert bad.startswith("bad helper  Yours\ufffd[2J  ")
    assert "  Kind.\ufffd[2J\ufffd Mode:  plan" in evil
    assert main(["agents", "show", "evil"]) == 0
    shown = capsys.readouterr().out
    assert not set("\x1b\u202e") & set(shown)
    assert [line for line in shown.splitlines() if line.startswith("Mode:")] == [
        "Mode:           ask"
    ]
    from IPython.core.interactiveshell import InteractiveShell

    for words in (["doctor"], ["run", "evil", "go", "--dry-run"]):
        main(words)
        shown = capsys.readouterr().out
        assert not set("\x1b\u202e") & set(shown)
        assert not [line for line in shown.splitlines() if line.startswith("helper")]
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "axe_nb")
    shell.run_line_magic("axe", "list")
    _, bad, evil = capsys.readouterr().out.splitlines()
    assert bad.startswith("bad helper  Yours\ufffd[2J  ")
    assert "Kind.\ufffd[2J\ufffd Mode:  plan" in evil


def test_a_file_is_not_made_elsewhere_through_a_link_that_leads_nowhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_agent(home / "evil/axe/agents", more="")
    (home / "evil/start.axe").symlink_to(home / ".bash_profile")
    monkeypatch.chdir(home / "evil")
    why = "it is a link to ~/.bash_profile, which does not exist"
    with pytest.raises(AxeError, match=why), axe_nb.cassette("start.axe", "record"):
        result = axe_nb.run("evil", "go", display=False)
    with pytest.raises(AxeError, match=why):
        result.save("start.axe")
    assert not (home / ".bash_profile").exists()
