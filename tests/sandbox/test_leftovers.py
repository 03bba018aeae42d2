"""What a command left: links, compiled files, and whatever keeps the check after it from ending."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from axe_nb.sandbox.find import Sandbox, list_methods
from axe_nb.sandbox.view import make_view
from tests.sandbox.cages import FULL, Cage, find_method

pytestmark = pytest.mark.req("D-83", "D-55")

DEEP = textwrap.dedent(
    """
    import os
    for name in {names}:
        os.mkdir(name)
        os.chdir(name)
    """
)


def deep(names: str) -> str:
    """A command that makes folders inside one another."""
    return f'python3 -c "{DEEP.format(names=names)}"'


def test_deep_folders_do_not_keep_the_check_from_ending(cage: Cage) -> None:
    ended = cage.run(f"mkdir org; cd org; echo evil > ../conftest.py; {deep('1100 * [chr(97)]')}")
    subprocess.run(["rm", "-r", *cage.work.glob("org*")], check=True)  # Python cannot
    assert ended.code == 0
    assert not (cage.work / "conftest.py").exists()
    assert any("conftest.py.moved" in note for note in ended.notes)


@pytest.mark.parametrize("mode", ["555", "333", "000"])
def test_rights_that_a_command_takes_away_do_not_keep_its_files(cage: Cage, mode: str) -> None:
    (cage.work / "conftest.py").write_text("mine")
    os.chown(cage.work / "conftest.py", cage.uid, cage.uid)
    cage.run(
        "mkdir -p axe/agents; echo evil > axe/agents/a.toml; echo evil > conftest.py; "
        f"chmod {mode} axe/agents axe conftest.py; chmod {mode} .; true"
    )
    assert (cage.work / "conftest.py").read_text() == "mine"
    assert not (cage.work / "axe").exists()


LINKS = {
    "a.ipynb": "../.bashrc",
    "deep/er/a.ipynb": "../../../.bashrc",
    ".git/COMMIT_EDITMSG": "../../.bashrc",
    ".git/SQUASH_MSG": "/usr/bin/env",
    "b.ipynb": ".git/hooks/pre-commit",
    "c.ipynb": "conftest.py",
    "out": "..",
    "dangling": "../not/there",
}
HARMLESS = {
    "inside": "kept.txt",
    "env": "/usr/bin/env",
    "null": "/dev/null",
    "sub/up": "../kept.txt",
}


@pytest.mark.parametrize("rights", ["", "chmod 000 deep/er"])
def test_links_that_lead_out_or_to_a_protected_file_are_moved_aside(
    cage: Cage, rights: str
) -> None:
    made = [
        f'mkdir -p "$(dirname {n})"; ln -sf {to} {n}' for n, to in {**LINKS, **HARMLESS}.items()
    ]
    ended = cage.run("; ".join(["echo kept > kept.txt", *made, rights or "true"]))
    assert [name for name in LINKS if os.path.lexists(cage.work / name)] == []
    assert [name for name in HARMLESS if not (cage.work / name).is_symlink()] == []
    for name in LINKS:
        assert any(f'"{name}" is a ' in note for note in ended.notes), name


def test_links_that_were_there_stay(cage: Cage) -> None:
    (cage.work / "data").symlink_to("../other")
    time.sleep(0.2)
    ended = cage.run("ls")
    assert (cage.work / "data").is_symlink()
    assert ended.notes == ()


STAGE = """
mkdir -p stage deep/er/dir tree/__pycache__/in out
printf evil > stage/mod.cpython-311.pyc
printf evil > tree/__pycache__/in/mod.cpython-311.pyc
for dir in deep/er/dir out; do ln -s ../../../x $dir/a.ipynb; done
touch -d 2001-01-01 stage deep/er/dir; touch -h -d 2001-01-01 stage/* deep/er/dir/*
"""
MOVE = """
mv stage pkg/__pycache__
mv tree/__pycache__ p; mkdir o; mv p/in o/__pycache__
mv deep/er/dir lifted; mkdir -p far/off/down; mv lifted far/off/down/dir; mv far/off/down near
touch -d 2001-01-01 pkg/__pycache__ near/dir near
"""


def test_what_a_moved_folder_holds_is_checked_where_it_is_now(cage: Cage) -> None:
    """Moving a folder changes its own times but none of those of what it holds."""
    for name in ("pkg", "a/b/c"):
        (cage.work / name).mkdir(parents=True)
    (cage.work / "a/b/c/brought.ipynb").symlink_to("../../../x")
    for path in (cage.work, *cage.work.rglob("*")):
        os.chown(path, cage.uid, cage.uid, follow_symlinks=False)
    first = cage.run(STAGE)
    assert [note.split(" ")[0] for note in first.notes] == ['"out/a.ipynb"']
    time.sleep(0.2)
    ended = cage.run(f"{MOVE}mv a/b/c b")
    assert [path for path in cage.work.rglob("*.pyc") if path.parent.name == "__pycache__"] == []
    for name in ("near/dir/a.ipynb", "b/brought.ipynb"):
        assert not os.path.lexists(cage.work / name)
        assert any(f'"{name}" is a link' in note for note in ended.notes), name


def test_links_that_were_there_stay_in_folders_that_change(cage: Cage) -> None:
    for name in ("docs/data", "docs/deep/data"):
        (cage.work / name).parent.mkdir()
        (cage.work / name).symlink_to("../../../other")
    for path in (cage.work, *cage.work.rglob("*")):
        os.chown(path, cage.uid, cage.uid, follow_symlinks=False)
    time.sleep(0.2)
    ended = cage.run("touch docs/new docs/deep/new new; chmod 755 docs; touch docs/deep")
    assert (cage.work / "docs/data").is_symlink()
    assert (cage.work / "docs/deep/data").is_symlink()
    assert ended.notes == ()


@pytest.mark.parametrize("method", [*FULL, "Landlock"])
def test_a_link_is_moved_aside_once(method: str, tmp_path: Path) -> None:
    assert len(run_here(method, tmp_path, "mkdir -p a; ln -s ../../x a/link")[1]) == 1
    time.sleep(0.2)
    assert run_here(method, tmp_path, "touch a/new")[1] == ()
    time.sleep(0.2)
    assert len(run_here(method, tmp_path, "mkdir b; mv a b; mv b/a c")[1]) == 1


def test_links_are_no_way_to_compiled_files(cage: Cage) -> None:
    (cage.work / "pkg").mkdir()
    os.chown(cage.work / "pkg", cage.uid, cage.uid)
    cage.run(
        "mkdir stage other other/__pycache__; printf evil > stage/mod.cpython-311.pyc; "
        "ln -s ../stage pkg/__pycache__; ln -s ../../stage/mod.cpython-311.pyc other/__pycache__; "
        "ln stage/mod.cpython-311.pyc other/__pycache__/hard.pyc"
    )
    assert not os.path.lexists(cage.work / "pkg/__pycache__")
    assert list((cage.work / "other/__pycache__").iterdir()) == []


def test_a_link_leads_to_the_same_place_after_others_are_made(cage: Cage) -> None:
    """Where it leads would depend on what `b` is."""
    ended = cage.run("mkdir -p a/b; ln -s b/../../x a/link; ln -s ./../kept a/fine; touch kept")
    assert not os.path.lexists(cage.work / "a/link")
    assert (cage.work / "a/fine").is_symlink()
    assert len(ended.notes) == 1


def test_compiled_files_that_a_command_wrote_are_removed(cage: Cage) -> None:
    cache = cage.work / "pkg" / "__pycache__"
    cache.mkdir(parents=True)
    for path in (cage.work / "pkg", cache):
        os.chown(path, cage.uid, cage.uid)
    for name in ("old.cpython-311.pyc", "mine.cpython-311.pyc"):
        (cache / name).write_bytes(b"mine")
        os.chown(cache / name, cage.uid, cage.uid)
    time.sleep(0.2)
    ended = cage.run(
        "cd pkg/__pycache__; printf evil > mine.cpython-311.pyc; printf evil > new.pyc"
    )
    assert [path.name for path in cache.iterdir()] == ["old.cpython-311.pyc"]
    assert ended.notes == ()


def test_places_that_git_pushes_to_are_protected(cage: Cage) -> None:
    cage.run("mkdir -p .git/remotes .git/branches; echo 'URL: evil' > .git/remotes/origin")
    assert not (cage.work / ".git" / "remotes").exists()


@pytest.mark.parametrize("method", ["Landlock"])
def test_links_of_the_running_python_are_restored(cage: Cage) -> None:
    environment = cage.work / ".venv"
    made = [cage.python, "-m", "venv", "--without-pip", "--symlinks", str(environment)]
    subprocess.run(made, check=True, capture_output=True)
    for folder, folders, files in os.walk(environment):
        for name in (".", *folders, *files):
            os.chown(Path(folder, name), cage.uid, cage.uid, follow_symlinks=False)
    cage.python = str(environment / "bin" / "python")
    before = (environment / "bin" / "python3").readlink()
    cage.run("echo 'echo evil' > .venv/bin/e; ln -sf e .venv/bin/python3; rm .venv/bin/python")
    assert (environment / "bin" / "python3").readlink() == before
    assert (environment / "bin" / "python").exists()


def run_here(method: str, workdir: Path, command: str) -> tuple[str, tuple[str, ...], str]:
    """(failure, notes, output) of a command of this process."""
    found = find_method(method)
    readable, writable = os.pipe()
    process = Sandbox(found, make_view(workdir)).start(
        ["/bin/bash", "-c", command], {"PATH": "/usr/local/bin:/usr/bin:/bin"}, writable
    )
    with os.fdopen(readable) as output:
        said = output.read()
    assert process.wait(60)
    return process.failure, process.notes, said


@pytest.mark.parametrize("method", [*FULL, "Landlock"])
def test_no_command_starts_where_an_earlier_one_could_not_be_checked(
    method: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    endless = deep("30 * [200 * chr(97)]")  # longer than a path can be
    failure, notes, _ = run_here(method, work, f"echo evil > conftest.py; {endless}")
    assert failure.startswith("cannot check protected files after it: ")
    assert any("conftest.py.moved" in note for note in notes)
    failure, _, said = run_here(method, work, "echo hi")
    assert failure.startswith("cannot start the command: ")
    assert said == ""
    subprocess.run(["rm", "-r", work / (200 * "a")], check=True)
    failure, notes, said = run_here(method, work, "echo hi")
    assert (failure, said) == ("", "hi\n")
    assert notes == ()
    assert [path.name for path in work.iterdir()] == ["conftest.py.moved"]


@pytest.mark.parametrize("method", [*FULL, "Landlock"])
def test_an_exit_of_python_waits_for_the_check(method: str, tmp_path: Path) -> None:
    find_method(method)
    code = f"""
import os, time
from pathlib import Path
from axe_nb.sandbox.find import Sandbox, list_methods
from axe_nb.sandbox.view import make_view
method = next(m for m in list_methods() if m.name.startswith({method!r}))
command = "echo evil > sitecustomize.py; touch began; sleep 600"
Sandbox(method, make_view(Path({str(tmp_path)!r}))).start(
    ["/bin/sh", "-c", command], {{"PATH": "/usr/bin:/bin"}}, os.open(os.devnull, os.O_WRONLY)
)
while not Path("began").exists():
    time.sleep(0.01)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["began", "sitecustomize.py.moved"]


def test_what_is_found_too_late_is_told_with_the_next_command(tmp_path: Path) -> None:
    method = next(iter(list_methods()))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    command = ["/bin/sh", "-c", "sleep 1; echo evil > conftest.py"]
    process = Sandbox(method, make_view(tmp_path)).start(command, {"PATH": "/bin"}, nowhere)
    assert process.leave()
    assert process.wait(60)
    _, notes, _ = run_here(method.name, tmp_path, "true")
    assert any("conftest.py.moved" in note for note in notes)
    assert run_here(method.name, tmp_path, "true")[1] == ()
