"""A machine with nothing but Python gets its environments from one command, and keeps them."""

import ast
import base64
import gzip
import hashlib
import http.server
import io
import json
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import bootstrap
from tests.conftest import not_run

ROOT = Path(__file__).parent.parent
METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in miniature, with a package that needs no network and what an old Python left."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with zipfile.ZipFile(tmp_path / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.dist-info/METADATA", METADATA)
        wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "axe-nb.stamp").write_text("3.10.1 /usr /elsewhere\n")
    (tmp_path / ".venv" / "left-over").touch()
    return tmp_path


def test_an_environment_is_made_once_and_brought_up_to_date(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    def installed(package: str = "tiny-1-py3-none-any.whl") -> bool:
        python = bootstrap.environment(".venv", package, root=checkout)
        subprocess.run([python, "-c", "import tiny"], check=True)
        return "installing" in capsys.readouterr().out

    assert installed()
    assert not (checkout / ".venv" / "left-over").exists(), "the old Python's is made anew"
    assert not installed(), "what is there is kept"

    (checkout / "pyproject.toml").write_text("[project]\n# changed\n")
    assert installed()

    with pytest.raises(SystemExit, match=r"(?s)no-such-package.*\n\.venv: pip failed, see above"):
        installed("no-such-package")
    assert not (checkout / ".venv" / "axe-nb.stamp").exists(), "the next time starts afresh"


def test_a_link_to_the_environment_of_another_checkout_is_never_emptied(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    worktree = tmp_path_factory.mktemp("worktree")
    (worktree / "pyproject.toml").write_text("[project]\n")
    (worktree / ".venv").symlink_to(checkout / ".venv", target_is_directory=True)
    with pytest.raises(SystemExit, match=r"^\.venv is a link .* \.venv/bin/python -m pytest"):
        bootstrap.environment(".venv", "tiny", root=worktree)
    assert (checkout / ".venv" / "left-over").exists()
    assert (checkout / ".venv" / "axe-nb.stamp").exists()


@pytest.mark.parametrize("script", ["tests/bootstrap.py", "tests/__main__.py"])
def test_a_script_that_runs_first_needs_the_standard_library_only(script: str) -> None:
    tree = ast.parse((ROOT / script).read_text("utf-8"))
    froms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    packages = {name.partition(".")[0] for name in froms | names}
    assert packages <= sys.stdlib_module_names | {"tests"}


@pytest.mark.timeout(120)
def test_the_first_command_ends_with_what_the_exercises_ask_and_no_traceback() -> None:
    code = "import runpy; found = runpy.run_path('notebooks/__main__.py', run_name='x')\n"
    code += "assert found['run'](found['FIRST'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "3 sub-agents" in done.stdout
    assert done.stdout.count("exercise, left to you: ") == 4
    assert "its 3 exercises are left to you" in done.stdout
    assert "Traceback" not in done.stdout


HELD = {"@one/server": "one", "two": "two"}
"""Name of a package → its text."""


@contextmanager
def serve_registry(packages: dict[str, str]) -> Iterator[str]:
    """A registry of npm packages, each with a file; yields its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/").replace("%2f", "/")
            data = tarballs.get(name)
            if data is None and name in packages:
                dist = {"tarball": f"{url}/{name}.tgz", "integrity": checksum(packages[name])}
                one = {"name": name, "version": "1.0.0", "dist": dist}
                data = json.dumps({"name": name, "versions": {"1.0.0": one}}).encode()
            self.send_response(200 if data else 404)
            self.end_headers()
            self.wfile.write(data or b"{}")

        def log_message(self, *_: object) -> None: ...

    tarballs = {f"{name}.tgz": packed(text) for name, text in packages.items()}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url
        server.shutdown()


def packed(text: str) -> bytes:
    """A package with one file, the same each time."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as package:
        for name, content in (("package.json", '{"version": "1.0.0"}'), ("main.js", text)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content.encode()))
    return gzip.compress(file.getvalue(), mtime=0)


def checksum(text: str) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(packed(text)).digest()).decode()


def test_npm_packages_come_from_the_registry_of_its_configuration_and_are_the_reviewed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = Path(sys.executable).with_name(bootstrap.NPM)
    if not npm.exists():
        not_run("there is no npm; `python3 tests` installs it")
    lock, folder = tmp_path / "lock" / "package-lock.json", tmp_path / "node"
    lock.parent.mkdir()
    needs = {"@one/server": "1.0.0", "two": "1.0.0"}
    (lock.parent / "package.json").write_text(json.dumps({"name": "x", "dependencies": needs}))

    def fetch(**sums: str) -> str:
        entries = {
            f"node_modules/{name}": {
                "version": "1.0.0",
                "integrity": sums.get(text, checksum(text)),
            }
            for name, text in (("@one/server", "one"), ("two", "two"))
        }
        packages = {"": {"name": "x", "dependencies": needs}, **entries}
        lock.write_text(json.dumps({"name": "x", "lockfileVersion": 3, "packages": packages}))
        return bootstrap.fetch_packages(folder, npm, lock)

    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    with serve_registry(HELD) as url:
        monkeypatch.setenv("npm_config_registry", url)
        assert "EINTEGRITY" in fetch(two=checksum("other"))
        assert not folder.exists()
        assert fetch() == ""
    found = {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*.js")}
    assert found == {"node_modules/@one/server/main.js": "one", "node_modules/two/main.js": "two"}
    assert fetch() == "", "they are there already"
    assert fetch(two=checksum("newer")), "another lock, and the registry is gone"
