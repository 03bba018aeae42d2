"""Text for people and models: quoting, cleaning, cutting, counting, suggesting."""

import json
import sys
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from axe_nb.text import (
    INVISIBLE,
    align_columns,
    clean,
    cut_bytes,
    cut_chars,
    fold,
    format_seconds,
    list_some,
    nearest,
    one_line,
    plural,
    printable,
    quote,
    reveal,
    suggestion,
)

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
"""Texts of any code points, lone surrogates too."""


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


@pytest.mark.parametrize(
    ("word", "near"), [("reasearcher", "researcher"), ("writter", "writer"), ("xyz", ""), ("", "")]
)
def test_the_nearest_known_word_is_found(word: str, near: str) -> None:
    assert nearest(word, ["writer", "researcher", "tester"]) == near


KEYS = ["mode", "model", "tools", "timeout_ms", "stream", "system_prompt"]


@pytest.mark.parametrize(
    ("word", "question"),
    [
        ("modle", 'did you mean "mode" or "model"?'),
        ("tool", 'did you mean "tools"?'),
        ("timeout", 'did you mean "timeout_ms"?'),
        ("system", 'did you mean "system_prompt"?'),
        ("xyz", ""),
    ],
)
def test_a_question_offers_the_word_that_was_meant_or_two(word: str, question: str) -> None:
    assert suggestion(word, KEYS) == question


