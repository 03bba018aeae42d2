"""Code in an answer, coloured: by a library, with inline styles that survive in a saved notebook.

Source: design README ("Answers look as good as a Markdown cell"); jupyter-facts-2 §5 (sanitizer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from axe_nb.text import clean
from axe_nb.views.appearance import CODE, TEXT
from axe_nb.views.bidi import direction

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

LANGUAGES = frozenset(
    {
        "bash", "c", "cpp", "css", "diff", "go", "html", "ini", "java", "javascript", "js", "json",
        "julia", "py", "pycon", "python", "python3", "r", "rb", "ruby", "rs", "rust", "sh", "shell",
        "sql", "toml", "ts", "typescript", "xml", "yaml", "yml",
    }
)  # fmt: skip
"""Names after ``` whose code is coloured; each was tried with hostile code."""

LONGEST, MOST_LINES = 5000, 400
"""Characters and lines of code; more are not coloured, as some languages take quadratic time."""

GROWTH = 8
"""Maximum characters of HTML for each character of code; if more are needed, it is not coloured."""

STYLES = {
    "Comment": f"color:{CODE['comment']};font-style:italic",
    "Keyword": f"color:{CODE['word']}",
    "Operator.Word": f"color:{CODE['word']}",
    "Literal.String": f"color:{CODE['text']}",
    "Literal.Number": f"color:{CODE['number']}",
    "Name.Function": f"color:{CODE['name']}",
    "Name.Class": f"color:{CODE['name']}",
    "Name.Decorator": f"color:{CODE['name']}",
    "Name.Tag": f"color:{CODE['name']}",
    "Name.Attribute": f"color:{CODE['number']}",
    "Name.Variable": f"color:{CODE['number']}",
    "Generic.Deleted": f"color:{CODE['gone']}",
    "Generic.Inserted": f"color:{CODE['new']}",
    "Generic.Prompt": f"color:{CODE['comment']}",
}
"""Kind of a token, or of those that it is one of → its style; coarse, so that a newer library gives
the same page."""


def format_code(code: str, language: str = "", _attributes: str = "") -> str:
    """HTML of a piece of code.

    Args:
        code: as the model wrote it.
        language: its name for it; an unknown or missing one means no colours.
    """
    code = clean(code).removesuffix("\n")
    plain = escape(code, quote=False)
    inner = plain
    if language.lower() in LANGUAGES and _is_short(code):
        coloured = "".join(_paint(code, language.lower()))
        if len(coloured) <= GROWTH * len(code):
            inner = coloured
    return f"<pre{direction(code)} style='{TEXT}'>{inner}</pre>\n"


def _is_short(code: str) -> bool:
    return len(code) <= LONGEST and code.count("\n") < MOST_LINES


def _paint(code: str, language: str) -> Iterator[str]:
    left = len(code)  # a lexer knows the last line by its end, which is not shown
    tokens = _find_lexer(language).get_tokens(code + "\n")
    styled = ((_style_of(kind), text) for kind, text in tokens)
    for style, run in groupby(_with_blanks(styled), key=itemgetter(0)):
        whole = "".join(text for _, text in run)
        text, left = escape(whole[:left], quote=False), max(0, left - len(whole))
        yield f"<span style={style}>{text}</span>" if style else text


def _with_blanks(styled: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Gives blanks the style before them, so that fewer spans are needed."""
    last = ""
    for style, text in styled:
        last = last if text.isspace() else style
        yield last, text


@cache
def _style_of(kind: _TokenType) -> str:
    """The style of a kind of token, or of the nearest one that it is one of."""
    parts = str(kind).split(".")[1:]
    names = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((STYLES[name] for name in names if name in STYLES), "")


@cache
def _find_lexer(language: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    name = "yaml" if language == "yml" else language  # Pygments knows `yml` from 2.21 on
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)
