"""What a cell asks of a finished run: its requests, differences, times, forks, expectations."""

from __future__ import annotations

import json
import re

import pytest

from tests.nb.kernels import Kernel, Output, text

CODE = """\
%load_ext axe_nb
import axe_nb
asked = []
@axe_nb.script("lead")
def lead(request):
    asked.append(request.place)
    words = request.messages[0].content.split()
    calls = [axe_nb.call("call_agent", agent="helper", task=task) for task in words]
    return calls if request.turn == 1 else f"{request.last}; {len(words)} done"
@axe_nb.script("helper")
def helper(request):
    asked.append(request.place)
    return f"{request.last} by {request.system}"
axe_nb.define(axe_nb.Agent("helper", "script/helper", system_prompt="helper"))
axe_nb.define(axe_nb.Agent("other", "script/helper", system_prompt="other"))
axe_nb.define(axe_nb.Agent("lead", "script/lead", sub_agents=("helper",)))
"""


@pytest.fixture
def cells(kernel: Kernel) -> Kernel:
    assert kernel.run(CODE) == []
    [error] = kernel.run("%axe request 0/1")
    assert error["evalue"] == "nothing has run yet"
    kernel.run("%%axe lead -q -o first\none two three")
    kernel.run("%%axe lead -q -o second\none three")
    kernel.run("asked.clear()")
    return kernel


def head(cells: Kernel, line: str) -> str:
    return str(cells.run(line)[-1]["data"]["text/plain"].splitlines()[0])


def asked(cells: Kernel) -> str:
    return text(cells.run("print(*asked); asked.clear()")).strip()


def error_lines(outputs: list[Output]) -> list[str]:
    error = outputs[-1]
    assert error["type"] == "error", text(outputs)
    return "\n".join(error["traceback"]).splitlines()


@pytest.mark.req("E-9")
def test_two_runs_are_compared_as_text_and_html_the_same_every_time(cells: Kernel) -> None:
    [shown] = cells.run("%axe diff first second")
    assert set(shown["data"]) == {"text/html", "text/plain"}
    assert cells.run("%axe diff first second")[0]["data"] == shown["data"]
    lines = shown["data"]["text/plain"].splitlines()
    assert lines[0] == "≠ lead: 3 changes, first at 0/1, different path"
    assert lines[2].split() == ["turns", "5", "4", "−1"]
    assert '  call 2, only in first: [-call_agent {"agent": "helper", "task": "two"}-]' in lines
    assert set(shown["metadata"]["axe_nb"]) == {"seconds"}
    wanted = "≠ helper: 2 changes, first at 0.1/1, same path"
    assert head(cells, "%axe diff first@0.1 first@0.3") == wanted
    assert head(cells, "%axe diff @0.1 @0.2") == head(cells, "%axe diff 0.1 0.2") == wanted
    assert head(cells, "%axe diff first@0 first") == "= lead: no differences"
    assert head(cells, "d = %axe diff first second\nd") == head(cells, "%axe diff first second")
    assert text(cells.run("print(d.first, d.same_path, len(d.changes))")) == "0/1 False 3\n"


@pytest.mark.req("D-62")
def test_the_request_at_a_place_is_shown_as_text_and_html(cells: Kernel) -> None:
    [shown] = cells.run("%axe request first@0.2/1")
    data = shown["data"]
    assert set(data) == {"text/html", "text/plain"}
    for part in ("helper", "0.2/1", "linear-gradient(", "new prompt:", "<pre "):
        assert part in data["text/html"]
    assert "%" in data["text/plain"]
    body = text(cells.run("import json; print(json.dumps(first.request('0.2/1').body))"))
    assert json.loads(data["text/plain"].partition(" bytes):\n")[2]) == json.loads(body)
    for line, wanted in {
        "%axe request": "lead · script/lead · 0/2",
        "%axe request @0.1/1": "helper · script/helper · 0.1/1",
        "%axe request 0.1": "helper · script/helper · 0.1/1",
        "%axe request first@0/1": "lead · script/lead · 0/1",
        "last = %axe request 0/1\nlast": "lead · script/lead · 0/1",
    }.items():
        assert " · ".join(head(cells, line).split(" · ")[:3]) == wanted
    out = text(cells.run("%%axe lead --dry-run --full\ngo"))
    assert "\n--- Request ---\nlead · script/lead · 0/1 · about " in out
    assert re.search(r'"role": "user",\s+"content": "go"', out)


