"""Characters that a reader cannot see, and a model can: they become U+FFFD where they do nothing.

A text could otherwise carry words for a model past the person who reads it, or show another address
than it names. Unicode calls most of them default-ignorable; tests compare the table with its data.
Source: X-27, docs/safety.md.
"""

from __future__ import annotations

import re
import unicodedata

REPLACEMENT = "\ufffd"

INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    # not ignorable, but without a glyph all the same: a blank, annotations, an empty note head
    "\u2800\ufff9-\ufffc\U0001d159]"
)
"""Unicode's default-ignorable characters, and a few that are as empty."""

ARABIC = re.compile("[\u0620-\u077f\u07ca-\u07f5\u0840-\u08ff]")
"""Arabic, Syriac, N'Ko and Mandaic, whose letters join their neighbours."""

SELECTORS = "\ufe0e\ufe0f"
ZWNJ, ZWJ = "\u200c", "\u200d"


def replace_invisible(text: str) -> str:
    """The text with U+FFFD for what cannot be seen, but for what shapes scripts and emoji."""
    return text if text.isascii() else INVISIBLE.sub(_replace, text)


def _replace(found: re.Match[str]) -> str:
    character, text, at = found[0], found.string, found.start()
    before, after = text[max(at - 2, 0) : at], text[at + 1 : at + 2]
    last = before[-1:]
    if character in SELECTORS:
        is_keycap = last in {*"#*0123456789"} and after == "\u20e3"
        is_needed = _is_emoji(last) or is_keycap
    elif character == ZWJ and _is_emoji(after):
        is_needed = _is_emoji(before.removesuffix("\ufe0f")[-1:])
    else:
        is_needed = character in (ZWNJ, ZWJ) and _joins_letters(character, last, after)
    return character if is_needed else REPLACEMENT


def _is_emoji(character: str) -> bool:
    """True for emoji, and for symbols that a selector makes one."""
    import regex  # it knows the tables of Unicode

    return not character.isascii() and regex.match(r"\p{Emoji}", character) is not None


def _is_joined(character: str) -> bool:
    return bool(ARABIC.match(character)) and unicodedata.category(character)[0] in "LM"


def _joins_letters(joiner: str, before: str, after: str) -> bool:
    """True if a joiner may change how the letters beside it are written.

    In Persian, ZWNJ is also written where it changes nothing.
    """
    if _is_virama(before):
        return True
    if joiner == ZWNJ:
        return _is_joined(before) and _is_joined(after)
    if _is_virama(after):
        return before.isalpha()
    return _is_joined(before) and not _is_joined(after)


def _is_virama(character: str) -> bool:
    """True for the signs that remove a vowel, in the scripts of India and around it."""
    return character != "" and unicodedata.combining(character) == 9
