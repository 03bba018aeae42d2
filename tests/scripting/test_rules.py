"""What a file of rules answers, and how its mistakes are told."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ConfigError, ProviderError, Request, Response, Usage, call
from axe_nb.messages import Message, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.scripting import rules
from axe_nb.scripting.provider import ScriptProvider
from axe_nb.scripting.rules import Scripts


@pytest.fixture
def put(project: Path) -> Any:
    folder = project / "axe" / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    return lambda text: (folder / "lead.toml").write_text(text, "utf-8")


def ask(*messages: Message, agent: str = "boss", **more: Any) -> Response:
    return asyncio.run(ScriptProvider().send(Request("lead", messages, agent=agent, **more)))


def user(text: str) -> Message:
    return Message("user", text)


def results(*texts: str) -> Message:
    return Message("tool", tool_results=tuple(ToolResult(f"c{i}", t) for i, t in enumerate(texts)))


SECOND = (user("x"), Message("assistant", "y"), user("z"))
CALLED = (user("?"), Message("assistant", "", (ToolCall("c0", "t"),)), results("12 °C", "rain"))

ANSWERS = [
    ('[[rule]]\ntext = "Hello."', (user("anything"),), "Hello."),
    ('[[rule]]\nwhen = "weather"\ntext = "rain"\n[[rule]]\nwhen = "the weather"\ntext = "never"',
     (user("tell me the weather"),), "rain"),
    ('[[rule]]\nwhen = "a"\ntext = "x"\n[[rule]]\ntext = "rest"', (user("A"),), "rest"),
    ('[[rule]]\nwhen = { turn = 2, agent = "boss" }\ntext = "two"', SECOND, "two"),
    ('[[rule]]\nwhen = { turn = 2, agent = "other" }\ntext = "two"\n[[rule]]\ntext = "rest"',
     SECOND, "rest"),
    ('[[rule]]\nwhen = { agent = "boss", last = "^hi" }\ntext = "hi"\n[[rule]]\ntext = "rest"',
     (user("oh, hi"),), "rest"),
    ('[[rule]]\nwhen = "^12 °C"\ntext = "So: {results}|{last}|{turn}|{agent}"',
     CALLED, "So: 12 °C\n\nrain|12 °C\n\nrain|2|boss"),
    ("""[[rule]]\ntext = 'f"{x}" {"a": {1}} {} {{turn}} {last} {nope}'""",
     (user("{turn}"),), 'f"{x}" {"a": {1}} {} {1} {turn} {nope}'),
    ('[[rule]]\nwhen = "go( to (?P<place>\\\\w+))?"\ntext = "<{place}>"', (user("go"),), "<>"),
    ('[[rule]]\nwhen = "end"\ntext = "seen"\n[[rule]]\ntext = "not seen"',
     (user("x" * 99_998 + "end"),), "not seen"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages", "answer"), ANSWERS)
def test_the_first_rule_that_matches_answers(
    put: Any, text: str, messages: tuple[Message, ...], answer: str
) -> None:
    put(text)
    said = ask(*messages)
    assert (said.content, said.tool_calls, said.stop_reason) == (answer, (), "stop")


def test_several_calls_at_once_with_what_the_words_stand_for(put: Any) -> None:
    put(
        """
        [[rule]]
        when = "compare (?P<one>\\\\w+) and (?P<other>\\\\w+)"
        text = "Asking {agent}'s helpers."
        calls = [
          { tool = "call_agent", arguments = { agent = "a", task = "look at {one}", n = 3 } },
          { tool = "call_agent", arguments = { agent = "b", more = ["{other}", { deep = "{turn}" }] } },
        ]
        """,  # noqa: E501
    )
    answer = ask(user("compare tea and coffee"))
    assert answer.content == "Asking boss's helpers."
    assert answer.tool_calls == (
        call("call_agent", agent="a", task="look at tea", n=3),
        call("call_agent", agent="b", more=["coffee", {"deep": "1"}]),
    )
    assert answer.stop_reason == "tool_calls"


def test_regexes_without_end_are_stopped(put: Any) -> None:
    put('[[rule]]\nwhen = "(a|aa)+$"\ntext = "x"\n' * 200)
    for text in ("a" * 80 + "b", "a" * 23 + "b"):
        with pytest.raises(ProviderError, match=r"the regexes of script .* take longer than 1s"):
            ask(user(text))


def test_tokens_are_estimated_as_a_quarter_of_the_characters_or_given(put: Any) -> None:
    put('[[rule]]\ntext = "abcdefgh"')
    assert ask(user("x" * 40), system="y" * 20).usage == Usage(15, 2)
    tool = ToolSpec("look", "Looks.", {"at": ToolParameter("string", "What.", required=True)})
    schema = '{"type":"object","properties":{"at":{"type":"string","description":"What."}},'
    known = len("look" + "Looks." + schema + '"required":["at"]}' + "?")
    called = (Message("assistant", "ok", (ToolCall("1", "look", {"at": "é"}),)), results("ab"))
    sent = known + len("ok" + "look" + '{"at":"é"}' + "ab")
    assert ask(user("?"), *called, tools=(tool,)).usage.input_tokens == sent // 4
    put('[[rule]]\ntext = "abcd"\nusage = { input_tokens = 1000, output_tokens = 0 }')
    assert ask(user("both")).usage == Usage(1000, 0)
    put('[[rule]]\ntext = "abcd"\nusage = { input_tokens = 7 }')
    assert ask(user("one")).usage == Usage(7, 1)


@pytest.mark.req("D-36")
def test_a_delay_is_waited_for_or_told_on_the_virtual_clock(put: Any) -> None:
    put('[[rule]]\ntext = "late"\ndelay = 0.3')
    started = time.monotonic()
    answer = ask(user("?"))
    assert answer.seconds == 0
    assert time.monotonic() - started >= 0.3
    put('clock = "virtual"\n[[rule]]\ntext = "late"\ndelay = 5000')  # a changed file counts at once
    assert ask(user("?")).seconds == 5000


def test_where_no_rule_matches_the_error_says_with_what(put: Any) -> None:
    put('[[rule]]\nwhen = "^yes$"\ntext = "x"')
    with pytest.raises(ProviderError) as raised:
        ask(user("maybe\nor " + "not " * 50))
    assert str(raised.value) == (
        'bad_request: no rule of script "lead" matches turn 1 with the message '
        '"maybe or not not not not not not not not not not not not no…"'
    )
    assert raised.value.hint == "add a final [[rule]] without `when`, which answers everything else"


MISTAKES = [
    ("", "no [[rule]] found"),
    ('[[rule]]\ntext = "a"\n\n[[rule]]\nwhn = "b"\ntext = "c"', '5: rule 2: unknown key "whn"'),
    ('clok = "virtual"\n[[rule]]\ntext = "a"', '1: unknown key "clok"'),
    ('clock = "fast"\n[[rule]]\ntext = "a"', '1: clock must be "real" or "virtual"'),
    ('[[rule]]\ntext = """\n[[rule]]\nwhen = 1\n"""\n[rule.usage]\ninput_tokens = 1\n'
     "[[rule]] # two\nwhen = 3",
     "9: rule 2: when must be a regex, or a table of last, turn, attempt and agent"),
    ('[[rule]]\nwhen = "a(b"\ntext = "c"',
     '2: rule 1: invalid regex "a(b": missing ) at position 3'),
    ('[[rule]]\ntext = "c"\n[[rule]]\ntext = "d"\n[rule.when]\nlast = "((a{1000}){1000}){1000}"',
     '6: rule 2: invalid regex "((a{1000}){1000}){1000}": its repeats make it too large'),
    ('[[rule]]\nwhen = { trun = 1 }\ntext = "c"', '2: rule 1: unknown key "when.trun"'),
    ('[[rule]]\nwhen = { turn = 0 }\ntext = "c"',
     "2: rule 1: when.turn must be a whole number, 1 or more"),
    ('[[rule]]\ncalls = [\n  { toll = "x" },\n]', '2: rule 1: unknown key "calls.toll"'),
    ("[[rule]]\ncalls = [{ arguments = {} }]", "2: rule 1: each entry of `calls` needs a tool"),
    ('[[rule]]\ncalls = [{ tool = "x", arguments = { on = nan } }]',
     "2: rule 1: calls.arguments must be a table of JSON values"),
    ("[[rule]]\nstatus = 200", "2: rule 1: status must be an HTTP status from 400 to 599"),
    ('[[rule]]\nerror = "slow down"',
     "2: rule 1: error must be one of timeout, refused, cut, unless `status` is set"),
    ("[[rule]]\ndelay = 3", "1: rule 1: has no reply"),
    ('[[rule]]\nwhen = "(?P<last>.)"\ntext = "c"', '2: rule 1: a group cannot be named "last"'),
    ("[[rule]]\nusage = { input_tokens = 1 }\nstatus = 500",
     "3: rule 1: usage and status cannot be combined"),
    ('[[rule]]\ntext = "a"\ndelay = inf',
     "3: rule 1: delay must be a number of seconds, 0 or more"),
    ('[[rule]]\ntext = "a"\nusage = { input_tokens = true }',
     "3: rule 1: usage.input_tokens must be a whole number, 0 or more"),
    ('rule = [{ text = "a" }, { txt = "b" }]', '1: rule 2: unknown key "txt"'),
]  # fmt: skip
NEAR = {"whn": "when", "clok": "clock", "trun": "turn", "toll": "tool", "txt": "text"}


@pytest.mark.req("D-27")
@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=lambda v: v.splitlines()[-1:])
def test_a_mistake_is_told_with_its_line(put: Any, text: str, message: str) -> None:
    put(text)
    with pytest.raises(ConfigError) as raised:
        Scripts().find("lead")
    line = ", line " if message[0].isdigit() else ": "
    assert raised.value.message == f"axe/scripts/lead.toml{line}{message}"
    if unknown := re.search(r'unknown key "(?:\w+\.)?(\w+)"', message):
        assert raised.value.hint == f'did you mean "{NEAR[unknown[1]]}"?'
    with pytest.raises(ProviderError) as failed:
        ask(user("?"))
    assert str(failed.value) == f"bad_request: {raised.value.message}"


@pytest.mark.parametrize("text", ['[[rule]]\ntext = "a\n', "x = " + "[" * 100_000])
def test_what_is_no_toml_is_told(put: Any, text: str) -> None:
    put(text)
    with pytest.raises(ConfigError, match=r"failed to parse script axe/scripts/lead\.toml: "):
        Scripts().find("lead")


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text("utf-8")
    rows = set(re.findall(r"^`([\w.]+)` \|", page, re.MULTILINE))
    keys = {*rules.RULE, *rules.TOP} - {"rule"}
    assert keys | {f"when.{key}" for key in rules.WHEN} <= rows
    public = {field.name for field in fields(axe_nb.Request) if field.repr}
    attributes = public | {"base_url", "open_requests"}
    assert attributes | {"requests", "aborted"} <= set(re.findall(r"`(\w+)`", page))
