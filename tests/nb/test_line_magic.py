"""`%axe …`: the sub-commands, the line form of a run, `%config`, and the help pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from axe_nb.agents.trust import trust_file
from axe_nb.agents.user_config import config_path
from tests.nb.kernels import Kernel, text, write_agents

AGENTS = {"echo": 'description = "Says it again"\n', "lead": 'sub_agents = ["echo"]\n'}
SCRIPTS = {
    "echo": (
        '[[rule]]\ntext = "You said: {last}"\nusage = { input_tokens = 1000, output_tokens = 7 }\n'
    ),
    "other": '[[rule]]\ntext = "The other: {last}"\n',
    "slow": 'clock = "virtual"\n[[rule]]\ndelay = 60\ntext = "late"\n',
    "lead": (
        "[[rule]]\nwhen = { turn = 1 }\n"
        'calls = [{ tool = "call_agent", arguments = { agent = "echo", task = "one" } }]\n'
        "usage = { input_tokens = 20, output_tokens = 3 }\n"
        '[[rule]]\ntext = "done"\nusage = { input_tokens = 30, output_tokens = 4 }\n'
    ),
}


@pytest.fixture
def cells(kernel: Kernel, project: Path) -> Kernel:
    write_agents(project, SCRIPTS, **AGENTS)
    (project / "axe/agents/wrong.toml").write_text('name = "wrong"\nmodle = "script/echo"\n')
    assert kernel.run("%load_ext axe_nb") == []
    return kernel


def test_list_says_what_can_be_run_and_what_is_wrong(project: Path, cells: Kernel) -> None:
    cells.run('%%axe_agent echo\nmodel = "script/echo"')
    assert [line.split() for line in text(cells.run("%axe list")).splitlines()] == [
        ["agent", "model", "description", "file", "in"],
        ["echo", "script/echo", "this", "session", "(overrides", "its", "file)"],
        ["lead", "script/lead", "axe/agents"],
        ["other", "script/other", "axe/agents"],
        ["slow", "script/slow", "axe/agents"],
        ["wrong", "✗", "unknown", "key", '"modle"', "(line", "2)", "axe/agents"],
    ]
    (project / "axe/agents/wrong.toml").unlink()
    assert text(cells.run("%axe list")).split()[:4] == ["agent", "model", "file", "in"]


@pytest.mark.req("A-5.7")
def test_show_says_what_an_agent_is_may_do_and_whom_it_may_call(cells: Kernel) -> None:
    assert text(cells.run("%axe show lead;")) == (
        "Name:           lead\n"
        "Model:          script/lead\n"
        "Mode:           ask\n"
        "Sub-Agents:     echo\n"
        "Max Depth:      3\n"
        "Parallel:       yes\n"
        "Timeout:        the run's own\n"
        "Allowed:        call_agent\n"
        "lead  (up to 3 levels)\n"
        "└─ echo\n"
    )
    cells.run('%%axe_agent w\nmodel = "script/echo"\nfiles = ["*.nothing"]\n[params]\nstream = 1')
    assert text(cells.run("%axe show w")).endswith(
        "! params.stream is not a parameter; the agent's own keys go above [params]\n"
        '! no file matches "*.nothing" in files\n'
    )
    assert text(cells.run("%axe show ehco")).endswith('did you mean "echo"?')


def test_tools_are_listed_with_what_the_agent_may_do_with_them(cells: Kernel) -> None:
    cells.run("import axe_nb\n@axe_nb.tool\ndef look_up(town: str) -> str:\n    'Looks up.'\n")
    every = text(cells.run("%axe tools"))
    starts = [line.split()[:2] for line in every.splitlines()]
    for tool in ("read_file reads", "edit_file writes", "spawn_agent delegates", "look_up yours"):
        assert starts.count(tool.split()) == 1
    assert re.search("file_ops_readonly +toolset +read_file, list_dir, find_files\n", every)
    cells.run(
        '%%axe_agent w\nmodel = "script/echo"\ntools = ["write_file", "look_up", "grep"]\n'
        '[permissions]\ngrep = "deny"'
    )
    told = [line.split()[:4] for line in text(cells.run("%axe tools w")).splitlines()[1:]]
    assert told[0] == ["write_file", "writes", "?", "asks"]
    assert told[1:] == [["look_up", "yours", "✓", "allowed"], ["grep", "reads", "✗", "denied"]]


def test_reset_begins_a_conversation_anew(cells: Kernel) -> None:
    cells.run("%%axe echo\none")
    cells.run("%%axe lead\ntwo")
    assert text(cells.run("%axe reset echo")) == "conversations forgotten: echo\n"
    [error] = cells.run("%%axe echo -c\nhi")
    assert error["evalue"] == 'nothing to continue: agent "echo" has not run in this session'
    assert 'axe_nb.run("echo", "…", continue_from=axe_nb.load(ID))' in error["traceback"][-1]
    assert cells.run("%%axe lead -c\nhi")[0]["type"] == "display_data"
    assert text(cells.run("%axe reset")) == "conversations forgotten: lead\n"
    [error] = cells.run("%axe reset lead2")
    assert error["evalue"] == "agent config not found: lead2"


def test_an_exit_of_the_users_own_code_is_that_of_the_cell(cells: Kernel) -> None:
    cells.run("import sys")
    shown = cells.run("%%axe echo\n{{ sys.exit(3) }}")
    assert "SystemExit" in [one.get("ename") for one in shown]


def test_a_line_runs_an_agent_as_a_cell_does(cells: Kernel) -> None:
    [in_a_cell] = cells.run("%%axe lead -o one\nhello {x}")
    [in_a_line] = cells.run("%axe run lead -o one -p 'hello'")
    assert in_a_line["data"] == in_a_cell["data"]
    assert text(cells.run("r = %axe run echo -q --prompt hi\nprint(r.prompt, r.ok)")).endswith(
        "hi True\n"
    )
    cells.run("word = 'there'")
    for line, said in (
        ('echo -q -p "hello {word}"', "You said: hello there"),
        ("echo -q", "You said: Execute the task described in your instructions."),
        ("slow --timeout 2 -p x", "timeout after 2s"),
        ("lead --dry-run -p x", "=== Dry Run ==="),
    ):
        assert said in text(cells.run(f"%axe run {line}"))


def test_a_mistake_is_an_error_of_the_cell_with_what_was_meant(cells: Kernel) -> None:
    for line, name, told in (
        ("%axe lits", "UsageError", 'did you mean "list"?'),
        ("%axe nonsense", "UsageError", "known commands: run, list, show, init, edit, request, "),
        ("%axe echo hi", "UsageError", "start a cell with %%axe echo and put the prompt below it"),
        ("%axe env nothing", "ConfigError", 'cannot read "nothing": No such file'),
        ("%axe list --agent-dir", "UsageError", "did you mean --agents-dir?"),
        ("%axe run", "UsageError", "usage: %axe run "),
        ("%axe show 'x", "UsageError", "no closing quotation"),
    ):
        [error] = cells.run(line)
        assert error["ename"] == name
        assert told in "\n".join(error["traceback"])
        assert len("\n".join(error["traceback"]).splitlines()) <= 3


def test_config_sets_what_holds_where_nothing_is_said_in_cells_and_in_python(
    project: Path, cells: Kernel
) -> None:
    (project / "more").mkdir()
    (project / "more" / "there.toml").write_text('name = "there"\nmodel = "script/echo"\n', "utf-8")
    cells.run("import axe_nb")

    def said(agent: str = "echo", more: str = "") -> list[str]:
        """What a cell, a line and Python are answered, or the error of the run."""
        cells.run(f"%%axe {agent} -q -o a {more}\nhi")
        cells.run(f"%axe run {agent} -q -o b -p hi {more}")
        cells.run(f"c = axe_nb.run('{agent}', 'hi', display=False)")
        return text(cells.run("for r in (a, b, c): print(r.error or r.text)")).splitlines()

    for setting, agent, told in (
        ("model = 'script/other'", "echo", "The other: hi"),
        ("model = ''", "echo", "You said: hi"),
        ("model_all = 'script/other'", "echo", "The other: hi"),
        ("model_all = ''", "echo", "You said: hi"),
        ("timeout = 3", "slow", "timeout after 3s"),
        ("timeout = 0", "slow", "late"),
        ("agents_dir = 'more'", "there", "You said: hi"),
    ):
        cells.run(f"%config AxeMagics.{setting}")
        assert said(agent) == [told] * 3, setting
    assert "there" in text(cells.run("%axe list"))
    assert said("echo", "-m script/other")[:2] == ["The other: hi"] * 2, "an option counts more"
    cells.run("%config AxeMagics.mode = 'plan'")
    dry = text(cells.run("%%axe lead --dry-run --tools write_file,grep\nhi"))
    assert "--- Tools ---\ngrep\n" in dry
    wrong = text(cells.run("%config AxeMagics.mode = 'yolo'"))
    assert "any of ['', 'plan', 'ask', 'auto']" in wrong


def test_the_help_pages_are_written_from_the_tables(cells: Kernel) -> None:
    for line, part in (
        ("%%axe?", "-m P/M, --model P/M"), ("%%axe?", "{{ expr }}"), ("%axe?", " doctor "),
        ("%%axe_agent?", "usage: %%axe_agent [-h] [--save] [--dir D] NAME"),
        ("%%axe_grid?", "--repeats N"),
    ):  # fmt: skip
        cells.run(line)
        assert part in cells.page(), line
    assert "Did you mean the line magic %axe_grid" in text(cells.run("%%axe_grid --help\n"))
    assert "\n  --repeats N " in text(cells.run("%axe_grid --help"))
    assert text(cells.run("%axe help")) == text(cells.run("%axe"))
    about = text(cells.run("%axe help request"))
    assert about.startswith("usage: %axe request [-h] [R@PLACE]\n")
    assert "\n  %axe request review@0.2/3\n" in about
    assert text(cells.run("%axe request --help")) == about
    assert 'did you mean "request"' in text(cells.run("%axe help requset"))


@pytest.mark.req("D-60")
def test_keys_are_read_from_a_file(project: Path, cells: Kernel) -> None:
    (project / ".env").write_text("OPENAI_API_KEY='sk-12345678'\nPATH=/evil\n", "utf-8")
    said = text(cells.run("%axe env .env"))
    assert said.startswith("set: OPENAI_API_KEY\nrefused, because a file can set only keys ")
    assert said.endswith("use %env NAME=VALUE, or set it before the kernel starts\n")
    assert "OPENAI_API_KEY     set\n" in text(cells.run("%axe env"))
    assert "sk-12345678" not in text(cells.run("%axe env"))


@pytest.mark.req("D-81")
def test_trust_shows_what_is_left_out_and_asks(cells: Kernel, project: Path) -> None:
    file = project / "axe" / "agents" / "echo.toml"
    file.write_text('name = "echo"\nmodel = "script/echo"\nworkdir = "/"\n', "utf-8")
    trust_file().unlink()
    left_out = 'restricted, because you have not trusted "project": left out workdir; to trust it'
    assert left_out in text(cells.run("%%axe echo\nhi"))
    assert "no one can be prompted here" in text(cells.run("%axe trust"))
    assert left_out in text(cells.run("%axe doctor"))
    shown = text(cells.run("%axe trust", live=True, answers=["y"]))
    assert shown.endswith('project" is trusted\n')
    assert "left out workdir" in shown.replace("\n", "")
    assert cells.asked[0].endswith("and run its agents as they are written? [y]es [n]o: ")
    assert "restricted" not in text(cells.run("%%axe echo\nhi"))


def test_usage_and_budget_say_what_was_spent(cells: Kernel) -> None:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text('[prices."script/echo"]\ninput = 1\noutput = 10\n', "utf-8")
    cells.run("%%axe echo\nhi")
    cells.run("%%axe lead\nhi")
    rows = [line.split() for line in text(cells.run("%axe usage")).splitlines()]
    assert rows[0] == ["agent", "model", "runs", "turns", "input", "output", "cost"]
    assert rows[1] == ["echo", "script/echo", "2", "2", "2,000", "14", "$0.0021"]
    assert rows[2] == ["lead", "script/lead", "1", "2", "50", "7", "unknown"]
    assert rows[3] == ["total", "3", "4", "2,050", "21", "≥", "$0.0021"]
    assert text(cells.run("%axe budget")) == (
        "$0.0021 spent; no budget is set: %axe budget AMOUNT sets one\n"
    )
    assert text(cells.run("%axe budget 0.0025")) == "$0.0021 spent of $0.0025, $0.00036 left\n"
    *_, passed = cells.run("%%axe echo\n" + "long " * 1000)
    assert "the budget of this notebook ($0.0025) would be exceeded" in passed["evalue"]
    assert "raise it with %axe budget" in passed["evalue"]
    [wrong] = cells.run("%axe budget much")
    assert "takes US dollars, as in 0.40" in wrong["evalue"]
    assert text(cells.run("%axe budget 0")).startswith("$0.0021 spent; no budget is set")
