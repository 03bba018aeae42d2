"""Everyday commands in a sandbox: as in a plain shell, or a word that says why not."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import not_run
from tests.sandbox.cages import open_folder, use_only
from tests.sandbox.everyday import (
    Result,
    call_tool,
    load_corpus,
    make_environment,
    make_project,
    run_caged,
    run_plainly,
)

pytestmark = pytest.mark.req("D-82", "D-77")

CORPUS = load_corpus()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if sys.platform != "linux":
        not_run("these sandboxes are of Linux")
    with open_folder() as base:
        home = base / "home"
        home.mkdir()
        programs = make_environment(home)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("LANG", "C.UTF-8")
        monkeypatch.setenv("VIRTUAL_ENV", str(programs.parent))
        path = [programs, Path(sys.executable).parent, "/usr/local/bin", "/usr/bin", "/bin"]
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, path)))
        make_project(home)
        monkeypatch.chdir(home)
        yield home


@functools.cache
def plainly() -> dict[str, Result]:
    return asyncio.run(run_plainly([one for one in CORPUS if one.is_plain], Path.home()))


assert len({one.text for one in CORPUS if not one.words}) > 150

WORKS = {
    "python -m pytest -q": "1 failed, 4 passed",
    "git add src && git commit -m 'Add discounts' && git log -1 --format='%an <%ae> %s'": "Ada <",
}
"""Command → words of its result in a plain shell, lest both fail alike."""


@pytest.mark.parametrize("method", ["bubblewrap", "Landlock"])
def test_everyday_commands_behave_as_in_a_plain_shell_or_say_why_not(
    method: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = use_only(monkeypatch, method)
    caged = asyncio.run(run_caged(CORPUS, home, level))
    for text, words in WORKS.items():
        assert words in plainly()[text].text
    differences = []
    for one in CORPUS:
        words, result = one.words.get(level), caged[one.text]
        if words is not None and not re.search(words, result.text):
            differences.append(f"{one.text}\n  has no words {words!r}: {result.text}")
        elif words is None and result != (plain := plainly()[one.text]):
            differences.append(f"{one.text}\n{compare(plain, result)}")
    assert not differences, "\n\n".join([f"{len(differences)} differences", *differences])


@pytest.mark.parametrize("method", ["bubblewrap", "Landlock"])
def test_commands_see_the_name_and_email_of_the_git_settings_and_nothing_else(
    method: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = use_only(monkeypatch, method)
    name = 'Ada "A" \\ # [Lovelace]'
    token = ["url.https://sk-token@git.test/.insteadOf", "https://git.test/"]
    for words in (["user.name", name], token):
        subprocess.run(["git", "config", "--global", *words], check=True)
    text = "git commit -qam x && git log -1 --format='%an, %ae' && cat ~/.gitconfig"
    told = asyncio.run(call_tool(text, home / "project", level))
    assert told.startswith(f"{name}, ada@shop.test\n")
    assert "sk-token" not in told


@pytest.mark.parametrize("name", [b"J\xf6rg", rb"Ada\nLovelace"], ids=["Latin-1", "two lines"])
def test_commands_work_whatever_name_the_git_settings_have(
    home: Path, name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".gitconfig").write_bytes(
        b'[user]\n\temail = ada@shop.test\n\tname = "' + name + b'"\n'
    )
    use_only(monkeypatch, "Landlock")
    told = asyncio.run(call_tool("git config user.email", home / "project", "files"))
    assert told == "ada@shop.test\n"


def test_git_leaves_out_files_with_keys_that_are_out_of_its_sight(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_only(monkeypatch, "bubblewrap")
    project = home / "project"
    for name in (".env", "id_rsa", "new.txt"):
        (project / name).write_text("TOP-secret")
    text = "git add -A && git status -s && git commit -qm x && git stash -u; cat id_rsa"
    told = asyncio.run(call_tool(text, project, "full"))
    assert "A  new.txt\n" in told
    assert ".env" not in told
    assert "TOP-secret" not in told
    assert "No local changes to save" in told


def test_the_git_settings_of_a_home_that_is_the_workdir_stay_as_they_are(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_only(monkeypatch, "bubblewrap")
    before = (home / ".gitconfig").read_text()
    told = asyncio.run(call_tool("git config user.name; ls ~/.gitignore", home, "full"))
    assert told.startswith("failed with exit code 2\nAda\n")
    assert (home / ".gitconfig").read_text() == before
    assert not (home / ".gitignore").exists()


def compare(plain: Result, caged: Result) -> str:
    lines = []
    if plain.text != caged.text:
        lines += [f"  plain: {plain.text[-2000:]}", f"  caged: {caged.text[-2000:]}"]
    for name in sorted(plain.files.keys() | caged.files.keys()):
        before, after = plain.files.get(name), caged.files.get(name)
        if before != after:
            lines.append(f"  {name}: {str(before)[:500]!r} is {str(after)[:500]!r}")
    return "\n".join(lines)
