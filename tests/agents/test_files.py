"""Files of the user: read within bounds, written whole or not at all, shown without their home."""

import os
import threading
from pathlib import Path

import pytest

from axe_nb.agents.files import read_text, reason, write_new, write_whole
from axe_nb.errors import ConfigError

on_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has neither modes nor fifos")


def test_what_is_larger_than_a_megabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1024 * 1024)
    assert len(read_text(path)) == 1024 * 1024
    path.write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(OSError, match="larger than 1048576 bytes") as caught:
        read_text(path)
    assert reason(caught.value) == "larger than 1048576 bytes"


@on_posix
@pytest.mark.timeout(5)
def test_what_has_no_end_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a file"):
            read_text(path)


def test_a_reader_sees_the_old_or_the_new_text_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a"
    texts = ["a" * 200_000, "b" * 200_000]
    write_whole(path, texts[0])
    seen: set[str] = set()

    def read() -> None:
        for _ in range(200):
            seen.add(path.read_text("utf-8"))

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        write_whole(path, texts[turn % 2])
    reader.join()
    assert seen <= set(texts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@on_posix
def test_a_link_stays_a_link_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text("utf-8") == "new"


@pytest.mark.req("B-12")
def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    write_new(tmp_path / "deep" / "a", "first")
    with pytest.raises(ConfigError, match=r"(?m) already exists$") as caught:
        write_new(tmp_path / "deep" / "a", "second")
    assert caught.value.hint == "it was not changed"
    assert (tmp_path / "deep" / "a").read_text("utf-8") == "first"
