"""The names that a file is reached by, and folders opened by descriptor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axe_nb.paths import find_names, follow_links, hold_real_folder

pytestmark = pytest.mark.req("D-53", "D-83", "X-33")


def test_every_link_on_the_way_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "up").symlink_to("../real/in")
    passed = follow_links(tmp_path / "one" / "up" / "x")
    below = [path.relative_to(tmp_path).as_posix() for path in dict.fromkeys(passed)]
    assert below == ["one/up/x", "two/up/x", "real/up/x", "real/in/x"]


@pytest.mark.parametrize("path", ["a/b", "a/../b", "loop/b", "out/x", "dots/x", "file/x", "none/x"])
def test_the_last_name_is_the_real_path(path: str, tmp_path: Path) -> None:
    (tmp_path / "work" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "work" / "file").write_text("")
    (tmp_path / "work" / "a").symlink_to("deep/er/..")
    (tmp_path / "work" / "out").symlink_to("/")
    (tmp_path / "work" / "dots").symlink_to(f"{tmp_path}//work/./deep/er/../../../work/a/")
    whole = tmp_path / "work" / path
    assert str(follow_links(whole)[-1]) == os.path.realpath(whole)


def test_a_cycle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        follow_links(tmp_path / "a" / "x")


def test_links_directly_in_the_folder_name_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "sub" / "in").mkdir(parents=True)
    (tmp_path / ".env").symlink_to("sub/in")
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "out").symlink_to("..")
    names = find_names(tmp_path, tmp_path / "sub")
    assert names.all == (tmp_path / "sub",)
    assert names.child("in").all == (tmp_path / ".env", tmp_path / "sub" / "in")
    inner = find_names(tmp_path, tmp_path / "sub" / "in" / "x")
    assert inner.all == (tmp_path / ".env" / "x", tmp_path / "sub" / "in" / "x")
    assert names.child("in").child("x").all == inner.all


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
