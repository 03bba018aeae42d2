"""The static twin: what a saved notebook holds of a run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest

import axe_nb
from axe_nb import Agent, RunResult
from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Request, Response, ToolCall, ToolResult, Usage, call
from axe_nb.messages.exchanges import Exchange
from axe_nb.results import Status, Turn
from axe_nb.views.appearance import COLOURS, LOOKS, css_rules
from axe_nb.views.html import BUDGET, answer, twin
from axe_nb.views.outline import as_text
from axe_nb.views.rows import first_line, make_row
from axe_nb.views.transcript import State, Transcript
from tests.views.runs import PAYLOADS, TEXT, ask, done, hostile_run, long_run, saved_size, turn

TREE = {"details", "summary", "blockquote", "div", "bdi", "b", "i", "small", "span", "code", "pre"}
MARKDOWN = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"style", "open", "class", "href", "rel", "role", "title", "start", "dir"}


class Page(HTMLParser):
    """A page taken apart as a browser would: tags, attributes, text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


FOLD = "<summary><small style=opacity:.7>{}</small> "


def html(**fields: Any) -> str:
    return twin(done(**fields), name="r")["text/html"]


def looked_up(answer: str, result: str, count: int = 1) -> dict[str, Any]:
    """The fields of a run with the answer of so many sub-agents, and the result of a tool."""
    asked = [ask(f"c{n}", "reader", "look") for n in range(1, count + 1)]
    children = tuple(
        done(agent="reader", id=f"0.{n}", call_id=one.id, text=answer, log=(turn(1, text=answer),))
        for n, one in enumerate(asked, 1)
    )
    calls = (*asked, ToolCall("b", "grep", {"pattern": "x"}))
    log = (turn(1, *calls, results=[*[answer] * count, result]), turn(2, text="ok"))
    return {"log": log, "children": children}


def test_the_answer_stands_first_and_then_the_folded_tree_that_needs_no_style_sheet() -> None:
    page = html(text="There are **27** keys.", log=(turn(1, text="x"),))
    start = (
        "<div class='mathjax_ignore tex2jax_ignore' style=overflow-wrap:break-word>"
        "<p>There are <strong>27</strong> keys.</p>"
    )
    assert page.startswith(start)
    assert "<details open" not in page
    assert page.count("<summary>") == 1
    bundle = twin(long_run())
    assert set(bundle) == {"text/html", "text/plain"}
    long = Page(bundle["text/html"])
    assert set(long.tags) <= TREE | {"p"}
    assert {name for _, name, _ in long.attributes} == {"style", "class", "open", "role", "title"}
    assert long.values("class") == ["mathjax_ignore tex2jax_ignore"]
    assert long.open == long.unbalanced == []


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_hostile_text_is_text_wherever_it_comes_from(number: int) -> None:
    page = Page(twin(hostile_run((PAYLOADS[number],) * 5))["text/html"])
    assert set(page.tags) <= TREE | MARKDOWN
    assert {name for _, name, _ in page.attributes} <= ATTRIBUTES
    assert not any("url(" in style or "position" in style for style in page.values("style"))
    assert all(re.match("https?://|mailto:", link) for link in page.values("href"))
    assert page.open == page.unbalanced == []


