"""Figures of a real kernel: from a cell to a model's server, and from a tool into the tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from axe_nb.scripting.server import script_server
from tests.nb.kernels import Kernels, Output, text

PREPARE = """
import axe_nb
import matplotlib
import matplotlib.pyplot as plt
matplotlib.use("module://matplotlib_inline.backend_inline")

fig = plt.figure(figsize=(2, 1))
fig.subplots().plot([1, 3, 2])
plt.close(fig)
svg = b"<svg/>"

@axe_nb.tool
def draw(title: str):
    "Draws a plot."
    drawn, axes = plt.subplots(figsize=(2, 1))
    axes.set_title(title)
    return drawn

@axe_nb.script("eyes")
def eyes(request):
    if "draw" in request.last and request.turn == 1:
        return [axe_nb.call("draw", title="Ulm")]
    return f"{len(request.pictures)} seen"

axe_nb.define(axe_nb.Agent("eyes", "script/eyes", tools=("draw",)))
axe_nb.define(axe_nb.Agent("wire", "openai/wire"))
"""


def images(outputs: list[Output]) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_a_figure_goes_to_the_model_and_into_the_tree_and_not_below_the_cell(
    project: Path, kernels: Kernels
) -> None:
    pytest.importorskip("matplotlib")
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "wire.toml").write_text('[[rule]]\ntext = "heard"\n', "utf-8")
    with script_server("openai") as server:
        cells = kernels.at(Path(sys.executable), project)
        assert cells.run("%load_ext axe_nb") == []
        assert images(cells.run(PREPARE)) == 0
        said = cells.run("%%axe wire -q\nDescribe {{ fig }} please")
        assert "heard" in text(said), text(said)
        before, image, after = server.requests[-1]["messages"][-1]["content"]
    assert before["text"].startswith("Describe [picture 1: ")
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert after["text"] == " please"
    drawn = cells.run("%%axe eyes\ndraw")
    assert "1 seen" in text(drawn), text(drawn)
    assert images(drawn) == 0
    pages = [output["data"].get("text/html", "") for output in drawn if "data" in output]
    assert sum(page.count("<img ") for page in pages) == 1
    failed = text(cells.run("%%axe eyes\n{{ svg }}"))
    assert "cannot be converted to text" in failed
