"""The tables of commands in a notebook: one look, headers, readable as text, bounded."""

from __future__ import annotations

import pytest

from axe_nb.views.table import MOST_CHARS, MOST_ROWS, Listing
from tests.nb.kernels import Kernel, shown

pytestmark = pytest.mark.req("B-12")

AGENT = """
import axe_nb
@axe_nb.script("echo")
def echo(request):
    return "done"
axe_nb.define(axe_nb.Agent("echo", "script/echo", description="<img src=x onerror=alert(1)>"))
axe_nb.run("echo", "hello", display=False)
"""

HEADS = {
    "list": ["agent", "model", "description", "file in"],
    "tools": ["tool", "effect", "description"],
    "env": ["provider", "variable", "state"],
    "usage": ["agent", "model", "runs", "turns", "input", "output"],
    "doctor": ["", "checked", "result"],
}


def test_commands_show_tables_with_headers_wherever_they_stand_in_a_cell(cells: Kernel) -> None:
    cells.run(AGENT)
    for command, heads in HEADS.items():
        [data] = shown(cells.run(f"%axe {command}\n1"))
        html = data["text/html"]
        assert [part.partition(">")[2] for part in html.split("</th>")[:-1]][1:] == heads[1:]
        assert "<img" not in html
        assert "done" not in data["text/plain"].splitlines()[0]
        assert html.count("<tr>") > 1


def test_a_table_of_20_000_rows_is_bounded_and_counts_the_others() -> None:
    rows = [(str(n), "<b>" * 30) for n in range(20_000)]
    listing = Listing(head=("n", "text"), rows=rows, right=1)
    assert repr(listing).count("\n") == MOST_ROWS + 1
    html = listing._repr_html_()
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "… 19,500 more rows: .rows has all rows" in html
    assert "<b>" not in html


def test_a_cell_is_bounded_and_a_secret_at_its_end_is_not_shown_in_part() -> None:
    secret = "sk-ant-api03-" + "s3cr3t" * 16
    text = "x" * (MOST_CHARS - 50) + f" {secret} " + "y" * 100_000
    listing = Listing(head=("text",), rows=[(text,)])
    html = listing._repr_html_()
    for written in (html, repr(listing)):
        assert "s3cr3t" not in written
        assert len(written) < MOST_CHARS + 1_000
    assert "…</td>" in html
