"""`%%axe` in real kernels of both lines, headless and in front of a person."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, started, text, write_agents

AGENTS = {
    "typo": 'system_promt = "x"\n',
    "lead": 'sub_agents = ["echo", "broken"]\n',
    "crowd": 'sub_agents = ["slow"]\n',
}
SCRIPTS = {
    "echo": '[[rule]]\ntext = "You said: {last}"\n',
    "broken": '[[rule]]\nstatus = 529\nerror = "Overloaded"\n',
    "slow": '[[rule]]\ndelay = 20\ntext = "late"\n',
    "lead": (
        "[[rule]]\nwhen = { turn = 1 }\ncalls = [\n"
        '  { tool = "call_agent", arguments = { agent = "echo", task = "one" } },\n'
        '  { tool = "call_agent", arguments = { agent = "broken", task = "two" } },\n]\n'
        '[[rule]]\ntext = "Both have been asked."\n'
    ),
    "crowd": (
        "[[rule]]\nwhen = { turn = 1 }\ncalls = [\n"
        + '  { tool = "call_agent", arguments = { agent = "slow", task = "wait" } },\n' * 8
        + ']\n[[rule]]\ntext = "done"\n'
    ),
}


@pytest.mark.req("D-2")
def test_a_headless_cell_shows_the_static_twin_once_and_returns_the_result(cells: Kernel) -> None:
    [shown] = cells.run("%%axe lead -o r\nask both")
    assert shown["type"] == "display_data"
    assert set(shown["data"]) == {"text/html", "text/plain"}
    assert shown["data"]["text/plain"].startswith("Both have been asked.")
    assert not {"<script", "<style"} & {*re.findall(r"<\w+", shown["data"]["text/html"])}
    known = "print(_ is r, r.ok, len(r.children), r is __import__('axe_nb').last())"
    assert text(cells.run(known)) == "True True 2 True\n"
    [again] = cells.run("r")
    assert again["data"] == shown["data"], "a result that is a cell's value shows the same"
    assert text(cells.run("r.children[0]")).startswith("You said: Task: one")
    assert cells.run("%reload_ext axe_nb") == []


@pytest.mark.req("A-X1", "A-X2", "D-27")
def test_a_failure_is_a_real_error_of_at_most_three_lines(cells: Kernel) -> None:
    for cell, name, said in (
        ("%%axe nobody\nhi", "ConfigError", "agent config not found: nobody"),
        ("%%axe typo\nhi", "ConfigError", 'unknown key "system_promt" (line 3)'),
        ("%%axe echo hi there\nx", "UsageError", "the prompt is the body of the cell"),
        ("%%axe\nhi", "UsageError", "required: AGENT, or -m for a model without an agent"),
        ("%axe run {''} -p hello -m script/echo", "ConfigError", 'invalid agent name ""'),
        ("%%axe What -m script/echo\nis this?", "ConfigError", "agent config not found: What"),
        ("%%axe echo --system-prompt x\nhi", "UsageError", 'result.fork("0/1", system_prompt='),
        ("%%axe echo -m openai/gpt\nhi", "ConfigError", "OPENAI_API_KEY"),
        ("%%axe echo\n{{ nobody }}", "ConfigError", '"nobody" in {{ nobody }} (line 2)'),
    ):
        [error] = cells.run(cell)  # nothing was sent, so nothing is shown
        assert (error["type"], error["ename"]) == ("error", name)
        assert said in error["evalue"]
        assert len("\n".join(error["traceback"]).splitlines()) <= 3


@pytest.mark.req("A-13.5")
def test_the_tree_stays_above_the_error_of_a_failed_run(cells: Kernel) -> None:
    shown, error = cells.run("%%axe broken -o r\nhi")
    assert shown["type"] == "display_data"
    assert error["ename"] == "ProviderError"
    assert error["evalue"] == "overloaded: the server is too busy (Overloaded)"
    assert "in agent broken, turn 1" in "\n".join(error["traceback"])
    assert text(cells.run("print(r.status, r.error)")) == f"error {error['evalue']}\n"


def test_raises_makes_the_expected_end_a_success(cells: Kernel) -> None:
    for status in ("error", "provider"):
        [shown] = cells.run(f"%%axe broken --raises {status}\nhi")
        assert shown["type"] == "display_data"
    said = text(cells.run("%%axe nobody --raises config\nhi"))
    assert said == "ConfigError: agent config not found: nobody\n"
    *_, error = cells.run("%%axe echo --raises timeout\nhi")
    assert error["evalue"] == "the run ended with status completed, expected timeout (--raises)"


@pytest.mark.req("D-40")
def test_the_body_is_the_prompt_with_expressions_filled_in(cells: Kernel) -> None:
    cells.run("who = 'Ada'; braces = '{{ who }}'")
    cells.run("%%axe echo -o r\n# NBVAL_CHECK_OUTPUT\nI am {{ who }}: {{ braces }} {x} $x {{2}}")
    assert text(cells.run("print(r.prompt)")) == "I am Ada: {{ who }} {x} $x {{2}}\n"
    cells.run("%%axe echo --raw -o r\n{{ who }}")
    assert text(cells.run("print(r.prompt)")) == "{{ who }}\n"
    cells.run("name = 'script/broken'")
    assert cells.run("%%axe echo -m {name} --raises error\nhi")[0]["type"] == "display_data"


@pytest.mark.req("B-8", "B-9", "A-8.7a", "A-8.7b", "A-7.5a", "A-7.5b", "A-7.5c")
def test_json_verbose_dry_run_and_quiet_print_text(cells: Kernel) -> None:
    [line] = cells.run("%%axe lead --json\nhi")
    assert json.loads(line["text"])["content"] == "Both have been asked."
    for cell, told in (
        ("lead -v\nhi", "[turn 1] Sending request (1 messages, 0 tool calls pending)"),
        ("lead -v\nhi", '[sub-agent] "broken" failed: overloaded: the server is too busy'),
        ("lead -v\nhi", "(cumulative)"),
        ("lead --dry-run\nhi", "=== Dry Run ==="),
        ("lead -q\nhi", "Both have been asked."),
        ("echo\n   ", "You said: Execute the task described in your instructions."),
    ):
        assert told in text(cells.run(f"%%axe {cell}"))


@pytest.mark.req("D-8", "A-E5.6")
def test_an_interrupt_gives_control_back_and_keeps_what_was_done(cells: Kernel) -> None:
    cells.run("%%axe echo\nwarm up")
    count = "import threading; print(threading.active_count())"
    before = int(text(cells.run(count)))  # an earlier test may have left some in this kernel
    *_, error = cells.run("%%axe crowd -o r\ngo", interrupt_after=1.5)
    assert error["evalue"] == "stopped; r has the partial result"
    back = cells.idle_at - cells.interrupted_at
    assert error["ename"] == "KeyboardInterrupt"
    assert len("\n".join(error["traceback"]).splitlines()) == 1
    assert back < 10, f"control came back after {back:.2f} s, the models take 20 s"
    said = text(cells.run("print(r.status, r.turns, [c.status for c in r.children])"))
    assert said == f"cancelled 1 {['cancelled'] * 8}\n"
    cells.run("%%axe crowd -c -o s -m script/echo\nand now?")
    assert text(cells.run("print(s.ok, len(s.messages[2].tool_results))")) == "True 8\n"
    assert int(text(cells.run(count))) < before + 8, "no thread for each of them"


def test_python_functions_show_the_same_view_once(cells: Kernel) -> None:
    cells.run("import axe_nb")
    [shown] = cells.run("r = axe_nb.run('echo', 'hi')")
    for cell in (
        "axe_nb.run('echo', 'hi')",
        "await axe_nb.arun('echo', 'hi')",
        "axe_nb.run('echo', 'hi', display=False)",
    ):
        [again] = cells.run(cell)
        assert again["data"] == shown["data"], cell
    assert cells.run("r = axe_nb.run('echo', 'hi', display=False)") == []
    [named] = cells.run("for _ in 'ab': r\nr")
    assert named["data"]["text/plain"] == shown["data"]["text/plain"]
    assert ">%%axe --from r@0/1</code>" in named["data"]["text/html"], "by its name"
    two = cells.run("for word in 'ab': axe_nb.run('echo', word)")
    assert [o["data"]["text/plain"].split("\n")[0] for o in two] == ["You said: a", "You said: b"]
    streamed = "[e async for e in axe_nb.stream('echo', 'hi')][-1].result.text"
    assert text(cells.run(streamed)) == "'You said: hi'", "and no view"


def test_the_magics_are_there_once_the_package_is_imported(
    kernel_python: Path, project: Path
) -> None:
    with started(kernel_python, project) as cells:
        assert "not found" in text(cells.run("%%axe echo\nhi"))
        assert cells.run("import axe_nb") == []
        assert "AxeMagics" not in text(cells.run("list(get_ipython().magics_manager.registry)"))
        cells.run("@axe_nb.script('mirror')\ndef mirror(request):\n    return 'It mirrors'")
        assert text(cells.run("%%axe -m script/mirror -q\nhi")) == "It mirrors"


VALUE = "corr3ct-horse-b4ttery"
SHAPE = "ghp_" + "a1" * 12
HOSTILE = f"{'say ' * 12}{VALUE} \x1b]0;title\x07\x9b2J {SHAPE}"


@pytest.mark.req("D-60")
def test_outputs_of_a_saved_notebook_have_no_secrets_and_no_escapes(kernel: Kernel) -> None:
    kernel.run(
        "import os, axe_nb\n%load_ext axe_nb\n"
        f"os.environ['THE_API_KEY'] = {VALUE!r}\nhostile = {HOSTILE!r}\n"
        "@axe_nb.script('one')\n"
        "def one(request):\n"
        "    if 'fail' in request.last: raise axe_nb.ProviderError('server', hostile, status=400)\n"
        "    return hostile\n"
        "axe_nb.define(axe_nb.Agent(name='one', model='script/one'))"
    )
    for cell in (
        "%%axe one\n{{hostile}}",
        "%%axe one --dry-run\n{{hostile}}",
        "%%axe one --json\ngo",
        "axe_nb.run('one', 'go')",
        "axe_nb.last()",
        "axe_nb.run('one', 'fail').raise_for_status()",
        "%%axe one --raises provider\nfail",
    ):
        shown = json.dumps(kernel.run(cell), ensure_ascii=False)
        assert VALUE not in shown, cell
        assert SHAPE not in shown, cell
        assert "\x9b" not in shown, cell
        assert "***" in shown, cell


def test_ipython_in_a_terminal_prints_the_text_twin_once(
    project: Path, kernel_python: Path
) -> None:
    write_agents(project, SCRIPTS)
    (project / "session.ipy").write_text(
        "%load_ext axe_nb\nget_ipython().run_cell('''%%axe echo\nhello''');\n"
    )
    done = subprocess.run(
        [kernel_python, "-m", "IPython", "--no-banner", "--colors=NoColor", "session.ipy"],
        capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "IPYTHONDIR": str(project / "ipython")},
    )  # fmt: skip
    assert done.stdout.count("You said: hello") == 1, done.stdout + done.stderr
    assert "✓ echo · script/echo · completed · 1 turn" in done.stdout
