"""What docs/scripts.md shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

import axe_nb
from axe_nb.scripting import rule_file

PAGE = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(toml|python|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [(code, shown) for (kind, code), (_, shown) in pairwise(BLOCKS) if kind == "python"]


def test_there_are_three_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("code", "shown"), EXAMPLES, ids=["rules", "function", "server"])
def test_an_example_prints_what_the_page_says(project: Path, code: str, shown: str) -> None:
    for kind, text in BLOCKS:
        if kind == "toml":
            path = project / text.splitlines()[0].removeprefix("# ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (ran.stdout, ran.stderr) == (shown, "")


def test_every_key_is_in_a_table() -> None:
    rows = set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE))
    keys = {*rule_file._RULE, *rule_file._TOP} - {"rule"}
    assert keys | {f"when.{key}" for key in rule_file._WHEN} <= rows
    assert {"base_url", "requests", "open_requests", "aborted"} <= rows
    assert not {field.name for field in fields(axe_nb.Request)} - set(re.findall(r"`(\w+)`", PAGE))
