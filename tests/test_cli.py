"""The command line, called in process: what goes to stdout, what to stderr, with which code."""

import argparse
import io
import json
import os
import re
import stat
from pathlib import Path

import pytest

import axe_nb
from axe_nb import cli
from axe_nb.agents.trust import trust_file

TREE = {
    "lead": """
name = "lead"
model = "script/lead"
description = "Leads."
sub_agents = ["helper"]
""",
    "helper": 'name = "helper"\nmodel = "script/helper"\n',
}
SCRIPTS = {
    "lead": """
[[rule]]
when = { turn = 1 }
text = "Let me ask."
calls = [{ tool = "call_agent", arguments = { agent = "helper", task = "Find out." } }]
usage = { input_tokens = 10, output_tokens = 2 }

[[rule]]
text = "It is {results}."
usage = { input_tokens = 20, output_tokens = 3 }
""",
    "helper": '[[rule]]\ntext = "blue"\n',
    "echo": '[[rule]]\ntext = "{last}"\n',
}


def put(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, "utf-8")


@pytest.fixture
def tree(project: Path) -> Path:
    """A project with a lead, its helper and `echo`, which says what it was told."""
    for name, text in TREE.items():
        put(f"axe/agents/{name}.toml", text)
    put("axe/agents/echo.toml", 'name = "echo"\nmodel = "script/echo"\n')
    for name, text in SCRIPTS.items():
        put(f"axe/scripts/{name}.toml", text)
    return project


