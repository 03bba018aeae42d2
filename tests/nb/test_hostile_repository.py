"""A hostile repository is cloned, and all cells of its notebook are run: nothing happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.hostile_repository import check, clone, set_traps

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs links")


@pytest.mark.req("D-50", "D-83", "D-53", "D-81")
@pytest.mark.timeout(300)
def test_a_hostile_repository_does_no_harm_headless(tmp_path: Path) -> None:
    with set_traps(tmp_path) as traps:
        folder = tmp_path / "clone"
        clone(traps, folder)
        before = traps.fingerprint()
        subprocess.run(
            [sys.executable, "-P", "-c", "from nbclient.cli import main; main()", "--allow-errors",
             "--inplace", "start.ipynb"],
            cwd=folder, env=traps.environ(), check=True, timeout=200,
        )  # fmt: skip
        notebook = nbformat.read(folder / "start.ipynb", as_version=4)
        outputs = {cell.source: str(cell.outputs) for cell in notebook.cells}
        check(traps, before, str(outputs), folder)
        for name in ("helper", "auto", "mcp", "net", "grants", "context", "params", "reader"):
            [shown] = [v for k, v in outputs.items() if k.startswith(f"%%axe {name}\n")]
            assert "restricted, because you have not trusted" in shown, name
        for name, why in (("script", "uses a script outside its"), ("linked", "is a link out of")):
            [shown] = [v for k, v in outputs.items() if k.startswith(f"%%axe {name}\n")]
            assert why in shown
        assert "hides your own agent of the same name" in outputs["%axe show helper"]
        assert "is not trusted, and no one can be prompted here" in outputs["%axe trust"]
