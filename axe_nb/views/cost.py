"""The price of a usage, for people. Pure.

Source: issue 12 (money).
"""

from __future__ import annotations

from axe_nb.messages import Usage
from axe_nb.text import format_dollars


def format_cost(usage: Usage) -> str:
    """The price; `≥ $0.012` if that of some tokens is unknown, empty if that of all is."""
    if not usage.priced_tokens:
        return ""
    is_whole = usage.priced_tokens == usage.total
    return f"{'' if is_whole else '≥ '}{format_dollars(usage.dollars)}"
