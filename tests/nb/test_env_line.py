"""`%axe env`: a `.env` file is read on request, never by itself; names are shown, never values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.nb.kernels import Kernels, text


@pytest.mark.req("D-60")
def test_a_file_is_read_on_request_and_only_names_are_shown(
    project: Path, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-mine-12345678")
    (project / ".env").write_text(
        "OPENAI_API_KEY='sk-theirs-12345678'\nANTHROPIC_API_KEY=sk-other-1234567\n"
        "AXE_NB_TRUST=1\nPATH=/evil\nPYTHONPATH=/evil\nAXE_ANTHROPIC_BASE_URL=http://127.0.0.1:9\n"
        "OLLAMA_API_KEY=\n",
        "utf-8",
    )
    cells = kernels.at(Path(sys.executable), project)
    cells.run("%load_ext axe_nb")
    before = text(cells.run("%axe env")).splitlines()
    assert [line.split() for line in before] == [
        ["anthropic", "ANTHROPIC_API_KEY", "set"],
        ["openai", "OPENAI_API_KEY", "not", "set"],
        ["ollama", "OLLAMA_API_KEY", "not", "set,", "not", "needed"],
    ]
    said = text(cells.run("%axe env .env"))
    assert said.splitlines() == [
        "set: OPENAI_API_KEY",
        "already set, kept: ANTHROPIC_API_KEY",
        "no value, not set: OLLAMA_API_KEY",
        "refused, because a file sets only keys and addresses of providers: AXE_NB_TRUST, PATH, "
        "PYTHONPATH",
        "refused, because a key that is not from this file would be sent there: "
        "AXE_ANTHROPIC_BASE_URL",
        "to set a refused one yourself, use %env NAME=VALUE, or set it before the kernel starts",
    ]
    assert "sk-" not in said
    after = text(cells.run("import os; print(os.environ['OPENAI_API_KEY'][-8:])\n%axe env"))
    assert after.startswith("12345678\n")
    assert "OPENAI_API_KEY     set" in after
    assert "AXE_NB_TRUST" not in text(cells.run("print(*os.environ)"))
    wrong = text(cells.run("%axe env nothing"))
    assert 'cannot read "nothing": No such file' in wrong
    assert text(cells.run("%axe env axe")).startswith('ConfigError: cannot read "axe": ')
