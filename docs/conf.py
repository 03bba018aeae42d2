"""Settings of the site for Sphinx: its sources are the files that GitHub shows, as they are.

The folder of the sources is that of the checkout, so that links between pages, notebooks and
pictures are the same in both places. README.md is the first page, and its lists of pages are the
site's tables of contents: there is no second list to keep.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from make_api import directives, without_ids  # noqa: E402

from axe_nb import __version__  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "axe_nb"
version = release = __version__
html_title = f"axe_nb {version}"
copyright = "the authors of axe_nb; MIT licence"

root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.md", "notebooks/*.ipynb"]
exclude_patterns = [".*", "axe_nb", "build", "dist", "labextension", "tests", "notebooks/axe"]

extensions = [
    "myst_nb",  # Markdown as GitHub writes it, and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
nb_execution_mode = "off"  # notebooks are shown as they were saved; `python3 tests` runs them
nb_merge_streams = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
default_role = "code"  # in docstrings, single backticks are code
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"  # brings its fonts, icons and search along: nothing is loaded from elsewhere
html_static_path = ["site/site.css"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "site/scorer.js")
html_extra_path = ["site/index.html"]
html_show_sourcelink = False
html_copy_source = False

GROUP = re.compile(r"^### (.+?)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"\]\(([\w./-]+)\.(?:md|ipynb)\)")


def contents(readme: str) -> dict[str, list[str]]:
    """Group of pages → the pages that the lists of README.md name, without their suffixes."""
    listed = readme.partition("\n## Documentation\n")[2]
    found = {title: PAGE.findall(text) for title, text in GROUP.findall(listed)}
    return {title: pages for title, pages in found.items() if pages}


def add_parts(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds what GitHub has no use for: tables of contents, and docstrings in full."""
    if docname == root_doc:
        for title, pages in contents(source[0]).items():
            listed = "\n".join(pages)
            source[0] += f"\n:::{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n:::\n"
    elif docname == "docs/api":
        source[0] = directives()


def clean_docstring(
    app: Sphinx, kind: str, name: str, it: object, how: object, lines: list[str]
) -> None:
    """Takes the ids of requirements out of a docstring, which say nothing to a user.

    Of an attribute, Napoleon takes the words before the first colon for its type: they are put
    back.
    """
    lines[:] = without_ids("\n".join(lines)).split("\n")
    types = [line for line in lines if line.startswith(":type: ")]
    if kind in ("attribute", "property") and types:
        lines.remove(types[0])
        lines[0] = f"{types[0].removeprefix(':type: ')}: {lines[0]}"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    from cells import CellLexer

    app.add_lexer("python", CellLexer)  # the language that notebooks name
    app.add_lexer("ipython", CellLexer)
    app.add_lexer("ipython3", CellLexer)
    app.connect("source-read", add_parts)
    app.connect("autodoc-process-docstring", clean_docstring)
