"""Answers as Markdown: links, code in colours, and how large a page may grow."""

from __future__ import annotations

import re
from html import unescape

import pytest

from axe_nb.views.appearance import CODE
from axe_nb.views.markdown import LANGUAGES, LONGEST_CODE, MOST_LINES, format_code, render

REL = ' rel="noopener noreferrer"'

PYTHON = 'def f(n: int = 3) -> str:\n    return f"{n}"  # a <b>comment</b>\n'


def shown(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("[https://bank](https://evil)", "https://bank (evil)"),
        ("[bank.example](https://evil.example/x)", "bank.example (evil.example)"),
        ("[**bank**.`example`](https://evil.example)", "bank.example (evil.example)"),
        ("[Log in at Bank.Example now](http://1.2.3.4)", "Log in at Bank.Example now (1.2.3.4)"),
        ("[1.2.3.4](http://5.6.7.8)", "1.2.3.4 (5.6.7.8)"),
        ("[https://bank.example@evil.example](https://bank.example@evil.example)",
         "https://bank.example@evil.example (evil.example)"),
        ("[bank。example](https://evil.example)", "bank。example (evil.example)"),
        ("[bank.example.evil.example](https://evil.example)",
         "bank.example.evil.example (evil.example)"),
        ("<https://b\u0430nk.example>", "https://b\u0430nk.example (xn--bnk-6cd.example)"),
        ("[ceo@bank.example](mailto:x@evil.example)", "ceo@bank.example (evil.example)"),
        ("[ba\xadnk.c\xadom](https://evil.example)", "ba\ufffdnk.c\ufffdom (evil.example)"),
        ("[ba&shy;nk.c&#xAD;om](https://evil.example)", "ba\ufffdnk.c\ufffdom (evil.example)"),
        ("[bank\ufe0f.com\ufe0f](https://evil.example)", "bank\ufffd.com\ufffd (evil.example)"),
        ("[b\ufffdank.com](https://evil.example)", "b\ufffdank.com (evil.example)"),
        ("[ok](https://a.example)", "ok"),
        ("[see here](https://a.example/b)", "see here"),
        ("<https://a.example/b>", "https://a.example/b"),
        ("[a.example:8080](http://a.example:8080/x)", "a.example:8080"),
        ("[www.a.example](https://a.example)", "www.a.example"),
        ("[me@a.example](mailto:me@a.example)", "me@a.example"),
    ],
)  # fmt: skip
def test_a_link_whose_text_names_another_host_shows_the_true_one(link: str, text: str) -> None:
    assert shown(render(link)).strip() == text


def test_links_open_without_a_way_back_and_have_no_tooltip_with_another_address() -> None:
    html = render("[a](https://x.example) <mailto:me@x.example> [b](https://x.example 'bank')")
    assert html.count("<a ") == html.count(REL) == 3
    assert "bank" not in html


@pytest.mark.parametrize(
    "text",
    ["main.py", "e.g.this", "www.a.example", "me@a.example", "1.2.3.4", "//a.example",
     "javascript:alert(1)", "ftp://a.example", "file:///etc/passwd", "`https://a.example`",
     "[x](javascript:alert(1))", "[x](data:text/html,x)", "[x](file:///etc/passwd)",
     "[x](//x.example)", "[x](vbscript:x)", "[x](ftp://x.example)", "[x](/lab/tree)",
     "[x](x.html)", "<file:///etc>"],
)  # fmt: skip
def test_only_pages_and_mail_written_as_addresses_are_links(text: str) -> None:
    assert "<a " not in render(f"See {text} for more.")


def test_markdown_has_lines_and_neither_images_nor_raw_html() -> None:
    assert render("one\ntwo") == "<p>one<br />\ntwo</p>\n"
    page = render("![x](https://a.example/p.png) <b>no</b>")
    assert "<img" not in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page


