"""Searches of the model's server and cited pages, in every form in which a run is shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from axe_nb import RunResult
from axe_nb.conversion.records import to_json
from axe_nb.messages import Page, ServerCall, Usage
from axe_nb.messages.exchanges import Turn
from axe_nb.secrets import find_filter
from axe_nb.views.html import answer, twin
from axe_nb.views.outline import as_text
from tests.views.runs import PAYLOADS, done, saved_size
from tests.views.test_html import Page as Parsed

PAGES = tuple(Page(f"Page {n}", f"https://p{n}.example.org/x?a=1&b={n}") for n in range(1, 4))

SEARCH = ServerCall("web_search", {"query": "tallest tower"}, PAGES)


def searched(*calls: ServerCall, sources: tuple[Page, ...] = (), **fields: Any) -> RunResult:
    """A run of one turn with these calls of the server."""
    last = Turn(1, "828 m.", (), (), "end_turn", Usage(5, 7), server_calls=calls, sources=sources)
    return done(**{"text": "828 m.", "log": (last,), **fields})


def test_the_text_twin_lists_the_cited_pages_and_the_searches() -> None:
    assert as_text(searched(SEARCH, sources=PAGES[:2])) == "\n".join([
        "828 m.",
        "",
        "Sources:",
        "  1. Page 1 — https://p1.example.org/x?a=1&b=1",
        "  2. Page 2 — https://p2.example.org/x?a=1&b=2",
        "",
        "✓ lead · script/x · completed · 1 turn · 12 tokens",
        '  ✓ web_search "tallest tower" → 3 sources · by the server',
        "    found:",
        "      1. Page 1 — https://p1.example.org/x?a=1&b=1",
        "      2. Page 2 — https://p2.example.org/x?a=1&b=2",
        "      3. Page 3 — https://p3.example.org/x?a=1&b=3",
    ])  # fmt: skip


def test_a_search_that_failed_has_a_row_and_no_part_in_the_runs_trouble() -> None:
    text = as_text(searched(ServerCall("web_search", {"query": "x"}, error="max_uses_exceeded")))
    assert "– web_search x → max_uses_exceeded · by the server" in text
    assert "tool call" not in text


def test_the_page_has_links_below_the_answer_and_in_the_fold_of_the_search() -> None:
    html = twin(searched(SEARCH, sources=PAGES[:2]))["text/html"]
    assert Parsed(html).values("href") == [page.url for page in (*PAGES[:2], *PAGES)]
    assert html.index("828 m.") < html.index("Sources") < html.index("<details")
    assert html.count("<ol") == 2
    bundle = answer(searched(SEARCH, sources=PAGES[:1]))
    assert Parsed(bundle["text/html"]).values("href") == [PAGES[0].url]
    assert bundle["text/plain"].endswith(
        "\n\nSources:\n1. Page 1 — https://p1.example.org/x?a=1&b=1"
    )


def test_hostile_titles_and_queries_are_text() -> None:
    for number, payload in enumerate(PAYLOADS):
        page = Page(payload, f"https://h{number}.example.org/")
        call = ServerCall(page.title, {"query": page.title}, (page,), page.title)
        result = searched(call, sources=(page,))
        found = Parsed(twin(result)["text/html"])
        plain = Parsed(twin(searched(SEARCH, sources=PAGES[:1]))["text/html"])
        assert set(found.tags) <= {*plain.tags, "pre", "code"}
        names = {name for _, name, _ in plain.attributes}
        assert {name for _, name, _ in found.attributes} <= {*names, "dir"}
        assert set(found.values("href")) == {page.url}
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", as_text(result))


def test_of_a_damaged_file_no_address_is_a_link_that_is_none() -> None:
    evil = (Page("a", "javascript:alert(1)"), Page("b", 'https://x.org/"onclick="y'), PAGES[0])
    result = searched(replace(SEARCH, sources=evil), sources=evil)
    loaded = RunResult.from_dict(json.loads(json.dumps(result.to_dict(full=True))))
    html = twin(loaded)["text/html"]
    assert set(Parsed(html).values("href")) == {PAGES[0].url}
    assert "javascript" not in html
    assert "javascript" not in as_text(loaded)


def test_ten_thousand_sources_are_counted() -> None:
    many = tuple(Page("t" * 10_000, f"https://x.org/{n}") for n in range(10_000))
    result = searched(ServerCall("web_search", {"query": "q" * 100_000}, many), sources=many)
    text, html = as_text(result), twin(result)["text/html"]
    assert "→ 10,000 sources" in text
    assert text.count("… 9,990 more") == html.count("… 9,990 more") == 2
    assert (len(text) < 10_000, len(html) < 20_000) == (True, True)


@pytest.mark.parametrize("filler", ["a", "&", "\u00e9", "\U0001f600"])
def test_long_addresses_of_sources_leave_a_saved_tree_within_its_size(filler: str) -> None:
    urls = [f"https://{filler * 600}.org/{n}?{filler * 1200}" for n in range(10)]
    pages = tuple(Page(filler * 100, url) for url in urls)
    assert saved_size(searched(*[replace(SEARCH, sources=pages)] * 8, sources=pages)) <= 50_000


def test_secrets_are_in_no_title_and_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-secret-0123456789abcdef"
    monkeypatch.setenv("MY_API_KEY", secret)
    page = Page(f"of {secret}", f"https://x.org/?k={secret}")
    result = searched(replace(SEARCH, sources=(page,)), sources=(page,))
    saved = json.dumps(to_json(result, find_filter()))
    assert "sk-secret" not in "".join((as_text(result), twin(result)["text/html"], saved))
