"""The documents lead where they say, and their examples run.

Every `toml`, `python`, `ipython` and `console` block of README.md and docs/ is run in an empty
project, page by page: a `toml` block is written to the file that its first line names, or is part
of an agent file; a `python` block is a program, and a `text` block directly below it is what it
prints; `ipython` blocks are the cells of one notebook. A script stands in for the paid model.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import axe_nb
from axe_nb.agents.user_config import Config

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
"""Language, code, and the `text` block directly below."""
RUN = {"toml", "python", "ipython", "console"}
NOT_RUN = {
    "$ python3 notebooks": "creates environments; `python3 tests` has done the same",
    "$ python3 tests": "is the command that runs this test",
    "$ .venv/bin/python -m pytest": "is the command that runs this test",
    "$ python3 docs": "creates an environment; tests/test_site.py checks what it reads",
    "$ python -m tests.benchmarks": "installs other libraries, and takes minutes",
    "$ pip install 'axe-nb[prices]'": "installs from the network",
    "$ python3 -m venv phoenix": "installs from the network, 850 MB",
    "$ phoenix/bin/pip install": "installs from the network, 850 MB",
    "$ PHOENIX_HOST=127.0.0.1 ": "is a server that does not end",
    "$ pip install -e '../axe-nb[lab]'": "installs from the network; test_package.py builds it",
}
"""Beginning of a console line → why it is not run here."""

SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in sys.argv[1:]:
    shell.run_cell(cell).raise_error()
"""


class Block(NamedTuple):
    """A fenced block of a page, and the text of the `text` block directly below it, if any."""

    language: str
    code: str
    output: str


def id_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text("utf-8"))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.fixture
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, which is the current one; the model of README.md answers on loopback."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    axe_nb.script("claude-sonnet-5-5")(lambda request: f"Answer to: {request.last}")
    with axe_nb.script_server("anthropic"):
        yield folder


def finish(*arguments: str) -> str:
    """The standard output of a Python process that ends well and prints no error."""
    done = subprocess.run(
        [sys.executable, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), f"{arguments[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_toml(code: str) -> None:
    named = re.match(r"# ([\w./-]+\.toml)\n", code)
    if named:
        path = Path(named[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, "utf-8")
    elif "[providers." in code or "[prices." in code:
        settings = Path(finish("-m", "axe_nb", "config", "path").strip()).expanduser()
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(re.sub(r"^# (?=\[|\w+ = )", "", code, flags=re.MULTILINE), "utf-8")
        Config.load()
        settings.unlink()
    else:
        agent = axe_nb.Agent.from_toml(f'name = "x"\nmodel = "script/x"\n{code}')
        assert not agent.warnings


def run_console(code: str) -> None:
    for line in code.splitlines():
        if any(line.startswith(start) for start in NOT_RUN):
            continue
        prompt, program, *words = shlex.split(line, comments=True)
        assert (prompt, program) == ("$", "axe-nb"), f"run it, or say why not in NOT_RUN: {line}"
        opens = words == ["start"]  # JupyterLab does not end
        finish("-m", "axe_nb", *words, *(["--no-open"] if opens else []))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "page", [p for p in PAGES if RUN & {b.language for b in blocks(p)}], ids=id_of
)
def test_the_examples_of_a_page_run_in_an_empty_project(page: Path, empty_project: Path) -> None:
    for block in blocks(page):
        match block.language:
            case "toml":
                run_toml(block.code)
            case "console":
                run_console(block.code)
            case "python":
                printed = finish("-W", "error", "-c", block.code)
                assert block.output in ("", printed)
    for file in Path("axe/agents").glob("*.toml"):
        for name in axe_nb.Agent.from_file(file.stem).sub_agents:
            axe_nb.Agent.from_file(name)  # which is there too
    if cells := [block.code for block in blocks(page) if block.language == "ipython"]:
        finish("-c", SHELL, *cells)


def test_every_block_names_a_language_that_is_run_or_only_shown() -> None:
    used = {block.language for page in PAGES for block in blocks(page)}
    # sh: docs/tools.md lists what the command guard lets pass; yaml: workflows of a CI service
    assert used <= RUN | {"text", "sh", "yaml"}


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        there = (page.parent / target).resolve() if target else page
        assert there.is_relative_to(ROOT), target
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def read_package() -> Iterator[tuple[str, str]]:
    for file in (ROOT / "axe_nb").rglob("*.py"):
        yield file.relative_to(ROOT).as_posix(), file.read_text("utf-8")


def test_the_code_cites_only_rules_and_pages_that_the_project_has() -> None:
    rule = re.compile(r"\b([ABDOPX]-(?:[A-Z]?\d+))")
    pages = re.compile(r"\b(seed \d|issue \d|second form|goals\.md|product\.md|[a-z-]+-facts\.md)")
    known = set(rule.findall((ROOT / "docs" / "decisions.md").read_text("utf-8")))
    for name, text in read_package():
        assert set(rule.findall(text)) <= known, name
        assert not pages.findall(text), name


def list_texts(tree: ast.AST) -> Iterator[str]:
    """Yields the strings of a module, with `…` in the place of what an f-string fills in."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)):
                yield text
            case ast.JoinedStr(values):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…" for part in values
                )


def test_every_message_of_the_page_on_troubleshooting_is_one_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    messages = re.findall(r"^`([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 20
    found = "\n".join(text for _, code in read_package() for text in list_texts(ast.parse(code)))
    shown = {one: re.escape(one.removesuffix(" …")).replace("…", "[^\n]+") for one in messages}
    assert [one for one, pattern in shown.items() if not re.search(pattern, found)] == []
