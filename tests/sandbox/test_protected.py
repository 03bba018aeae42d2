"""Protected names in a workdir: read-only at `full`, there or not; changes are seen at `files`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from axe_nb.errors import ConfigError
from axe_nb.sandbox.process import prepare, spawn
from axe_nb.sandbox.view import TIME, fill_view, make_view
from tests.sandbox.cages import FULL, SECRET, Cage, as_user, find_method, kill

pytestmark = pytest.mark.req("D-82")

EXISTING = {
    "axe/agents/lead.toml": 'model = "script/x"',
    ".github/workflows/ci.yml": "on: push",
    ".vscode/tasks.json": "{}",
    ".git/hooks/pre-commit": "#!/bin/sh",
    ".envrc": "export A=1",
}


def write(cage: Cage, name: str, text: str) -> Path:
    path = cage.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    own(cage)
    return path


def own(cage: Cage) -> None:
    for folder, folders, files in os.walk(cage.work):
        for name in (".", *folders, *files):
            os.chown(Path(folder, name), cage.uid, cage.uid, follow_symlinks=False)


def begin(cage: Cage, then: str = "true") -> subprocess.Popen[str]:
    process = cage.begin(f"touch began; until [ -e go ]; do sleep 0.05; done; {then}", seconds=60)
    until = time.monotonic() + 60
    while not (cage.work / "began").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return process


def ask_git(cage: Cage, *words: str) -> str:
    return subprocess.run(
        ["git", "-c", "safe.directory=*", *words],
        cwd=cage.work, env={"HOME": str(cage.home), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip


def is_placeholder(path: Path) -> bool:
    return path.exists() and path.stat().st_mtime == TIME


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


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
def test_existing_files_are_as_they_were_or_the_change_is_seen(cage: Cage, attack: str) -> None:
    for name, text in EXISTING.items():
        write(cage, name, text)
    config = (cage.work / ".git" / "config").read_text()
    ended = cage.run(ATTACKS[attack].format(names=" ".join(EXISTING)))
    if cage.method in FULL:
        found = {name: (cage.work / name).read_text() for name in EXISTING}
        assert found == EXISTING
        assert (cage.work / ".git" / "config").read_text() == config
        assert ended.notes == ()
    else:
        assert ended.notes


NEW = (
    "axe/agents/lead.toml", ".ipython/startup/a.py", ".jupyter/jupyter_config.py", ".envrc",
    ".vscode/tasks.json", ".idea/x.xml", ".github/ci.yml", ".ssh/authorized_keys", ".env",
    ".env.local", ".git/commondir", ".git/config.worktree",
)  # fmt: skip


@pytest.mark.parametrize("how", ["write", "move", "link"])
def test_names_that_do_not_exist_are_not_made_or_are_seen(cage: Cage, how: str) -> None:
    before = list_names(cage.work)
    inner = list_names(cage.work / ".git")
    ended = cage.run(
        "".join(
            f"mkdir -p $(dirname {name}); rm -rf {name}; rmdir $(dirname {name}); "
            f"mkdir -p $(dirname {name}); " + {
                "write": f"echo evil > {name}; ",
                "move": f"echo evil > x; mv x {name}; ",
                "link": f"ln -s /dev/null {name}; ",
            }[how]
            for name in NEW
        ) + "rm -f x; true"
    )  # fmt: skip
    if cage.method in FULL:
        assert list_names(cage.work) == before
        assert list_names(cage.work / ".git") == inner
        assert ended.notes == ()
    else:
        told = " ".join(ended.notes)
        assert "more changes" in told or all(f'"{name.split("/")[0]}' in told for name in NEW)


def test_what_could_not_be_covered_is_seen(cage: Cage) -> None:
    ended = cage.run("echo x > .env.staging; echo 'ref: x' > HEAD; mkdir .git/rebase-merge")
    assert ended.notes == (
        '".env.staging" is protected, and was created',
        '".git/rebase-merge" is protected, and was created',
        '"HEAD" is protected, and was created',
    )


@pytest.mark.parametrize("method", FULL)
def test_placeholders_are_gone_when_the_last_command_ends_and_disturb_no_one(cage: Cage) -> None:
    first = begin(cage)
    assert is_placeholder(cage.work / ".vscode")
    ended = cage.run("echo evil > .vscode/tasks.json; echo evil > .git/commondir")
    assert "Read-only file system" in ended.output
    assert "began" in ask_git(cage, "status", "--short")
    (cage.work / ".idea" / "own.xml").write_text("of the person")
    (cage.work / "go").touch()
    first.communicate(timeout=60)
    assert list_names(cage.work) == [".git", ".idea", "began", "go"]
    assert list_names(cage.work / ".idea") == ["own.xml"]
    assert not (cage.work / ".git" / "commondir").exists()


@pytest.mark.parametrize("method", FULL)
def test_placeholders_of_a_killed_kernel_go_with_the_next_command(cage: Cage) -> None:
    with begin(cage) as kernel:
        kill(kernel)
    assert is_placeholder(cage.work / "axe")
    assert is_placeholder(cage.work / ".git" / "commondir")
    cage.run("true")
    assert list_names(cage.work) == [".git", "began"]
    assert not (cage.work / ".git" / "commondir").exists()


@pytest.mark.parametrize(
    "links", [{"axe": "b", "b": "axe"}, {".vscode": "x/v", "x/v": "../.vscode"}], ids=str
)
def test_a_protected_name_that_is_a_loop_of_links_is_an_error(
    tmp_path: Path, links: dict[str, str]
) -> None:
    """Git stores them; a command could put a folder in the place of the far one."""
    (tmp_path / "x").mkdir()
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    with pytest.raises(ConfigError, match="is a link that leads to itself"):
        fill_view(make_view(tmp_path))


def test_a_link_leads_to_protected_files_and_its_replacement_is_seen(cage: Cage) -> None:
    target = write(cage, "shared/agents/lead.toml", "mine")
    (cage.work / "axe").symlink_to("shared")
    ended = cage.run(
        "echo evil > shared/agents/lead.toml; mv shared s2; "
        "rm axe; mkdir -p axe/agents; echo evil > axe/agents/lead.toml"
    )
    assert '"axe" is protected, and was changed' in ended.notes
    if cage.method in FULL:
        assert target.read_text() == "mine"
    else:
        assert any(note.startswith('"shared') for note in ended.notes)


@pytest.mark.parametrize("method", FULL)
@pytest.mark.parametrize("kind", ["gitdir", "link", "worktree"])
def test_a_repository_elsewhere_in_the_workdir_is_protected(cage: Cage, kind: str) -> None:
    """Hooks and settings of a worktree are where `commondir` leads to; a commit writes there."""
    store, git = cage.work / "store", cage.work / ".git"
    if kind == "worktree":
        ask_git(cage, "worktree", "add", "-q", "tree")
        (cage.work / "tree" / ".git").unlink()
        (git / "worktrees" / "tree" / "gitdir").write_text(f"{git}\n")
    git.rename(store)
    if kind == "link":
        git.symlink_to("store")
    else:
        git.write_text(f"gitdir: store{'/worktrees/tree' if kind == 'worktree' else ''}\n")
    own(cage)
    config = (store / "config").read_text()
    ended = cage.run(
        "echo evil >> store/config; echo evil > store/hooks/pre-commit; echo x > store/commondir; "
        "mv store s2; git commit -q --allow-empty -m two; git log --oneline"
    )
    assert "two" in ended.output, ended.output
    assert (store / "config").read_text() == config
    assert not (store / "hooks" / "pre-commit").exists()
    assert not (store / "commondir").exists()


def test_a_command_has_limits(cage: Cage) -> None:
    ended = cage.run("ulimit -c; ulimit -n; ulimit -f; ulimit -u; ulimit -d")
    core, files, size, processes, memory = ended.output.split()
    assert (core, files, size, processes) == ("0", "4096", "4194304", "8192")
    assert int(memory) << 10 >= 2 << 30
    ended = cage.run(f"/usr/bin/python3 -c 'bytearray({(int(memory) << 10) + (1 << 20)})'")
    assert "MemoryError" in ended.output


@pytest.mark.parametrize("method", FULL)
def test_files_with_keys_are_hidden_also_where_a_link_leads_to_them(cage: Cage) -> None:
    write(cage, "envs/dev", SECRET)
    write(cage, ".ssh/id", SECRET)
    (cage.work / ".env").symlink_to("envs/dev")
    assert SECRET not in cage.run("cat .ssh/* .env envs/dev; mv envs e; cat e/dev").output
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


@pytest.mark.parametrize("method", FULL)
def test_the_running_python_is_protected(cage: Cage) -> None:
    environment = cage.work / ".venv"
    made = [cage.python, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(made, check=True, capture_output=True)
    own(cage)
    cage.python = str(environment / "bin" / "python")
    ended = cage.run(
        "site=$(echo .venv/lib/python3*/site-packages); echo 'import os' > $site/evil.pth; "
        "rm .venv/bin/python; .venv/bin/python -c 'print(42)'"
    )
    assert "42" in ended.output
    assert list(environment.rglob("evil.pth")) == []


def test_a_folder_that_holds_a_source_cannot_be_exchanged(cage: Cage) -> None:
    skill = write(cage, "docs/skills/s.md", "good")
    ended = cage.run(
        "mv docs d2; mkdir -p docs/skills; echo evil > docs/skills/s.md; "
        "mv docs/skills d3; mkdir -p docs/skills; echo evil > docs/skills/s.md",
        sources=[skill],
    )
    if cage.method in FULL:
        assert skill.read_text() == "good"
    else:
        assert ended.notes


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
        process = spawn(launch, view, {}, (subprocess.DEVNULL, to.fileno(), to.fileno()))
        to.close()
        said = output.read().decode()
    assert process.wait() == (125 if is_replaced else 0), said
    assert SECRET not in said
    assert ("replaced while the command started" in said) == is_replaced
    assert not (above / "made").exists()


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_axes_own_folders_in_the_workdir_are_as_they_were_or_the_change_is_seen(
    cage: Cage, variable: str
) -> None:
    kept = write(cage, "deep/settings/axe/kept.toml", SECRET)
    cage.environ[variable] = str(kept.parents[1])
    ended = cage.run(
        "cat deep/settings/axe/*; echo evil > deep/settings/axe/kept.toml; "
        "echo evil > deep/settings/axe/trust; rm -rf deep; mv deep d2; true"
    )
    if cage.method in FULL:
        assert list_names(kept.parent) == ["kept.toml"]
        assert kept.read_text() == SECRET
        assert SECRET not in ended.output
    else:
        assert ended.notes


REPLACED = {
    ".git/config": ("git config a.b c", "printf '[a]\\n\\tb = evil\\n' >> .git/config"),
    "axe": ("rmdir axe; mkdir -p axe/agents", "echo evil > axe/agents/evil.toml"),
    ".env": ("rmdir .env; echo KEY > .env", "echo evil >> .env"),
    "id_rsa": ("echo KEY > new; mv new id_rsa", "echo evil >> id_rsa"),
    ".git": ("cp -r .git new; rm -rf .git; mv new .git", "echo evil > .git/hooks/pre-commit"),
}
"""Protected name → what a person does while a command runs, and how the command uses it."""


@pytest.mark.parametrize("name", REPLACED)
def test_what_the_person_replaces_while_a_command_runs_is_not_changed_unseen(
    cage: Cage, name: str
) -> None:
    """A mount goes with the file that it is on."""
    write(cage, "id_rsa", "KEY")
    persons, evil = REPLACED[name]
    process = begin(cage, evil)
    if cage.method not in FULL:
        persons = persons.replace("rmdir", "true")  # there are no placeholders
    subprocess.run(
        ["sh", "-c", f"{persons}; touch go"],
        cwd=cage.work, env={"HOME": str(cage.home), "PATH": "/usr/bin:/bin"}, check=True,
        **as_user(cage.uid),
    )  # fmt: skip
    told, _ = process.communicate(timeout=60)
    is_promised = cage.method in FULL or name != "id_rsa"
    notes = json.loads(told)["notes"]
    assert any(note.startswith(f'"{name}" is protected') for note in notes) == is_promised


LINKS = {
    "axe leads nowhere": ("ln -s shared/x axe", "mkdir -p shared/x; echo x > axe/e", "shared/x"),
    ".env leads nowhere": ("ln -s conf .env", "echo evil > conf", "conf"),
    ".git leads nowhere": ("rm -rf .git; ln -s store .git", "mkdir -p store/hooks", "store"),
    "hooks lead nowhere": ("rm -rf .git/hooks; ln -s ../hk .git/hooks", "mkdir hk", "hk"),
    "a link on the way": (
        "mkdir -p a; ln -s a b; ln -s b axe", "mkdir c; echo evil > c/e.toml; ln -sfn c b", "b",
    ),
}  # fmt: skip
"""Links of a workdir, what a command does with them, and the name that it must be seen at."""


@pytest.mark.parametrize("case", LINKS)
def test_what_a_protected_link_leads_over_is_seen_also_where_it_leads_nowhere_yet(
    cage: Cage, case: str
) -> None:
    before, evil, name = LINKS[case]
    subprocess.run(["sh", "-c", before], cwd=cage.work, check=True, **as_user(cage.uid))
    notes = cage.run(evil).notes
    assert any(note.startswith(f'"{name}" is protected') for note in notes), notes
