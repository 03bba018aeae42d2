"""What axe_nb imports late never comes from the folder that a notebook runs in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = [
    "anyio", "anywidget", "brotli", "brotlicffi", "certifi", "h11", "h2", "httpcore", "httptools",
    "httpx", "idna", "ipywidgets", "justhtml", "markdown_it", "mypy_extensions", "psygnal", "regex",
    "sniffio", "socksio", "tomli_w", "trio", "zstandard",
]  # fmt: skip

USE = """
import sys
sys.path[:0] = [""]  # as in a kernel
import axe_nb, helpers
agent = axe_nb.Agent("a", "script/a", tools=("grep",), mode="auto")

@axe_nb.script("a")
def model(request):
    if request.turn == 1:
        return axe_nb.call("grep", pattern="x+")
    return "**done**"

result = axe_nb.run(agent, "go")
print(result.text, helpers.WORD)
agent.to_toml()
from axe_nb.views.html import twin
twin(result)
with axe_nb.script_server("openai"):
    print(axe_nb.run(axe_nb.Agent("b", "openai/a"), "go").status)
from axe_nb.builtin import web_page
web_page._to_markdown("<title>t</title><p>x")
from axe_nb.nb import feed
feed._load_widget_class()
"""


@pytest.mark.req("D-52")
def test_libraries_that_a_folder_brings_do_not_run(tmp_path: Path) -> None:
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open('{name}.ran', 'w')\n")
    (tmp_path / "helpers.py").write_text("WORD = 'mine'\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", USE], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["**done**", "mine", "completed"]
    assert [path.name for path in tmp_path.glob("*.ran")] == []


def test_the_persons_own_imports_are_as_before(tmp_path: Path) -> None:
    (tmp_path / "regex.py").write_text("WORD = 'mine'\n")
    (tmp_path / "brotli.py").write_text("WORD = 'mine'\n")
    code = (
        "import sys; sys.path[:0] = ['']\n"
        "from axe_nb.imports import protect_imports\nprotect_imports(); protect_imports()\n"
        "import regex, brotli\nprint(regex.WORD, brotli.WORD)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["mine", "mine"], done.stderr


@pytest.mark.req("D-52")
def test_what_the_standard_library_tries_to_import_for_us_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "org/python").mkdir(parents=True)
    (tmp_path / "org/python/core.py").write_text("open('org.ran', 'w')\nPyStringMap = dict\n")
    imports = "import sys; sys.path[:0] = ['', sys.argv[1]]; import axe_nb.cli"
    imports += "; assert {'copy', 'pickle'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", imports, str(Path(__file__).parent.parent)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.ran")) == []
