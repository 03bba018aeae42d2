"""The card of an agent that a cell has defined: as text, and as HTML for notebooks.

Styles are those that JupyterLab keeps in an untrusted notebook, as in `views/html.py`.
Source: product.md "Notebook" (`%%axe_agent`).
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from axe_nb.redaction import redact
from axe_nb.text import clean
from axe_nb.views.agent_summary import line
from axe_nb.views.appearance import COLOURS, LINE, MONO, MUTED, TEXT_PADDING
from axe_nb.views.html import PLAIN

CARD = f"display:inline-block;border:1px solid {LINE};border-radius:6px;padding:{TEXT_PADDING}"

LABEL = f"opacity:{MUTED};text-align:left;vertical-align:top"

GRAPH = f"margin:.3em 0;line-height:1.4;white-space:pre-wrap;{MONO}"


@dataclass(frozen=True, slots=True)
class AgentCard:
    """The parts of the card, in reading order; empty ones are left out."""

    name: str
    facts: tuple[str, ...]
    """The model, the mode, and the form of its answers."""
    rows: tuple[tuple[str, str], ...]
    """(label, value) of its tools and limits."""
    graph: str
    """Its sub-agents as a picture in text."""
    notes: tuple[str, ...]
    """Warnings and problems."""
    saved: tuple[str, ...]
    """The file that has been written, and what has changed in it."""

    def to_bundle(self) -> dict[str, str]:
        """The card for a notebook and for a terminal."""
        return {"text/html": self._to_html(), "text/plain": self._to_text()}

    def _to_text(self) -> str:
        head = f"{self.name}: {', '.join(self.facts)}"
        rows = [line(label, value) for label, value in self.rows]
        notes = [f"! {note}" for note in self.notes]
        return _clean("\n".join(filter(None, [head, *rows, self.graph, *notes, *self.saved])))

    def _to_html(self) -> str:
        facts = " · ".join(map(_escape, self.facts))
        parts = [f"<strong>{_escape(self.name)}</strong> <span>{facts}</span>"]
        if self.rows:
            rows = (
                f"<tr><td style='{LABEL}'>{_escape(label)}</td>"
                f"<td style='text-align:left'>{_escape(value)}</td></tr>"
                for label, value in self.rows
            )
            parts.append(f"<table style='margin:.3em 0'>{''.join(rows)}</table>")
        if self.graph:
            parts.append(f"<pre style='{GRAPH}'>{_escape(self.graph)}</pre>")
        mark = f"<b style=color:{COLOURS['limit']}>!</b>"
        parts += [f"<div>{mark} {_escape(note)}</div>" for note in self.notes]
        if self.saved:
            saved = "\n".join(self.saved)
            parts.append(f"<pre style='{GRAPH}'>{_escape(saved)}</pre>")
        return f"<div class='{PLAIN}' style='{CARD}'>{''.join(parts)}</div>"


def _clean(text: str) -> str:
    return clean(redact(text))


def _escape(text: str) -> str:
    return escape(_clean(text), quote=False)
