"""Text for people and models: quoting, cleaning, cutting, counting, suggesting."""

import sys

import pytest
import regex

from axe_nb.text import INVISIBLE, clean, fold, nearest, one_line, quote, suggestion


@pytest.mark.req("D-13")
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a", '"a"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a\nb\t\\", '"a\\nb\\t\\\\"'),
        ("é研", '"é研"'),
        ("\x9b2J\x7f", '"\\u009b2J\\u007f"'),
        ("a\u202eb\u200b", '"a\\u202eb\\u200b"'),
        ("\ud83d", '"\\ud83d"'),
        ("東京\u3000\u00a0", '"東京\u3000\u00a0"'),
    ],
)
def test_messages_write_names_in_double_quotes_with_json_escapes(name: str, written: str) -> None:
    assert quote(name) == written


KEYS = ["mode", "model", "tools", "timeout_ms", "stream", "system_prompt"]


@pytest.mark.parametrize(
    ("word", "question"),
    [
        ("modle", 'did you mean "model"?'),
        ("tool", 'did you mean "tools"?'),
        ("timeout", 'did you mean "timeout_ms"?'),
        ("system", 'did you mean "system_prompt"?'),
        ("xyz", ""),
    ],
)
def test_a_question_offers_the_word_that_was_meant(word: str, question: str) -> None:
    assert suggestion(word, KEYS) == question


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  a \n\n b\t", "a b"),
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 9 + "…"),
        ("12345678 abc", "12345678…"),
        (" " * 100 + "end", "…"),
        ("a\rb\u2028c", "a b c"),
        ("a\x1b[2J", "a�[2J"),
    ],
)
def test_one_line_has_no_more_than_its_characters(text: str, line: str) -> None:
    assert one_line(text, 10) == line


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("summary", ["survey"]),
        ("data", ["pages"]),
        ("export", ["expect", "edit"]),
        ("system", ["stream", "tools"]),
        ("a", ["b", "abc"]),
        ("x" * 10_000, ["x" * 9_000]),
    ],
)
def test_nothing_that_is_far_away_is_suggested(word: str, known: list[str]) -> None:
    assert (nearest(word, known), suggestion(word, known)) == ("", "")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("two\r\nlines\tstay", "two\nlines\tstay"),
        ("\x1b[2J\x1b]0;title\x07", "�[2J�]0;title�"),
        ("\x9b2J over\rwritten \x00 \x7f", "�2J over�written � �"),
        ("right\u202e to left, \ud800 half", "right� to left, � half"),
        ("zero\u200bwidth\u2060\ufeff", "zero\ufffdwidth\ufffd\ufffd"),
        ("tag\U000e0041\U000e007f", "tag\ufffd\ufffd"),
        ("direction\u202e\u2066\u200f\u061c", "direction" + "\ufffd" * 4),
        ("filler\u3164\u2800\uffa0\u115f", "filler" + "\ufffd" * 4),
        ("bits\ufe00\ufe01\U000e0100", "bits" + "\ufffd" * 3),
        ("\u2764\ufe0f\ufe0f\ufe0e", "\u2764\ufe0f\ufffd\ufffd"),
        ("a\u200d\u200cb", "a\ufffd\ufffdb"),
        ("ba\xadnk \U0001bca0\ufff3\ufff0", "ba\ufffdnk " + "\ufffd" * 3),
        ("a\ufe0fb\ufe0e 1\ufe0f2 \u0436\ufe0f", "a\ufffdb\ufffd 1\ufffd2 \u0436\ufffd"),
        ("\u0436\u200d\u0436 \u4e2d\u200c\u6587 1\u200d2",
         "\u0436\ufffd\u0436 \u4e2d\ufffd\u6587 1\ufffd2"),
        ("\u0628\u200d\u0628 \u0915\u094d\u200d\u200d",
         "\u0628\ufffd\u0628 \u0915\u094d\u200d\ufffd"),
        ("\u2764\u200d \u200d\u2764 \u0436\ufe0f\u200d\u2764",
         "\u2764\ufffd \ufffd\u2764 \u0436\ufffd\ufffd\u2764"),
    ],
)  # fmt: skip
def test_what_moves_a_terminal_or_cannot_be_seen_is_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f\u200d\U0001f525",
        "1\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\u09b0\u200d\u09cd\u09af\u09be\u09ac",
        "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
        "\u06a9\u0627\u0631\u200c\u0647\u0627 \u0647\u200d.\u0634",
        "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f469\U0001f3fd\u200d\U0001f52c \u261d\U0001f3fb",
        "\xa9\ufe0f \u2600\ufe0e #\ufe0f\u20e3",
        "na\u00efve \u00a0\u3000\u2014 \u65e5\u672c",
    ],
)
def test_emoji_and_scripts_that_need_joiners_stay_as_they_are(text: str) -> None:
    assert clean(text) == text


LINES = "\n".join(map(chr, range(sys.maxunicode + 1)))
"""Every character, each on a line of its own."""


def test_all_that_unicode_calls_ignorable_is_invisible() -> None:
    ignorable = set(regex.findall(r"\p{Default_Ignorable_Code_Point}", LINES))
    invisible = set(INVISIBLE.findall(LINES))
    assert invisible - ignorable == set("\u2800\ufff9\ufffa\ufffb\ufffc\U0001d159")
    assert ignorable - invisible == set()


def test_long_lines_are_folded_behind_a_space_and_nothing_is_lost() -> None:
    text = "it writes nothing outside the workdir\nshort"
    assert fold(text, 12, "  ") == "it writes \n  nothing \n  outside \n  the \n  workdir\nshort"
    assert fold("x" * 10, 4, ": ") == "xxxx\n: xx\n: xx\n: xx"
    assert fold("    " + "x" * 6, 5, "") == "    x\nxxxxx", "no line of blanks alone"
    assert fold("", 5, ": ") == ""
