"""Protected files in the workdir: read-only where they exist, moved aside where they are new."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from axe_nb.errors import ConfigError
from axe_nb.sandbox.prepare import prepare
from axe_nb.sandbox.process import spawn
from axe_nb.sandbox.view import fill_view, make_view
from axe_nb.sandbox.watch import Watch
from tests.sandbox.cages import FULL, SECRET, Cage, find_method

pytestmark = pytest.mark.req("D-83", "D-55")

EXISTING = {
    "axe/agents/lead.toml": 'model = "script/x"',
    "conftest.py": "x = 1",
    ".vscode/tasks.json": "{}",
    ".git/hooks/pre-commit": "#!/bin/sh",
    "json.py": "mine = True",
}


def write_all(cage: Cage) -> None:
    for name, text in EXISTING.items():
        path = cage.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.chown(path, cage.uid, cage.uid)
        os.chown(path.parent, cage.uid, cage.uid)
    for folder in ("axe", "axe/agents", ".vscode"):
        os.chown(cage.work / folder, cage.uid, cage.uid)


def are_whole(cage: Cage) -> bool:
    return all((cage.work / name).read_text() == text for name, text in EXISTING.items())


ATTACKS = {
    "write": "for f in {names}; do echo evil > $f; echo evil >> $f; truncate -s 0 $f; done",
    "remove": "rm -rf {names}; rm -rf axe .vscode .git/hooks",
    "move": "mv axe axe2; mv .vscode v2; mv .git/hooks h2; for f in {names}; do mv $f $f.x; done",
    "swap the repository": "mv .git .g2 && cp -r .g2 .git; echo evil > .git/hooks/pre-commit",
    "link": "for f in {names}; do ln -sf /dev/null $f; done; ln -s . axe/agents/loop",
    "swap a folder": "mv axe a2 && mkdir -p axe/agents && echo evil > axe/agents/lead.toml",
    "modes": "chmod -R 777 {names} axe",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_existing_files_are_as_they_were(cage: Cage, attack: str) -> None:
    write_all(cage)
    config = (cage.work / ".git" / "config").read_text()
    cage.run(ATTACKS[attack].format(names=" ".join(EXISTING)))
    assert are_whole(cage)
    assert (cage.work / ".git" / "config").read_text() == config


def test_a_change_is_told_and_what_was_written_is_kept(cage: Cage) -> None:
    write_all(cage)
    ended = cage.run("echo evil > axe/agents/lead.toml")
    assert are_whole(cage)
    if cage.method not in FULL:
        assert ended.notes == ('"axe/agents/lead.toml" is protected; the change was undone',)
        assert (cage.work / "lead.toml.moved").read_text() == "evil\n"


NEW = ("conftest.py", ".vscode", "sitecustomize.py", "json.py", "x.pth", ".envrc", ".git/commondir")


def test_new_protected_files_are_moved_aside_and_told(cage: Cage) -> None:
    ended = cage.run(
        "mkdir .vscode; echo evil > .vscode/tasks.json; mkdir random; touch random/__init__.py; "
        "for f in conftest.py sitecustomize.py json.py x.pth .envrc .git/commondir; do "
        "echo evil > $f; done; echo fine > fine.py"
    )
    assert not any((cage.work / name).exists() for name in (*NEW, "random/__init__.py"))
    assert (cage.work / "conftest.py.moved").read_text() == "evil\n"
    assert (cage.work / ".vscode.moved" / "tasks.json").read_text() == "evil\n"
    assert (cage.work / "fine.py").exists()
    assert len(ended.notes) == len(NEW) + 1
    assert all("moved to" in note for note in ended.notes)
    assert (
        '"json.py" has a protected name, because other programs may run or load it; '
        'it was moved to "json.py.moved"'
    ) in ended.notes


def test_a_new_repository_is_moved_as_a_whole(cage: Cage) -> None:
    ended = cage.run("git init -q .; ls .git", workdir=cage.base / "other")
    assert ended.code == 0
    assert [note.partition(" ")[0] for note in ended.notes] == ['".git"']
    assert (cage.base / "other" / ".git.moved" / "config").exists()


def test_a_name_that_is_taken_is_not_overwritten(cage: Cage) -> None:
    cage.run("echo one > json.py")
    cage.run("echo two > json.py")
    assert (cage.work / "json.py.moved").read_text() == "one\n"
    assert (cage.work / "json.py.moved-2").read_text() == "two\n"


def test_a_protected_link_is_restored(cage: Cage) -> None:
    target = cage.base / "other"
    (cage.work / "axe").symlink_to(target)
    ended = cage.run("rm axe; mkdir -p axe/agents; echo evil > axe/agents/lead.toml")
    assert (cage.work / "axe").readlink() == target
    assert (cage.work / "axe.moved" / "agents" / "lead.toml").exists()
    assert any("it was restored" in note for note in ended.notes)
    assert [path.name for path in target.iterdir()] == ["secret.txt"]


def test_what_a_protected_link_leads_to_is_as_it_was(cage: Cage) -> None:
    for folder in ("shared", "editor"):
        (cage.work / folder).mkdir()
        os.chown(cage.work / folder, cage.uid, cage.uid)
    for name, link, target in (
        ("shared/fixtures.py", "conftest.py", "shared/fixtures.py"),
        ("editor/tasks.json", ".vscode", "editor"),
    ):
        (cage.work / name).write_text("mine")
        os.chown(cage.work / name, cage.uid, cage.uid)
        (cage.work / link).symlink_to(target)
    cage.run(
        "echo evil > conftest.py; echo evil > shared/fixtures.py; echo evil > .vscode/tasks.json; "
        "echo evil > .vscode/settings.json; mv shared s2; mkdir shared; "
        "echo evil > shared/fixtures.py"
    )
    assert (cage.work / "conftest.py").read_text() == "mine"
    assert (cage.work / ".vscode" / "tasks.json").read_text() == "mine"
    assert not (cage.work / "editor" / "settings.json").exists()


@pytest.mark.parametrize("method", FULL)
def test_keys_that_a_link_leads_to_are_hidden(cage: Cage) -> None:
    (cage.work / "envs").mkdir()
    (cage.work / "envs" / "dev").write_text(SECRET)
    (cage.work / ".env").symlink_to("envs/dev")
    assert SECRET not in cage.run("cat .env envs/dev; mv envs e; cat e/dev").output
    assert (cage.work / ".env").read_text() == SECRET


def test_git_keeps_working_and_runs_nothing_new(cage: Cage) -> None:
    ended = cage.run(
        "echo x > x && git add x && git commit -qm two && git checkout -qb b && git stash && "
        "git gc -q && git log --oneline; git config core.fsmonitor evil"
    )
    assert "two" in ended.output
    environ = {"HOME": str(cage.home), "PATH": "/usr/bin:/bin"}
    asked = ["git", "-c", f"safe.directory={cage.work}", "config", "core.fsmonitor"]
    found = subprocess.run(asked, cwd=cage.work, env=environ, capture_output=True, text=True)
    assert found.stdout == ""


@pytest.mark.parametrize("method", FULL)
def test_files_with_keys_are_hidden(cage: Cage) -> None:
    (cage.work / ".env").write_text(SECRET)
    (cage.work / ".ssh").mkdir()
    (cage.work / ".ssh" / "id").write_text(SECRET)
    assert SECRET not in cage.run("cat .env .ssh/*").output
    assert (cage.work / ".env").read_text() == SECRET


@pytest.mark.parametrize("method", FULL)
def test_keys_are_hidden_where_the_workdir_is_home(cage: Cage) -> None:
    gh = cage.home / ".config" / "gh"
    gh.mkdir(parents=True)
    (gh / "hosts.yml").write_text(SECRET)
    for folder in (gh, gh.parent):
        os.chown(folder, cage.uid, cage.uid)
    ended = cage.run(
        "cat .ssh/id_rsa .config/gh/hosts.yml; ls; echo x >> .bashrc; echo x > .config/x",
        workdir=cage.home,
    )
    assert SECRET not in ended.output
    assert "work" in ended.output
    assert not (cage.home / ".bashrc").exists()
    assert not (cage.home / ".config" / "x").exists()


def test_a_workdir_that_contains_home_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people" / "me").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "me"))
    make_view(tmp_path / "people" / "me")
    for workdir in (tmp_path / "people", tmp_path, Path("/")):
        with pytest.raises(ConfigError, match="contains the home folder") as refused:
            make_view(workdir)
        assert refused.value.hint.startswith("use a project folder")


def make_environment(cage: Cage) -> Path:
    """Makes a virtual environment in the workdir whose Python then runs the cage."""
    environment = cage.work / ".venv"
    made = [cage.python, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(made, check=True, capture_output=True)
    for folder, folders, files in os.walk(environment):
        for name in (".", *folders, *files):
            os.chown(Path(folder, name), cage.uid, cage.uid, follow_symlinks=False)
    cage.python = str(environment / "bin" / "python")
    return environment


@pytest.mark.parametrize("method", FULL)
def test_the_running_python_is_protected(cage: Cage) -> None:
    environment = make_environment(cage)
    ended = cage.run(
        "site=$(echo .venv/lib/python3*/site-packages); echo 'import os' > $site/evil.pth; "
        "rm .venv/bin/python; .venv/bin/python -c 'print(42)'"
    )
    assert "42" in ended.output
    assert list(environment.rglob("evil.pth")) == []


@pytest.mark.parametrize("method", ["Landlock"])
def test_at_level_files_the_start_of_the_running_python_is_restored(cage: Cage) -> None:
    environment = make_environment(cage)
    config = (environment / "pyvenv.cfg").read_text()
    ended = cage.run(
        "site=$(echo .venv/lib/python3*/site-packages); echo 'import os' > $site/evil.pth; "
        "echo evil > .venv/pyvenv.cfg"
    )
    assert len(ended.notes) == 2
    assert list(environment.rglob("evil.pth")) == []
    assert (environment / "pyvenv.cfg").read_text() == config


@pytest.mark.parametrize("method", ["Landlock"])
def test_at_level_files_changed_files_with_keys_are_restored(cage: Cage) -> None:
    for name in (".env", ".envrc", ".aws/credentials"):
        path = cage.work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(SECRET)
        os.chown(path, cage.uid, cage.uid)
        os.chown(path.parent, cage.uid, cage.uid)
    ended = cage.run("echo evil > .envrc; rm .env; echo evil > .aws/credentials")
    for name in (".env", ".envrc", ".aws/credentials"):
        assert (cage.work / name).read_text() == SECRET
        assert f'"{name}" is protected; the change was undone' in ended.notes
    assert (cage.work / ".envrc.moved").read_text() == "evil\n"


def test_a_link_to_a_package_is_moved_not_what_lies_behind_it(cage: Cage) -> None:
    package = cage.base / "other" / "email"
    package.mkdir()
    (package / "__init__.py").write_text("precious")
    cage.run(f"ln -s {package} json")
    assert (package / "__init__.py").read_text() == "precious"
    assert (cage.work / "json.moved").readlink() == package
    assert not os.path.lexists(cage.work / "json")


def test_a_name_too_long_to_be_moved_keeps_nothing_else_in_place(cage: Cage) -> None:
    ended = cage.run("touch conftest.py .envrc evil.pth .env$(printf %0250d 0)")
    assert [path.name for path in cage.work.iterdir() if not path.name.endswith(".moved")] == [
        ".git"
    ]
    assert len(ended.notes) == 4


def test_a_folder_that_holds_a_source_cannot_be_exchanged(cage: Cage) -> None:
    skill = cage.work / "docs" / "skills" / "s.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("good")
    for path in (skill, skill.parent, skill.parent.parent):
        os.chown(path, cage.uid, cage.uid)
    cage.run(
        "mv docs d2; mkdir -p docs/skills; echo evil > docs/skills/s.md; "
        "mv docs/skills d3; mkdir -p docs/skills; echo evil > docs/skills/s.md",
        sources=[skill],
    )
    assert skill.read_text() == "good"


def test_what_a_parallel_command_creates_again_is_moved_too(cage: Cage) -> None:
    first = Watch(fill_view(make_view(cage.work)))
    (cage.work / "conftest.py").write_text("evil")
    second = Watch(fill_view(make_view(cage.work)))
    first.settle()
    assert len(first.take_notes()) == 1
    (cage.work / "conftest.py").write_text("evil again")
    second.settle()
    assert len(second.take_notes()) == 1
    assert not (cage.work / "conftest.py").exists()


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, place) for name in FULL for place in (".", ".git", ".vscode")] + [("Landlock", ".")],
)
@pytest.mark.parametrize("is_replaced", [False, True], ids=["as it was", "replaced"])
def test_a_command_that_would_be_shown_another_place_does_not_start(
    name: str, place: str, is_replaced: bool, tmp_path: Path
) -> None:
    """Another command can replace one between the look at the workdir and the mounts."""
    work, above = tmp_path / "work", tmp_path
    for folder in (work, above):  # which look alike
        (folder / ".git").mkdir(parents=True)
        (folder / ".vscode").mkdir()
    (above / "secret").write_text(SECRET)
    method = find_method(name)
    view = fill_view(make_view(work))
    find = f"cat secret {above}/secret {place}/secret; touch {place}/made {above}/made; true"
    launch = prepare(method, view, ["/bin/sh", "-c", find])
    if is_replaced:
        (work / place).rename(above / "old")
        (work / place).symlink_to(above if place == "." else "..")
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb") as output, os.fdopen(writable, "wb") as to:
        process = spawn(launch, view, {}, to.fileno(), subprocess.DEVNULL)
        to.close()
        said = output.read().decode()
    assert process.wait() == (125 if is_replaced else 0), said
    assert SECRET not in said
    assert ("replaced while the command started" in said) == is_replaced
    assert not (above / "made").exists()


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_axes_own_folders_in_the_workdir_are_as_they_were(cage: Cage, variable: str) -> None:
    own = cage.work / "deep" / "settings"
    (own / "axe").mkdir(parents=True)
    (own / "axe" / "kept.toml").write_text(SECRET)
    for path in (own.parent, own, own / "axe", own / "axe" / "kept.toml"):
        os.chown(path, cage.uid, cage.uid)
    cage.environ[variable] = str(own)
    ended = cage.run(
        "cat deep/settings/axe/*; echo evil > deep/settings/axe/kept.toml; "
        "echo evil > deep/settings/axe/trust; rm -rf deep; mv deep d2; true"
    )
    assert [path.name for path in (own / "axe").iterdir()] == ["kept.toml"]
    assert (own / "axe" / "kept.toml").read_text() == SECRET
    if cage.method in FULL:
        assert SECRET not in ended.output
