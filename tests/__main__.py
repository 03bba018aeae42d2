"""`python3 tests`: every check of this repository, on a machine with nothing but Python and git.

`python3 tests ARGUMENTS` hands the arguments to pytest and runs nothing else.
"""

from __future__ import annotations

import json
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

from tests.bootstrap import (  # noqa: E402
    CHROMIUM,
    NODE,
    NPM,
    OLDER_KERNEL,
    environment,
    fetch_packages,
    list_oldest,
    say,
    without_settings,
)
from tests.versions import RUNNING, find_python, list_supported  # noqa: E402

CHECKS = {
    "format": ["-m", "ruff", "format", "--check", "."],
    "lint": ["-m", "ruff", "check", "."],
    "types": ["-m", "mypy"],
    "requirements": ["-m", "tests.requirements"],
}
"""Name of each check that runs beside the tests -> what Python is to run."""

WORKERS = 5 * (os.cpu_count() or 1) // 2  # they wait for kernels and browsers half of their time

PYTEST = ["-m", "pytest", "-p", "tests.early", "--nbval"]

TESTS = [*PYTEST, "-n", str(WORKERS), "tests", "notebooks"]

COLLECT = [*PYTEST, "-p", "no:cacheprovider", "--collect-only", "-qq", "tests", "notebooks"]
"""Imports what the tests import, which compiles it: else each of the processes would do that."""

MOST_AGAIN = 3
"""Failed tests that are run once more, alone; of more, the cause is not the machine."""

LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"

LONGEST = 1200
"""Seconds; a step that takes longer hangs."""


def main(arguments: list[str]) -> int:
    """Exit code: 0 iff every check and every test passed; all run, whatever fails before them."""
    if not arguments:
        say("== every check and test: about six minutes, and longer until packages are installed")
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor() as side_by_side:
        environ = without_settings(os.environ, Path(home))
        newest = side_by_side.submit(environment, ".venv", "-e", ".[lab]", "--group", "dev")
        oldest = [p for p in list_oldest("lab") if not p.startswith(("jupyterlab", "nbclient"))]
        older = side_by_side.submit(environment, OLDER_KERNEL, "-e", ".", *oldest)
        programs = side_by_side.submit(find_programs)
        python = str(newest.result())
        if not arguments:
            say(f"== {', '.join(CHECKS)}: beside the tests")
            checks = side_by_side.submit(check_all, python, environ)
            check([python, *COLLECT], environ)
        older.result()
        programs.result()
        if problem := fetch_packages(ROOT / ".venv" / NODE, Path(python).with_name(NPM)):
            say(f"no servers by others: their tests are NOT RUN ({problem})")
        if arguments:
            return subprocess.call([python, "-m", "pytest", *arguments], cwd=ROOT)
        code = tests(python, environ)
        failed = checks.result()
    for name, output in failed.items():
        say(f"== {name} FAILED\n{output}")
    if failed:
        say(f"== FAILED: {', '.join([*failed, *(['tests'] if code else [])])}")
    return 1 if failed or code else 0


def tests(python: str, environ: Mapping[str, str]) -> int:
    """The exit code of pytest, which says itself what passed.

    Tests with real processes, kernels and browsers can fail because of what else the machine does:
    a few that fail are run once more, alone. Those that pass then are named: each is to be mended.
    """
    LAST_FAILED.unlink(missing_ok=True)
    code = run_pytest(python, TESTS, environ)
    failed = find_failed() if code == 1 else []
    if not 0 < len(failed) <= MOST_AGAIN:
        return code
    names = "\n   ".join(failed)
    say(f"== FAILED beside the others, once more alone:\n   {names}")
    code = run_pytest(python, [*PYTEST, *failed], environ)
    if not code:
        say(f"== UNSTABLE: failed beside the others, passed alone; fix them:\n   {names}")
    return code


def run_pytest(python: str, arguments: list[str], environ: Mapping[str, str]) -> int:
    """The exit code; 1 if it takes too long."""
    say(f"== tests: {' '.join(['python', *arguments])}")
    try:
        return subprocess.call(
            [python, *arguments], cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        say(f"the tests were stopped: not finished after {LONGEST} s")
        return 1


def find_failed() -> list[str]:
    """The tests that failed; of a notebook, whose cells need one another, the file."""
    try:
        ids = json.loads(LAST_FAILED.read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return sorted({i.partition("::")[0] if ".ipynb::" in i else i for i in ids})


def check_all(python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Name of each check that failed -> what it printed."""
    failed, pythons = dict[str, str](), list[str]()
    for version in list_supported() if os.environ.get("CI") == "true" else ():
        if version != RUNNING and find_python(version):
            pythons.append(version)
        elif version != RUNNING:
            say(f"no Python {version}: the tests are NOT RUN with it")
    steps = {name: (line, environ) for name, line in CHECKS.items()}
    if pythons:  # with the settings of pip, such as a proxy
        steps["other Pythons"] = (["-m", "tests.versions", *pythons], os.environ)
    for name, (line, variables) in steps.items():
        began = time.monotonic()
        passed, output = check([python, *line], variables)
        say(f"\n== {name} {'passed' if passed else 'FAILED'} in {time.monotonic() - began:.1f} s")
        if not passed:
            failed[name] = output
    return failed


def check(command: list[str], environ: Mapping[str, str]) -> tuple[bool, str]:
    """(exit code 0, output) of one check."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, timeout=LONGEST,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"stopped: not done after {LONGEST} s"
    return not done.returncode, done.stdout.strip()


PACKAGES = {
    "chromium": (CHROMIUM, "the browser tests"),
    "bubblewrap": (("bwrap",), "the tests of the sandbox"),
}
"""Debian package -> its programs, of which one has to be there, and what needs it."""


def find_programs() -> None:
    """Installs Debian packages that a CI machine lacks; elsewhere says what is not run."""
    missing = [
        name for name, (programs, _) in PACKAGES.items() if not any(map(shutil.which, programs))
    ]
    if not missing:
        return
    apt_get = shutil.which("apt-get")
    if not (apt_get and os.environ.get("CI") == "true" and os.geteuid() == 0):
        for name in missing:
            tests_of = PACKAGES[name][1]
            say(f"no {name}: {tests_of} are NOT RUN (Debian: sudo apt-get install {name})")
        return
    began = time.monotonic()
    say(f"installing {' and '.join(missing)} for the tests (once; a minute or two)")
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(
            [apt_get, "-q", "-o", "Acquire::Retries=3", *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            encoding="utf-8", errors="replace", env=environ, check=False,
        )  # fmt: skip
        if done.returncode:
            say("\n".join(done.stdout.splitlines()[-10:]))
            needing = " and ".join(PACKAGES[name][1] for name in missing)
            say(f"apt-get {command[0]} failed (see above): {needing} will fail")
            return
    say(f"{' and '.join(missing)} installed in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
