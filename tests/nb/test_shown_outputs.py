"""Outputs of a saved notebook have no secrets and no escapes."""

from __future__ import annotations

import json

import pytest

from tests.nb.kernels import Kernel

VALUE = "corr3ct-horse-b4ttery"
SHAPE = "ghp_" + "a1" * 12
HOSTILE = f"{'say ' * 12}{VALUE} \x1b]0;title\x07\x9b2J {SHAPE}"


@pytest.mark.req("D-60")
def test_outputs_of_a_saved_notebook_have_none(kernel: Kernel) -> None:
    kernel.run(
        "import os, axe_nb\n%load_ext axe_nb\n"
        f"os.environ['THE_API_KEY'] = {VALUE!r}\nhostile = {HOSTILE!r}\n"
        "@axe_nb.script('one')\n"
        "def one(request):\n"
        "    if 'fail' in request.last: raise axe_nb.ProviderError('server', hostile, status=400)\n"
        "    return hostile\n"
        "axe_nb.define(axe_nb.Agent(name='one', model='script/one'))"
    )
    for cell in (
        "%%axe one\n{{hostile}}",
        "%%axe one --dry-run\n{{hostile}}",
        "%%axe one --json\ngo",
        "axe_nb.run('one', 'go')",
        "axe_nb.last()",
        "axe_nb.run('one', 'fail').raise_for_status()",
        "%%axe one --raises provider\nfail",
    ):
        shown = json.dumps(kernel.run(cell), ensure_ascii=False)
        assert VALUE not in shown, cell
        assert SHAPE not in shown, cell
        assert "\x9b" not in shown, cell
        assert "***" in shown, cell
