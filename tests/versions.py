"""`python3 -m tests.versions`: a quick part of the tests with other Pythons and oldest libraries.

Without arguments it takes each supported Python that is found, then the oldest supported version of
each library; Pythons that are not found are named. `python3 -m tests.versions 3.13 oldest
/opt/python3.14` takes these. Each has an environment of its own, which is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bootstrap import ROOT, environment, list_oldest, say, without_settings

OLDEST = "oldest"
EXTRAS = ("aiohttp", "dask", "images", "ipyparallel", "lab", "mcp", "prices", "test")
HERE = "--here"
"""Argument of the process that runs with the Python that is tried."""

QUICK = (
    "tests/agents", "tests/outputs/test_schema.py", "tests/test_cli.py", "tests/test_public.py",
    "tests/test_results.py", "tests/tools", "tests/views/test_html.py", "tests/nb/test_magics.py",
)  # fmt: skip
"""Tests that depend on the version of Python or of a library more than others do."""

RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The version of this Python."""

LONGEST = 600
"""Seconds; tests that take longer hang."""


def main(arguments: list[str]) -> int:
    """Exit code: 0 iff the tests pass with all that were found, and all that were named are."""
    if arguments[:1] == [HERE]:
        return run_quick(arguments[1])
    failed = []
    others = [version for version in list_supported() if version != RUNNING]
    for name in arguments or [*others, OLDEST]:
        python = sys.executable if name == OLDEST else find_python(name)
        if python is None:
            say(f"== Python {name}: NOT RUN, it is not installed here")
            failed += [name] if arguments else []
            continue
        say(f"== {'oldest libraries' if name == OLDEST else f'Python {name}'}: {python}")
        began = time.monotonic()
        own = OLDEST if name == OLDEST else "newest"
        code = subprocess.call([python, "-m", "tests.versions", HERE, own], cwd=ROOT)
        failed += [name] if code else []
        say(f"== {name} {'FAILED' if code else 'passed'} in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def run_quick(libraries: str) -> int:
    """Runs the quick tests with this Python; returns the exit code of pytest."""
    if libraries == OLDEST:
        asked = ["-e", ".", *list_oldest(*EXTRAS), "--group", "quick"]
        python = environment(".venv-oldest", *asked)
    else:
        python = environment(f".venv-{RUNNING}", "-e", ".[images,lab]", "--group", "quick")
    with tempfile.TemporaryDirectory() as home:
        return subprocess.call(
            [str(python), "-m", "pytest", "-q", "-n", "0", *QUICK], cwd=ROOT, timeout=LONGEST,
            env=without_settings(os.environ, Path(home)), stdin=subprocess.DEVNULL,
        )  # fmt: skip


def list_supported() -> list[str]:
    """Returns the supported versions of Python, as the classifiers of the package name them."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find_python(name: str) -> str | None:
    """Returns the path of a Python that starts, of that version or with that path."""
    folders = (".pyenv/versions", ".local/share/uv/python")
    installed = (Path.home().glob(f"{folder}/*{name}.*/bin/python{name}") for folder in folders)
    found = [shutil.which(f"python{name}"), *(str(path) for paths in installed for path in paths)]
    for path in [name] if os.sep in name else filter(None, found):
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            done = subprocess.run(asked, capture_output=True, encoding="utf-8", timeout=60)
        except OSError:  # a stand-in of pyenv may not start
            continue
        if done.stdout.strip() in (name, *list_supported()) and not done.returncode:
            return path
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
