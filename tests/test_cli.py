"""The command line, called in process: what goes to stdout, what to stderr, with which code."""

import io
import json
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

from axe_nb import cli
from axe_nb.agents.trust import trust_file
from axe_nb.views.history import list_history
from tests.files import put

FILES = {
    "agents/lead": 'name = "lead"\nmodel = "script/lead"\nsub_agents = ["helper"]\n',
    "agents/helper": 'name = "helper"\nmodel = "script/helper"\n',
    "agents/echo": 'name = "echo"\nmodel = "script/echo"\n',
    "scripts/helper": '[[rule]]\ntext = "blue"\n',
    "scripts/echo": '[[rule]]\ntext = "{last}"\n',
    "scripts/lead": """
[[rule]]
when = { turn = 1 }
text = "Let me ask."
calls = [{ tool = "call_agent", arguments = { agent = "helper", task = "Find out." } }]
usage = { input_tokens = 10, output_tokens = 2 }

[[rule]]
text = "It is {results}."
usage = { input_tokens = 20, output_tokens = 3 }
""",
}


@pytest.fixture
def tree(project: Path) -> Path:
    """A project with a lead, its helper and `echo`, which says what it was told."""
    for name, text in FILES.items():
        put(f"axe/{name}.toml", text)
    return project


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def axe(capsys: pytest.CaptureFixture[str], piped):
    def run(*words: str) -> Ran:
        code = cli.main(words)
        written = capsys.readouterr()
        return Ran(code, written.out, written.err)

    return run


@pytest.mark.req("B-9", "A-8.6", "A-8.8", "A-X0")
def test_stdout_carries_the_answer_and_nothing_else_or_one_line_with_seven_keys(
    tree: Path, axe
) -> None:
    assert axe("run", "lead", "-p", "Which colour?") == (0, "It is blue.\n", "")
    assert axe("run", "echo", "--prompt", "hi\nyou", "-q").out == "hi\nyou\n"
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
    end = "--- Sub-Agents ---\nhelper\nMax Depth: 3\nParallel:  yes\nTimeout:   0s\n"
    assert ran.out.endswith(end)


@pytest.mark.req("A-E2.4", "D-27")
@pytest.mark.parametrize("way", [(), ("--dry-run",)])
def test_a_sub_agent_that_no_file_has_is_a_warning_before_anyone_calls_it(
    way: tuple[str, ...], tree: Path, axe
) -> None:
    put("axe/agents/broken.toml", 'name = "broken"\n')
    put(
        "axe/agents/lead.toml",
        'name = "lead"\nmodel = "script/echo"\ntimeout = 9\n'
        'sub_agents = ["helpr", "helper", "zzz", "broken", "helpr"]\n',
    )
    ran = axe("run", "lead", "-p", "hi", *way)
    assert ran.code == 0
    assert ran.err.splitlines() == [
        "warning: ignored by axe_nb: timeout; set a time limit with --timeout, in Python timeout=",
        'warning: sub-agent "helpr" cannot be called: agent config not found: helpr; '
        'did you mean "helper"?',
        'warning: sub-agent "zzz" cannot be called: agent config not found: zzz; '
        "create it with `axe-nb agents init zzz`, in a notebook `%axe init zzz`; "
        "register an Agent in a variable with axe_nb.define(agent)",
        'warning: sub-agent "broken" cannot be called: agent config missing required field: model; '
        'add model = "…"',
    ]
    assert not axe("run", "helper", "-p", "hi", *way).err


@pytest.mark.req("D-38", "A-X1", "D-15")
def test_a_run_that_reaches_a_limit_gives_its_text_so_far_and_exits_1(tree: Path, axe) -> None:
    with Path("axe/agents/lead.toml").open("a") as file:
        file.write("[limits]\nmax_requests = 1\n")
    ran = axe("run", "lead", "-p", "x")
    assert (ran.code, ran.out) == (1, "Let me ask.\n")
    assert ran.err.startswith("error: limits.max_requests (1) of lead reached")
    assert "\nin agent lead, turn 1\n" in ran.err


@pytest.mark.req("B-9")
@pytest.mark.parametrize("words", [("-p", "Summarise:"), ("-q", "Summarise:")])
def test_what_is_piped_in_comes_after_the_prompt_and_a_blank_line(
    words: tuple[str, ...], tree: Path, axe, piped
) -> None:
    assert axe("run", "echo", *words).out == "Summarise:\n"
    piped(b"line 1\nline 2\n")
    assert axe("run", "echo", *words).out == "Summarise:\n\nline 1\nline 2\n\n"
    piped(b" \n")
    assert axe("run", "echo", *words).out == "Summarise:\n", "blank is nothing (D-12)"
    piped(b"data")
    assert "--- Stdin ---\nSummarise:\n\ndata\n" in axe("run", "echo", *words, "--dry-run").out


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
    line = ("run", "lead", "--skill", "gone.md", "--raises")
    assert axe(*line, "config")[:2] == (0, "ConfigError: skill not found: gone.md\n")
    assert axe(*line, "provider").code == 2


