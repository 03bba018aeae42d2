"""Submissions are programs of strangers: marked in a sandbox, or not without a person's word."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from axe_nb.cli import main
from axe_nb.sandbox import find
from axe_nb.sandbox.process import Method
from tests.notebooks.test_lesson import NOTEBOOKS, make
from tests.sandbox.cages import METHODS, SECRET, canary, find_method, server, unique

CHECK = ("check", "assert got == ['workdir', 'data'], got", "exercise:b")

BEGIN = """\
import os, pathlib, signal, socket, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
got = []

def attack(name, do):
    try:
        if do():
            got.append(name)
    except Exception:
        pass

def environments():
    return [p.read_bytes() for p in pathlib.Path('/proc').glob('[0-9]*/environ') if can_read(p)]

def limit(name):
    import resource
    return resource.getrlimit(getattr(resource, name))[0]

def can_read(path):
    try:
        return bool(path.read_bytes())
    except OSError:
        return False
"""

ATTACKS = {
    "workdir": "pathlib.Path('own.txt').write_text('mine')",
    "data": "open('word.txt').read() == 'hello'",
    "key": "open({key!r}).read()",
    "key by a link": "(os.symlink({key!r}, 'link'), open('link').read())[1]",
    "key by a program": "subprocess.run(['cat', {key!r}], capture_output=True).stdout",
    "own environment": "{canary!r} in str(os.environ)",
    "environments": "{canary!r} in str(environments())",
    "home": "os.listdir({home!r})",
    "write outside": "open({outside!r}, 'w').write('x') and False",
    "write to home": "open({home!r} + '/.bashrc', 'w').write('x') and False",
    "write to the package": "open({package!r} + '/text.py', 'a').write(' ')",
    "write to the environment": "open({prefix!r} + '/pyvenv.cfg', 'a').write(' ')",
    "the lesson": "open({lesson!r}, 'a').write(' ')",
    "another submission": "open({other!r}).read()",
    "kill": "os.kill({pid}, 0) is None",
    "socket": "socket.create_connection(('127.0.0.1', {port}), 5)",
    "unix socket": "socket.socket(socket.AF_UNIX).connect({unix!r}) is None",
    "processes": "limit('RLIMIT_NPROC') == -1",
    "memory": "limit('RLIMIT_DATA') == -1",
    "file size": "limit('RLIMIT_FSIZE') == -1",
}
"""Name → an expression, true if it got what it wanted: the first two, which are allowed.

