"""Characters, colours and sizes for drawing a run's tree with HTML and CSS.

Saved trees use these values as inline styles; the live tree also uses the custom properties
that `css_rules` defines. Opaque colours have a contrast of at least 3:1 on both white and black.
Colours of lines and backgrounds are translucent.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from axe_nb.views.transcript import State

Tone: TypeAlias = Literal["running", "good", "bad", "limit", "off"]
"""Class of states that are shown in the same colour, such as `bad` for failures."""

COLOURS: Mapping[Tone, str] = {
    "running": "#27c", "good": "#393", "bad": "#d33", "limit": "#b70", "off": "#888",
}  # fmt: skip

HUES = ("#27c", "#85c", "#098", "#b70", "#888", "#393", "#c49")
"""Segment colours, left to right, of the bar that shows what fills a request's context."""

SWATCH = "■"
"""Character before the label of each part of a bar, drawn in the part's colour."""

CODE = {
    "Comment": "#777;font-style:italic", "Keyword": "#86c", "Operator.Word": "#86c",
    "Literal.String": "#383", "Literal.Number": "#187", "Name.Function": "#37d",
    "Name.Class": "#37d", "Name.Decorator": "#37d", "Name.Tag": "#37d", "Name.Attribute": "#187",
    "Name.Variable": "#187", "Generic.Deleted": "#d33", "Generic.Inserted": "#383",
    "Generic.Prompt": "#777",
}  # fmt: skip
"""CSS colours by Pygments token type. Each has almost the same contrast on white and on black,
and also applies to subtypes without an entry, which newer Pygments versions may add."""

LINE, TRACK, SHADE = "#8884", "#8882", "#8881"
"""Colours of indentation lines, of the empty part of bars, and of text backgrounds."""

SEGMENTS = {
    "model": "#5b8fd9", "tool": "#85c", "sub": "#8887", "retry": "#d33", "person": "#b70",
}  # fmt: skip
"""Colours of a time bar's segments, keyed by what the time was spent on."""

PLAYED_TIME = "#5b8fd966"
"""Bar colour of requests that were answered from a recording or by the user."""

PALE = "#3936"
"""Colour of the confidence interval in the bar of a grid's pass rate."""

MONO = "font-family:var(--jp-code-font-family,monospace)"
"""Font for code; without it, nbconvert shows a `pre` in an output in a proportional font."""

GONE, NEW = "#d333", "#3933"

MUTED = ".7"


@dataclass(frozen=True, slots=True)
class Look:
    """The character, colour class and word for the state of a run, turn or call."""

    sign: str
    """Character for the state; both the DejaVu fonts and Segoe UI Symbol contain it."""
    tone: Tone
    word: str

    @property
    def colour(self) -> str:
        return COLOURS[self.tone]


LOOKS: Mapping[State, Look] = {
    "running": Look("●", "running", "running"), "asks": Look("?", "limit", "waits for you"),
    "completed": Look("✓", "good", "completed"), "error": Look("✗", "bad", "error"),
    "denied": Look("✗", "limit", "denied"), "timeout": Look("◷", "limit", "timeout"),
    "max_turns": Look("■", "limit", "turn limit"),
    "max_tool_calls": Look("■", "limit", "tool call limit"),
    "max_tokens": Look("■", "limit", "token limit"),
    "cancelled": Look("⊘", "off", "cancelled"), "not run": Look("–", "off", "not run"),
}  # fmt: skip

GAP = "8px"

LEVEL_MARGIN, LEVEL_PADDING = ".3em", "1.2em"
"""Space to the left and right of an indentation line."""

LINE_HEIGHT = "1.7em"

TEXT_MARGIN, LEAF_MARGIN, TEXT_PADDING = "1em", "2.5em", ".3em .6em"
"""Left margins of a text below a row with and without nested rows, and padding of a text."""

TEXT = f"padding:{TEXT_PADDING};background:{SHADE};white-space:pre-wrap;word-break:normal;{MONO}"


def css_rules() -> str:
    """Returns the live tree's CSS rules: custom properties, and an accent for each colour class."""
    values: dict[str, str] = {
        **{str(tone): colour for tone, colour in COLOURS.items()},
        **SEGMENTS,
        "line": LINE, "track": TRACK, "shade": SHADE, "gone": GONE, "new": NEW, "muted": MUTED,
        "gap": GAP, "bar-width": "9em", "level-margin": LEVEL_MARGIN,
        "level-padding": LEVEL_PADDING, "line-height": LINE_HEIGHT, "text-margin": TEXT_MARGIN,
        "text-padding": TEXT_PADDING,
    }  # fmt: skip
    declared = "".join(f"  --{name}: {value};\n" for name, value in values.items())
    accents = "".join(f".axe-nb-{tone} {{ --accent: var(--{tone}); }}\n" for tone in COLOURS)
    kinds = (kind for kind in (*SEGMENTS, "gone", "new") if kind != "retry")
    accents += "".join(f".axe-nb-{kind} {{ background: var(--{kind}); }}\n" for kind in kinds)
    return f".axe-nb-tree {{\n{declared}}}\n{accents}"


def is_mixed(text: str) -> bool:
    """True if a text contains right-to-left letters."""
    if text.isascii():
        return False
    return any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def direction(text: str) -> str:
    """Returns the attribute `dir=auto` if a text has right-to-left letters, or an empty string."""
    return " dir=auto" if is_mixed(text) else ""


def gradient(parts: Iterable[tuple[str, str]]) -> str:
    """Returns a horizontal CSS gradient with sharp edges; `parts` are (colour, end position)."""
    stops = [f"{colour} {'0 ' * bool(at)}{end}".rstrip() for at, (colour, end) in enumerate(parts)]
    return f"linear-gradient(90deg,{','.join(stops)})"
