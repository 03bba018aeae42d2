"""docs/scripts.md names every key; tests/test_documents.py runs its examples."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import axe_nb
from axe_nb.scripting import rules

PAGE = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text("utf-8")


def test_every_key_is_in_a_table() -> None:
    rows = set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE))
    keys = {*rules.RULE, *rules.TOP} - {"rule"}
    assert keys | {f"when.{key}" for key in rules.WHEN} <= rows
    assert {"base_url", "requests", "open_requests", "aborted"} <= rows
    assert not {field.name for field in fields(axe_nb.Request)} - set(re.findall(r"`(\w+)`", PAGE))
