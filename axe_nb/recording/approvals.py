"""Approvals in cassettes: a yes counts only where it was given, unless the user trusts all.

A cassette may come with a stranger's repository. Its replies replace a model's, whose calls are
checked as usual; its approvals would replace the person's.
Source: D-48, D-81, docs/recordings.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from axe_nb.agents.trust import load_trusted, remember_trust, trusts_all
from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.person import ApprovalRequest
from axe_nb.errors import ConfigError
from axe_nb.recording.cleaning import Cleaner
from axe_nb.recording.same_request import is_same
from axe_nb.secrets import MASK

APPROVING = ("yes", "always", "edit")
"""Answers of a person that let a call run."""

TEST_VARIABLES = {"PYTEST_VERSION", "PYTEST_CURRENT_TEST", "AXE_NB_TEST"}
"""Environment variables of tests; the last one is that of `axe-nb freeze` and `axe-nb check`."""


def is_test() -> bool:
    """True if this process belongs to a test run, as its environment says (D-68)."""
    return not TEST_VARIABLES.isdisjoint(os.environ)


def is_same_question(recorded: Any, asked: Any, request: ApprovalRequest, clean: Cleaner) -> bool:
    """True if a recorded answer is to this question; a masked secret fits no other call."""
    if not request.tool or (recorded == asked and MASK not in f"{asked}"):
        return is_same(recorded, asked)
    return bool(clean.restore(recorded) == _state(request))


def counts(path: Path, request: ApprovalRequest, decision: Mapping[str, Any]) -> bool:
    """True if a recorded answer may replace the person's.

    Args:
        path: the cassette.
        request: the question, with its secrets: with a mask for one, it is another.
        decision: the answer, with the paths of this machine.

    Raises:
        ConfigError: the list of what the person trusts cannot be read.
    """
    if decision.get("choice") not in APPROVING or trusts_all() or is_test():
        return True
    return _compute_fingerprint(path, request, decision) in load_trusted()


def remember(path: Path, request: ApprovalRequest, decision: Mapping[str, Any]) -> None:
    """Remembers an approval that the person has given here, for later replays."""
    if decision.get("choice") in APPROVING:
        with contextlib.suppress(ConfigError):  # then the person is asked again
            remember_trust(_compute_fingerprint(path, request, decision))


def _compute_fingerprint(path: Path, request: ApprovalRequest, decision: Mapping[str, Any]) -> str:
    where = [request.agent, request.workdir]
    content = ["cassette", os.path.realpath(path), where, _state(request), decision]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"approval {digest}"


def _state(request: ApprovalRequest) -> dict[str, Any]:
    """Returns what an approval is for, secrets included: nothing to be kept."""
    if not request.tool:
        return {"question": request.detail}
    return {"tool": request.tool, "arguments": jsonable(request.arguments)}
