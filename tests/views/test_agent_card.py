"""The card of an agent: the same parts as text and as HTML, and nothing of an agent is markup."""

from __future__ import annotations

import pytest

from axe_nb.views.agent_summary import AgentCard
from tests.views.runs import PAYLOADS


def card(text: str) -> AgentCard:
    """A card with the text wherever something from outside may stand."""
    return AgentCard(text, (text,), (("Allowed", text),), text, (text,), (text,))


def test_text_and_html_have_the_same_parts() -> None:
    rows = (("Allowed", "grep, call_agent"), ("Requests", "at most 5 in the whole tree"))
    facts = ("script/x", "mode ask")
    made = AgentCard("lead", facts, rows, "lead\n└─ echo", ("no file matches",), ("unchanged",))
    bundle = made.to_bundle()
    assert bundle["text/plain"] == (
        "lead: script/x, mode ask\n"
        "Allowed:        grep, call_agent\n"
        "Requests:       at most 5 in the whole tree\n"
        "lead\n└─ echo\n! no file matches\nunchanged"
    )
    html = bundle["text/html"]
    for part in ("<strong>lead</strong>", "script/x · mode ask", ">grep, call_agent<", "└─ echo"):
        assert part in html
    assert html.index("no file matches") < html.index("unchanged")


def test_what_an_agent_lacks_is_left_out() -> None:
    bundle = AgentCard("a", ("script/x",), (), "", (), ()).to_bundle()
    assert bundle["text/plain"] == "a: script/x"
    assert "<table" not in bundle["text/html"]
    assert "<pre" not in bundle["text/html"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_of_an_agent_is_markup_or_moves_a_cursor(payload: str) -> None:
    plain = card("x").to_bundle()["text/html"]
    bundle = card(payload).to_bundle()
    assert bundle["text/html"].count("<") == plain.count("<")
    assert "\x1b" not in "".join(bundle.values())