@pytest.mark.req("D-66")
def test_a_cell_forks_a_run_at_a_place(cells: Kernel) -> None:
    [shown] = cells.run("%%axe --from second@0.2/1 -o riga\nTask: Riga")
    twin = shown["data"]["text/plain"]
    assert "✓ lead · script/lead · completed · fork of 0.2/1 (2 turns recorded) · 2 turns" in twin
    assert "✓ helper · Task: one by helper · recorded · " in twin
    assert "Task: Riga by helper" in twin
    assert "fork of 0.2/1" in shown["data"]["text/html"]
    assert asked(cells) == "0.2/1 0/2"
    cells.run("%%axe --from second@0/2 -q\nAnd now {{ 1 + 1 }}")
    assert asked(cells) == "0/2"
    said = text(cells.run("print(axe_nb.last().messages[-2].content, axe_nb.last().origin)"))
    assert said.strip() == "And now 2 0/2"
    cells.run("%axe run --from second@0.1/1 -q")
    assert asked(cells) == "0.1/1", "its answer was the same"
    cells.run("%%axe other --from second@0.2/1 -q\n \n")
    assert asked(cells) == "0.2/1 0/2"
    assert text(cells.run("print(axe_nb.last().text)")) == (
        "Task: one by helper\n\nTask: three by other; 2 done\n"
    )
    cells.run("%config AxeMagics.model = 'script/nobody'")
    cells.run("%axe run --from second@0/2 -q")
    cells.run("%config AxeMagics.model = ''")
    ended = text(cells.run("print(axe_nb.last().status, axe_nb.last().model)"))
    assert ended.split() == ["completed", "script/lead"], "defaults change no agent of a fork"


@pytest.mark.req("D-67")
def test_a_cell_fails_with_three_lines_where_an_expectation_is_not_met(cells: Kernel) -> None:
    met = r"helper >= 2, parallel; text ~ /\b\d{4}; x|2 done/; depth == 1"
    assert cells.run(f'%%axe lead -q --expect "{met}"\na b')[-1]["type"] != "error"
    assert error_lines(cells.run('%%axe lead -q -o r --expect "lead; helper <= 1"\na b')) == [
        "ExpectationError: expectation not met: helper <= 1 (found 2 runs)",
        "in agent lead › helper (0.2)", "look at r.children[1]",
    ]  # fmt: skip
    assert text(cells.run("print(r.status)")) == "completed\n", "the result is bound all the same"
    assert error_lines(cells.run("axe_nb.expect(r, 'no helper')"))[1:] == [
        "in agent lead › helper (0.1)", "look at axe_nb.last().children[0]",
    ]  # fmt: skip
    cells.run("handle = %axe run lead 'a b' --bg")
    cells.run("%%axe helper -q\n{{ 1 }}")
    for line in (
        "r: helper >= 2, parallel; no write_file", r"r:text ~ /\d;|done/; turns",
        "handle : helper == 2; agent:lead", "helper == 1; turns", "agent:helper; tool:grep == 0",
    ):  # fmt: skip
        assert text(cells.run(f"%axe expect {line}")) == "✓ 2 expectations met\n"
    assert error_lines(cells.run("%axe expect r: no call_agent")) == [
        "ExpectationError: expectation not met: no call_agent (found 2 calls)",
        "in agent lead, turn 1, call of call_agent", "look at r.log[0].calls[0]",
    ]  # fmt: skip
    assert error_lines(cells.run("%axe expect turns == 99"))[-1] == "look at axe_nb.last()"


def test_a_run_is_played_from_a_variable_and_from_an_exported_page(cells: Kernel) -> None:
    cells.run("axe_nb.export(first, 'first.html'); first.save('first.axe')")
    for run in ("first", "first.html", "./first.axe"):
        played = text(cells.run(f"%axe replay {run} --speed 10"))
        assert "three by helper; 3 done\n\n✓ lead · script/lead · completed" in played
    [error] = cells.run("%axe replay nothing.html")
    assert error["evalue"] == "cannot read nothing.html: No such file or directory"


def test_only_the_last_run_is_shown_as_the_last_run(kernel: Kernel) -> None:
    kernel.run("import axe_nb; axe_nb.script('long')(lambda request: 'word ' * 9000)")
    kernel.run("%%axe -m script/long\nhi")
    copy = kernel.run("axe_nb.RunResult.from_dict(axe_nb.last().to_dict(full=True))")
    assert "more characters: (result).text" in copy[-1]["data"]["text/plain"]
    last = kernel.run("axe_nb.last()")
    assert "more characters: axe_nb.last().text" in last[-1]["data"]["text/plain"]