@pytest.mark.req("B-12", "A-5.6")
def test_init_writes_an_agent_that_can_be_shown_and_never_overwrites(project: Path, axe) -> None:
    assert axe("agents", "init", "lead") == (0, f"{Path('axe/agents/lead.toml')}\n", "")
    assert "Name:           lead\n" in axe("agents", "show", "lead").out
    put("axe/agents/lead.toml", "mine")
    ran = axe("agents", "init", "lead")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("lead.toml already exists\nit was not changed\n")
    assert Path("axe/agents/lead.toml").read_text("utf-8") == "mine"
    assert axe("agents", "init", "x", "--agents-dir", "team").out == f"{Path('team/x.toml')}\n"


@pytest.mark.req("B-12")
@pytest.mark.parametrize("verb", ["init", "show", "edit"])
def test_a_name_that_leads_elsewhere_is_refused(verb: str, project: Path, axe) -> None:
    for name in ("../x", "a/b", "a\\b", "", "a\nb"):
        ran = axe("agents", verb, name)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error: invalid agent name ")
    assert list(project.rglob("*.toml")) == []


@pytest.mark.skipif(os.name == "nt", reason="the editor is a shell script")
@pytest.mark.req("B-12")
def test_edit_opens_a_file_in_an_editor(tree: Path, axe, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_the_settings_file_is_made_for_its_owner_alone_and_never_again(tmp_path: Path, axe) -> None:
    path = tmp_path / "config" / "axe" / "config.toml"
    assert axe("config", "path").out == f"{path}\n"
    assert not path.exists()
    assert axe("config", "init") == (0, f"{path}\n", "")
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("# mine", "utf-8")
    ran = axe("config", "init")
    assert (ran.code, ran.out) == (2, "")
    assert "already exists" in ran.err
    assert path.read_text("utf-8") == "# mine"


USAGE = {
    ("foo",): 'unknown command "foo"; known commands: start, demo, run, ',
    ("list",): 'unknown command "list"; did you mean "agents list"?',
    ("echo", "hi"): 'unknown command "echo"; to run the agent: axe-nb run echo',
    ("statr",): 'unknown command "statr"; did you mean "start"?',
    ("run", "lead", "-c"): "unrecognized arguments: -c",
    ("run", "lead", "--modle", "p/m"): "did you mean --model?",
    ("agents", "foo"): 'unknown command "foo"; known commands: list, show, init, edit',
    ("agents", "show"): "the following arguments are required: NAME",
}


@pytest.mark.req("A-X2", "A-D7")
@pytest.mark.parametrize("words", USAGE)
def test_a_mistake_on_the_line_is_told_with_the_usage_and_exits_2(
    words: tuple[str, ...], tree: Path, axe
) -> None:
    ran = axe(*words)
    assert (ran.code, ran.out) == (2, "")
    first, usage = ran.err.splitlines()
    assert first.startswith("error: ")
    assert USAGE[words] in first
    assert usage.startswith("usage: axe-nb ")


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
def test_trust_shows_what_is_left_out_and_asks_where_someone_can_say_yes(
    tree: Path, axe, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for answer, code in (("n\n", 2), ("y\n", 0)):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", terminal)
        ran = axe("trust")
        assert ran.code == code
        assert ran.err.endswith("and run its agents as they are written? [y]es [n]o: ")
    assert ran.out.endswith("is trusted\n")
    assert "restricted" not in axe("run", "echo", "-p", "hi").err


@pytest.mark.req("D-61")
def test_the_history_lists_runs_and_forgets_one(
    tree: Path, axe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    for name in ("echo", "helper"):
        assert axe("run", name, "-p", f"words for {name}").code == 0

    def listed(*words: str) -> list[str]:
        return re.findall(r"words for (\w+)", axe("history", *words).out)

    assert listed() == ["helper", "echo"]
    assert listed("for", "echo") == listed("echo", "--status", "completed") == ["echo"]
    assert listed("--since", "yesterday") == ["helper", "echo"]
    assert listed("--since", "2100-01-01") == listed("--until", "2000-01-01") == []
    assert axe("history", "1").out.startswith("words for echo\n\n✓ echo · script/echo · completed")
    assert listed("7") == []
    rows = list_history(limit=1)
    assert (len(rows), "older runs are left out" in repr(rows)) == (1, True)
    assert "left out" not in repr(list_history(limit=2))
    assert axe("history", "--delete", "1").out == "run 1 deleted from the history\n"
    assert listed() == ["helper"]
    gone = axe("history", "--delete", "1")
    assert (gone.code, gone.out) == (2, "")
    assert gone.err.startswith("error: the history has no run with the id 1")
