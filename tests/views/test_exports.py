"""A finished run as one file, which holds no secret and loads nothing."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import axe_nb
from axe_nb import Agent, ConfigError, RunResult, call, script
from tests.views.test_html import Page

SECRET = "sk-canary-0123456789abcdef0123"

HOSTILE = (
    "</pre><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(1)>\n"
    "```\n<b>out</b>\n````\n![x](http://127.0.0.1:9/y.png) [y](javascript:alert(1))\n\x1b[31mred"
)


@pytest.fixture
def result(project: Path, monkeypatch: pytest.MonkeyPatch) -> RunResult:
    """A tree whose texts are hostile, long and secret."""
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    script("lead")(
        lambda r: [call("call_agent", agent="helper", task=HOSTILE)] if r.turn == 1 else HOSTILE
    )
    script("helper")(lambda r: f"{SECRET} {'long ' * 1000}end {HOSTILE}")
    axe_nb.define(Agent("helper", "script/helper"))
    return axe_nb.run(Agent("lead", "script/lead", sub_agents=("helper",)), HOSTILE)


def test_a_page_has_all_texts_and_runs_or_loads_nothing(result: RunResult, project: Path) -> None:
    path = axe_nb.export(result, project / "run.html")
    page = path.read_text("utf-8")
    found = Page(page)
    assert not {"img", "link", "iframe", "object", "base"}.intersection(found.tags)
    script = (Path(axe_nb.__file__).parent / "views/static/play.js").read_text()
    data, player = re.findall("<script.*?</script>", page, re.DOTALL)
    assert re.fullmatch('<script type="text/plain" id="axe-run">[^<]+</script>', data)
    assert player == f"<script>{script}</script>"
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}'\">" in page
    assert {"data-from", "data-to"} < {key for _, key, _ in found.attributes}
    assert "script/helper · " in page
    attributes = {key for _, key, _ in found.attributes}
    assert not {key for key in attributes if key.startswith("on") or key == "src"}
    assert "default-src 'none'" in page
    assert "long long long" in page
    assert page.count("long ") >= 1000, "texts are not cut"
    assert SECRET not in page
    assert "\x1b" not in page


def test_an_exported_page_is_loaded_as_its_saved_run_is_unless_it_is_too_large(
    result: RunResult, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save("run.axe")
    saved = axe_nb.load("./run.axe").to_dict(full=True)
    for _ in range(2):  # the second page is of the run in the first one
        result = axe_nb.load(axe_nb.export(result, "run.html"))
        assert result.to_dict(full=True) == saved
    axe_nb.replay("run.html")
    monkeypatch.setattr("axe_nb.views.export.MAX_DATA", 10_000)
    axe_nb.export(result, "run.html")
    with pytest.raises(ConfigError, match=r"^cannot read run.html: the page contains no") as raised:
        axe_nb.replay("run.html")
    assert raised.value.hint == "export it again; over 20 MB, save it"


def test_markdown_shows_hostile_texts_only_in_fences(result: RunResult, project: Path) -> None:
    text = axe_nb.export(result, project / "run.md").read_text("utf-8")
    assert SECRET not in text
    assert "\x1b" not in text
    html = MarkdownIt("commonmark", {"html": True}).render(text)
    assert not {"script", "img", "a", "b"}.intersection(Page(html).tags)
    assert "long long long" in text
    assert re.search(r"^# lead$", text, re.MULTILINE)


def test_lines_have_every_run_turn_and_call(result: RunResult, project: Path) -> None:
    path = axe_nb.export(result, project / "run.jsonl")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(line["kind"], line.get("place")) for line in lines] == [
        ("axe_nb", None), ("run", "0"), ("turn", "0/1"), ("call", "0/1"), ("run", "0.1"),
        ("turn", "0.1/1"), ("turn", "0/2"),
    ]  # fmt: skip
    assert lines[3]["arguments"] == {"agent": "helper", "task": HOSTILE}
    assert lines[5]["usage"]["output_tokens"] > 0
    assert SECRET not in path.read_text("utf-8")


def test_no_text_makes_a_line_of_its_own_or_keeps_a_run_from_being_exported(project: Path) -> None:
    forged = 'x\u2028{"kind": "call"}\x85{"kind": "run"}\x0b\ud800'
    script("m")(lambda r: forged)
    result = axe_nb.run(Agent("a", "script/m"), "hi")
    lines = axe_nb.export(result, "run.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["axe_nb", "run", "turn"]
    assert json.loads(lines[2])["text"] == forged
    for ending in ("html", "md"):
        assert "\u2028" not in axe_nb.export(result, f"run.{ending}").read_text("utf-8")


def test_failed_runs_and_data_are_exported(project: Path) -> None:
    script("m")(lambda r: {"a": 1})
    data = axe_nb.run(Agent("a", "script/m"), "hi", output=dict[str, int])
    axe_nb.export(data, "d.jsonl")
    assert '"data": {"a": 1}' in Path("d.jsonl").read_text()
    script("bad")(lambda r: 1 / 0)
    failed = axe_nb.run(Agent("a", "script/bad"), "hi")
    for ending in ("html", "md"):
        assert "ZeroDivisionError" in axe_nb.export(failed, f"f.{ending}").read_text()
    assert "## Answer\n\n(none)\n" in Path("f.md").read_text()


def test_what_cannot_be_exported_is_an_error_of_one_line(result: RunResult, project: Path) -> None:
    for wrong, path in ((result, "run.pdf"), (result, "run"), ("run.html", result)):
        with pytest.raises(ConfigError) as raised:
            axe_nb.export(wrong, path)  # type: ignore[arg-type]
        assert raised.value.hint
    (project / "folder.html").mkdir()
    for path in ("folder.html", "nul\0.html"):
        with pytest.raises(ConfigError, match="cannot write"):
            axe_nb.export(result, path)