class Ran:
    """What one command line came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def axe(capsys: pytest.CaptureFixture[str], piped):
    """Runs a command line."""

    def run(*words: str) -> Ran:
        code = cli.main(words)
        written = capsys.readouterr()
        return Ran(code, written.out, written.err)

    return run


@pytest.mark.req("A-X0", "B-9")
def test_stdout_carries_the_answer_and_nothing_else(tree: Path, axe) -> None:
    ran = axe("run", "lead", "-p", "Which colour?")
    assert (ran.code, ran.out, ran.err) == (0, "It is blue.\n", "")
    assert axe("run", "echo", "--prompt", "hi\nyou", "-q").out == "hi\nyou\n"


def test_a_dry_run_says_that_it_has_no_json(tree: Path, axe) -> None:
    ran = axe("run", "lead", "-p", "x", "--dry-run", "--json")
    assert ran.out.startswith("=== Dry Run ===")
    assert ran.err == "warning: --json has no effect with --dry-run\n"


def test_a_dash_stands_for_the_piped_prompt(tree: Path, axe, piped) -> None:
    piped(b"from the pipe")
    assert axe("run", "echo", "-").out == "from the pipe\n"


@pytest.mark.req("B-9", "A-8.6", "A-8.8", "A-X0")
def test_json_is_one_line_with_seven_keys(tree: Path, axe) -> None:
    ran = axe("run", "lead", "-p", "x", "--json")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    line = json.loads(ran.out)
    assert isinstance(line.pop("duration_ms"), int)
    assert line == {
        "content": "It is blue.", "input_tokens": 30, "model": "script/lead", "output_tokens": 5,
        "stop_reason": "stop", "tool_calls": 1,
    }  # fmt: skip


@pytest.mark.req("B-11", "A-8.7a", "A-8.7b", "A-7.5a", "A-7.5b", "A-8.8", "A-C5")
def test_verbose_lines_go_to_stderr_and_leave_stdout_alone(tree: Path, axe) -> None:
    ran = axe("run", "lead", "-p", "x", "-v", "--timeout", "30")
    assert (ran.code, ran.out) == (0, "It is blue.\n")
    assert re.sub(r"\d+ms", "7ms", ran.err) == (
        "Model:    script/lead\n"
        "Workdir:  .\n"
        "Skill:    (none)\n"
        "Files:    0 file(s)\n"
        "Stdin:    no\n"
        "Timeout:  30s\n"
        "Params:   temperature=0, max_tokens=0\n"
        "[turn 1] Sending request (1 messages, 0 tool calls pending)\n"
        "[turn 1] Received response: tool_calls (1 tool calls)\n"
        '[sub-agent] Calling "helper" (depth 1) with task: Find out.\n'
        '[sub-agent] "helper" completed in 7ms (4 chars returned)\n'
        "[turn 2] Sending request (3 messages, 1 tool calls pending)\n"
        "[turn 2] Received response: stop (0 tool calls)\n"
        "Duration: 7ms\n"
        "Tokens:   30 input, 5 output (cumulative)\n"
        "Stop:     stop\n"
    )


@pytest.mark.req("B-10", "A-8.5a", "A-X0")
def test_a_dry_run_sends_nothing_and_succeeds(tree: Path, axe) -> None:
    put("axe/scripts/lead.toml", '[[rule]]\nstatus = 500\nerror = "was asked"\n')
    ran = axe("run", "lead", "-p", "Why?", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("=== Dry Run ===\n\nModel:    script/lead\n")
    assert "--- Stdin ---\nWhy?\n" in ran.out
    assert ran.out.endswith(
        "--- Sub-Agents ---\nhelper\nMax Depth: 3\nParallel:  yes\nTimeout:   0s\n"
    )


@pytest.mark.req("B-9", "D-49")
def test_the_options_of_a_run_change_the_agent_for_this_run(tree: Path, axe) -> None:
    Path("elsewhere").mkdir()
    put("axe/s.md", "A skill.")
    words = ["-m", "script/helper", "--skill", "s.md", "--workdir", "elsewhere", "--timeout", "0.5"]
    ran = axe(
        "run", "echo", *words, "--param", "temperature=0.3", "top_p=1", "--dry-run", "-p", "x"
    )
    assert "Model:    script/helper\nWorkdir:  elsewhere\nTimeout:  0.5s\n" in ran.out
    assert "Params:   temperature=0.3, max_tokens=0, top_p=1\n" in ran.out
    assert "--- Skill ---\nA skill.\n" in ran.out
    assert axe("run", "echo", "-m", "script/helper", "-p", "x").out == "blue\n"


@pytest.mark.req("A-E2.4", "D-27")
@pytest.mark.parametrize("way", [(), ("--dry-run",)])
def test_a_sub_agent_that_no_file_has_is_a_warning_before_anyone_calls_it(
    way: tuple[str, ...], tree: Path, axe
) -> None:
    put("axe/agents/broken.toml", 'name = "broken"\n')
    put(
        "axe/agents/lead.toml",
        'name = "lead"\nmodel = "script/echo"\ntimeout = 9\n'
        'sub_agents = ["helpr", "helper", "zzz", "broken", "echo.toml", "helpr"]\n',
    )
    ran = axe("run", "lead", "-p", "hi", *way)
    assert ran.code == 0
    assert ran.err.splitlines() == [
        "warning: ignored by axe_nb: timeout; set a time limit with --timeout, in Python timeout=",
        'warning: sub-agent "helpr" cannot be called: agent config not found: helpr; '
        'did you mean "helper"?',
        'warning: sub-agent "zzz" cannot be called: agent config not found: zzz; '
        "create it with `axe-nb agents init zzz`, in a notebook `%axe init zzz`",
        'warning: sub-agent "broken" cannot be called: agent config missing required field: model; '
        'add model = "…"',
        'warning: sub-agent "echo.toml" cannot be called: agent config not found: echo.toml; '
        'did you mean "echo"?',
    ]
    assert not axe("run", "helper", "-p", "hi", *way).err


def test_another_folder_of_agents_that_does_not_exist_is_an_error(tree: Path, axe) -> None:
    for command in (("run", "lead", "-p", "x"), ("agents", "list"), ("agents", "show", "lead")):
        ran = axe(*command, "--agents-dir", "gone")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines()[0] == "error: agents folder not found: gone"
    ran = axe("doctor", "--agents-dir", "gone")
    assert ran.code == 1
    assert "agents folder    agents folder not found: gone" in ran.out
    assert "2 found" not in ran.out.partition("agents folder")[2]
    assert axe("agents", "init", "new", "--agents-dir", "gone").code == 0


def test_another_folder_of_agents_has_its_scripts_beside_it(tree: Path, axe) -> None:
    put("team/agents/a.toml", 'name = "a"\nmodel = "script/own"\n')
    put("team/scripts/own.toml", '[[rule]]\ntext = "team"\n')
    assert axe("run", "a", "--agents-dir", "team/agents", "-p", "x").out == "team\n"


def test_show_tells_what_a_run_would_warn_of(tree: Path, axe) -> None:
    put(
        "axe/agents/old.toml",
        'name = "old"\nmodel = "script/echo"\nmemory = true\nfiles = ["*.nothing"]\n'
        "[params]\nstream = true\n",
    )
    told = (
        "warning: ignored by axe_nb: memory\n"
        "warning: ignored by axe_nb: params.stream\n"
        'warning: no file matches "*.nothing" in files\n'
    )
    assert axe("agents", "show", "old").err == told
    assert axe("run", "old", "-p", "x").err == told
    put("axe/agents/old.toml", 'name = "old"\nmodel = "script/echo"\nworkdir = "gone"\n')
    assert axe("agents", "show", "old").err == ""


@pytest.mark.req("D-26", "D-27")
def test_warnings_go_to_stderr_after_the_run(tree: Path, axe) -> None:
    put("axe/agents/old.toml", 'name = "new"\nmodel = "script/echo"\nmemory = true\n')
    ran = axe("run", "old", "-p", "x")
    assert (ran.code, ran.out) == (0, "x\n")
    assert ran.err == (
        "warning: ignored by axe_nb: memory\n"
        'warning: file "old.toml" contains the agent name "new"\n'
    )


@pytest.mark.req("D-38", "A-X1", "D-15")
def test_a_run_that_reaches_a_limit_gives_its_text_so_far_and_exits_1(tree: Path, axe) -> None:
    with Path("axe/agents/lead.toml").open("a") as file:
        file.write("[limits]\nmax_requests = 1\n")
    ran = axe("run", "lead", "-p", "x")
    assert (ran.code, ran.out) == (1, "Let me ask.\n")
    assert ran.err.startswith("error: limits.max_requests (1) of lead reached")
    assert "\nin agent lead, turn 1\n" in ran.err


@pytest.mark.req("D-38", "A-X3", "D-10")
def test_a_run_that_takes_too_long_gives_its_text_so_far_and_exits_3(tree: Path, axe) -> None:
    put("axe/scripts/helper.toml", '[[rule]]\ndelay = 30\ntext = "late"\n')
    ran = axe("run", "lead", "-p", "x", "--timeout", "0.2")
    assert (ran.code, ran.out) == (3, "Let me ask.\n")
    assert ran.err == (
        "error: timeout after 0.2s\nin agent lead, turn 1\ngive it more time with --timeout\n"
    )


@pytest.mark.req("A-XN", "A-X0")
def test_a_sub_agent_that_fails_leaves_the_exit_code_alone(tree: Path, axe) -> None:
    put("axe/scripts/helper.toml", '[[rule]]\nstatus = 401\nerror = "no"\n')
    ran = axe("run", "lead", "-p", "x")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        'It is Error: sub-agent "helper" failed - auth: no. '
        "You may retry or proceed without this result..\n"
    )


@pytest.mark.req("B-9", "D-38")
def test_json_is_written_also_where_the_run_failed(tree: Path, axe) -> None:
    put("axe/scripts/helper.toml", '[[rule]]\ndelay = 30\ntext = "late"\n')
    ran = axe("run", "lead", "-p", "x", "--timeout", "0.2", "--json")
    assert ran.code == 3
    assert json.loads(ran.out)["content"] == "Let me ask."


@pytest.mark.req("B-9")
@pytest.mark.parametrize("words", [("-p", "Summarise:"), ("Summarise:",), ("-q", "Summarise:")])
def test_what_is_piped_in_comes_after_the_prompt_and_a_blank_line(
    words: tuple[str, ...], tree: Path, axe, piped
) -> None:
    assert axe("run", "echo", *words).out == "Summarise:\n"
    piped(b"line 1\nline 2\n")
    assert axe("run", "echo", *words).out == "Summarise:\n\nline 1\nline 2\n\n"
    piped(b" \n")
    assert axe("run", "echo", *words).out == "Summarise:\n", "blank is nothing (D-12)"
    piped(b"data")
    dry = axe("run", "echo", *words, "--dry-run").out
    assert "--- Stdin ---\nSummarise:\n\ndata\n" in dry


@pytest.mark.req("D-38")
def test_a_run_can_be_expected_to_end_otherwise(tree: Path, axe) -> None:
    put("axe/scripts/helper.toml", '[[rule]]\ndelay = 30\ntext = "late"\n')
    line = ("run", "lead", "-p", "x", "--timeout", "0.2", "--raises")
    ran = axe(*line, "timeout")
    assert (ran.code, ran.out, ran.err) == (0, "Let me ask.\n", "")
    ran = axe(*line, "completed")
    assert ran.code == 1
    assert ran.err.startswith(
        "error: the run ended with status timeout, expected completed (--raises)\n"
    )
    ran = axe("run", "lead", "--skill", "gone.md", "--raises", "config")
    assert (ran.code, ran.out) == (0, "ConfigError: skill not found: gone.md\n")
    assert axe("run", "lead", "--skill", "gone.md", "--raises", "provider").code == 2


def test_no_limit_of_time_is_said_as_none(tree: Path, axe) -> None:
    ran = axe("run", "lead", "x", "--timeout", "0", "--dry-run")
    assert "Timeout:  none\n" in ran.out
    assert axe("run", "lead", "x", "--timeout", "0").out == "It is blue.\n"


@pytest.mark.req("B-9")
def test_one_model_can_be_put_under_a_whole_tree(tree: Path, axe) -> None:
    with Path("axe/agents/helper.toml").open("w") as file:
        file.write('name = "helper"\nmodel = "openai/gpt"\n')
    ran = axe("run", "lead", "x", "-m", "script/lead", "-M", "script/echo")
    assert ran.out == "It is Task: Find out..\n"
    assert axe("run", "lead", "x", "--model-all", "script/echo").out == "x\n"


def test_agents_are_listed_with_what_they_are_for(tree: Path, axe) -> None:
    put("axe/agents/broken.toml", "nmae = 1")
    ran = axe("agents", "list")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == ('broken  (unknown key "nmae" (line 1))\necho\nhelper\nlead    Leads.\n')


@pytest.mark.req("B-12")
def test_where_there_are_no_agents_the_command_that_makes_one_is_told(project: Path, axe) -> None:
    ran = axe("agents", "list")
    assert (ran.code, ran.out) == (0, "")
    assert (
        ran.err == "no agents found; create one with `axe-nb start` or `axe-nb agents init NAME`\n"
    )


@pytest.mark.req("A-5.7", "B-12")
def test_show_prints_the_delegation_settings_of_an_agent_with_sub_agents(tree: Path, axe) -> None:
    with Path("axe/agents/lead.toml").open("a") as file:
        file.write("[sub_agents_config]\nmax_depth = 2\nparallel = false\ntimeout = 0.5\n")
    ran = axe("agents", "show", "lead")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Name:           lead\n"
        "Description:    Leads.\n"
        "Model:          script/lead\n"
        "Mode:           ask\n"
        "Sub-Agents:     helper\n"
        "Max Depth:      2\n"
        "Parallel:       no\n"
        "Timeout:        0.5s\n"
    )


@pytest.mark.req("A-5.7", "A-E2.1", "A-E2.5")
def test_show_prints_them_for_no_other_agent_and_the_default_depth_as_3(tree: Path, axe) -> None:
    put("axe/agents/solo.toml", TREE["helper"] + "[sub_agents_config]\nmax_depth = 2\n")
    assert "Max Depth" not in axe("agents", "show", "solo").out
    assert "Max Depth:      3\n" in axe("agents", "show", "lead").out


@pytest.mark.req("B-12", "A-D7")
def test_show_of_an_agent_that_there_is_not_names_the_nearest(tree: Path, axe) -> None:
    ran = axe("agents", "show", "hepler")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == 'error: agent config not found: hepler\ndid you mean "helper"?\n'


@pytest.mark.req("B-12", "A-5.6")
def test_init_writes_an_agent_that_can_be_shown_and_never_overwrites(project: Path, axe) -> None:
    ran = axe("agents", "init", "lead")
    assert (ran.code, ran.out, ran.err) == (0, f"{Path('axe/agents/lead.toml')}\n", "")
    assert "Name:           lead\n" in axe("agents", "show", "lead").out
    put("axe/agents/lead.toml", "mine")
    ran = axe("agents", "init", "lead")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("lead.toml already exists\nit was not changed\n")
    assert Path("axe/agents/lead.toml").read_text("utf-8") == "mine"
    assert axe("agents", "init", "x", "--agents-dir", "team").out == f"{Path('team/x.toml')}\n"


@pytest.mark.req("B-12")
@pytest.mark.parametrize("verb", ["init", "show", "edit"])
@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", "", "a\nb"])
def test_a_name_that_leads_elsewhere_is_refused(verb: str, name: str, project: Path, axe) -> None:
    ran = axe("agents", verb, name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: invalid agent name ")
    assert list(project.rglob("*.toml")) == []


@pytest.mark.skipif(os.name == "nt", reason="the editor is a shell script")
@pytest.mark.req("B-12")
def test_edit_opens_the_file_in_the_editor(
    tree: Path, axe, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("my editor", '#!/bin/sh\necho "$1 $2" > opened\nexit "${EXIT:-0}"\n')
    Path("my editor").chmod(0o755)
    monkeypatch.setenv("EDITOR", f"'{tree}/my editor' --wait")
    assert axe("agents", "edit", "lead").code == 0
    assert Path("opened").read_text("utf-8") == "--wait axe/agents/lead.toml\n"
    monkeypatch.setenv("EXIT", "2")
    ran = axe("agents", "edit", "lead")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("exited with code 2\n")


@pytest.mark.req("B-12")
@pytest.mark.parametrize(
    ("editor", "told"),
    [
        (
            "",
            "error: no editor is set for axe/agents/lead.toml\n"
            "set EDITOR, for example EDITOR=nano\n",
        ),
        ("no-such-editor", 'error: cannot start the editor "no-such-editor": '),
        ("'unclosed", 'error: cannot start the editor "\'unclosed": No closing quotation\n'),
    ],
)
def test_without_an_editor_the_variable_to_set_is_told(
    editor: str, told: str, tree: Path, axe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    ran = axe("agents", "edit", "lead")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(told)


@pytest.mark.req("B-12")
def test_the_settings_file_is_made_for_its_owner_alone_and_never_again(tmp_path: Path, axe) -> None:
    path = tmp_path / "config" / "axe" / "config.toml"
    assert axe("config", "path").out == f"{path}\n"
    assert not path.exists()
    ran = axe("config", "init")
    assert (ran.code, ran.out, ran.err) == (0, f"{path}\n", "")
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("# mine", "utf-8")
    ran = axe("config", "init")
    assert (ran.code, ran.out) == (2, "")
    assert "already exists" in ran.err
    assert path.read_text("utf-8") == "# mine"


@pytest.mark.parametrize("word", ["version", "--version", "-V", "-v"])
def test_the_version_is_told(word: str, axe) -> None:
    ran = axe(word)
    assert (ran.code, ran.out) == (0, f"axe-nb {axe_nb.__version__}\n")
    assert re.fullmatch(r"\d+\.\d+\.\d+", axe_nb.__version__)


def test_the_path_of_an_agent_file_is_answered_with_the_name_to_give(tree: Path, axe) -> None:
    for given, step in {
        "lead.toml": 'did you mean "lead"?',
        "nobody.toml": "create it with `axe-nb agents init nobody`",
        "axe/agents/lead.toml": "use --agents-dir for another folder",
    }.items():
        ran = axe("run", given, "-p", "x")
        assert ran.code == 2
        assert ran.err.splitlines()[-1].startswith(step)


USAGE = {
    ("foo",): 'unknown command "foo"; known commands: demo, start, run, ',
    ("list",): 'unknown command "list"; did you mean "agents list"?',
    ("show", "lead"): 'unknown command "show"; did you mean "agents show"?',
    ("init",): 'unknown command "init"; did you mean "agents init" or "config init"?',
    ("tools",): 'unknown command "tools"; it is a notebook command: %axe tools',
    ("echo", "hi"): 'unknown command "echo"; to run the agent: axe-nb run echo',
    ("statr",): 'unknown command "statr"; did you mean "start"?',
    ("agent", "list"): 'unknown command "agent"; did you mean "agents"?',
    ("runn", "lead"): 'unknown command "runn"; did you mean "run"?',
    ("--foo", "version"): "unrecognized arguments: --foo",
    ("run",): "the following arguments are required: AGENT",
    ("run", "lead", "--foo"): "unrecognized arguments: --foo",
    ("run", "lead", "--dry"): "unrecognized arguments: --dry",
    ("run", "lead", "what", "now"): "unrecognized arguments: now; put the prompt in quotes",
    ("run", "lead", "-p", "x", "y"): "the prompt is given twice",
    ("run", "lead", "-c"): "unrecognized arguments: -c; not available here: each command is a new "
    "session without conversations",
    ("run", "lead", "--bg"): "unrecognized arguments: --bg; not available here: use the shell's &",
    ("run", "lead", "--raw"): "unrecognized arguments: --raw; not needed: only cells interpolate",
    ("run", "lead", "--modle", "p/m"): "unrecognized arguments: --modle p/m; did you mean --model?",
    ("run", "lead", "--mod", "p/m"): "unrecognized arguments: --mod p/m; did you mean --mode?",
    ("run", "lead", "--timeout", "soon"): "argument --timeout: takes seconds",
    ("run", "lead", "--timeout", "-1"): "argument --timeout: takes seconds",
    ("run", "lead", "--param", "temperature"): "argument --param: takes KEY=VALUE",
    ("run", "lead", "--mode", "yolo"): "argument --mode: invalid choice: 'yolo'",
    ("run", "lead", "-o", "r"): "unrecognized arguments: -o r; not available here: a shell has no "
    "Python variables",
    ("run", "lead", "-m"): "argument -m/--model: expected one argument",
    ("agents", "foo"): 'unknown command "foo"; known commands: list, show, init, edit',
    ("agents", "shwo"): 'unknown command "shwo"; did you mean "show"?',
    ("agents", "show"): "the following arguments are required: NAME",
    ("version", "now"): "unrecognized arguments: now",
}


def takes_word_after_unknown_flag() -> bool:
    """True if argparse takes it as the next argument, as that of newer Pythons does."""
    plain = argparse.ArgumentParser()
    plain.add_argument("word", nargs="?")
    plain.add_argument("more", nargs="?")
    return plain.parse_known_args(["a", "--x", "y"])[1] == ["--x"]


@pytest.mark.req("A-X2", "A-D7")
@pytest.mark.parametrize("words", USAGE)
def test_a_mistake_on_the_line_is_told_with_the_usage_and_exits_2(
    words: tuple[str, ...], tree: Path, axe
) -> None:
    ran = axe(*words)
    assert (ran.code, ran.out) == (2, "")
    first, usage = ran.err.splitlines()
    told = USAGE[words]
    if takes_word_after_unknown_flag():
        told = re.sub(r"^(unrecognized arguments: -\S+) [^;]+;", r"\1;", told)
    assert first.startswith(f"error: {told}")
    assert usage.startswith("usage: axe-nb ")


@pytest.mark.parametrize(
    "words", [("-h",), ("help",), ("run", "--help"), ("agents", "-h"), ("config", "-h")]
)
def test_help_goes_to_stdout_and_succeeds(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: axe-nb")


@pytest.mark.req("A-X2")
@pytest.mark.parametrize("words", [(), ("agents",), ("config",)])
def test_without_a_command_the_help_is_shown_as_an_error(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    written = capsys.readouterr()
    assert (ended.value.code, written.out) == (2, "")
    assert written.err.startswith(f"usage: {' '.join(['axe-nb', *words])} ")


@pytest.mark.req("D-81")
def test_trust_shows_what_is_left_out_and_fails_if_no_one_can_say_yes(tree: Path, axe) -> None:
    trust_file().unlink()
    put("axe/agents/echo.toml", 'name = "echo"\nmodel = "script/echo"\nworkdir = "/"\n')
    ran = axe("run", "echo", "-p", "x")
    assert (ran.code, ran.out) == (0, "x\n")
    assert "left out workdir; to trust it, run `%axe trust`, or `axe-nb trust`" in ran.err
    ran = axe("trust")
    assert (ran.code, ran.err) == (2, "")
    assert 'axe/agents/helper.toml: "script/helper", mode ask, ' in ran.out
    assert "left out workdir" in ran.out
    assert axe("trust", "nowhere").code == 2


@pytest.mark.req("D-81")
def test_no_part_of_a_long_review_stands_where_the_question_stands(tree: Path, axe) -> None:
    text = 'name = "echo"\nmodel = "script/echo"\n[mcp_servers.x]\n'
    put("axe/agents/echo.toml", text + f'command = ["sh", "-c", "{"x" * 300} Trust echo? y"]\n')
    trust_file().unlink()
    shown = axe("trust", "axe/agents/echo.toml").out
    lines = [line for line in shown.splitlines() if not line.startswith("  ")]
    assert lines[0].startswith("axe/agents/echo.toml: ")
    assert len(lines) == 2, "the other says that no one can be asked"
    assert "left out mcp_servers" in shown


@pytest.mark.req("D-81")
def test_trust_on_a_terminal_asks(tree: Path, axe, monkeypatch: pytest.MonkeyPatch) -> None:
    put("axe/agents/echo.toml", 'name = "echo"\nmodel = "script/echo"\nworkdir = "/"\n')
    trust_file().unlink()
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert axe("trust").code == 2
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    ran = axe("trust")
    assert ran.code == 0
    assert ran.err.endswith("and run its agents as they are written? [y]es [n]o: ")
    assert ran.out.endswith("is trusted\n")
    assert axe("trust").out.endswith("is trusted\n")
    assert axe("run", "echo", "-p", "hi").out == "hi\n"


class Terminal(io.StringIO):
    """Standard input as a person types it."""

    def isatty(self) -> bool:
        return True


def test_a_prompt_with_an_equals_sign_is_sent_as_it_is_after_a_parameter(tree: Path, axe) -> None:
    ran = axe("run", "echo", "--param", "temperature=0", "x=1 is that right?")
    assert (ran.code, ran.out) == (0, "x=1 is that right?\n")


@pytest.mark.req("D-61")
def test_the_history_lists_runs_and_forgets_one(
    tree: Path, axe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    for name in ("echo", "helper"):
        assert axe("run", name, "-p", f"words for {name}").code == 0
    shown = axe("history").out
    assert "words for echo" in shown
    assert "words for helper" in shown
    assert "words for helper" not in axe("history", "echo").out
    assert axe("history", "--delete", "1").out == "run 1 deleted from the history\n"
    assert "words for echo" not in axe("history").out
    gone = axe("history", "--delete", "1")
    assert (gone.code, gone.out) == (2, "")
    assert gone.err.startswith("error: the history has no run with the id 1")