Whether something was written outside is seen there: a sandbox may show folders of its own.
"""


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Method:
    """Each sandbox of this machine, as the only one."""
    found = find_method(request.param)
    monkeypatch.setattr(find, "METHODS", {sys.platform: [lambda: [found]]})
    return found


@pytest.fixture
def mark(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Marks the submissions in `all`, and returns the lines of the report."""
    Path("all").mkdir()
    Path("word.txt").write_text("hello")
    nbformat.write(make(("b", "assert a", "exercise:b")), "first.ipynb")

    def run(*words: str) -> list[str]:
        assert main(["lesson", "first.ipynb", "--check", "all", *words]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_a_submission_gets_no_key_file_network_or_other_submission(
    method: Method,
    mark: Callable[..., list[str]],
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    package = Path(find.__file__).parents[1]
    nbformat.write(make(CHECK), "first.ipynb")
    nbformat.write(make(("a", "got = ['workdir', 'data']")), "all/zoe.ipynb")
    before = {p: p.read_bytes() for p in (package / "text.py", project / "first.ipynb")}
    with canary(), server() as (port, reached), socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        there = {
            "key": str(home / ".ssh" / "id_rsa"), "canary": SECRET, "home": str(home), "port": port,
            "outside": str(tmp_path / "outside.txt"), "package": str(package),
            "unix": str(tmp_path / "s"), "prefix": sys.prefix, "pid": os.getpid(),
            "lesson": str(project / "first.ipynb"), "other": str(project / "all" / "zoe.ipynb"),
        }  # fmt: skip
        tries = (f"attack({n!r}, lambda: {do.format(**there)})" for n, do in ATTACKS.items())
        nbformat.write(make(("a", BEGIN + "\n".join(tries))), "all/ada.ipynb")
        assert mark()[:3] == [
            "submission  b       passed",
            "ada         passed  1 of 1",
            "zoe         passed  1 of 1",
        ]
    assert reached == []
    assert {p: p.read_bytes() for p in before} == before
    assert not (tmp_path / "outside.txt").exists()
    assert not (home / ".bashrc").exists()
    assert not Path("own.txt").exists()


ENDLESS = """\
import os, subprocess, sys, time
chain = '''
import os, time
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.005)
'''
for _ in range(3):
    subprocess.Popen([sys.executable, '-c', chain, {word!r}], start_new_session=True)
    subprocess.Popen(['sleep', '1000', {word!r}], start_new_session=True)
"""


def test_nothing_that_a_submission_started_is_left(
    method: Method, mark: Callable[..., list[str]]
) -> None:
    word = unique()
    cell = ENDLESS.replace("'1000', ", "").format(word=word)
    nbformat.write(make(("a", cell + "a = 1")), "all/ada.ipynb")
    nbformat.write(
        make(("a", f"{cell}\nwhile True:\n    os.fork() or os._exit(0)")), "all/bob.ipynb"
    )
    assert mark("--timeout", "3")[1:3] == [
        "ada         passed       1 of 1",
        "bob         not reached  0 of 1",
    ]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended
            assert word.encode() not in process.read_bytes()


SAY = """\
import json, os
def say(data):
    for number in range(3, 256):
        try:
            os.write(number, data)
        except OSError:
            pass
"""
FORGED = {
    "answer": "get_ipython().display_formatter.format = lambda *_: ({'text/plain': 'x y'}, {})\n1",
    "closed": "os.closerange(0, 256)",
    "deep": "say(b'[' * 100_000 + b'\\n')",
    "endless": "for _ in range(200):\n    say(b'[]' * 50_000)",
    "erased": (
        "for number in range(3, 256):\n    try:\n        os.ftruncate(number, 0)\n"
        "    except OSError:\n        pass"
    ),
    "half": 'say(b\'[{"output_type":"stream","name":"x","text":"\\\\ud800"}]\\n\')',
    "lines": "say(b'[]\\n' * 50)",
    "marks": "say(b'{\"b\": \"passed\"}\\n'); open('marks.json', 'w').write('{\"b\": \"passed\"}')",
    "number": "say(b'9' * 5000 + b'\\n')",
    "raw": "say(b'\\xff\\xfe\\n')",
    "shape": 'say(b\'[{"output_type": "stream"}]\\n\')',
    "text": "say(b'passed\\n')",
}
"""What a submission may report of itself."""


def test_what_a_submission_reports_passes_no_check_and_stops_no_other(
    method: Method, mark: Callable[..., list[str]]
) -> None:
    for name, cell in FORGED.items():
        nbformat.write(make(("a", SAY + cell)), f"all/{name}.ipynb")
    nbformat.write(make(("a", "a = 1")), "all/zoe.ipynb")
    rows = mark("--timeout", "20")
    names = [*FORGED, "zoe"]
    assert [row.split()[0] for row in rows[1:14]] == names
    assert [row.split()[0] for row in rows[1:14] if "1 of 1" in row] == ["zoe"]
    assert "text, b: it sent outputs that cannot be read" in rows
    assert rows[-1] == "13 submissions marked, 1 with all exercises passed"


def test_the_files_of_a_submission_are_removed_and_stop_no_other(
    method: Method, mark: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, outside = tmp_path / "temporary", tmp_path / "outside"
    temporary.mkdir()
    (outside / "kept").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    filled = {
        "deep": "for _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')",
        "link": "os.symlink(OUTSIDE, 'link')",
        "shut": "os.makedirs('shut/in')\nos.chmod('shut', 0)",
    }
    for name, cell in filled.items():
        begin = f"import os\nOUTSIDE = {str(outside)!r}\na = 1\n"
        nbformat.write(make(("a", begin + cell)), f"all/{name}.ipynb")
    assert mark()[-1] == "3 submissions marked, 3 with all exercises passed"
    assert list(temporary.iterdir()) == []
    assert (outside / "kept").exists()


COURSE = ("01_first_run", "03_tools_and_permissions", "05_limits_and_failures", "12_mcp_servers")


@pytest.mark.parametrize("name", COURSE)
def test_a_solved_lesson_of_the_course_passes_in_the_sandbox(
    name: str, method: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "12_mcp_servers":
        pytest.importorskip("mcp")
    book = nbformat.read(NOTEBOOKS / "solutions" / f"{name}.ipynb", 4)
    book.cells = [cell for cell in book.cells if 'os.chdir("..")' not in cell.source]
    nbformat.write(book, tmp_path / "ada.ipynb")
    assert main(["lesson", str(NOTEBOOKS / f"{name}.ipynb"), "--check", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "1 submission marked, 1 with all exercises passed"


def test_without_a_sandbox_submissions_run_only_at_the_word_of_a_person(
    mark: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, answers = [], ["y", "", "n"]
    risk = "no sandbox works here, and a submission can do anything you can"
    monkeypatch.setattr(find, "METHODS", {})
    for name in ("ada", "bob"):
        nbformat.write(make(("a", "a = open('word.txt').read()")), f"all/{name}.ipynb")
    words = ["lesson", "first.ipynb", "--check", "all"]
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {risk}",
        "install bubblewrap, or mark in a container, with --no-sandbox",
    ]
    assert mark("--no-sandbox")[1] == "ada         passed  1 of 1"
    monkeypatch.setenv("AXE_NB_SANDBOX", "required")
    assert main(words) == 2
    assert main([*words, "--no-sandbox"]) == 2
    assert "a sandbox is required, so --no-sandbox is not allowed" in capsys.readouterr().err
    monkeypatch.delenv("AXE_NB_SANDBOX")
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or answers.pop())
    assert [main(words) for _ in range(3)] == [2, 2, 0]
    assert asked == [f"{risk}; run them? [y/N] "] * 3, "once for all submissions"
