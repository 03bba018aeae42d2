"""An environment for each contender, below one folder; what cannot be installed is left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.benchmarks.peers.table import Contender
from tests.bootstrap import PIP, ROOT, environment, say

NODE = (22, 22)
"""The oldest Node.js that promptfoo runs on."""

SIZES = """
import json, os, pathlib, sys, sysconfig
from importlib.metadata import distributions, version
place = pathlib.Path(sysconfig.get_path("purelib"))
files = [f for f in place.rglob("*") if f.suffix != ".pyc" and f.is_file()
         and f.relative_to(place).parts[0].split("-")[0] not in ("pip", "setuptools")]
names = {one.name for one in distributions()} - {"pip", "setuptools"}
print(json.dumps({"version": version(sys.argv[1]), "packages": len(names),
                  "megabytes": sum(f.stat().st_size for f in files) / 1e6}))
"""


class NotInstalled(Exception):
    """Why a contender is left out."""


def install(contender: Contender, folder: Path) -> Path:
    """The Python that runs the contender.

    Raises:
        NotInstalled: pip, npm or Node.js could not do it.
    """
    try:
        if contender.is_npm:
            _install_npm(contender, folder / contender.module)
            return environment(str(folder / "httpx"), "httpx==0.28.1")
        return environment(str(folder / contender.module), *contender.packages)
    except SystemExit as error:
        raise NotInstalled(str(error).strip().splitlines()[-1]) from None


def describe(contender: Contender, python: Path, folder: Path) -> dict[str, object]:
    """Its version, the number of packages that were installed for it, and their size."""
    if contender.is_npm:
        lock = json.loads((folder / contender.module / "package-lock.json").read_text("utf-8"))
        packages = {path: one for path, one in lock["packages"].items() if path}
        modules = folder / contender.module / "node_modules"
        size = sum(file.lstat().st_size for file in modules.rglob("*") if file.is_file())
        version = packages[f"node_modules/{contender.distribution}"]["version"]
        installed = sum((folder / contender.module / path).exists() for path in packages)
        return {"version": version, "packages": installed, "megabytes": size / 1e6}
    words = [str(python), "-c", SIZES, contender.distribution]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    if contender.packages[0] == "-e":  # what an editable installation does not copy
        own = sum(f.stat().st_size for f in (ROOT / "axe_nb").rglob("*") if f.suffix != ".pyc")
        found["megabytes"] = float(str(found["megabytes"])) + own / 1e6
    return found


def find_node() -> Path:
    """A Node.js that is new enough: of the machine, or the one that Playwright brings.

    Raises:
        NotInstalled: there is none.
    """
    candidates = [Path(found)] if (found := shutil.which("node")) else []
    try:
        import playwright
    except ImportError:
        pass
    else:
        candidates.append(Path(playwright.__file__).parent / "driver" / "node")
    for node in candidates:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
        parts = done.stdout.strip().removeprefix("v").split(".")
        if not done.returncode and tuple(map(int, parts[:2])) >= NODE:
            return node
    raise NotInstalled(f"no Node.js {NODE[0]}.{NODE[1]} or newer")


def promptfoo_command(folder: Path) -> list[str]:
    """What runs promptfoo."""
    script = folder / "promptfoo/node_modules/promptfoo/dist/src/main.js"
    return [str(find_node()), str(script)]


def _install_npm(contender: Contender, folder: Path) -> None:
    node, stamp = find_node(), folder / "axe-nb.stamp"
    asked = " ".join(contender.packages)
    if stamp.exists() and stamp.read_text("utf-8") == asked:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("no npm")
    say(f"{folder.name}: npm installs {asked} (once; 2 GB, some minutes)")
    folder.mkdir(parents=True, exist_ok=True)
    words = [
        npm,
        "install",
        "--prefix",
        str(folder),
        "--no-audit",
        "--no-fund",
        *contender.packages,
    ]
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        words, cwd=folder, env=PIP | os.environ | {"PATH": path}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        raise NotInstalled(f"npm failed: {done.stdout.strip().splitlines()[-1]}")
    stamp.write_text(asked, "utf-8")
