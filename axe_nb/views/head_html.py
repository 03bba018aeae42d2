"""The head of a saved tree: its facts, and a stripe for each sub-agent. Pure.

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
"""Of what needs a look: no colour of a text has enough contrast in both kinds of theme."""

STRIPE, MOST_STRIPES = "▮", 60
"""One for each sub-agent, in the colour of its state; many are not drawn one by one."""


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
    """A stripe for each of several sub-agents, in the colour of its state."""
    if not 1 < len(states) <= MOST_STRIPES:
        return ""
    tones = groupby(LOOKS[state].colour for state in states)
    stripes = (f"<b style=color:{c}>{STRIPE * len(list(run))}</b>" for c, run in tones)
    return f" <span title='one for each sub-agent'>{''.join(stripes)}</span>"
