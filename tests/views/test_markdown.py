"""Answers as Markdown: what a link shows and may do, and how large a page may grow."""

from __future__ import annotations

import re

import pytest

from axe_nb.views.markdown import render

REL = ' rel="noopener noreferrer"'


def shown(text: str) -> str:
    """What a reader sees of one paragraph."""
    return re.sub(r"<[^>]*>", "", render(text)).strip()


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
    assert shown(link) == text


def test_links_open_without_a_way_back_and_only_to_pages_and_mail() -> None:
    html = render("[a](https://x.example) <mailto:me@x.example> [b](https://x.example 'title')")
    assert html.count("<a ") == html.count(REL) == 3
    for url in ("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x.example",
                "vbscript:x", "ftp://x.example", "/lab/tree"):  # fmt: skip
        assert "<a " not in render(f"[x]({url})"), url


def test_a_link_has_no_tooltip_as_that_could_name_another_address() -> None:
    html = render('[a](https://evil.example "https://bank.example")')
    assert "bank.example" not in html


@pytest.mark.parametrize(
    "text",
    ["main.py", "e.g.this", "www.a.example", "me@a.example", "1.2.3.4", "//a.example",
     "javascript:alert(1)", "ftp://a.example", "file:///etc/passwd", "`https://a.example`"],
)  # fmt: skip
def test_what_only_looks_like_an_address_is_no_link(text: str) -> None:
    assert "<a " not in render(f"See {text} for more.")


def test_entities_cannot_bring_characters_that_are_not_seen() -> None:
    html = render("a&#8203;b&#x202e;c&shy;d&#917569;e `&shy;` [f](https://a.example '&#8203;')")
    assert html == (
        "<p>a\ufffdb\ufffdc\ufffdd\ufffde <code>&amp;shy;</code> "
        f'<a href="https://a.example"{REL}>f</a></p>\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "|a" * 60 + "|\n" + "|-" * 60 + "|\n" + "|\n" * 6000,
        "|a|\n|-|\n" * 1,
        (">" * 20 + "a\n\n") * 800,
        "- " * 20 + "a\n",
        "*a*" * 6000,
        "`a`" * 6000,
        '<&"' * 6000,
        "[a](http://b)" * 1500,
    ],
)
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
def test_a_link_with_a_very_long_text_shows_the_true_host_without_a_search(name: str) -> None:
    assert render(f"[{name}](http://x.example)").endswith(" (x.example)</p>\n")


@pytest.mark.timeout(60)
def test_a_long_text_of_what_might_be_addresses_is_read_in_time() -> None:
    assert "<a " not in render("a://" * 30_000)
