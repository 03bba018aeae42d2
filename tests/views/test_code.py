"""Code in answers: coloured where that is sure to be cheap, and always whole."""

from __future__ import annotations

import re
from html import unescape

import pytest

from axe_nb.views.appearance import CODE
from axe_nb.views.markdown import LANGUAGES, LONGEST_CODE, MOST_LINES, format_code, render

PYTHON = 'def f(n: int = 3) -> str:\n    return f"{n}"  # a <b>comment</b>\n'


def shown(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_words_of_a_language_have_its_colours() -> None:
    html = format_code(PYTHON, "python")
    for kind, word in (("Keyword", "def"), ("Name.Function", "f"), ("Literal.Number", "3")):
        assert f"<span style=color:{CODE[kind]}>{word}" in html
    assert f"<span style=color:{CODE['Comment']}># a &lt;b&gt;comment&lt;/b&gt;</span>" in html


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_code_is_shown_to_the_letter_in_every_language(language: str) -> None:
    for code in (PYTHON, "<script>alert('&')</script>", "\n\n  x = 1\n\n", "a\tb", '{"a": [1]}'):
        assert shown(format_code(code + "\n", language)) == code + "\n"


@pytest.mark.parametrize(
    "code", ["x = 1\n" * (MOST_LINES + 1), "x = 1 " * LONGEST_CODE, "1 a " * 1000]
)
def test_code_that_would_take_long_or_grow_has_no_colours(code: str) -> None:
    html = format_code(code, "python")
    assert "<span" not in html
    assert len(html) < 8 * len(code) + 200


def test_code_cannot_bring_marks_of_its_own_or_characters_that_are_not_seen() -> None:
    html = render("```python\n</span></pre><img src=x onerror=alert(1)>\u202e\x1b[31m\n```\n")
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html
    assert html.count("<pre") == html.count("</pre>") == 1
