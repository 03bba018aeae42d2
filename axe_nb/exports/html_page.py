"""A run as one HTML page: its answer and its tree, with texts that are not cut; a diff, a grid.

A strict policy lets the page load and run nothing, whatever a model or a tool wrote.
Source: product.md "Traces"; goals.md "Safety".
"""

from __future__ import annotations

from html import escape
from typing import Any, Protocol, runtime_checkable

from axe_nb.results import RunResult
from axe_nb.text import clean, one_line
from axe_nb.views.html import write_tree
from axe_nb.views.outline import Outline
from axe_nb.views.transcript import Transcript

MAX_CHARS = 200_000
"""Characters of one text."""

MAX_ROWS = 20_000
"""Rows of a page."""


@runtime_checkable
class Shown(Protocol):
    """The difference of two runs, or a grid: it shows itself in a notebook."""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]: ...


PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; img-src data:">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
summary {{ cursor: pointer }}
table {{ border-collapse: collapse }}
th, td {{ padding: .2em .6em }}
</style>
</head>
<body>
<h1>{title}</h1>
{content}
</body>
</html>
"""


def write_html(result: RunResult) -> str:
    """Returns the page of a run."""
    root = Transcript.of(result).root
    assert root is not None
    outline = Outline(root, "", max_chars=MAX_CHARS, max_rows=MAX_ROWS)
    who = result.agent or result.model
    prompt = escape(clean(result.prompt[:MAX_CHARS]))
    return PAGE.format(
        title=escape(one_line(f"{who}: {result.task or result.prompt}", 80)),
        content=f"<details><summary>prompt</summary><pre>{prompt}</pre></details>\n"
        f"{write_tree(outline)}",
    )


def write_shown_html(shown: Shown) -> str:
    """Returns the page of what shows itself in a notebook, as it is there."""
    bundle, _ = shown._repr_mimebundle_()
    title = one_line(bundle["text/plain"].partition("\n")[0], 80)
    return PAGE.format(title=escape(title), content=bundle["text/html"])
