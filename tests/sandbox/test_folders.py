"""Folders in the workdir that Python imports from: names count there as directly in the workdir."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axe_nb.sandbox.seatbelt import make_profile
from axe_nb.sandbox.view import View, fill_view, make_view
from axe_nb.sandbox.watch import Watch
from tests.sandbox.cages import FULL, SECRET, Cage, Ended

pytestmark = pytest.mark.req("D-83", "D-55")

EXISTING = ("conftest.py", "this.py", ".env", "mine.py")
NEW = ("json.py", "sitecustomize.py", "jupyter_server_config.py", ".envrc", "turtle/__init__.py")
WRITE = "; ".join(f"echo evil > {name}" for name in ("this.py", *NEW, "fine.py"))


@pytest.fixture(params=["current folder", "sys.path"])
def folder(request: pytest.FixtureRequest, cage: Cage) -> Path:
    """A folder in the workdir with protected files in it."""
    folder = cage.work / "deep" / "notebooks"
    folder.mkdir(parents=True)
    for name in EXISTING:
        (folder / name).write_text(SECRET)
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, cage.uid, cage.uid)
    if request.param == "sys.path":
        cage.environ["PYTHONPATH"] = f"{cage.package}:{folder}"
    return folder


def run(cage: Cage, folder: Path, command: str) -> Ended:
    """Runs a command in the workdir of a kernel that imports from the folder."""
    return cage.run(command, folder=None if "PYTHONPATH" in cage.environ else folder)


def test_new_names_are_moved_aside(cage: Cage, folder: Path) -> None:
    ended = run(cage, folder, f"cd deep/notebooks; mkdir turtle; {WRITE}; echo y >> mine.py")
    assert not any((folder / name).exists() for name in NEW)
    assert (folder / "fine.py").exists()
    assert (folder / "mine.py").read_text() == f"{SECRET}y\n"
    for name in NEW:
        assert any(f'"deep/notebooks/{name}" has a protected name' in note for note in ended.notes)


def test_existing_files_are_as_they_were(cage: Cage, folder: Path) -> None:
    ended = run(
        cage,
        folder,
        f"cd deep/notebooks; cat .env; rm conftest.py; {WRITE}; cd ../..; mv deep d2; "
        "mkdir -p deep/notebooks; cd deep/notebooks; echo evil > this.py; echo evil > conftest.py",
    )
    for name in ("conftest.py", "this.py", ".env"):
        assert (folder / name).read_text() == SECRET
    if cage.method in FULL:
        assert SECRET not in ended.output


@pytest.mark.parametrize("rights", ["555", "000"])
def test_rights_that_a_command_takes_away_do_not_keep_its_files(
    cage: Cage, folder: Path, rights: str
) -> None:
    run(cage, folder, f"cd deep; echo evil > notebooks/json.py; chmod {rights} notebooks .")
    assert not (folder / "json.py").exists()


ELSEWHERE = "mkdir -p else/where; echo evil > else/where/json.py; "


def test_a_link_in_the_place_of_a_folder_is_moved_aside(cage: Cage, folder: Path) -> None:
    for path in folder.iterdir():  # nothing in it keeps it where it is
        path.unlink()
    run(cage, folder, f"{ELSEWHERE} rmdir deep/notebooks; ln -s ../else/where deep/notebooks")
    assert not (folder / "json.py").exists()
    ended = run(cage, cage.base, f"{ELSEWHERE} mv deep d2; mkdir else/notebooks; ln -s else deep")
    if "PYTHONPATH" in cage.environ:
        assert any('"deep" has a protected name' in note for note in ended.notes)


def test_the_current_folder_is_checked_where_it_was_moved_to(cage: Cage) -> None:
    """Python goes on to import from it."""
    folder = cage.work / "a" / "notebooks"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent):
        os.chown(path, cage.uid, cage.uid)
    ended = cage.run(
        "mkdir b; mv -T a b/c; echo evil > b/c/notebooks/json.py; mkdir -p a/notebooks",
        folder=folder,
    )
    if cage.method in FULL:  # elsewhere it was copied and removed
        assert [path.name for path in (cage.work / "b/c/notebooks").iterdir()] == ["json.py.moved"]
        assert len(ended.notes) == 1


def test_a_folder_that_the_person_enters_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "conftest.py").touch()
    monkeypatch.chdir(tmp_path / "one")
    watch = Watch(fill_view(make_view(tmp_path)))
    monkeypatch.chdir(tmp_path / "two")
    (tmp_path / "one" / "json.py").touch()
    watch.settle()
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        "conftest.py", "conftest.py", "json.py.moved",
    ]  # fmt: skip


def test_folders_of_the_path_that_do_not_exist_may_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    watch = Watch(fill_view(make_view(tmp_path)))
    (tmp_path / "src").mkdir()
    for name in ("json.py", "app.py"):
        (tmp_path / "src" / name).touch()
    watch.settle()
    assert sorted(p.name for p in (tmp_path / "src").iterdir()) == ["app.py", "json.py.moved"]


def test_a_link_above_the_workdir_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project" / "work" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(folder))
    watch = Watch(fill_view(make_view(folder.parent)))
    (tmp_path / "project").rename(tmp_path / "renamed")
    (tmp_path / "project").symlink_to("renamed")
    watch.settle()
    assert (tmp_path / "project").is_symlink()
    assert watch.take_notes() == ()


def test_seatbelt_refuses_protected_names_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    profile = make_profile(View(workdir=tmp_path, home=tmp_path, folders=(folder,)))
    denied = next(line for line in profile.splitlines() if line.startswith("(deny file-write* "))
    assert f'"{folder}/conftest.py"' in denied
    assert f'"{tmp_path}/conftest.py"' in denied
