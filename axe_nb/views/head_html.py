"""The head of a saved tree: its facts, and a strip of its sub-agents' states. Pure.

Source: design README "Second generation" (B, the saved twin).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from axe_nb.views.appearance import COLOURS, LOOKS
from axe_nb.views.summary import Fact
from axe_nb.views.tree import State

MARK = "border-bottom:2px solid"
"""Style of facts that need a look: no text colour has enough contrast in both kinds of theme."""

STRIPE, MOST_STRIPES = 0.5, 60
"""Width in em of the part of one sub-agent; of more of them, no strip is drawn."""

STRIP = "display:inline-block;height:.7em"
"""Not text: who cannot tell colours apart has the same in words before it."""


def format_facts(facts: Sequence[Fact]) -> str:
    """The line of a root; parts that need a look have their colour."""
    return " · ".join(map(_format_fact, facts))


def _format_fact(fact: Fact) -> str:
    text = escape(fact.text, quote=False)
    if not fact.marks:
        return text
    marks = ", ".join(
        f"<span style='{MARK} {COLOURS[tone]}'>{escape(words, quote=False)}</span>"
        for words, tone in fact.marks
    )
    return f"{text} ({marks})" if text else marks


def format_strip(states: Sequence[State]) -> str:
    """The states of several sub-agents in call order, as colours."""
    if not 1 < len(states) <= MOST_STRIPES:
        return ""
    stops, at = [], 0.0
    for colour, run in groupby(LOOKS[state].colour for state in states):
        begin, at = at, at + STRIPE * len(list(run))
        stops.append(f"{colour} {begin:g}em {at:g}em")
    stops.append(f"{colour} 0")  # JupyterLab drops a gradient of one stop where it does not trust
    paint = f"background:linear-gradient(90deg,{','.join(stops)})"
    return f" <i style='{STRIP};width:{at:g}em;{paint}'></i>"
