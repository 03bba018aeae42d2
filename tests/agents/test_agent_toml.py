"""What a mistake in an agent's TOML is told as: its key, its line, its file, the next step."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.agents.agent import Agent
from axe_nb.conversion.toml_tables import TOML_HINT, line_of
from axe_nb.errors import ConfigError

START = 'name = "lead"\nmodel = "p/m"\n'


def lines(text: str, *, name: str = "", path: str = "") -> list[str]:
    """What people read of the error that the text causes."""
    with pytest.raises(ConfigError) as caught:
        Agent.from_toml(text, name=name, path=path)
    assert caught.value.exit_code == 2
    return caught.value.lines()


UNKNOWN = {
    "first": ('nmae = "a"\nmodel = "p/m"\n', "nmae", 1, "name"),
    "last": (START + "tool = []", "tool", 3, "tools"),
    "no near one": (START + "zzz = 1", "zzz", 3, None),
    "quoted": (START + '"sub-agents" = []', "sub-agents", 3, "sub_agents"),
    "with a dot in it": (START + '"a.b" = 1', "a.b", 3, None),
    "dotted": (START + "sub_agents_config.max_dept = 3", "sub_agents_config.max_dept", 3,
               "max_depth"),
    "in a table": (START + "\n[sub_agents_config]\nparalel = true",
                   "sub_agents_config.paralel", 5, "parallel"),
    "in an inline table": (START + "retry = { max_retry = 1 }", "retry.max_retry", 3,
                           "max_retries"),
    "a table": (START + "\n[sub_agent_config]\nparallel = true", "sub_agent_config", 4,
                "sub_agents_config"),
    "two levels down": (START + "[sub_agents_config.budget]\n# c\ntimeout = 1",
                        "sub_agents_config.budget.timeout", 5, "timeout_ms"),
    "after a text of several lines": (
        'system_prompt = """\nmodle = "no"\n[tools]\n"""\n' + START + "tmeout = 1", "tmeout", 7,
        None),
    "after a literal of several lines": (
        START + "system_prompt = '''\n\"\"\"\n'''\nfile = []", "file", 6, "files"),
    "after a list of several lines": (
        START + "tools = [\n  'a', # ]\n  'b',\n]\nskil = ''", "skil", 7, "skill"),
    "in a file with CRLF": ((START + "\n[limits]\nmax_request = 1").replace("\n", "\r\n"),
                            "limits.max_request", 5, "max_requests"),
    "of [retry]": (START + "[retry]\nbackof = 'x'", "retry.backof", 4, None),
}  # fmt: skip


@pytest.mark.req("D-27")
@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_key_is_told_with_its_line_and_the_nearest_key(case: str) -> None:
    text, key, line, near = UNKNOWN[case]
    first, place, hint = lines(text, path="axe/agents/lead.toml")
    assert first == f'unknown key "{key}" (line {line})'.replace("\\", "")
    assert place == "in axe/agents/lead.toml"
    assert hint == f'did you mean "{near}"?' if near else hint.startswith("known keys: ")


WRONG = [
    ("\ntools = ['a', 1]", "tools must be a list of strings", 4),
    ("[params]\n\ntop_p = nan", "params.top_p must be valid JSON: no dates, nan or inf", 5),
    ("[[limits]]\nmax_requests = 1", "limits must be a table", 3),
    ("retry = { max_retries = 1.0 }", "retry.max_retries must be a whole number", 3),
    ("[sub_agents_config]\nmax_depth = 6", "sub_agents_config.max_depth cannot exceed 5", 4),
    ("sub_agents_config.max_depth = -1", "sub_agents_config.max_depth must be non-negative", 3),
    ("[budget]\nmax_tokens = -1", "budget.max_tokens must be non-negative", 4),
    ("[sub_agents_config.budget]\n\n'timeout_ms' = 4999",
     "sub_agents_config.budget.timeout_ms must be at least 5000", 5),
]  # fmt: skip


@pytest.mark.req("A-5.4", "A-5.5", "A-E2.8", "A-E2.9", "A-E2.11", "D-36", "D-27")
@pytest.mark.parametrize(("text", "message", "line"), WRONG)
def test_a_wrong_value_is_told_with_its_key_and_place(text: str, message: str, line: int) -> None:
    path = "axe/agents/lead.toml"
    assert lines(START + text, path=path)[:2] == [message, f"in {path}, line {line}"]
    assert lines(START + text)[:2] == [message, f"line {line}"]


@pytest.mark.req("B-1")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model = openai/gpt", "Invalid value (at line 1, column 9)"),
        ('name = "a"\nname = "b"', "Cannot overwrite a value (at "),
        ('system_prompt = """', "Unterminated string (at end of document)"),
        ("x = " + "1" * 5000, "Exceeds the limit"),
        ("x = " + "[" * 5000, "its values are nested too deeply"),
        ("name = 'a'\rmodel = 'b'", ""),
        ("\x00", ""),
    ],
)
def test_what_is_no_toml_is_told_in_one_line(text: str, told: str) -> None:
    first, *more = lines(text, name="lead", path="axe/agents/lead.toml")
    assert first.startswith(f'failed to parse agent config "lead": {told}')
    assert "\n" not in first
    assert more[0] == "in axe/agents/lead.toml"


