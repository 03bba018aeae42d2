"""A difference as HTML and text: safe, bounded, without secrets, the same every time."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axe_nb import RunResult
from axe_nb.messages import ToolCall, Usage
from axe_nb.views.run_diff import MARKS, compare_texts
from tests.diffs.trees import Mutator, make_tree
from tests.views.runs import PAYLOADS, done, hostile_run, turn
from tests.views.test_html import Page

pytestmark = pytest.mark.req("E-9")

TAGS = {
    "b", "blockquote", "code", "del", "details", "div", "ins", "pre", "small", "span", "summary",
    "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip

SECRET = "sk-canary-0123456789abcdef0123"


def bundle(a: RunResult, b: RunResult) -> dict[str, str]:
    data, _ = a.diff(b)._repr_mimebundle_()
    return data


def html(a: RunResult, b: RunResult) -> str:
    return bundle(a, b)["text/html"]


def two() -> tuple[RunResult, RunResult]:
    """A run, and one whose second file and answer are others."""
    calls = [ToolCall(f"c{n}", "read_file", {"path": f"{n}.md"}) for n in range(3)]
    log = [turn(n, call, results=["text"]) for n, call in enumerate(calls, 1)]
    first = done(log=(*log, turn(4, text="It is fine.")), text="It is fine.", turns=4)
    other = replace(calls[1], arguments={"path": "other.md"})
    log[1] = turn(2, other, results=["text"])
    return first, done(log=(*log, turn(4, text="It is bad.")), text="It is bad.", turns=5)


def test_the_text_tells_what_differs_and_what_does_not() -> None:
    a, b = two()
    assert str(a.diff(b)).splitlines() == [
        "≠ lead: 2 changes, first at 0/2, same path",
        "  whole tree  a  b  change",
        "  turns       4  5      +1",
        "",
        "= turn 1: the same",
        "≠ turn 2 · 0/2",
        "  arguments of read_file (call 2): path: [-1-]{+other+}.md",
        "= turn 3: the same",
        "≠ turn 4 · 0/4",
        "  answer: It is [-fine-]{+bad+}.",
    ]
    assert repr(a.diff(b)) == "RunDiff(2 changes, first at 0/2, same path)"


def test_the_page_needs_no_script_and_no_style_sheet() -> None:
    shown = bundle(*two())
    assert set(shown) == {"text/html", "text/plain"}
    page = Page(shown["text/html"])
    assert set(page.tags) <= TAGS
    assert {name for _, name, _ in page.attributes} == {"style", "class", "open"}
    assert page.values("class") == ["mathjax_ignore tex2jax_ignore"]
    assert page.open == page.unbalanced == []
    assert "<details" not in html(two()[0], two()[0])
    changed = "<del style=background:#d333>fine</del><ins style=background:#3933>bad</ins>"
    assert changed in shown["text/html"]
    for words in ("arguments of read_file (call 2)", "turn 1: the same", "0/4", "first at 0/2"):
        assert words in page.text


def test_a_page_is_the_same_each_time_and_has_times_beside_it() -> None:
    a, b = two()
    late = replace(b, duration_ms=61_500)
    assert bundle(a, b) == bundle(a, late)
    assert a.diff(late)._repr_mimebundle_()[1] == {"axe_nb": {"seconds": [0.0, 61.5]}}
    trees = [
        (tree, Mutator(tree, 3).mutate("more calls").tree) for tree in (make_tree(), make_tree())
    ]
    assert bundle(*trees[0]) == bundle(*trees[1])


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_hostile_text_is_text_wherever_it_comes_from(number: int) -> None:
    payload = (PAYLOADS[number],) * 5
    for a, b in ((done(), hostile_run(payload)), (hostile_run(payload), hostile_run(PAYLOADS[:5]))):
        page = Page(html(a, b))
        assert set(page.tags) <= TAGS
        assert {name for _, name, _ in page.attributes} <= {"style", "class", "open"}
        assert not any("url(" in style for style in page.values("style"))
        assert page.open == page.unbalanced == []


def test_no_secret_is_shown_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    secret, other = hostile_run((SECRET,) * 5), hostile_run((SECRET[:-1] + "9",) * 5)
    for a, b in ((done(), secret), (secret, done()), (secret, other)):
        diff = a.diff(b)
        texts = [*bundle(a, b).values(), str(diff), repr(diff)]
        assert not any(SECRET in text for text in texts)


def test_a_text_that_is_cut_points_to_the_whole() -> None:
    long = "a long story about a fox. " * 1000
    diff = done(text="short").diff(done(text=long))
    assert "more characters: .changes[0].after" in str(diff)
    assert diff.changes[0].after == long
    assert len(str(diff)) < 3000


def test_beyond_some_changes_they_are_counted() -> None:
    a = make_tree(1)
    b = replace(make_tree(2), children=make_tree(3).children)
    diff = a.diff(b)
    shown = str(diff)
    assert len(diff.changes) > 80
    left = len(diff.changes) - 60
    assert shown.endswith(f"\n… {left} more changes: .changes[60:]")
    assert shown.count("more change") == html(a, b).count("more change") == 1, "in one row"
    assert len(shown) < 30_000
    assert len(html(a, b)) < 60_000


def noise(alphabet: str, count: int, seed: int) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=count))


ADVERSARIES = {
    "a word of a megabyte": ("a" * 1_000_000, "a" * 500_000 + "b" * 500_000),
    "a word with another middle": ("a" * 500_000 + "xy"[n] + "a" * 500_000 for n in range(2)),
    "100,000 lines": ("x\n" * 100_000, "y\nx\n" * 50_000),
    "the same two words": ("a b " * 2500, "b a a " * 2500),
    "punctuation": (noise("!?.,", 7900, n) for n in range(2)),
    "short lines": (noise("ab\n", 4000, n) for n in range(2)),
    "halves of characters": ("\ud83d" * 50_000, "\udc00" * 50_000),
    "directions": ("\u202e\u2066" * 50_000, "\u202d\x1b[31m" * 50_000),
    "tags": ("<details>" * 20_000, "</pre></div>" * 20_000),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_texts_of_any_kind_stay_small_and_quick(name: str) -> None:
    first, second = ADVERSARIES[name]

    def run(text: str) -> RunResult:
        calls = [ToolCall(f"c{n}", "write", {"text": text + str(n)}) for n in range(2)]
        log = [turn(n, call, text=text, results=[text]) for n, call in enumerate(calls, 1)]
        return done(log=tuple(log), text=text, prompt=text, error=text, agent=text[:5000])

    a, b = run(first), run(second)
    began = time.process_time()
    diff = a.diff(b)
    shown = bundle(a, b)
    assert time.process_time() - began < 10, "measured: 1 s"
    assert sum(map(len, shown.values())) < 120_000
    assert "".join(shown.values()).encode()
    assert "\x1b" not in shown["text/plain"]
    assert diff.first == "0/1"


def test_costs_are_shown_where_prices_are_known() -> None:
    def run(dollars: float | None) -> RunResult:
        usage = Usage(1000, 0).at_cost(dollars)
        return done(usage=usage, turns=1, log=(replace(turn(1, text="ok"), usage=usage),))

    assert "  cost          $0.50  $0.25  −$0.25" in str(run(0.5).diff(run(0.25)))
    assert "  cost          $0.50  unknown" in str(run(0.5).diff(run(None)))
    assert "cost" not in str(run(None).diff(run(None)))


def test_figures_stand_side_by_side_whether_they_differ_or_not() -> None:
    diff = done(text="a", turns=1, usage=Usage(10, 2)).diff(
        done(text="b", turns=1, usage=Usage(10, 3))
    )
    assert [line.split() for line in str(diff).splitlines()[1:5]] == [
        ["whole", "tree", "a", "b", "change"], ["turns", "1", "1"], ["input", "tokens", "10", "10"],
        ["output", "tokens", "2", "3", "+1"],
    ]  # fmt: skip


TEXTS = st.text(alphabet="ab \n.é語\ud83d\u2028", max_size=60) | st.text(max_size=30)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("", "", ""),
        ("a b", "a b", "a b"),
        ("", "new", "{+new+}"),
        ("gone", "", "[-gone-]"),
        ("a long line of words", "a short line of words", "a [-long-]{+short+} line of words"),
        ("foobar", "foobaz", "[-foobar-]{+foobaz+}"),
        ("foo", "foo bar", "foo{+ bar+}"),
        ("temperature: 0.2", "temperature: 0.9", "temperature: [-0.2-]{+0.9+}"),
        ("one\ntwo\nthree\n", "one\n2\nthree\n", "one\n[-two-]{+2+}\nthree\n"),
        ("我喜欢罗马的夏天", "我喜欢巴黎的夏天", "我喜欢[-罗马-]{+巴黎+}的夏天"),
        ("Cats sleep in the sun", "Write a poem", "[-Cats sleep in the sun-]{+Write a poem+}"),
    ],
)  # fmt: skip
def test_what_changed_is_told_in_words(before: str, after: str, wanted: str) -> None:
    assert (
        "".join(MARKS[kind].format(text) for kind, text in compare_texts(before, after)) == wanted
    )


@given(TEXTS, TEXTS)
def test_the_parts_make_up_both_texts(before: str, after: str) -> None:
    pieces = compare_texts(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "new") == before
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == after
    assert all(piece.text for piece in pieces)


def test_ten_thousand_turns_take_no_longer_than_their_number() -> None:
    def run(seed: int) -> RunResult:
        chance = random.Random(seed)
        turns = (turn(n, text=f"word {chance.randrange(9)}") for n in range(1, 10_001))
        return done(log=tuple(turns))

    a, b = run(0), run(1)
    began = time.process_time()
    assert a.diff(b).first == "0/1"
    assert time.process_time() - began < 8
