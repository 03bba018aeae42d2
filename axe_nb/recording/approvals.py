"""Approvals in cassettes: a yes counts only where it was given, or where its user says so.

A cassette may come with a stranger's repository. Its replies stand for a model, whose calls are
checked as ever; its approvals would stand for the person.
Source: D-48, D-54; docs/safety.md "Cassettes".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from axe_nb.agents.trust import load_trusted, remember_fingerprint, trusts_all
from axe_nb.errors import ConfigError

APPROVING = ("yes", "always", "edit")
"""Answers of a person that let a call run."""

TEST_VARIABLES = {"PYTEST_VERSION", "PYTEST_CURRENT_TEST", "AXE_NB_TEST"}
"""Environment variables of tests; the last one is that of `axe-nb freeze` and `axe-nb check`."""


def is_test() -> bool:
    """True if this process belongs to a test run, as its environment says (D-68)."""
    return not TEST_VARIABLES.isdisjoint(os.environ)


def counts(path: Path, where: list[str], asked: Any, decision: Mapping[str, Any]) -> bool:
    """True if a recorded answer stands for the person.

    Args:
        path: the cassette.
        where: the agent that asked, and its workdir.
        asked: the call.
        decision: the answer, as recorded.

    Raises:
        ConfigError: the list of what the person trusts cannot be read.
    """
    if decision.get("choice") not in APPROVING or trusts_all() or is_test():
        return True
    return _compute_fingerprint(path, where, asked, decision) in load_trusted()


def remember(path: Path, where: list[str], asked: Any, decision: Mapping[str, Any]) -> None:
    """Remembers an approval that the person has given here, for later replays."""
    if decision.get("choice") in APPROVING:
        with contextlib.suppress(ConfigError):  # then the person is asked again
            real = os.path.realpath(path)
            remember_fingerprint(_compute_fingerprint(path, where, asked, decision), real)


def _compute_fingerprint(
    path: Path, where: list[str], asked: Any, decision: Mapping[str, Any]
) -> str:
    content = ["cassette", os.path.realpath(path), where, asked, decision]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
