"""Folders opened by descriptor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axe_nb.paths import hold_real_folder

pytestmark = pytest.mark.req("X-33", "D-53")


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/c"])
def test_a_folder_is_not_opened_through_a_link_at_any_place(link: str, tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    with hold_real_folder(tmp_path / "a" / "b" / "c"):
        pass
    (tmp_path / link).rename(tmp_path / "old")
    (tmp_path / link).symlink_to(tmp_path / "old")
    with pytest.raises(NotADirectoryError), hold_real_folder(tmp_path / "a" / "b" / "c"):
        pass


def test_what_is_done_in_a_folder_that_is_held_is_done_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "other").mkdir()
    with hold_real_folder(tmp_path / "a") as folder:
        (tmp_path / "a").rename(tmp_path / "old")
        (tmp_path / "a").symlink_to(tmp_path / "other")
        os.mkdir("made", dir_fd=folder)
    assert (tmp_path / "old" / "made").is_dir()
    assert list((tmp_path / "other").iterdir()) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(FileNotFoundError), hold_real_folder(tmp_path / "none" / "x"):
        pass
    with hold_real_folder(tmp_path):
        pass
    assert len(list(Path("/dev/fd").iterdir())) == before
