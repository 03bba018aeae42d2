"""The site shows every page and every public name; `python3 docs` builds it (not run here)."""

import inspect
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import axe_nb

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def at_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of docs/ can be imported, as Sphinx imports them."""
    monkeypatch.syspath_prepend(str(DOCS))


@pytest.mark.usefixtures("at_docs")
def test_every_page_and_notebook_is_in_one_table_of_contents() -> None:
    import conf

    groups = conf.contents((ROOT / "README.md").read_text("utf-8"))
    assert list(groups) == ["Tutorials", "How-to pages", "Reference", "Explanation"]
    listed = Counter(page for pages in groups.values() for page in pages)
    pages = [*DOCS.glob("*.md"), *ROOT.glob("notebooks/*.ipynb"), ROOT / "CHANGELOG.md"]
    assert listed == Counter(p.relative_to(ROOT).with_suffix("").as_posix() for p in pages)
    assert groups["Tutorials"] == sorted(groups["Tutorials"])


@pytest.mark.usefixtures("at_docs")
def test_the_page_of_names_is_made_of_the_docstrings_and_has_each_name_once() -> None:
    import make_api

    grouped = [name for names in make_api.GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(axe_nb.__all__)
    assert make_api.FILE.read_text("utf-8") == make_api.page(), "run `python docs/make_api.py`"
    assert not re.search(r"\([A-Z]-\w", make_api.page())
    shown = re.findall(r"^\.\. auto(class|function):: axe_nb\.(\w+)$", make_api.directives(), re.M)
    assert [name for _, name in shown] == grouped
    assert ("class", "RunResult") in shown
    assert ("function", "run") in shown
    for name, internal in make_api.INTERNAL.items():
        known = {*dir(getattr(axe_nb, name)), *inspect.signature(getattr(axe_nb, name)).parameters}
        assert set(internal.split(", ")) <= known | {"choices", "note", "planned"}, name


def test_every_picture_is_shown_and_the_gallery_is_small() -> None:
    shown = re.compile(r"\]\((?:docs/)?pictures/([^)]+)\)")
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]
    linked = {page.name: set(shown.findall(page.read_text("utf-8"))) for page in pages}
    assert set().union(*linked.values()) == {path.name for path in (DOCS / "pictures").iterdir()}
    assert len(linked["README.md"]) >= 3
    kinds = Counter(name.rpartition(".")[2] for name in linked["gallery.md"])
    assert kinds["png"] >= 12
    assert kinds["webp"] >= 2
    assert sum((DOCS / "pictures" / name).stat().st_size for name in linked["gallery.md"]) < 1.5e6


def test_the_site_loads_nothing_from_elsewhere_and_is_no_burden_of_the_tests() -> None:
    own = (DOCS / "site" / "site.css").read_text() + (DOCS / "site" / "index.html").read_text()
    assert not re.search(r"https?:|@import|//", own)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    needed = {re.split(r"[<>=]", asked)[0] for asked in groups["docs"] + groups["release"]}
    assert {"sphinx", "myst-nb", "furo", "build", "twine"} <= needed
    assert not needed & {re.split(r"[<>=]", str(asked))[0] for asked in groups["test"]}
