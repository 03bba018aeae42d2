"""Characters that a reader cannot see, and a model can: they become U+FFFD where they do nothing.

A text could otherwise carry words for a model past the person who reads it, or show another address
than it names. Unicode calls most of them default-ignorable; tests compare the tables with its data.
Source: X-27; docs/safety.md "What is shown and kept".
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

EMOJI = re.compile(
    "[©®\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3"
    "\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615"
    "\u2618\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653"
    "\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0"
    "\u26a1\u26a7\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf\u26d1\u26d3"
    "\u26d4\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714"
    "\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764"
    "\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d"
    "\u3297\u3299\U0001f004\U0001f0cf\U0001f170-\U0001f251\U0001f300-\U0001faff]"
)
"""Emoji, and symbols that a selector makes one."""

ARABIC = re.compile(
    "[\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06df-\u06e8\u06ea-\u06ef\u06fa-\u06ff\u0710-\u077f"
    "\u07ca-\u07f5\u0840-\u085b\u0860-\u0887\u0889-\u088e\u0897-\u08e1\u08e3-\u08ff]"
)
"""Letters and marks of Arabic, Syriac, N'Ko and Mandaic, which join their neighbours."""

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
    return EMOJI.match(character) is not None


def _joins_letters(joiner: str, before: str, after: str) -> bool:
    """True if a joiner may change how the letters beside it are written.

    In Persian, ZWNJ is also written where it changes nothing.
    """
    if _is_virama(before):
        return True
    if joiner == ZWNJ:
        return bool(ARABIC.match(before) and ARABIC.match(after))
    if _is_virama(after):
        return before.isalpha()
    return bool(ARABIC.match(before) and not ARABIC.match(after))


def _is_virama(character: str) -> bool:
    """True for the signs that remove a vowel, in the scripts of India and around it."""
    return character != "" and unicodedata.combining(character) == 9
