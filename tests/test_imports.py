"""What axe_nb imports late never comes from a place that a tool or a repository can write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import axe_nb
from axe_nb.imports import find_real_folder

PLANTED = [
    "anyio", "anywidget", "arrow", "attrs", "brotli", "brotlicffi", "certifi", "dateutil", "fqdn",
    "h11", "h2", "httpcore", "httptools", "httpx", "idna", "ipywidgets", "isoduration",
    "jsonpointer", "jsonschema", "justhtml", "lark", "markdown_it", "mypy_extensions", "psygnal",
    "referencing", "regex", "rfc3339_validator", "rfc3987", "rfc3987_syntax", "six", "sniffio",
    "socksio", "tomli_w", "trio", "uri_template", "webcolors", "zstandard",
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
axe_nb.script("d")(lambda request: "{}")
assert axe_nb.run(axe_nb.Agent("d", "script/d"), "go", output={"type": "object"}).data == {}
from axe_nb.views.html import twin
twin(result)
with axe_nb.script_server("openai"):
    print(axe_nb.run(axe_nb.Agent("b", "openai/a"), "go").status)
from axe_nb.builtin import web_page
web_page._to_markdown("<title>t</title><p>x")
from axe_nb.cell_display import feed
feed._load_widget_class()
"""


def test_the_current_folder_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link" / "sub")
    assert find_real_folder() == os.path.realpath(tmp_path / "real" / "sub")


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


PLACES = {
    "a folder below": "sys.path.insert(0, f'{top}/proj/src')",
    "a relative name": "sys.path.insert(0, 'src')",
    "a way up": "sys.path.insert(0, 'src/../../proj/src')",
    "an archive": "sys.path.insert(0, f'{top}/proj/src.zip')",
    "a link": "os.symlink('src', 'ln'); sys.path.insert(0, f'{top}/proj/ln')",
    "a folder above": "os.chdir('data'); sys.path.insert(0, f'{top}/proj')",
    "the folder of the start": "sys.path.insert(0, f'{top}/proj/src'); os.chdir(top / 'lib')",
    "a workdir": "os.chdir(top / 'lib'); sys.path.insert(0, f'{top}/far/src');"
    "axe_nb.define(axe_nb.Agent('w', 'script/w', workdir=f'{top}/far')); axe_nb.run('w', 'go')",
}

IMPORT = """
import os, pathlib, sys
top = pathlib.Path.cwd().parent
import axe_nb
axe_nb.script("w")(lambda request: "done")
exec(sys.argv[1])
exec("import regex, httpx, h11", {"__name__": "axe_nb.part"})
for name in ("brotli", "org.python.core"):
    try:
        exec("import " + name, {"__name__": "httpx.part"})
    except ModuleNotFoundError:
        pass
import helpers
print(helpers.WORD)
"""


def plant(folder: Path, top: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("regex", "httpx", "h11", "brotli"):
        (folder / f"{name}.py").write_text(f"open({str(top / 'ran')!r}, 'a').write(__file__)\n")
    (folder / "org/python").mkdir(parents=True)
    (folder / "org/python/core.py").write_text(f"open({str(top / 'ran')!r}, 'a').write('org')\n")
    (folder / "helpers.py").write_text("WORD = 'mine'\n")


@pytest.mark.req("D-52")
@pytest.mark.parametrize("code", PLACES.values(), ids=PLACES)
def test_no_entry_of_the_path_brings_libraries_that_a_tool_may_have_written(
    tmp_path: Path, code: str
) -> None:
    for name in ("proj", "proj/src", "far/src"):
        plant(tmp_path / name, tmp_path)
    shutil.make_archive(str(tmp_path / "proj/src"), "zip", tmp_path / "proj/src")
    (tmp_path / "proj/data").mkdir()
    (tmp_path / "lib").mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT, code], cwd=tmp_path / "proj",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "mine", done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_a_library_from_a_place_out_of_reach_comes_after_the_installed_ones(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    for name in ("brotli", "regex"):
        (tmp_path / f"lib/{name}").mkdir(parents=True)
        (tmp_path / f"lib/{name}/__init__.py").write_text("WORD = 'elsewhere'\n")
    code = (
        f"import sys, axe_nb; sys.path.insert(0, {str(tmp_path / 'lib')!r})\n"
        "exec('import brotli, regex; print(brotli.WORD, regex.__version__)', {'__name__': 'httpx'})"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path / "proj",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith("elsewhere "), done.stderr


def test_axe_nb_runs_with_its_own_checkout_as_the_current_folder() -> None:
    code = USE.replace(", helpers.WORD", "").replace(", helpers", "")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(axe_nb.__file__).parent.parent,
        env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["**done**", "completed"], done.stderr


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
