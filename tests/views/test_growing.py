"""A Markdown text that grows: at each moment the HTML of the whole, most of it rendered once."""

from __future__ import annotations

import random

import pytest
from axe_nb.views.growing import GrowingMarkdown, difference

from axe_nb.text import clean
from axe_nb.views.markdown import render
from tests.views.runs import PAYLOADS

TRAPS = (
    "A paragraph,\nof two lines.\n\n# A heading\n\nAnother *paragraph*.\n",
    "See [one] and [two][one].\n\nMore.\n\n[one]: https://a.example\n\nLast [one].\n",
    "[a]\n\nb\n\n[a]: https://x.example\n[a]: https://y.example\n\n[a]\n",
    "[a]\n\nb\n\n[a]:\nhttps://x.example\n'title\nof two lines'\n\n[a]\n\nz\n",
    "> [a]: https://x.example\n\n[a] b\n\nc\n\n- [b]: https://y.example\n\n[b]\n\nend\n",
    "- a\n- b\n\n- c\n\n\n- d\n  - e\n\n    f\n\ng\n",
    "1. a\n\n2. b\n\n10) c\n\n11) d\n\n3 e\n\n1\n\n2. f\n",
    "- a\n\n*\n\n**bold**\n\n- b\n***\n***c***\n\n---\n\nd\n",
    "Title\n=====\n\nOther\n---\n\nlast\n--\nnot\n- - -\n",
    "text\n|a|b|\n|-|-:|\n|1|2|\n|3|\n\n|a|b|\n|-|-|x\n\n| c\n|--|\n| d\nend\n\nf\n",
    "```python\nf\n\n    return 1\n\n```\n\n~~~~\n~~~\n\nx\n~~~~\n\n```\nopen\n\nto the end\n",
    "Above:\n```js\nlet a\n```\nbelow\n    no code\n\n    code\n\n\n    more\n\nend\n",
    "> a\nb\n\n> c\n>\n> - d\n\n>e\n\n    f\n\n>\n",
    "a\n#\n\nb\n#c\n\n##\n\nd\n1. e\n\nf\n2. g\n\nh\n-\n\n-\n\n  i\n\n-\tj\n\n\tk\n",
    "Left.\n\nשלום\n\nRight.\n\n`שלום`\n",
    "a&shy;b &amp; <b>c</b>\n\n<div>\n\n<!-- x\n\n-->\n\n<https://b.example> https://c.example\n\nd\n",
    "|a" * 60 + "|\n" + "|-" * 60 + "|\n" + "|\n" * 150 + "\nA paragraph.\n\n" * 9,
    "a\\\nb  \nc\n\n\\\n\n*a\n\n*b*\n\n~~c\n\n[d](\n\nhttps://x.example)\n\n`e\n\n`\n",
    "\n\n a\n\n  - b\n\n   c\n\n- \n\n  d\n\u00a0\n- e\n \t\n- f\n\u3000\ng\n",
    "\n\n".join(PAYLOADS),
    "\n".join(PAYLOADS),
)
"""Texts in which what follows changes what stands above, or seems to."""

LINES = sorted(
    {line for text in TRAPS[:16] for line in text.split("\n")} | {"", "\t", "  ", "    "}
)


def grow(text: str, chance: random.Random, most: int) -> None:
    """Streams a text in pieces of up to `most` characters, and compares each moment."""
    growing, seen, size = GrowingMarkdown(), list[str](), 0
    while size < len(text):
        size += chance.randint(1, most)
        growing.update(text[:size])
        assert "".join(growing.blocks) == render(text[:size]), text[:size]
        kept, at, news = difference(seen, growing.blocks)
        if at:
            news[0] = seen[kept][:at] + news[0]
        seen = seen[:kept] + news
        assert seen == growing.blocks


@pytest.mark.parametrize("text", TRAPS)
def test_a_text_that_grows_is_at_each_moment_what_the_whole_of_it_would_be(text: str) -> None:
    chance = random.Random(text)
    if len(text) < 300:
        grow(text, chance, 1)
    grow(text, chance, 7 + len(text) // 8)


def test_so_are_a_hundred_texts_of_random_lines() -> None:
    chance = random.Random(3)
    for _ in range(100):
        lines = chance.choices(LINES, k=chance.randint(2, 12))
        blank = chance.choice(["\n", "\n\n", "\n\n"])
        text = clean(chance.choice(["\n", blank]).join(lines))
        grow(text, chance, chance.choice([1, 3, 12]))


def test_a_text_that_does_not_go_on_from_the_last_one_is_rendered_anew() -> None:
    growing = GrowingMarkdown()
    for text in ("One.\n\nTwo.\n\nThree.\n", "Once.\n\nTwo.", "", "[a]: https://x.example\n\n[a]"):
        growing.update(text)
        assert "".join(growing.blocks) == render(text)


def test_a_long_text_is_read_about_once() -> None:
    text = "[a]: https://a.example\n\n"
    text += (
        "Some **words** in a paragraph of two lines,\nand [a link](https://x.example).\n\n" * 250
    )
    text += "```python\nx = 1\n```\n\n- a\n- b\n\nA paragraph.\n\n" * 20
    growing, read = GrowingMarkdown(), 0
    for size in range(0, len(text), 50):
        growing.update(text[:size])
        read += growing.parsed
    assert read < 8 * len(text), "most of each moment's text is not read again"


def test_only_what_is_new_is_sent() -> None:
    growing, seen, sent = GrowingMarkdown(), list[str](), 0
    text = "A paragraph that has some more words.\n\n" * 40 + "- an item of a long list\n" * 100
    for size in range(0, len(text) + 10, 10):
        growing.update(text[:size])
        sent += sum(map(len, difference(seen, growing.blocks)[2]))
        seen = growing.blocks
    assert sent < 4 * len(render(text))


def test_two_lists_differ_from_where_they_differ() -> None:
    assert difference([], []) == (0, 0, [])
    assert difference([], ["ab"]) == (0, 0, ["ab"])
    assert difference(["ab", "cd"], ["ab"]) == (1, 0, [])
    assert difference(["ab", "cd"], ["ab", "cx", "y"]) == (1, 1, ["x", "y"])
    assert difference(["ab"], ["xy"]) == (0, 0, ["xy"])