@given(ANY)
def test_a_quoted_text_is_json_of_it_on_one_line_without_control_characters(text: str) -> None:
    written = quote(text)
    assert json.loads(written) == text
    assert len(written.splitlines()) == 1
    assert {unicodedata.category(c) for c in written}.isdisjoint({"Cc", "Cf", "Cs"})


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("two\r\nlines\tstay", "two\nlines\tstay"),
        ("\x1b[2J\x1b]0;title\x07", "�[2J�]0;title�"),
        ("\x9b2J over\rwritten \x00 \x7f", "�2J over�written � �"),
        ("right\u202e to left, \ud800 half", "right� to left, � half"),
        ("👩\u200d🔬 می\u200cخواهم", "👩\u200d🔬 می\u200cخواهم"),
    ],
)
def test_a_cleaned_text_does_nothing_to_a_terminal(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(ANY)
def test_a_cleaned_text_can_be_saved_and_stays_as_it_is(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert clean(cleaned) == cleaned
    assert not {chr(n) for n in (*range(9), *range(11, 32), *range(127, 160))} & set(cleaned)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm a\u200b b\x1b[1A", "rm a� b�[1A"),
        ("tags \U000e0041", "tags �"),
        ("two\nlines\tand 東京\u3000", "two\nlines\tand 東京\u3000"),
    ],
)
def test_nothing_is_invisible_to_a_person_who_decides(text: str, shown: str) -> None:
    assert reveal(text) == shown


@pytest.mark.parametrize(
    ("name", "written"),
    [("Größe 1.txt", "Größe 1.txt"), ("a\nb", '"a\\nb"'), ("\udcff.txt", '"\\udcff.txt"')],
)
def test_a_name_in_a_list_stays_one_name(name: str, written: str) -> None:
    assert printable(name) == written


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


@given(ANY, st.integers(1, 60))
def test_one_line_is_one_for_any_text(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert line.splitlines() in ([], [line])


@pytest.mark.parametrize(
    ("size", "note", "cut"),
    [
        (5, "...", "xxxxx"),
        (6, "...", "xxxxx..."),
        (12, "\n[{more} more characters left out]", "xxxxx\n[7 more characters left out]"),
        (12, "... (line cut: {size} characters)", "xxxxx... (line cut: 12 characters)"),
    ],
)
def test_a_text_cut_by_characters_says_what_is_left_out(size: int, note: str, cut: str) -> None:
    assert cut_chars("x" * size, 5, note) == cut


def test_braces_in_a_text_that_is_cut_are_no_fields() -> None:
    assert cut_chars("{more}{0}", 8) == "{more}{0..."
    assert cut_bytes("{size}{0}", 8, " of {size}") == "{size}{0 of 9"


@pytest.mark.req("X-27")
@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("äöü", 6, "äöü"),
        ("äöüß", 7, "äöü of 8"),
        ("äöüß", 0, " of 8"),
        ("🔬🔬", 7, "🔬 of 8"),
        ("\ud800\ud800", 4, "\ud800 of 6"),
    ],
)
def test_a_text_cut_by_bytes_has_whole_characters(text: str, limit: int, cut: str) -> None:
    assert cut_bytes(text, limit, " of {size}") == cut


@given(ANY, st.integers(0, 300))
def test_what_is_kept_of_a_text_cut_by_bytes_is_its_beginning(text: str, limit: int) -> None:
    kept = cut_bytes(text, limit)
    assert text.startswith(kept)
    size = len(kept.encode("utf-8", "surrogatepass"))
    assert size <= limit
    assert kept == text or limit - size < 4


def test_counts_are_written_with_their_noun() -> None:
    assert [plural(n, "token") for n in (0, 1, 1204)] == ["0 tokens", "1 token", "1,204 tokens"]


@pytest.mark.parametrize(
    ("names", "listed"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")],
)
def test_a_long_list_says_how_many_more_there_are(names: list[str], listed: str) -> None:
    assert list_some(names, 2) == listed


@pytest.mark.req("D-10")
@pytest.mark.parametrize(
    ("seconds", "written"), [(120.0, "120"), (0.2, "0.2"), (5, "5"), (1.25, "1.25"), (0, "0")]
)
def test_seconds_have_no_trailing_zeros(seconds: float, written: str) -> None:
    assert format_seconds(seconds) == written


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


def test_one_of_many_words_is_near() -> None:
    known = [f"{word}{number}" for number in range(300) for word in ("alpha", "beta", "gamma")]
    assert nearest("gama_12", known) == "gamma12"
    assert nearest("b" * 40 + "c", [*known, "b" * 41]) == "b" * 41


def test_upper_and_lower_case_are_near() -> None:
    assert nearest("WRITER", ["writer", "tester"]) == "writer"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("zero\u200bwidth\u2060\ufeff", "zero\ufffdwidth\ufffd\ufffd"),
        ("tag\U000e0041\U000e007f", "tag\ufffd\ufffd"),
        ("direction\u202e\u2066\u200f\u061c", "direction" + "\ufffd" * 4),
        ("filler\u3164\u2800\uffa0\u115f", "filler" + "\ufffd" * 4),
        ("bits\ufe00\ufe01\U000e0100", "bits" + "\ufffd" * 3),
        ("\u2764\ufe0f\ufe0f\ufe0e", "\u2764\ufe0f\ufffd\ufffd"),
        ("a\u200d\u200cb", "a\ufffd\ufffdb"),
        ("ba\xadnk \U0001bca0\ufff3\ufff0", "ba\ufffdnk " + "\ufffd" * 3),
        ("a\ufe0fb\ufe0e 1\ufe0f2 \u0436\ufe0f", "a\ufffdb\ufffd 1\ufffd2 \u0436\ufffd"),
        (
            "\u0436\u200d\u0436 \u4e2d\u200c\u6587 1\u200d2",
            "\u0436\ufffd\u0436 \u4e2d\ufffd\u6587 1\ufffd2",
        ),
        (
            "\u0628\u200d\u0628 \u0915\u094d\u200d\u200d",
            "\u0628\ufffd\u0628 \u0915\u094d\u200d\ufffd",
        ),
        (
            "\u2764\u200d \u200d\u2764 \u0436\ufe0f\u200d\u2764",
            "\u2764\ufffd \ufffd\u2764 \u0436\ufffd\ufffd\u2764",
        ),
    ],
)
def test_what_a_model_reads_and_a_person_cannot_see_is_shown(text: str, cleaned: str) -> None:
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


def test_columns_are_aligned_by_what_they_take_on_a_terminal() -> None:
    rows = [("名前", "1", ""), ("ab", "10", "x")]
    assert list(align_columns(rows, right=1)) == ["名前  1", "ab    10  x"]
    assert list(align_columns(rows, right=2)) == ["名前   1", "ab    10  x"]
    assert list(align_columns([])) == []