def test_entities_cannot_bring_characters_that_are_not_seen() -> None:
    html = render("a&#8203;b&#x202e;c&shy;d&#917569;e `&shy;` [f](https://a.example '&#8203;')")
    assert html == (
        "<p>a\ufffdb\ufffdc\ufffdd\ufffde <code>&amp;shy;</code> "
        f'<a href="https://a.example"{REL}>f</a></p>\n'
    )


@pytest.mark.parametrize(
    "text",
    ["|a" * 60 + "|\n" + "|-" * 60 + "|\n" + "|\n" * 6000, (">" * 20 + "a\n\n") * 800,
     "- " * 20 + "a\n", "*a*" * 6000, "`a`" * 6000, '<&"' * 6000, "[a](http://b)" * 1500],
)  # fmt: skip
def test_a_page_stays_in_proportion_to_its_text(text: str) -> None:
    assert len(render(text)) <= 4000 + 15 * len(text)


def test_a_table_that_people_write_is_a_table_and_a_hostile_one_its_text() -> None:
    rows = "".join(f"|{n}|{n * n}|\n" for n in range(500))
    assert render(f"|n|square|\n|-|-|\n{rows}").startswith("<table>")
    hostile = "|a" * 60 + "|\n" + "|-" * 60 + "|\n" + "|<b>\n" * 3000
    html = render(hostile)
    assert re.match(r"<pre style='[^']*'>\|a\|a", html)
    assert "&lt;b&gt;" in html
    assert render(f"{hostile}\n*after*").endswith("<p><em>after</em></p>\n")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["a." * 40_000, "a" * 80_000, "a " * 40_000])
def test_texts_of_what_might_be_addresses_are_read_in_time(name: str) -> None:
    assert render(f"[{name}](http://x.example)").endswith(" (x.example)</p>\n")
    assert "<a " not in render("a://" * 30_000)


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


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("It is $x_i^2$ or $$a + b$$.", ["$x_i^2$", "$$a + b$$"]),
        (r"So \(a*b*c\) and \[x\].", [r"\(a*b*c\)", r"\[x\]"]),
        ("It costs $5, or $6 for a_b and c_d; `$x^2$` is code.", []),
        ("$x_1$5 and $ x_1 $ and $PATH_A or $PATH_B", []),
        (r"$$\href{javascript:alert(1)}{x}$$ \(\def\x{y}\) $\style{a}{b}$", []),
        ("$$<img src=x onerror=alert(1)>$$", ["$$&lt;img src=x onerror=alert(1)&gt;$$"]),
        (r"$\DeclareMathOperator{\sum}{X}_x$ $$x\tag{9}\label{a}$$ $$\llap{\rule{9em}{9em}}$$", []),
        (r"$$\begin{matrix}a\\ [-9em]b\end{matrix}$$ $$\begin {array}{c}x\end{array}$$", []),
        ("$$" + r"\frac{1}{x_1+" * 90 + "1" + "}" * 90 + "$$", []),
        (r"$$\begin{cases}" + "&" * 900 + r"\\" * 500 + r"\end{cases}$$", []),
        (
            r"$$\begin{pmatrix}1&2\\3&4\end{pmatrix}$$",
            [r"$$\begin{pmatrix}1&amp;2\\3&amp;4\end{pmatrix}$$"],
        ),
    ],
)
def test_formulas_are_typeset_and_prices_stay_prices(text: str, formulas: list[str]) -> None:
    html = render(text)
    found = re.findall("<span class='mathjax_process tex2jax_process'>(.*?)</span>", html)
    assert found == formulas
    assert "<img" not in html


def test_a_link_whose_text_is_a_formula_shows_its_host() -> None:
    html = render(r"[\(\text{https:}\text{//}\text{github}.\text{com}\)](https://evil.example/x)")
    assert html.endswith("</a> (evil.example)</p>\n")


def test_lists_and_cells_keep_their_look_where_a_page_resets_them() -> None:
    page = render("1. a\n\n|b|c|\n|-|-:|\n|1|2|")
    assert '<ol style="list-style:revert;padding-left:2em">' in page
    assert '<td style="text-align:right;padding:.5em">2</td>' in page
