"""Appearance of the tree: signs, colours and sizes. HTML and CSS take them from here.

Rows and texts use them as inline styles; additions of the live tree use the custom properties of
`css_rules`. The colours have enough contrast on white and on black; lines, tracks and shades are
half transparent grey, so that both kinds of theme can have them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from axe_nb.views.transcript import State

Tone: TypeAlias = Literal["running", "good", "bad", "limit", "off"]
"""Kind of state; each has a colour."""

COLOURS: Mapping[Tone, str] = {
    "running": "#27c",
    "good": "#393",
    "bad": "#d33",
    "limit": "#b70",
    "off": "#888",
}

HUES = ("#27c", "#85c", "#098", "#b70", "#888", "#393", "#c49")
"""Colours of the parts of one bar, in their order."""

SWATCH = "■"
"""Sign that shows the colour of a part beside its name."""

CODE = {
    "Comment": "#777;font-style:italic", "Keyword": "#86c", "Operator.Word": "#86c",
    "Literal.String": "#383", "Literal.Number": "#187", "Name.Function": "#37d",
    "Name.Class": "#37d", "Name.Decorator": "#37d", "Name.Tag": "#37d", "Name.Attribute": "#187",
    "Name.Variable": "#187", "Generic.Deleted": "#d33", "Generic.Inserted": "#383",
    "Generic.Prompt": "#777",
}  # fmt: skip
"""Kind of token, or of an enclosing kind → its colour in the code of answers: as much contrast as
one colour can have on white and on black; coarse, so that newer libraries give the same page."""

LINE, TRACK, SHADE = "#8884", "#8882", "#8881"
"""Lines along levels, tracks of bars, backgrounds of texts."""

SEGMENTS = {"model": "#27c9", "tool": "#393", "retry": "#d338", "person": "#b70"}
"""Colours of the parts of a live bar, by the use of time."""

PLAYED_TIME = "#8886"
"""Colour of the part of a bar that replayed a recorded answer: no model took that time."""

PALE = "#3936"
"""Colour of the uncertain part of a bar: the range in which a share may lie."""

MONO = "font-family:var(--jp-code-font-family,monospace)"
"""Font of code; pages of nbconvert give a `pre` in an output the font of its surroundings."""

GONE, NEW = "#d333", "#3933"
"""Backgrounds of text that only the first, or only the second, of two texts contains."""

MUTED = ".7"
"""Opacity of labels and summaries."""


@dataclass(frozen=True, slots=True)
class Look:
    """Sign and tone of a state."""

    sign: str
    """A character that DejaVu and Segoe UI Symbol have."""
    tone: Tone

    @property
    def colour(self) -> str:
        return COLOURS[self.tone]


LOOKS: Mapping[State, Look] = {
    "running": Look("●", "running"),
    "asks": Look("?", "limit"),
    "completed": Look("✓", "good"),
    "error": Look("✗", "bad"),
    "denied": Look("✗", "limit"),
    "timeout": Look("◷", "limit"),
    "max_turns": Look("■", "limit"),
    "max_tool_calls": Look("■", "limit"),
    "max_tokens": Look("■", "limit"),
    "cancelled": Look("⊘", "off"),
    "not run": Look("–", "off"),
}

GAP = "8px"
"""Gap between the columns of a row."""

BAR_WIDTH = "9em"

LEVEL_MARGIN, LEVEL_PADDING = ".3em", "1.2em"
"""Space left and right of the line along a level."""

LINE_HEIGHT = "1.7em"

TEXT_MARGIN, TEXT_PADDING = "1em", ".3em .6em"
"""Margin and padding of a text below a row."""

TEXT = f"padding:{TEXT_PADDING};background:{SHADE};white-space:pre-wrap;word-break:normal;{MONO}"
"""Style of a text of several lines."""


def css_rules() -> str:
    """CSS rules with the values for the style sheet of the live tree, and each tone's accent."""
    values: dict[str, str] = {
        **{str(tone): colour for tone, colour in COLOURS.items()},
        "line": LINE, "track": TRACK, "shade": SHADE, "gone": GONE, "new": NEW, "muted": MUTED,
        "gap": GAP, "bar-width": BAR_WIDTH, "level-margin": LEVEL_MARGIN,
        "level-padding": LEVEL_PADDING, "line-height": LINE_HEIGHT, "text-margin": TEXT_MARGIN,
        "text-padding": TEXT_PADDING,
    }  # fmt: skip
    declared = "".join(f"  --{name}: {value};\n" for name, value in values.items())
    accents = "".join(f".axe-nb-{tone} {{ --accent: var(--{tone}); }}\n" for tone in COLOURS)
    return f".axe-nb-tree {{\n{declared}}}\n{accents}"


def is_mixed(text: str) -> bool:
    """True if a text has letters that are read from right to left."""
    if text.isascii():
        return False
    return any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def direction(text: str) -> str:
    """The attribute of the element that holds a text; empty if all of it is read left to right."""
    return " dir=auto" if is_mixed(text) else ""


def gradient(parts: Iterable[tuple[str, str]]) -> str:
    """A horizontal gradient of (colour, end in CSS) for parts that do not blend."""
    stops = [f"{colour} {'0 ' * bool(at)}{end}".rstrip() for at, (colour, end) in enumerate(parts)]
    return f"linear-gradient(90deg,{','.join(stops)})"
