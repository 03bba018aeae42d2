"""A person in front of the cell is asked before a tool writes, and when a model wants to know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, kinds, text

SETUP = """
%load_ext axe_nb
import axe_nb

@axe_nb.script("writer")
def writer(request):
    if request.results:
        return " / ".join(result.content.splitlines()[0] for result in request.results)
    return [axe_nb.call("write_file", path=f"{n}.txt", content="new\\n") for n in range(2)]

@axe_nb.script("curious")
def curious(request):
    if request.results:
        return f"So it is {request.results[0].content}."
    return axe_nb.call("ask_user", question="Which day is it?")

@axe_nb.script("boss")
def boss(request):
    if request.results:
        return request.results[0].content
    return axe_nb.call("call_agent", agent="writer", task="write")

for name, tools in (("writer", ["write_file"]), ("curious", ["ask_user"]), ("boss", [])):
    axe_nb.define(axe_nb.Agent(name=name, model=f"script/{name}", tools=tools,
                               sub_agents=["writer"] if name == "boss" else []))
"""


@pytest.mark.req("D-19", "D-48", "O-35")
def test_the_person_decides_on_each_call_and_sees_what_it_would_change(
    cells: Kernel, project: Path
) -> None:
    (project / "0.txt").write_text("old\n")
    cells.run("%%axe writer -o r\ngo", live=True, answers=["yes", "no not that one"])
    first, second = cells.asked
    assert 'writer wants to call write_file({"path": "0.txt"' in first
    assert "-old\n+new" in first
    assert "[y]es  [n]o  [a]lways for files directly in the workdir  [e]dit" in second
    assert (project / "0.txt").read_text() == "new\n"
    assert not (project / "1.txt").exists()
    denied = "Error: permission denied for write_file by the user: not that one"
    assert denied in text(cells.run("print(r.messages[2].tool_results[1].content)"))

    cells.run("%%axe writer\ngo", live=True, answers=["what?", "a"])
    assert len(cells.asked) == 2, "always holds for the second call too"
    assert (project / "1.txt").read_text() == "new\n"

    edited = ["e", '{"path": "2.txt", "content": "mine"}', "n"]
    cells.run("%%axe writer\ngo", live=True, answers=edited)
    assert (project / "2.txt").read_text() == "mine"


@pytest.mark.req("D-48", "D-2")
def test_stop_ends_the_run_and_an_interrupt_at_the_question_does_too(
    cells: Kernel, project: Path
) -> None:
    for answers, interrupt_after in ((["s"], None), ([], 2.0)):
        cell = "%%axe writer -o r --raises cancelled\ngo"
        out = cells.run(cell, live=True, answers=answers, interrupt_after=interrupt_after)
        assert "error" not in kinds(out), text(out)
        said = text(cells.run("print(r.status, r.error)"))
        assert said == "cancelled stopped by the user at a prompt\n"
    assert list(project.glob("*.txt")) == []


@pytest.mark.req("D-19", "O-19")
def test_a_model_can_ask_and_a_child_cannot(cells: Kernel) -> None:
    cells.run("%%axe curious -o r\ngo", live=True, answers=["Tuesday"])
    assert cells.asked == ["\ncurious asks: Which day is it?\n> "]
    assert text(cells.run("print(r.text)")) == "So it is Tuesday.\n"
    cells.run("%%axe boss -o r\ngo", live=True)
    assert cells.asked == []
    assert "sub-agents cannot ask" in text(cells.run("print(r.children[0].text)"))


def test_a_run_is_stepped_through_in_a_cell_and_replayed_without_anybody(
    cells: Kernel, project: Path
) -> None:
    cells.run("%config AxeMagics.display = 'live'")
    cells.run("%%axe writer --step --mode auto\ngo", live=True, answers=["s"])
    whole = "\nwriter, turn 1, is about to ask script/writer (1 message; l = look)\n  | go\n[g]o on"
    assert cells.asked[0].startswith(whole), "the tree may not be on the screen"
    cells.run("import os; os.environ['JPY_SESSION_NAME'] = 'a.ipynb'")
    cells.run("%axe cassette c.json --mode record")
    cell = "%%axe writer -o r --step --mode auto\ngo"
    out = cells.run(cell, live=True, answers=["l", "g", "r", "by hand", "k", "e", "So be it."])
    request, looked, call, result, other, end, reply = cells.asked
    letters = ": [g]o on [e]dit [r]esult s[k]ip run to the e[n]d [s]top: "
    assert [asked.endswith(letters) for asked in (request, looked, call, other, end)] == [True] * 5
    # in one line: the tree on the screen says the rest
    assert request == call == other == f"\nwriter, turn 1{letters}"
    assert '"messages"' in looked
    assert result == "result of the call: "
    assert end == f"\nwriter, turn 2{letters}"
    assert reply.endswith("\nnew reply, as text or JSON; empty = unchanged: ")
    assert list(project.glob("*.txt")) == []
    assert "So be it." in text(out)
    cells.run("os.environ.pop('JPY_SESSION_NAME')\n%axe cassette c.json --mode replay")
    again = cells.run("%%axe writer -o again --step --mode auto\ngo")
    assert cells.asked == []
    assert "So be it." in text(again)
    same = "print(again.messages == r.messages, r.log[1].source, r.log[0].results[0].note)"
    assert text(cells.run(same)) == "True edited given by you\n"
    cells.run("%axe cassette c.json --mode live")
    failed = text(cells.run("%%axe writer --break tool:write_file\ngo"))
    assert "--break pauses the run: no one can be prompted here" in failed
