"""Signs, colours and sizes of the tree: written down once, known to HTML, CSS and JavaScript."""

import re
from pathlib import Path
from typing import get_args

import axe_nb
from axe_nb.results import Status
from axe_nb.views.appearance import COLOURS, LOOKS, css_rules
from axe_nb.views.transcript import State

PACKAGE = Path(axe_nb.__file__).parent
TABLE = PACKAGE / "views" / "appearance.py"
OTHERS = {
    file.relative_to(PACKAGE).as_posix(): file.read_text("utf-8")
    for file in PACKAGE.rglob("*")
    if file.suffix in (".py", ".js", ".css") and file != TABLE
}
"""Path → text of every other source file."""


def test_every_state_has_a_sign_and_a_colour() -> None:
    status, others = get_args(State)
    assert status == Status
    assert set(LOOKS) == {*get_args(status), *get_args(others)}
    assert {look.tone for look in LOOKS.values()} == set(COLOURS)


def test_the_style_sheet_uses_what_is_declared_and_nothing_else() -> None:
    sheet, script = OTHERS["cell_display/static/live.css"], OTHERS["cell_display/static/live.js"]
    rules = css_rules() + sheet
    declared = set(re.findall(r"--([\w-]+): ", rules))
    declared |= set(re.findall(r"""setProperty\("--([\w-]+)""", script))
    used = {name for name in re.findall(r"var\(--([\w-]+)", rules) if not name.startswith("jp-")}
    used |= set(re.findall(r"var\(--([\w-]+)", OTHERS["cell_display/live_tree.py"]))
    assert used == declared
    assert {tone for tone in COLOURS if f".axe-nb-{tone} {{" in rules} == set(COLOURS)
