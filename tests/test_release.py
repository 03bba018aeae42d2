"""Extras: each is tried before a release, and named where it is missing."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

from tests import bootstrap, release, versions

ROOT = Path(__file__).parent.parent


def test_each_extra_is_tried_before_a_release_and_is_on_a_page() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(release.EXTRAS) == set(versions.EXTRAS) == set(extras["optional-dependencies"])
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    assert [extra for extra in versions.EXTRAS if f"axe-nb[{extra}]" not in text] == []
    assert [name for name in versions.QUICK if not (ROOT / name).exists()] == []


WITHOUT = """
import asyncio, base64, json, sys
from axe_nb import Agent, ConfigError, run, script
from axe_nb.providers.prices import make_price_error
from axe_nb.testing.check import load
from axe_nb.pictures.picture import Picture
from axe_nb.pictures.picture import fit
from tests.pictures.samples import png

@script("a")
def model(request):
    return "x"

def told(function):
    try:
        function()
    except ConfigError as error:
        return " ".join(error.lines())

json.dump({
    "images": told(lambda: fit(Picture(png(9000, 10)), 0)),
    "lab": told(lambda: load("nbformat")),
    "mcp": told(lambda: run(Agent("a", "script/a", mcp_servers={"t": {"url": "http://127.0.0.1:9"}}))),
    "prices": make_price_error("a/b", "x").hint,
}, sys.stdout)
"""


def test_without_an_extra_the_message_names_the_command_that_installs_it(tmp_path: Path) -> None:
    python = bootstrap.interpreter(bootstrap.OLDER_KERNEL)
    done = subprocess.run(
        [str(python), "-c", WITHOUT], capture_output=True, encoding="utf-8", timeout=60,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout or done.stderr)
    for extra, words in told.items():
        assert "pip install" in words
        assert f"'axe-nb[{extra}]'" in words
