"""Two texts, word by word: nothing is lost, and no text takes long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axe_nb.views.run_diff import compare_texts

pytestmark = pytest.mark.req("E-9")

TEXTS = st.text(alphabet="ab \n.é語\ud83d\u2028", max_size=60) | st.text(max_size=30)


def marked(before: str, after: str) -> str:
    marks = {"same": "{}", "gone": "[-{}-]", "new": "[+{}+]"}
    return "".join(marks[kind].format(text) for kind, text in compare_texts(before, after))


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("", "", ""),
        ("a b", "a b", "a b"),
        ("", "new", "[+new+]"),
        ("gone", "", "[-gone-]"),
        ("Look into Rome.", "Look into Paris!", "Look into [-Rome.-][+Paris!+]"),
        ("a long line of words", "a short line of words", "a [-long-][+short+] line of words"),
        ("foobar", "foobaz", "[-foobar-][+foobaz+]"),
        ("foo", "foo bar", "foo[+ bar+]"),
        ("x x x", "x x", "x x[- x-]"),
        ("temperature: 0.2", "temperature: 0.9", "temperature: [-0.2-][+0.9+]"),
        ("one\ntwo\nthree\n", "one\n2\nthree\n", "one\n[-two-][+2+]\nthree\n"),
        ("我喜欢罗马的夏天", "我喜欢巴黎的夏天", "我喜欢[-罗马-][+巴黎+]的夏天"),
        ("Cats sleep in the sun", "Write a poem", "[-Cats sleep in the sun-][+Write a poem+]"),
    ],
)  # fmt: skip
def test_what_changed_is_told_in_words(before: str, after: str, wanted: str) -> None:
    assert marked(before, after) == wanted


@given(TEXTS, TEXTS)
def test_the_parts_make_up_both_texts(before: str, after: str) -> None:
    pieces = compare_texts(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "new") == before
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == after
    assert all(piece.text for piece in pieces)


def test_a_changed_line_of_a_long_text_is_found_among_lines_that_moved() -> None:
    lines = [f"{n}: the line with number {n}" for n in range(1500)]
    other = ["a new first line", *lines[:700], "700: the line of number 700", *lines[701:]]
    changed = [(p.kind, p.text) for p in compare_texts("\n".join(lines), "\n".join(other))]
    assert [one for one in changed if one[0] != "same"] == [
        ("new", "a new first line\n"), ("gone", "with"), ("new", "of"),
    ]  # fmt: skip


def shuffled(count: int, seed: int) -> list[str]:
    words = [f"{n:x}" for n in range(count)]
    random.Random(seed).shuffle(words)
    return words


def noise(alphabet: str, count: int, seed: int) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=count))


ADVERSARIES: dict[str, Callable[[int], str]] = {
    "one word of a megabyte": lambda n: "a" * 500_000 + "xy"[n] + "a" * 500_000,
    "a hundred thousand lines": lambda n: "\n".join(f"{k} {k % (7 + n)}" for k in range(100_000)),
    "the same two words": lambda n: ("a b " if n else "b a a ") * 2500,
    "punctuation": lambda n: noise("!?.,", 7900, n),
    "single letters": lambda n: noise("ab ", 7900, n),
    "short lines": lambda n: noise("ab\n", 4000, n),
    "shuffled words": lambda n: " ".join(shuffled(1600, n)),
    "shuffled lines": lambda n: "\n".join(shuffled(1900, n)),
    "halves of characters": lambda n: "\ud83d\udc00"[n] * 7900,
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_no_text_takes_long(name: str) -> None:
    texts = ADVERSARIES[name](0), ADVERSARIES[name](1)
    began = time.process_time()
    pieces = compare_texts(*texts)
    assert time.process_time() - began < 2, "measured: 0.2 s at most"
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == texts[1]
