"""`python3 tests`: every check of this repository, on a machine with nothing but Python and git.

`python3 tests ARGUMENTS` hands the arguments to pytest and runs nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # `python3 tests` puts the folder `tests` there, hence the E402 below

from tests.bootstrap import CHROMIUM, OLDER_KERNEL, environment, say, without_settings  # noqa: E402

STEPS = {
    "format": ["-m", "ruff", "format", "--check", "."],
    "lint": ["-m", "ruff", "check", "."],
    "types": ["-m", "mypy"],
    "notebooks": ["-m", "pytest", "--nbval", "notebooks"],
    "tests": ["-m", "pytest"],
    "requirements": ["-m", "tests.requirements"],
}
"""Name of each step -> what Python is to run."""

LONGEST = 1200
"""Seconds; a step that takes longer hangs."""


def main(arguments: list[str]) -> int:
    """Exit code: 0 iff every step passed; all steps run, whatever fails before them."""
    began = time.monotonic()
    with ThreadPoolExecutor() as side_by_side:
        newest = side_by_side.submit(environment, ".venv", "-e", ".[dev]")
        older = side_by_side.submit(
            environment, OLDER_KERNEL, "-e", ".", "ipykernel<7", "ipython<9"
        )
        find_chromium()
    python = str(newest.result())
    older.result()
    if arguments:
        return subprocess.call([python, "-m", "pytest", *arguments], cwd=ROOT)
    with tempfile.TemporaryDirectory() as home:
        environ = without_settings(os.environ, Path(home))
        outcome = {name: step(name, [python, *line], environ) for name, line in STEPS.items()}
    failed = [name for name, code in outcome.items() if code]
    spent = f"{len(outcome)} steps in {time.monotonic() - began:.0f} s"
    say(f"== FAILED: {', '.join(failed)} ({spent})" if failed else f"== all passed ({spent})")
    return 1 if failed else 0


def step(name: str, command: list[str], environ: Mapping[str, str]) -> int:
    """The exit code of one step, whose output is passed through."""
    say(f"== {name}: {' '.join(['python', *command[1:]])}")
    began = time.monotonic()
    try:
        code = subprocess.call(
            command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        say(f"{name} was stopped: not done after {LONGEST} s")
        code = 1
    say(f"== {name} {'FAILED' if code else 'passed'} in {time.monotonic() - began:.1f} s")
    return code


def find_chromium() -> None:
    """Installs Chromium where a CI machine lacks it; elsewhere says what is not run without it."""
    if any(map(shutil.which, CHROMIUM)):
        return
    apt_get = shutil.which("apt-get")
    if not (apt_get and os.environ.get("CI") == "true" and os.geteuid() == 0):
        say("no chromium: the browser tests are NOT RUN (Debian: sudo apt-get install chromium)")
        return
    began = time.monotonic()
    say("installing chromium for the browser tests (once; a minute or two)")
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(
            [apt_get, "-q", "-o", "Acquire::Retries=3", *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            encoding="utf-8", errors="replace", env=environ, check=False,
        )  # fmt: skip
        if done.returncode:
            say("\n".join(done.stdout.splitlines()[-10:]))
            say(f"apt-get {command[0]} failed (see above): the browser tests will fail")
            return
    say(f"chromium installed in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
