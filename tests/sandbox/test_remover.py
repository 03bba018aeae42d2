"""Temporary files of a command are removed, however they are nested."""

from __future__ import annotations

from pathlib import Path

import pytest

from axe_nb.sandbox.remover import Late, remove
from tests.sandbox.cages import Cage

pytestmark = pytest.mark.req("D-55")

NEST = """
import os
os.chdir(os.environ["TMPDIR"])
open("file", "w").close()
for _ in range(1100):
    os.mkdir("a"); os.mkdir("b"); os.symlink("/", "root"); os.chdir("a")
os.mkdir("closed"); os.mkdir("closed/below"); os.chmod("closed/below", 0); os.chmod("closed", 0)
os.chmod(os.environ["TMPDIR"], 0)
"""


@pytest.mark.parametrize("method", ["Landlock"])
def test_folders_of_any_depth_are_removed(cage: Cage) -> None:
    (cage.work / "nest.py").write_text(NEST)
    ended = cage.run("echo $TMPDIR; /usr/bin/python3 nest.py; exit 3")
    assert ended.code == 3
    assert not Path(ended.output.strip()).exists()


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    (kept / "below").mkdir(parents=True)
    (folder / "deep").mkdir(parents=True)
    for place in (folder, folder / "deep"):
        (place / "link").symlink_to(kept)
    remove(str(folder))
    assert not folder.exists()
    assert [path.name for path in kept.iterdir()] == ["below"]
    link = tmp_path / "link"
    link.symlink_to(kept)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        remove(str(link))
    assert [path.name for path in kept.iterdir()] == ["below"]


def test_a_folder_of_many_files_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(2500):
        (folder / str(number)).touch()
    remove(str(folder))
    assert not folder.exists()


def test_a_removal_ends_when_its_time_is_up(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(Late):
        remove(str(tmp_path), seconds=-1)
