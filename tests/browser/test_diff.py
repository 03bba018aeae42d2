"""The difference of two runs in a real JupyterLab: saved, never trusted, in both themes, inert."""

from __future__ import annotations

import pytest

from tests.browser.lab import LIGHT, Lab
from tests.diffs.trees import Mutator, make_tree
from tests.views.runs import saved

pytestmark = [pytest.mark.req("E-9"), pytest.mark.browser, pytest.mark.timeout(600)]

AREA = ".jp-OutputArea-output"


@pytest.mark.parametrize("theme", [LIGHT, "JupyterLab Dark"])
def test_what_changed_is_marked_and_can_be_read_without_trust(lab: Lab, theme: str) -> None:
    tree = make_tree()
    bundle, _ = tree.diff(Mutator(tree, 3).mutate("answer").tree)._repr_mimebundle_()
    lab.open(saved(bundle))
    lab.theme(theme)
    trusted = lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.trusted"
    )
    assert trusted is False
    area = lab.page.locator(AREA).first
    gone, new = area.locator("del").first, area.locator("ins").first
    assert new.inner_text() == "Nothing at all"
    style = "e => [getComputedStyle(e).textDecorationLine, getComputedStyle(e).backgroundColor]"
    assert gone.evaluate(style) == ["line-through", "rgba(221, 51, 51, 0.2)"]
    assert new.evaluate(style) == ["underline", "rgba(51, 153, 51, 0.2)"]
    assert "turns" in area.inner_text()
    contrasts = lab.contrasts(AREA)
    assert "Nothing at all" in contrasts
    signs = {text for text, contrast in contrasts.items() if contrast < 4.5}
    assert signs <= {"≠", "="}
    assert min(contrasts.values()) >= 3
