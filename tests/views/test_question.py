"""A question to the person, as its event and its row have it."""

from __future__ import annotations

import re

import pytest

from axe_nb.engine.person import ApprovalRequest
from axe_nb.secrets import remember
from axe_nb.session.prompts import MOST, describe
from axe_nb.views.html import format_question

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-calm\n+storm"
EDIT = ApprovalRequest("0.1", "writer", "edit_file", {"path": "x"}, DIFF, call_id="a")


@pytest.mark.req("D-48", "D-56")
def test_the_event_tells_the_question_its_diff_and_its_letters() -> None:
    asked = describe(EDIT)
    assert asked.words == "may it call edit_file on x?"
    assert [letter for letter, _ in asked.choices] == ["y", "a", "e", "n", "s"]
    assert asked.prompt.endswith("[s]top: ")
    assert asked.arguments == '{"path": "x"}'
    html = format_question(asked)
    assert re.findall(r"class='(\S*)'>([^\s<]+)", html) == [
        ("", "---"), ("", "+++"), ("", "@@"), ("axe-nb-gone", "-calm"), ("axe-nb-new", "+storm"),
    ]  # fmt: skip
    assert re.findall("<button [^>]*value='(.)'>", html) == ["y", "a", "e", "n", "s"]


@pytest.mark.req("D-48")
def test_what_needs_a_whole_word_or_has_a_secret_has_no_button_for_it() -> None:
    many = ApprovalRequest("0", "w", "shell", {"command": "a\n" * 60}, whole="command")
    assert "y" not in dict(describe(many).choices)
    remember("hunter2-hunter2-hunter2")
    secret = describe(ApprovalRequest("0", "w", "shell", {"command": "hunter2-hunter2-hunter2"}))
    assert "hunter2-hunter2" not in repr(secret)
    assert secret.choices == ()
    long = describe(ApprovalRequest("0", "w", "f", {"x": "y" * 99_999}, "z" * 99_999))
    assert max(map(len, (long.text, long.diff, long.arguments))) < MOST + 100  # and the mark
