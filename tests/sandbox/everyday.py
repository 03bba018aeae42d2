"""Runs everyday commands in a plain shell, and as a model does, with `run_command`.

Each has a fresh copy of a small project. Those of some groups share a call, as most of the time
goes into the sandbox: they have nothing to do with protected files, which lie directly in the
workdir of a call.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import axe_nb
from axe_nb import Agent, Request, call
from axe_nb.builtin.shell import OFFLINE, SETTINGS
from axe_nb.sandbox.process import clean_environment

CORPUS = tomllib.loads(Path(__file__).with_name("everyday.toml").read_text("utf-8"))

FILES: dict[str, str] = CORPUS.pop("project") | {
    "data/sales.csv": "day,item,amount\n"
    + "".join(f"2026-01-{n % 28 + 1:02},{['tea', 'milk', 'jam'][n % 3]},{n}\n" for n in range(60)),
    "logs/app.log": "".join(
        f"10:{n % 60:02} {['INFO', 'WARN', 'ERROR'][n % 3]} request {n} served\n" for n in range(90)
    ),
}

HISTORY = """
commit() {
  N=$((N + 1)) && export GIT_COMMITTER_DATE="2026-01-0$N 10:00Z"
  export GIT_AUTHOR_DATE="$GIT_COMMITTER_DATE"
  git add . && git commit -qm "$1"
}
git init -q -b main && rm -f .git/hooks/*.sample
echo 1 > VERSION && commit 'First file'; rm VERSION && commit 'Shop' && git tag v1
git switch -qc feature && echo more > feature.txt && commit 'Feature'
git switch -q main && echo >> Makefile && commit 'Blank line'
echo 'A new line.' >> README.md && echo todo > todo.txt && echo '# a' >> src/shop/prices.py
git add src && git gc -q
"""

SETTINGS_OF_GIT = "[user]\n\tname = Ada\n\temail = ada@shop.test\n[init]\n\tdefaultBranch = main\n"

PACKAGES = (
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "pip", "zmq",
    "pyzmq.libs",
)  # fmt: skip
"""Packages that commands use, and those that they need."""

STATE = "git status --porcelain; git log --format='%an %s %D%n%b' --all | sort"


BATCHED = ("files", "text", "shell", "python", "programs")
"""Groups whose commands share a call."""

SIZE = 30
"""Commands of a call."""

BATCH = """
for file in *.command; do
  n=${file%.command}
  ( cd caged-$n && exec timeout 20 bash -c "$(cat ../$file)" ) 2>&1 | cat > $n.output
  echo ${PIPESTATUS[0]} > $n.code
done
"""

CACHES = (".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")

WITH_TIMES = (".gz", ".tgz", ".zip", ".db", ".so", ".o")
"""Endings of files that contain the time at which they were made."""

CHANCE = (
    (r"(/[\w./-]*)?/(tmp\.\w{10}|tmp\w{8})\b", "TEMPORARY"),
    (r"\b(?=[a-f]*\d)[0-9a-f]{7,40}\b", "HASH"),
    (r"\b\d+\.\d+ ?(s|seconds|ms|msec)\b", "TIME"),
    (r"\b\d\d:\d\d(:\d\d)?\b", "CLOCK"),
    (r"(?m)^ ?Date: .*", "DATE"),
    (r"(/usr/bin/)?bash: line \d+:( \d+)?", "bash:"),
)
"""Pattern → what stands for it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Everyday:
    group: str
    text: str
    words: Mapping[str, str]
    """Level → regular expression."""

    @property
    def is_plain(self) -> bool:
        """True if it is to behave as in a plain shell at some level; the others may harm there."""
        return not {"full", "files"} <= self.words.keys()


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a command: what a model reads of it, and the files that it left."""

    text: str
    files: Mapping[str, str]


def load_corpus() -> list[Everyday]:
    found = []
    for group, entries in CORPUS.items():
        for entry in entries:
            words = {"run": entry} if isinstance(entry, str) else dict(entry)
            found.append(Everyday(group, words.pop("run"), words))
    return found


def make_project(home: Path) -> Path:
    project = home / "project"
    for name, text in FILES.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (project / "scripts" / "build.sh").chmod(0o755)
    (project / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    (project / "latest").symlink_to("data/people.json")
    (home / ".gitconfig").write_text(SETTINGS_OF_GIT)
    subprocess.run(["bash", "-ec", HISTORY], cwd=project, check=True)
    return project


def make_environment(home: Path) -> Path:
    """Makes a Python environment with some packages of this one; returns its programs.

    That of these tests has the source of axe_nb on its path, which is not in a sandbox.
    """
    folder = home / ".pyenv"
    packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    packages.mkdir(parents=True)
    for name in PACKAGES:
        for place in map(Path, sys.path):
            for path in (place / name, place / f"{name}.py"):
                if path.exists() and place.name.endswith("-packages"):
                    (packages / path.name).symlink_to(path)
    programs = folder / "bin"
    programs.mkdir()
    base = getattr(sys, "_base_executable", sys.executable)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(base).parent}\n")
    for name in ("python", "python3"):
        (programs / name).symlink_to(base)
    for name in ("pip", "pytest"):
        (programs / name).write_text(f'#!/bin/sh\nexec python -m {name} "$@"\n')
        (programs / name).chmod(0o755)
    return programs


async def run_plainly(commands: Iterable[Everyday], home: Path) -> dict[str, Result]:
    def run(text: str, folder: Path) -> str:
        done = subprocess.run(
            ["/usr/bin/bash", "-c", f"ulimit -c 0\n{text}"],
            cwd=folder, env=clean_environment() | SETTINGS | OFFLINE, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60,
        )  # fmt: skip
        return describe(done.returncode, done.stdout.decode("utf-8", "replace"))

    async def run_one(number: int, one: Everyday) -> tuple[str, Result]:
        folder = copy_project(home, f"plain-{number}")
        return one.text, end(one, await asyncio.to_thread(run, one.text, folder), folder)

    return dict(await in_turns(run_one(n, one) for n, one in enumerate(commands)))


async def run_caged(commands: Sequence[Everyday], home: Path, level: str) -> dict[str, Result]:
    alone = [one for one in commands if one.group not in BATCHED or level in one.words]
    others = [one for one in commands if one not in alone]
    batches = [others[start : start + SIZE] for start in range(0, len(others), SIZE)]

    async def run_one(number: int, one: Everyday) -> list[tuple[str, Result]]:
        folder = copy_project(home, f"caged-{number}")
        return [(one.text, end(one, await call_tool(one.text, folder, level), folder))]

    async def run_batch(number: int, batch: Sequence[Everyday]) -> list[tuple[str, Result]]:
        place = home / f"{level}-batch-{number}"
        place.mkdir()
        for index, one in enumerate(batch):
            copy_project(place, f"caged-{index}", home)
            (place / f"{index}.command").write_text(one.text)
        await call_tool(BATCH, place, level)
        ends = []
        for index, one in enumerate(batch):
            output = (place / f"{index}.output").read_bytes().decode("utf-8", "replace")
            code = int((place / f"{index}.code").read_text())
            ends.append((one.text, end(one, describe(code, output), place / f"caged-{index}")))
        return ends

    runs = [run_one(n, one) for n, one in enumerate(alone)]
    runs += [run_batch(n, batch) for n, batch in enumerate(batches)]
    return dict(pair for pairs in await in_turns(runs) for pair in pairs)


async def call_tool(text: str, folder: Path, level: str) -> str:
    name = folder.name

    async def model(request: Request) -> object:
        return call("run_command", command=text) if request.turn == 1 else "done"

    axe_nb.script(name)(model)
    agent = Agent(name, f"script/{name}", tools=("run_command",), mode="auto", workdir=str(folder))
    result = await axe_nb.arun(agent, "go", display=False)
    [answer] = [told for message in result.messages for told in message.tool_results]
    assert answer.note == f"in a sandbox ({level}), no network", answer
    return re.sub(
        r"^Error: command (?:was )?(terminated by signal|failed with exit code) (\d+).*",
        r"\1 \2", answer.content,
    )  # fmt: skip


def describe(code: int, output: str) -> str:
    if 128 < code <= 192:
        code = 128 - code
    if not code:
        return output or "(no output)"
    how = "terminated by signal" if code < 0 else "failed with exit code"
    return f"{how} {abs(code)}\n{output}"


async def in_turns(runs: Iterable[Coroutine[None, None, T]], parallel: int = 3) -> list[T]:
    free = asyncio.Semaphore(parallel)

    async def run(one: Coroutine[None, None, T]) -> T:
        async with free:
            return await one

    return await asyncio.gather(*map(run, runs))


def copy_project(place: Path, name: str, home: Path | None = None) -> Path:
    return shutil.copytree((home or place) / "project", place / name, symlinks=True)


def end(one: Everyday, text: str, folder: Path) -> Result:
    repository = look_at_repository(folder) if one.group == "git" else ""
    result = Result(without_chance(text, folder), {**look(folder), ".git": repository})
    shutil.rmtree(folder)
    return result


def look(folder: Path) -> dict[str, str]:
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in CACHES]
        for name in (*folders, *names):
            path = Path(place, name)
            state = path.lstat()
            text = oct(state.st_mode)
            if path.is_symlink():
                text = str(path.readlink())
            elif path.is_file() and path.suffix not in WITH_TIMES:
                text += " " + without_place(path.read_text("utf-8", "replace"), folder)
            found[str(path.relative_to(folder))] = text
    return found


def look_at_repository(folder: Path) -> str:
    done = subprocess.run(["bash", "-c", STATE], cwd=folder, capture_output=True, check=False)
    return without_chance(done.stdout.decode("utf-8", "replace"), folder)


def without_chance(text: str, folder: Path) -> str:
    """The text without what differs from run to run: folders, hashes, times, numbers."""
    text = without_place(text, folder)
    for pattern, instead in CHANCE:
        text = re.sub(pattern, instead, text)
    return text.rstrip("\n")


def without_place(text: str, folder: Path) -> str:
    return text.replace(str(folder), "PROJECT").replace(folder.name, "project")