@pytest.mark.req("D-27", "D-46")
def test_keys_that_the_axe_command_line_alone_acts_on_are_accepted_with_one_warning() -> None:
    agent = Agent.from_toml(
        START + "timeout = 9\n"
        "[memory]\nenabled = true\n[artifacts]\nx = 1\n"
        "[retry]\nmax_retries = 2\nbackoff = 'fixed'\ninitial_delay_ms = 5\nmax_delay_ms = 9\n"
    )
    assert agent.warnings == (
        "ignored by axe_nb: artifacts, memory, timeout, "
        "retry.backoff, retry.initial_delay_ms, retry.max_delay_ms; "
        "set a time limit with --timeout, in Python timeout=",
    )
    assert agent.retry.max_retries == 2


@pytest.mark.req("D-27")
def test_the_budget_of_the_axe_command_line_limits_the_whole_tree() -> None:
    agent = Agent.from_toml(START + "[budget]\nmax_tokens = 5000\n")
    assert agent.limits.max_total_tokens == 5000
    assert agent.warnings == ()
    text = START + "[budget]\nmax_tokens = 5000\n[limits]\nmax_total_tokens = 7\n"
    agent = Agent.from_toml(text)
    assert agent.limits.max_total_tokens == 7
    assert agent.warnings == ("ignored by axe_nb: budget.max_tokens",)


@pytest.mark.req("D-26")
def test_a_name_unlike_its_files_is_a_warning() -> None:
    agent = Agent.from_toml(START, name="boss")
    assert agent.name == "lead"
    assert agent.warnings == ('file "boss.toml" contains the agent name "lead"',)
    assert Agent.from_toml(START, name="lead").warnings == ()
    assert Agent.from_toml(START).warnings == ()


def test_a_place_is_told_without_the_folders_of_this_machine(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    for folder, place in (
        (project / "team", "in team/lead.toml"),
        (tmp_path / "home" / "mine", "in ~/mine/lead.toml"),
        (tmp_path / "config" / "axe" / "agents", "in $XDG_CONFIG_HOME/axe/agents/lead.toml"),
    ):
        folder.mkdir(parents=True)
        (folder / "lead.toml").write_text("x", "utf-8")
        with pytest.raises(ConfigError) as caught:
            Agent.load("lead", folder)
        assert caught.value.place == place


PLACES = {
    "temperature = 0.2": "put it under [params]",
    "max_requests = 3": "put it under [limits]",
    "max_turns = 3": "put it under [sub_agents_config]",
    "[limits]\nmax_tool_calls = 3": "put it under [sub_agents_config.budget]",
    "[sub_agents_config]\nmax_tool_calls = 3": "put it under [sub_agents_config.budget]",
    "max_depth = 3": "put it under [sub_agents_config]",
    "[limits]\nmax_requests = 3\ntools = ['grep']": "put it above the first [table]",
    "prompt = 'x'": 'did you mean "system_prompt"?',
    "[sub_agents_config]\nparallel = True": TOML_HINT,
    "mode: auto": TOML_HINT,
}


@pytest.mark.req("D-27")
@pytest.mark.parametrize("text", PLACES)
def test_a_mistake_of_a_first_agent_file_is_told_with_the_right_form(text: str) -> None:
    assert lines(START + text, path="axe/agents/lead.toml")[-1] == PLACES[text]


@pytest.mark.parametrize("quotes", ['"""', "'''"])
@pytest.mark.parametrize("more", ["", "x", "{q}", "{q}{q}", "x{q}y{q}{q}z", "\n\n{q}\n"])
def test_a_string_that_ends_in_quotes_ends_where_toml_says(quotes: str, more: str) -> None:
    inner = more.format(q=quotes[0])
    text = f"a = {quotes}{inner}{quotes}\nb = 1\n"
    assert line_of(text, ("b",)) == 2 + inner.count("\n")


def test_the_line_of_a_key_below_a_long_text_is_found_in_one_pass() -> None:
    """A text that is parsed again for every line of it would take hours here."""
    text = 'system_prompt = """\n' + "a line of the prompt\n" * 40_000 + '"""\nmodle = "x"\n'
    assert line_of(text, ("modle",)) == 40_003


def test_no_list_of_many_lines_takes_long() -> None:
    began = time.process_time()
    assert line_of("x = [\n" + f"{'[1, 2],' * 30}\n" * 4000 + "]\ny = 1\n", ("y",)) is None
    assert time.process_time() - began < 5


@settings(deadline=None)
@given(st.text(alphabet="[]{}\"'#=\\\n .ab", max_size=40))
def test_no_text_makes_it_fail(text: str) -> None:
    line = line_of(text, ("a",))
    assert line is None or 1 <= line <= text.count("\n") + 1
