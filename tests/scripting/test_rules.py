"""What a file of rules answers, and how its mistakes are told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from axe_nb import ConfigError, ProviderError, Request, Response, Usage, call
from axe_nb.messages import Message, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.scripting.lookup import Scripts
from axe_nb.scripting.provider import ScriptProvider


def rules(project: Path, text: str, name: str = "lead") -> None:
    folder = project / "axe" / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text, "utf-8")


def ask(*messages: Message, agent: str = "boss", **more: Any) -> Response:
    return asyncio.run(ScriptProvider().send(Request("lead", messages, agent=agent, **more)))


def user(text: str) -> Message:
    return Message("user", text)


def results(*texts: str) -> Message:
    return Message("tool", tool_results=tuple(ToolResult(f"c{i}", t) for i, t in enumerate(texts)))


def test_a_rule_without_when_always_answers(project: Path) -> None:
    rules(project, '[[rule]]\ntext = "Hello."')
    answer = ask(user("anything"))
    assert (answer.content, answer.tool_calls, answer.stop_reason) == ("Hello.", (), "stop")


def test_the_first_rule_that_matches_answers(project: Path) -> None:
    rules(
        project,
        """
        [[rule]]
        when = "weather"
        text = "rain"
        [[rule]]
        when = "the weather"
        text = "never reached"
        [[rule]]
        text = "what?"
        """,
    )
    assert ask(user("tell me the weather")).content == "rain"
    assert ask(user("Weather")).content == "what?", "a regex minds its letters"


def test_a_rule_can_ask_for_the_turn_and_the_agent(project: Path) -> None:
    rules(
        project,
        """
        [[rule]]
        when = { turn = 2, agent = "boss" }
        text = "second of boss"
        [[rule]]
        when = { agent = "boss", last = "^hi" }
        text = "hi boss"
        [[rule]]
        text = "rest"
        """,
    )
    second = (user("x"), Message("assistant", "y"), user("z"))
    assert ask(*second).content == "second of boss"
    assert ask(*second, agent="other").content == "rest"
    assert ask(user("hi there")).content == "hi boss"
    assert ask(user("oh, hi")).content == "rest"


def test_several_calls_at_once_with_what_the_words_stand_for(project: Path) -> None:
    rules(
        project,
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


def test_tool_results_are_the_last_message(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = "^12 °C"\ntext = "So: {results}|{last}|{turn}"')
    told = (user("?"), Message("assistant", "", (ToolCall("c0", "t"),)), results("12 °C", "rain"))
    assert ask(*told).content == "So: 12 °C\n\nrain|12 °C\n\nrain|2"
    with pytest.raises(ProviderError):
        ask(user("rain"))


def test_other_braces_pass_unchanged_and_nothing_is_filled_in_twice(project: Path) -> None:
    rules(project, """[[rule]]\ntext = 'f"{x}" {"a": {1}} {} {{turn}} {last} {nope}'""")
    assert ask(user("{turn}")).content == 'f"{x}" {"a": {1}} {} {1} {turn} {nope}'


def test_a_group_that_took_no_part_is_empty(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = "go( to (?P<place>\\\\w+))?"\ntext = "<{place}>"')
    assert ask(user("go")).content == "<>"


def test_a_regex_sees_100_000_characters_at_most(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = "end"\ntext = "seen"\n[[rule]]\ntext = "not seen"')
    assert ask(user("x" * 99_997 + "end")).content == "seen"
    assert ask(user("x" * 99_998 + "end")).content == "not seen"


def test_a_regex_without_end_is_stopped(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = "(a|aa)+$"\ntext = "x"')
    with pytest.raises(ProviderError) as raised:
        ask(user("a" * 80 + "b"))
    assert str(raised.value) == (
        'bad_request: the regex of rule 1 of script "lead" takes longer than 1s'
    )


def test_the_regexes_of_all_rules_have_one_second_together(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = "(a|aa)+$"\ntext = "x"\n' * 200)
    with pytest.raises(ProviderError, match=r"the regexes of rules 1 to .* take longer than 1s"):
        ask(user("a" * 23 + "b"))


def test_tokens_are_estimated_as_a_quarter_of_the_characters(project: Path) -> None:
    rules(project, '[[rule]]\ntext = "abcdefgh"')
    assert ask(user("x" * 40), system="y" * 20).usage == Usage(15, 2)
    tool = ToolSpec("look", "Looks.", {"at": ToolParameter("string", "What.", required=True)})
    schema = (
        '{"type":"object","properties":{"at":{"type":"string","description":"What."}},'
        '"required":["at"]}'
    )
    known = len("look" + "Looks." + schema + "?")
    called = (Message("assistant", "ok", (ToolCall("1", "look", {"at": "é"}),)), results("ab"))
    assert ask(user("?"), tools=(tool,)).usage.input_tokens == known // 4
    sent = known + len("ok" + "look" + '{"at":"é"}' + "ab")
    assert ask(user("?"), *called, tools=(tool,)).usage.input_tokens == sent // 4


def test_tokens_can_be_given(project: Path) -> None:
    rules(
        project,
        """
        [[rule]]
        when = "both"
        text = "abcd"
        usage = { input_tokens = 1000, output_tokens = 0 }
        [[rule]]
        text = "abcd"
        usage = { input_tokens = 7 }
        """,
    )
    assert ask(user("both")).usage == Usage(1000, 0)
    assert ask(user("one")).usage == Usage(7, 1)


def test_a_stop_reason_can_be_given(project: Path) -> None:
    rules(project, '[[rule]]\ntext = "cut o"\nstop_reason = "max_tokens"')
    answer = ask(user("?"))
    assert answer.stop_reason == "max_tokens"
    assert answer.is_cut


def test_a_delay_is_waited_for(project: Path) -> None:
    rules(project, '[[rule]]\ntext = "late"\ndelay = 0.3')
    started = time.monotonic()
    assert ask(user("?")).seconds == 0
    assert time.monotonic() - started >= 0.3


@pytest.mark.req("D-36")
def test_on_the_virtual_clock_a_delay_is_told_instead(project: Path) -> None:
    rules(project, 'clock = "virtual"\n[[rule]]\ntext = "late"\ndelay = 5000')
    assert ask(user("?")).seconds == 5000


def test_a_changed_file_counts_at_once(project: Path) -> None:
    rules(project, '[[rule]]\ntext = "one"')
    assert ask(user("?")).content == "one"
    rules(project, '[[rule]]\ntext = "two"')
    assert ask(user("?")).content == "two"


def test_the_same_request_has_the_same_answer_however_many_ask_at_once(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = { turn = 1 }\ntext = "{last}!"')

    async def all_at_once() -> list[Response]:
        provider = ScriptProvider()
        asked = [Request("lead", (user(f"n{i % 3}"),)) for i in range(60)]
        return list(await asyncio.gather(*map(provider.send, asked)))

    answers = [answer.content for answer in asyncio.run(all_at_once())]
    assert answers == [f"n{i % 3}!" for i in range(60)]


def test_where_no_rule_matches_the_error_says_with_what(project: Path) -> None:
    rules(project, '[[rule]]\nwhen = "^yes$"\ntext = "x"')
    with pytest.raises(ProviderError) as raised:
        ask(user("maybe\nor " + "not " * 50))
    assert str(raised.value) == (
        'bad_request: no rule of script "lead" matches turn 1 with the message '
        '"maybe or not not not not not not not not not not not not no…"'
    )
    assert raised.value.hint == "add a final [[rule]] without `when`, which answers everything else"


MISTAKES = [
    ("", "axe/scripts/lead.toml: no [[rule]] found", 'add [[rule]] and, below it, text = "…"'),
    (
        '[[rule]]\ntext = "a"\n\n[[rule]]\nwhn = "b"\ntext = "c"',
        'axe/scripts/lead.toml, line 5: rule 2: unknown key "whn"',
        'did you mean "when"?',
    ),
    (
        'clok = "virtual"\n[[rule]]\ntext = "a"',
        'axe/scripts/lead.toml, line 1: unknown key "clok"',
        'did you mean "clock"?',
    ),
    (
        'clock = "fast"\n[[rule]]\ntext = "a"',
        'axe/scripts/lead.toml, line 1: clock must be "real" or "virtual"',
        "",
    ),
    (
        '[[rule]]\ntext = """\n[[rule]]\nwhen = 1\n"""\n[rule.usage]\ninput_tokens = 1\n'
        "[[rule]] # two\nwhen = 3",
        "axe/scripts/lead.toml, line 9: rule 2: when must be a regex, "
        "or a table of last, turn and agent",
        "",
    ),
    (
        '[[rule]]\nwhen = "a(b"\ntext = "c"',
        'axe/scripts/lead.toml, line 2: rule 1: invalid regex "a(b": missing ) at position 3',
        "",
    ),
    (
        '[[rule]]\ntext = "c"\n[[rule]]\ntext = "d"\n[rule.when]\nlast = "((a{1000}){1000}){1000}"',
        'axe/scripts/lead.toml, line 6: rule 2: invalid regex "((a{1000}){1000}){1000}": '
        "its repeats make it too large",
        "use * instead of large counts and of nested + or {n}",
    ),
    (
        f'[[rule]]\nwhen = "{"x" * 1001}"\ntext = "c"',
        f'axe/scripts/lead.toml, line 2: rule 1: invalid regex "{"x" * 100}...": '
        "longer than 1000 characters",
        "",
    ),
    (
        '[[rule]]\nwhen = "(?P<last>.)"\ntext = "c"',
        'axe/scripts/lead.toml, line 2: rule 1: a group cannot be named "last"',
        "",
    ),
    (
        '[[rule]]\nwhen = { trun = 1 }\ntext = "c"',
        'axe/scripts/lead.toml, line 2: rule 1: unknown key "when.trun"',
        'did you mean "turn"?',
    ),
    (
        '[[rule]]\nwhen = { turn = 0 }\ntext = "c"',
        "axe/scripts/lead.toml, line 2: rule 1: when.turn must be a whole number, 1 or more",
        "",
    ),
    (
        '[[rule]]\ncalls = [\n  { toll = "x" },\n]',
        'axe/scripts/lead.toml, line 2: rule 1: unknown key "calls.toll"',
        'did you mean "tool"?',
    ),
    (
        "[[rule]]\ncalls = [{ arguments = {} }]",
        "axe/scripts/lead.toml, line 2: rule 1: each entry of `calls` needs a tool",
        "",
    ),
    (
        '[[rule]]\ncalls = [{ tool = "x", arguments = { on = 2024-01-01 } }]',
        "axe/scripts/lead.toml, line 2: rule 1: calls.arguments must be a table of JSON values",
        "",
    ),
    (
        '[[rule]]\ncalls = [{ tool = "x", arguments = { on = nan } }]',
        "axe/scripts/lead.toml, line 2: rule 1: calls.arguments must be a table of JSON values",
        "",
    ),
    (
        "[[rule]]\nstatus = 200",
        "axe/scripts/lead.toml, line 2: rule 1: status must be an HTTP status from 400 to 599",
        "",
    ),
    (
        '[[rule]]\nerror = "slow down"',
        "axe/scripts/lead.toml, line 2: rule 1: "
        "error must be one of timeout, refused, cut, "
        "unless `status` is set",
        "",
    ),
    (
        '[[rule]]\nstop_reason = "stop"\nstatus = 429',
        "axe/scripts/lead.toml, line 3: rule 1: stop_reason and status cannot be combined",
        "",
    ),
    (
        "[[rule]]\ndelay = 3",
        "axe/scripts/lead.toml, line 1: rule 1: has no reply",
        "add text, data, calls, status or error",
    ),
    (
        '[[rule]]\ntext = "a"\ndelay = -1',
        "axe/scripts/lead.toml, line 3: rule 1: delay must be a number of seconds, 0 or more",
        "",
    ),
    (
        '[[rule]]\ntext = "a"\ndelay = inf',
        "axe/scripts/lead.toml, line 3: rule 1: delay must be a number of seconds, 0 or more",
        "",
    ),
    (
        '[[rule]]\ntext = "a"\nusage = { input_tokens = true }',
        "axe/scripts/lead.toml, line 3: rule 1: usage.input_tokens must be a whole number, "
        "0 or more",
        "",
    ),
    (
        'rule = [{ text = "a" }, { txt = "b" }]',
        'axe/scripts/lead.toml, line 1: rule 2: unknown key "txt"',
        'did you mean "text"?',
    ),
]


@pytest.mark.req("D-27")
@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES, ids=lambda v: v.splitlines()[-1:])
def test_a_mistake_is_told_with_its_line(project: Path, text: str, message: str, hint: str) -> None:
    rules(project, text)
    with pytest.raises(ConfigError) as raised:
        Scripts().check("lead")
    assert raised.value.message == message
    if hint:
        assert raised.value.hint == hint


def test_what_is_no_toml_is_told_with_its_place(project: Path) -> None:
    rules(project, '[[rule]]\ntext = "a\n')
    with pytest.raises(ConfigError) as raised:
        Scripts().check("lead")
    assert raised.value.message.startswith("failed to parse script axe/scripts/lead.toml: ")
    assert "line 2" in raised.value.message


def test_what_nests_without_end_is_an_error(project: Path) -> None:
    rules(project, "x = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"failed to parse script axe/scripts/lead\.toml"):
        Scripts().check("lead")


def test_a_mistake_that_was_not_looked_for_fails_the_request(project: Path) -> None:
    rules(project, "[[rule]]\ntext = 1")
    with pytest.raises(ProviderError) as raised:
        ask(user("?"))
    assert str(raised.value) == (
        "bad_request: axe/scripts/lead.toml, line 2: rule 1: text must be a string"
    )