@pytest.mark.parametrize(
    "piece", ["> ", "- ", "[", "![", "*", "**a ", "`", "<", "&", "(", "|a", "~~", "1. ", "#", "\\"]
)
def test_deep_and_broken_markdown_is_drawn_all_the_same(piece: str) -> None:
    started = time.process_time()
    page = html(text=piece * (20_000 // len(piece)))
    assert time.process_time() - started < 20  # a hang, not a benchmark
    assert len(page) < 500_000


def test_failures_are_open_and_successes_folded() -> None:
    calls = [ToolCall(name, "read_file", {"path": name}) for name in "ab"]
    results = (ToolResult("a", "text"), ToolResult("b", "Error: gone", is_error=True))
    page = html(log=(Turn(1, "", tuple(calls), results, "", Usage()), turn(2, text="ok")))
    assert re.findall("<details( open)?", page) == [" open", "", " open"]
    assert page.index("Error: gone") > page.index("✗")


def test_a_failed_run_is_open_and_says_why_and_what_to_do() -> None:
    cause = ProviderError("auth", "invalid key", hint="set OPENAI_API_KEY", status=401)
    asked = (Exchange(turn=1, error=cause),)
    bundle = twin(done(status="error", text="", error=str(cause), cause=cause, exchanges=asked))
    page = Page(bundle["text/html"])
    assert page.tags[:3] == ["div", "details", "summary"]
    assert "✗ lead script/x · error" in page.text
    assert "error 401 auth: invalid key" in page.text
    assert "next set OPENAI_API_KEY" in page.text
    assert bundle["text/plain"] == (
        "✗ lead · script/x · error\n  error: 401 auth: invalid key\n  next: set OPENAI_API_KEY"
    )
    late = as_text(done(status="timeout", text="", error="timeout after 2s"))
    assert late.endswith("error: timeout after 2s\n  next: give it more time with --timeout")


@pytest.mark.req("D-31")
def test_a_warning_is_seen_while_the_tree_is_folded() -> None:
    page = html(warnings=("the token limit cut the reply (length); raise params.max_tokens",))
    after = page.split("</details>")[-1]
    assert "!</b>" in after
    assert "the token limit cut the reply (length)" in after


def test_the_tree_has_the_words_of_the_text_twin() -> None:
    for run in (long_run(), hostile_run()):
        bundle = twin(run)
        shown = " ".join(Page(bundle["text/html"]).text.split())
        for row in re.findall("^ *[✓✗◷⊘■–] (.*)$", bundle["text/plain"], re.MULTILINE):
            for fact in row.split(" · "):
                assert all(word in shown for word in fact[:100].split()[:-1])


def test_thirty_turns_of_long_texts_are_saved_with_whole_answers() -> None:
    assert len(TEXT) == 1500
    page = twin(long_run())["text/html"]
    assert page.count("1,500 characters</small></summary>") > 3
    assert page.count(f"answer</small> {TEXT}") == 4


LOOKED = tuple(turn(n, ToolCall(f"c{n}", "look"), results=["ok"]) for n in range(1, 999))
THOUGHTS = (Exchange(turn=n, response=Response(reasoning="Why? " * 20)) for n in range(1, 999))
HUGE: dict[str, RunResult] = {
    "turns": long_run(),
    "payloads": hostile_run(),
    "long payloads": hostile_run([f"{n}{text * 20}" for n, text in enumerate(PAYLOADS)]),
    "what is escaped": hostile_run([f"{n}{'&<' * 300}" for n in range(60)]),
    "short lines": done(text='"\n' * 9000),
    "an answer of many bytes": done(text="日本語" * 7000),
    "an answer of code": done(text="`a` " * 5000),
    "thoughts": done(log=LOOKED, exchanges=tuple(THOUGHTS)),
}


@pytest.mark.parametrize("run", HUGE.values(), ids=HUGE)
def test_every_run_is_saved_in_fifty_kilobytes(run: RunResult) -> None:
    assert 40_000 < saved_size(run) <= 50_000


def test_of_many_failures_the_different_ones_are_drawn_and_all_are_counted() -> None:
    run = crowd(["completed", *["timeout"] * 290, "error", *["completed"] * 100, "error"], 400)
    rows = re.findall("^  (\\S.*)$", as_text(run, name="r"), re.MULTILINE)
    assert [row.split(" · ")[0] for row in rows[:3]] == [
        "◷ 290 sub-agents", "✗ 2 sub-agents", "✓ w1",
    ]  # fmt: skip
    assert rows[12:][0].startswith("… 98 more, all ✓: w302, w303, ")
    names = "w2, w3, w4, w5, w6, w7, w8, w9 and 282 more"
    tried = tuple(replace(child, retries=n % 3) for n, child in enumerate(run.children))
    text = as_text(replace(run, children=tried))
    assert f"◷ 290 sub-agents · timeout after 2s · {names}\n" in text


def test_the_first_line_of_a_long_text_is_its_fold_and_the_rest_is_in_it() -> None:
    result = "\n".join(f"line {n} <b>" for n in range(200))
    page = html(**looked_up("short", result))
    assert f"{FOLD.format('result')}line 0 &lt;b&gt; <small" in page
    assert f"<small style=opacity:.7>{len(result):,} characters</small></summary>" in page
    assert page.count("line 0 ") == page.count("line 1 ") == page.count("line 199 ") == 1


def test_calls_that_failed_alike_are_one_row() -> None:
    calls = [ask(f"c{number}", "worker", f"part {number}") for number in range(144)]
    results = tuple(ToolResult(c.id, "Error: too many", is_error=True, name=c.name) for c in calls)
    text = as_text(done(log=(Turn(1, "", tuple(calls), results, "", Usage(1, 1)),)))
    assert "\n  ✗ worker ×144 · Error: too many\n    ✗ worker part 0 → Error" in text


def test_a_row_shows_a_finding_and_not_its_heading() -> None:
    assert first_line("## Summary\n\n27 **keys**\n\nand more") == "27 keys …"
    assert first_line("# Only this") == "Only this"


def test_where_room_is_short_answers_come_before_results_and_short_texts_still_fit() -> None:
    answer, result = "a " * (BUDGET // 3), "r " * (BUDGET // 3)
    page = html(**looked_up(answer, result))
    assert result.strip() not in page
    assert answer.strip() in page
    assert ": r.log[0].results[1].content" in page, "the rest has a pointer"
    page = html(**looked_up("a " * BUDGET, "r " * 2000))
    assert "4,000 characters</small></summary>" in page
    assert ": r.children[0].text" in page


def test_forty_answers_of_200_characters_are_whole_without_folds_and_in_50_kilobytes() -> None:
    answer = TEXT[:200]
    run = done(**looked_up(answer, "x", count=40))
    assert twin(run)["text/plain"].count(answer) == 40
    assert twin(run)["text/html"].count(f"answer</small> {answer}") == 40
    assert saved_size(run) < 50_000
    for count, shown in ((25, 239), (40, 140)):  # wide windows show more of a finding
        run = done(**looked_up(TEXT[:340], "x", count=count))
        lines = re.findall(f"<bdi[^>]*>(The quick [^<]{{{shown - 10},}})", twin(run)["text/html"])
        assert len(lines) == count
        assert saved_size(run) < 50_000


def test_each_turn_names_the_cell_that_goes_on_from_it_if_the_result_has_a_name() -> None:
    page = html(**looked_up("yes", "no"))
    assert re.findall("<code [^>]*>%%axe --from r@(.*?)</code>", page) == ["0.1/1"]
    assert '%axe time r · %axe replay r · axe_nb.export(r, "r.html")</code>' in page
    page = html(log=(turn(1, ToolCall("a", "grep"), results=["x"]), turn(2, text="ok")))
    assert re.findall("<code [^>]*>%%axe --from r@(.*?)</code>", page) == ["0/1", "0/2"]
    for name in ("axe_nb.last()", "runs[0]"):
        page = twin(done(**looked_up("yes", "no")), name=name)["text/html"]
        assert "--from" not in page
        assert "%axe replay" not in page
    log = (turn(1, ToolCall("a", "grep"), results=["x"]), turn(2, text="ok"))
    odd = twin(done(log=log, id="0 -q", origin="\x1b[2J"), name="r")
    assert "--from" not in odd["text/html"], "an id in a file may be anything"
    assert "\x1b" not in odd["text/html"] + odd["text/plain"]


def think(thought: str) -> RunResult:
    """A run whose model thinks before each of two turns."""

    @axe_nb.tool
    def look() -> str:
        return "a map"

    @axe_nb.script("thinker")
    def thinker(request: Request) -> Iterator[object]:
        yield Delta(thought, "reasoning")
        yield "Three." if request.results else call("look")

    return axe_nb.run(Agent("a", "script/thinker", tools=[look]), "How many?", display=False)


def test_a_thought_is_a_fold_in_the_saved_tree_and_not_in_the_text() -> None:
    result = think("First the <b>towns</b>, then the rivers.\nThere are three.")
    bundle = twin(result)
    assert bundle["text/html"].count(">thought</small> </summary><pre") == 2
    assert "First the &lt;b&gt;towns&lt;/b&gt;" in bundle["text/html"]
    assert "thought" not in bundle["text/plain"]
    assert "towns" not in bundle["text/plain"]
    assert bundle == twin(RunResult.from_dict(result.to_dict(full=True)))
    long = think("word " * 10_000)
    page = twin(long, name="r")["text/html"]
    assert len(page) < 7000
    assert "r.exchanges[0].response.reasoning" in page
    assert long.exchanges[0].response
    assert long.exchanges[0].response.reasoning == "word " * 10_000


def test_texts_from_right_to_left_take_their_own_direction() -> None:
    hebrew = "שלום, שמונה פריטים."
    page = html(text=f"# {hebrew}", log=(turn(1, text=hebrew), turn(2)))
    assert f' dir="auto">{hebrew}</h1>' in page
    assert f"<bdi style='flex:9999 12em'>{hebrew}</bdi>" in page
    assert "dir" not in html(text="plain äöü", log=(turn(1, text="said"), turn(2)))


@pytest.mark.req("D-65")
def test_an_answer_that_does_not_fit_is_no_success_in_its_row() -> None:
    @axe_nb.script("misfit")
    def misfit(request: Request) -> str:
        fits = request.turn > 1 and "never" not in request.messages[0].content
        return "{}" if fits else '{"name": 1}'

    agent = Agent("guide", "script/misfit")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    text = twin(axe_nb.run(agent, "once", output=schema))["text/plain"]
    assert "✓ guide · script/misfit · completed · 2 turns · 1 repair · " in text
    assert "✗ turn 1 · answers, does not fit the schema · " in text
    assert "✓ turn 2 · repairs its answer · " in text
    text = twin(axe_nb.run(agent, "never", output=schema))["text/plain"]
    assert "✗ turn 2 · repairs its answer, still does not fit · " in text


def crowd(states: list[Any], count: int) -> RunResult:
    """A run with sub-agents, the first of which end in these states."""
    states = [*states, *["completed"] * (count - len(states))]
    calls = [ask(f"c{number}", f"w{number}", "x") for number in range(count)]
    children = tuple(
        done(agent=f"w{n}", status=state, id=f"0.{n}", call_id=call.id, text=f"Finding **{n}**.",
             error="" if state == "completed" else "timeout after 2s")
        for n, (state, call) in enumerate(zip(states, calls, strict=True), 1)
    )  # fmt: skip
    return done(log=(turn(1, *calls, results=["x"] * count),), children=children)


def test_the_name_of_a_sub_agent_has_its_place() -> None:
    run = crowd([], 1)
    assert re.findall(r"<b title=(\S+) [^>]*>(\w+)", twin(run)["text/html"]) == [("0.1", "w1")]
    odd = replace(run, children=(replace(run.children[0], id="0.1 onclick=x"),))
    assert "onclick" not in twin(odd)["text/html"]


@pytest.mark.req("D-80")
def test_up_to_twelve_findings_are_open_failures_first_and_the_rest_is_counted() -> None:
    text = as_text(crowd(["completed", "timeout", "completed", "error"], 40), name="r")
    rows = re.findall("^  (\\S.*)$", text, re.MULTILINE)
    assert [row.split(" ·")[0] for row in rows[:3]] == ["◷ w2", "✗ w4", "✓ w1"]
    assert rows[0] == "◷ w2 · timeout after 2s · retry %%axe --from r@0/1"
    assert rows[2] == "✓ w1 · Finding 1."
    names = "w13, w14, w15, w16, w17, w18, w19, w20 and 20 more"
    assert (len(rows), rows[12]) == (13, f"… 28 more, all ✓: {names}")
    assert "40 sub-agents (2 failed: 1 error, 1 timeout) · " in text
    page = twin(crowd([], 40))["text/html"]
    assert page.count("<details open") == 1
    assert "… 28 more, all ✓: w13, " in page
    assert page.count(">w40</b>") == 1, "opening it shows the names"
    few = as_text(crowd(["completed"] * 3 + ["timeout"] * 7, 12))
    rows = re.findall("^  (\\S.*)$", few, re.MULTILINE)
    assert [row.split(" ·")[0] for row in rows] == [
        "✓ w1", "✓ w2", "✓ w3", "◷ 7 sub-agents", "✓ w11", "✓ w12",
    ]  # fmt: skip
    assert rows[3] == "◷ 7 sub-agents · timeout after 2s · w4, w5, w6, w7, w8, w9, w10"
    result = crowd(["error", "timeout", "error", "cancelled", "max_turns"], 8)
    words = "1 cancelled, 4 failed: 2 errors, 1 timeout, 1 turn limit"
    assert f"8 sub-agents ({words}) · " in as_text(result)
    root = Transcript.of(result).whole
    root.state = "running"
    assert f"3 of 8 sub-agents done · {words} · " in make_row(root).asked


def test_the_quiet_bundle_is_the_answer_alone() -> None:
    bundle = answer(done(text="**yes**"))
    assert bundle["text/plain"] == "**yes**"
    assert "<strong>yes</strong>" in bundle["text/html"]
    assert "details" not in bundle["text/html"]


def test_no_hidden_character_reaches_a_saved_notebook() -> None:
    hidden = "\u200b\u2060\u202e\u3164\u2800\U000e0041\ufe01"
    for text in twin(hostile_run((f"see {hidden} here",) * 5)).values():
        assert not set(hidden) & set(text)
        assert "\ufffd" * 7 in text


def test_every_state_has_a_sign_and_a_colour() -> None:
    status, others = get_args(State)
    assert status == Status
    assert set(LOOKS) == {*get_args(status), *get_args(others)}
    assert {look.tone for look in LOOKS.values()} == set(COLOURS)


def test_the_style_sheet_uses_what_is_declared_and_nothing_else() -> None:
    room = Path(axe_nb.__file__).parent / "cell_display"
    sheet, script, tree = (
        (room / name).read_text("utf-8")
        for name in ("static/live.css", "static/live.js", "live_tree.py")
    )
    rules = css_rules() + sheet
    declared = set(re.findall(r"--(?!jp-)([\w-]+): ", rules))
    declared |= set(re.findall(r"""setProperty\("--([\w-]+)""", script))
    used = set(re.findall(r"var\(--(?!jp-|vscode-|colab-|background)([\w-]+)", rules))
    declared |= set(re.findall(r"[=;]--([\w-]+):", tree))
    assert used == declared
    assert {tone for tone in COLOURS if f".axe-nb-{tone} {{" in rules} == set(COLOURS)
