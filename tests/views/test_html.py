"""The static twin: what a saved notebook holds of a run."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import ToolCall, ToolResult, Usage
from axe_nb.results import Status, Turn
from axe_nb.views.html import answer, twin
from axe_nb.views.markdown import render
from tests.views.runs import PAYLOADS, TEXT, ask, done, hostile_run, long_run, saved_size, turn

TREE = {"details", "summary", "blockquote", "div", "bdi", "b", "i", "small", "span", "code", "pre"}
MARKDOWN = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"style", "open", "class", "href", "rel", "title", "start", "dir"}


class Page(HTMLParser):
    """A page taken apart as a browser would: tags, attributes, text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


def html(**fields: object) -> str:
    return twin(done(**fields), name="r")["text/html"]


def test_the_answer_stands_first_as_markdown_and_the_tree_is_folded() -> None:
    page = html(text="There are **27** keys.", log=(turn(1, text="x"),))
    start = (
        "<div class='mathjax_ignore tex2jax_ignore' style=overflow-wrap:break-word>"
        "<p>There are <strong>27</strong> keys.</p>"
    )
    assert page.startswith(start)
    assert "<details style=" in page
    assert "<details open" not in page
    assert page.count("<summary>") == 2


def test_there_is_one_bundle_of_html_and_text_and_nothing_that_needs_a_style_sheet() -> None:
    bundle = twin(long_run())
    assert set(bundle) == {"text/html", "text/plain"}
    page = Page(bundle["text/html"])
    assert set(page.tags) <= TREE | {"p"}
    assert {name for _, name, _ in page.attributes} == {"style", "class"}
    assert page.values("class") == ["mathjax_ignore tex2jax_ignore"]
    assert page.open == page.unbalanced == []


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_hostile_text_is_text_wherever_it_comes_from(number: int) -> None:
    page = Page(twin(hostile_run((PAYLOADS[number],) * 5))["text/html"])
    assert set(page.tags) <= TREE | MARKDOWN
    assert {name for _, name, _ in page.attributes} <= ATTRIBUTES
    assert not any("url(" in style or "position" in style for style in page.values("style"))
    assert all(re.match("https?://|mailto:", link) for link in page.values("href"))
    assert page.open == page.unbalanced == []


@pytest.mark.parametrize(
    "text",
    ["[a](javascript:x)", "[a](data:text/html,x)", "[a](//x)", "[a](x.html)", "<file:///etc>"],
)
def test_links_that_are_not_plain_addresses_stay_text(text: str) -> None:
    assert "href" not in render(text)


def test_markdown_has_tables_and_neither_images_nor_raw_html() -> None:
    page = render("| a |\n|---|\n| b |\n\n![x](https://a.example/p.png) <b>no</b>")
    assert "<table>" in page
    assert "<img" not in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page


@pytest.mark.parametrize(
    "piece", ["> ", "- ", "[", "![", "*", "**a ", "`", "<", "&", "(", "|a", "~~", "1. ", "#", "\\"]
)
def test_deep_and_broken_markdown_is_drawn_all_the_same(piece: str) -> None:
    started = time.process_time()
    page = html(text=piece * (20_000 // len(piece)))
    assert time.process_time() - started < 20  # a hang, not a benchmark
    assert len(page) < 500_000


def test_a_long_answer_is_cut_with_a_pointer() -> None:
    page = html(text="word " * 6000)
    assert "… 10,000 more characters: r.text" in page
    assert len(page) < 25_000


def test_failures_are_open_and_successes_folded() -> None:
    fine = ToolCall("a", "read_file", {"path": "a"})
    bad = ToolCall("b", "read_file", {"path": "b"})
    results = (ToolResult("a", "text"), ToolResult("b", "Error: gone", is_error=True))
    log = (Turn(1, "", (fine, bad), results, "", Usage()), turn(2, text="ok"))
    page = html(log=log)
    assert re.findall("<details( open)?", page) == [" open", " open", "", " open", ""]
    assert page.index("Error: gone") > page.index("✗")


def test_a_failed_run_is_open_and_says_why_and_what_to_do() -> None:
    cause = ProviderError("auth", "invalid key", hint="set OPENAI_API_KEY")
    bundle = twin(done(status="error", text="", error=str(cause), cause=cause))
    page = Page(bundle["text/html"])
    assert page.tags[:3] == ["div", "details", "summary"]
    assert "✗ lead script/x · error" in page.text
    assert "error auth: invalid key" in page.text
    assert "next set OPENAI_API_KEY" in page.text
    assert bundle["text/plain"] == (
        "✗ lead · script/x · error\n  error: auth: invalid key\n  next: set OPENAI_API_KEY"
    )


@pytest.mark.req("D-31")
def test_a_warning_is_seen_while_the_tree_is_folded() -> None:
    page = html(warnings=("the token limit cut the reply (length); raise params.max_tokens",))
    after = page.split("</details>")[-1]
    assert "!</b>" in after
    assert "the token limit cut the reply (length)" in after


def test_the_tree_has_the_words_of_the_text_twin() -> None:
    for run in (long_run(), hostile_run()):
        bundle = twin(run)
        shown = " ".join(Page(bundle["text/html"]).text.split())
        for row in re.findall("^ *[✓✗◷⊘■–] (.*)$", bundle["text/plain"], re.MULTILINE):
            for fact in row.split(" · "):
                assert " ".join(fact.split()) in shown


def test_no_path_of_this_machine_and_no_time_is_in_a_twin() -> None:
    run = long_run()
    later = done(text=run.text, log=run.log, children=run.children, duration_ms=99_999)
    assert twin(run) == twin(later)


def test_thirty_turns_of_long_texts_are_saved_in_forty_kilobytes() -> None:
    assert len(TEXT) == 1500
    assert saved_size(long_run()) <= 40_000
    page = twin(long_run())["text/html"]
    assert page.count("1,500 characters</small></summary>") > 3, "some of them are whole"


def test_the_states_of_all_sub_agents_are_a_strip_of_at_least_two_stops() -> None:
    def strip(*states: Status) -> list[str]:
        calls = [ask(f"c{number}", "h", "x") for number in range(len(states))]
        children = tuple(
            done(status=state, id=f"0.{n}", call_id=call.id)
            for n, (state, call) in enumerate(zip(states, calls, strict=True), 1)
        )
        html = twin(done(log=(turn(1, *calls),), children=children))["text/html"]
        return re.findall(r"linear-gradient\(90deg,(.*?)\)", html)

    # JupyterLab drops a gradient of one stop from an output that it does not trust
    assert strip(*["completed"] * 3) == ["#393 0em 1.5em,#393 0"]
    mixed = strip("completed", "error", "error")
    assert mixed == ["#393 0em 0.5em,#d33 0.5em 1.5em,#d33 0"]
    assert strip("completed") == strip(*["completed"] * 61) == []


def test_the_quiet_bundle_is_the_answer_alone() -> None:
    bundle = answer(done(text="**yes**"))
    assert bundle["text/plain"] == "**yes**"
    assert "<strong>yes</strong>" in bundle["text/html"]
    assert "details" not in bundle["text/html"]


def test_no_hidden_character_reaches_a_saved_notebook() -> None:
    hidden = "\u200b\u2060\u202e\u3164\u2800\U000e0041\ufe01"
    run = hostile_run((f"see {hidden} here",) * 5)
    bundle = twin(run)
    for text in bundle.values():
        assert not set(hidden) & set(text)
        assert "\ufffd" * 7 in text
    assert hidden in run.text, "the result keeps the true text"
