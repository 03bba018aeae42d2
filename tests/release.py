"""`python3 -m tests.release`: builds a release and checks the files as a user gets them.

It uploads nothing: if all is well, its last lines are the commands that do. `python3 -m
tests.release --trial` checks the same of a tree that is not ready to be released.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from tests.bootstrap import ROOT, environment, interpreter, say, without_settings

DIST = ROOT / "dist"
ALONE = "release-check"
"""Name of the empty environment."""

LONGEST = 600
"""Seconds; a step that takes longer hangs."""

FIRST = {
    "axe-nb --version": "axe-nb {version}",
    "axe-nb demo": "3 sub-agents",
    "axe-nb start --no-open": "wrote first.ipynb",
    'axe-nb run greeter "My name is Ada."': "Good morning, Ada!",
    'python -c \'import axe_nb; print(axe_nb.run("greeter", "My name is Bo.").text)\'': "ing, Bo!",
    "axe-nb doctor": "axe-nb {version}",
}
"""What is tried without any extra, in this order → what its output contains."""

EXTRAS = {
    "aiohttp": """
        import httpx_aiohttp
        import axe_nb
        axe_nb.use_http_client(httpx_aiohttp.HttpxAiohttpClient)
    """,
    "images": """
        import struct, zlib
        from axe_nb.pictures.picture import Picture
        from axe_nb.pictures.picture import fit
        def chunk(kind, data):
            check = struct.pack(">I", zlib.crc32(kind + data))
            return struct.pack(">I", len(data)) + kind + data + check
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", 9000, 1, 8, 0, 0, 0, 0))
        data = chunk(b"IDAT", zlib.compress(bytes(9001)))
        wide = b"\\x89PNG\\r\\n\\x1a\\n" + header + data + chunk(b"IEND", b"")
        assert fit(Picture(wide), 0).width == 8000
    """,
    "prices": """
        import asyncio
        from axe_nb.messages import Usage
        from axe_nb.providers.prices import Prices
        cost = asyncio.run(Prices().find_cost("openai/gpt-4o", Usage(1000, 1000)))
        if not cost:
            from axe_nb.providers.prices import make_price_error
            raise SystemExit(make_price_error("openai/gpt-4o", "x").hint)
    """,
    "mcp": """
        import pathlib, sys
        import axe_nb
        pathlib.Path("server.py").write_text(
            "from mcp.server.mcpserver import MCPServer\\n"
            "server = MCPServer('s')\\n"
            "@server.tool()\\n"
            "def add(a: int, b: int) -> int: return a + b\\n"
            "server.run()\\n"
        )
        @axe_nb.script("a")
        def model(request):
            done = request.results
            return done[0].content if done else axe_nb.call("s__add", a=40, b=2)
        servers = {"s": {"command": [sys.executable, "server.py"]}}
        agent = axe_nb.Agent("a", "script/a", mcp_servers=servers, mode="auto")
        assert "42" in axe_nb.run(agent, "Add").text
    """,
    "ipyparallel": """
        if __name__ == "__main__":
            import axe_nb
            import ipyparallel
            with ipyparallel.Cluster(n=1) as client:
                runs = list(axe_nb.map("greeter", ["My name is Cy."], executor=client))
            assert [run.text for run in runs] == ["Good morning, Cy!"]
    """,
    "dask": """
        if __name__ == "__main__":
            import axe_nb
            from distributed import Client
            with Client(n_workers=1, dashboard_address=":0") as client:
                runs = list(axe_nb.map("greeter", ["My name is Di."], executor=client))
            assert [run.text for run in runs] == ["Good morning, Di!"]
    """,
    "lab": """
        import importlib.util, subprocess, sys
        nb = [sys.executable, "-m", "axe_nb"]
        subprocess.run([*nb, "freeze", "first.ipynb"], check=True)
        subprocess.run([*nb, "check", "first.ipynb"], check=True)
        assert importlib.util.find_spec("jupyterlab")
    """,
    "test": """
        import nbval, subprocess, sys
        subprocess.run([sys.executable, "-m", "pytest", "--nbval", "first.ipynb"], check=True)
    """,
}
"""Extra → a program that uses it. Without the extra it fails, and names it."""

IMPORTED = {
    "aiohttp": "httpx_aiohttp",
    "dask": "distributed",
    "ipyparallel": "ipyparallel",
    "test": "nbval",
}
"""Extra whose library the program imports itself, so that Python names it → the library."""


def main(arguments: list[str]) -> int:
    """Exit code: 0 iff everything is in order."""
    problems = find_problems(ROOT, date.today())
    for problem in problems:
        say(f"not ready: {problem}")
    if problems and arguments != ["--trial"]:
        say('see docs/contributing.md, "A release"; --trial checks the rest nevertheless')
        return 1
    python = str(environment(".venv-release", "--group", "release"))
    shutil.rmtree(DIST, ignore_errors=True)
    environ = without_settings(os.environ, ROOT / "no-settings")
    run([python, "-m", "build", "--outdir", str(DIST)], environ)
    files = sorted(map(str, DIST.iterdir()))
    run([python, "-m", "twine", "check", "--strict", *files], environ)
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(next(DIST.glob("*.whl")), Path(folder))
    say(f"\n{len(files)} files in {DIST} are in order")
    if not problems:
        version = read_version(ROOT)
        say(f"To release them:\n  git tag v{version}\n  {python} -m twine upload {' '.join(files)}")
    return 1 if problems else 0


def find_problems(root: Path, today: date) -> list[str]:
    """Returns what keeps a tree from being released, a line each."""
    version = read_version(root)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, encoding="utf-8",
        check=True,
    )  # fmt: skip
    problems = []
    if status.stdout:
        problems.append(f"changes that are not committed: {status.stdout.split()[1]} …")
    for file, pattern in {
        "axe_nb/__init__.py": r'^__version__ = "(.*)"$',
        "CITATION.cff": r"^version: (.*)$",
        "labextension/package.json": r'^ +"version": "(.*)",?$',
    }.items():
        found = re.search(pattern, (root / file).read_text("utf-8"), re.MULTILINE)
        if not found or found[1] != version:
            problems.append(f"{file} has version {found and found[1]}, pyproject.toml {version}")
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    heading = next(iter(re.findall(r"^## (.*)$", changes, re.MULTILINE)), "")
    if heading != f"{version} - {today}":
        problems.append(f"CHANGELOG.md begins with {heading!r}, not with '{version} - {today}'")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    if "urls" not in project:
        problems.append("pyproject.toml has no [project.urls]")
    problems += [
        f"{page.name} says that a clone is installed"
        for page in (root / "README.md", *sorted((root / "docs").glob("*.md")))
        if re.search(r"not published yet|pip install -e '", page.read_text("utf-8"))
    ]
    return problems


def read_version(root: Path) -> str:
    """Returns the version of `pyproject.toml`."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def try_wheel(wheel: Path, folder: Path) -> None:
    """Installs a wheel into an empty environment below the folder, and uses it."""
    environ = without_settings(os.environ, folder / "home")
    python = interpreter(ALONE, folder)
    run([sys.executable, "-m", "venv", str(folder / ALONE)], environ)
    environ["PATH"] = f"{python.parent}{os.pathsep}{environ['PATH']}"
    project = folder / "project"
    project.mkdir()
    run([str(python), "-m", "pip", "install", "-q", str(wheel)], environ)
    for line, expected in FIRST.items():
        words = expected.format(version=read_version(ROOT))
        run(line, environ, project, contains=words)
    for extra, code in EXTRAS.items():
        file = project / f"try_{extra}.py"  # {extra}.py would be imported as the library
        file.write_text("\n".join(line[8:] for line in code.splitlines()), "utf-8")
        library = IMPORTED.get(extra)
        words = f"No module named '{library}'" if library else f"axe-nb[{extra}]"
        run([str(python), file.name], environ, project, contains=words, fails=True)
        run([str(python), "-m", "pip", "install", "-q", f"{wheel}[{extra}]"], environ)
        run([str(python), file.name], environ, project)


def run(
    command: str | list[str], environ: Mapping[str, str], folder: Path = ROOT, *,
    contains: str = "", fails: bool = False,
) -> None:  # fmt: skip
    """Runs words, or a line for the shell, and says how long it took.

    Raises SystemExit unless it succeeds (if `fails`: fails) and prints what `contains` says.
    """
    began = time.monotonic()
    shown = command if isinstance(command, str) else " ".join(command)
    done = subprocess.run(
        command, cwd=folder, env=environ, shell=isinstance(command, str), timeout=LONGEST,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    is_right = bool(done.returncode) == fails or (command == "axe-nb doctor")
    if not is_right or contains not in done.stdout:
        raise SystemExit(
            f"{done.stdout.strip()}\n$ {shown}\nexit code {done.returncode}; expected: "
            f"{'a failure' if fails else 'success'}, and the words {contains!r}"
        )
    say(f"{time.monotonic() - began:5.1f} s  {'fails, as it should: ' if fails else ''}{shown}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
