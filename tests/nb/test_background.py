"""`--bg`: a run beside the next cells, seen in its own output only."""

from __future__ import annotations

import pytest

from tests.nb.kernels import WIDGET, Kernel, Output, kinds, text

SCRIPTS = {
    "echo": '[[rule]]\ntext = "You said: {last}"\n',
    "slow": '[[rule]]\ndelay = 3\ntext = "late: {last}"\n',
    "never": '[[rule]]\ndelay = 60\ntext = "too late"\n',
    "broken": '[[rule]]\nstatus = 529\nerror = "Overloaded"\n',
    "lead": (
        "[[rule]]\nwhen = { turn = 1 }\n"
        'calls = [{ tool = "call_agent", arguments = { agent = "slow", task = "wait" } }]\n'
        '[[rule]]\ntext = "Both are done."\n'
    ),
}


AGENTS = {"lead": 'sub_agents = ["slow"]\n'}


@pytest.fixture
def watched(cells: Kernel) -> Kernel:
    """A kernel in front of a person who watches live."""
    cells.run("%config AxeMagics.display = 'live'")
    return cells


def printed(outputs: list[Output]) -> str:
    """What a cell printed, without the end of an earlier cell's view that ipykernel 6 reports."""
    return "".join(str(output["text"]) for output in outputs if output["type"] == "stream")


def test_a_handle_is_there_at_once_and_the_view_stays_in_its_own_output(watched: Kernel) -> None:
    started = watched.run("%%axe lead --bg -o job\ngo")
    own = watched.cell
    if "display_data" not in kinds(started):  # threads of ipykernel 6 send in no certain order
        late = watched.later(2)
        assert {output["of"] for output in late} == {own}
        started += late
    [shown] = [output for output in started if output["type"] == "display_data"]
    assert WIDGET in shown["data"]
    assert {*kinds(started)} <= {"comm_open", "display_data", "comm_msg"}, "no text of the handle"
    place = shown["transient"]["display_id"]

    shown_as = "False <lead: running; .result(), .cancel(), .done>\n"
    assert text(watched.run("print(job.done, job)")) == shown_as
    meanwhile = watched.run("import time; time.sleep(1); print('another cell')")
    after = [*meanwhile, *watched.later(4)]
    expected = {"comm_open", "comm_close", "stream", "comm_msg", "update_display_data"}
    assert {*kinds(after)} <= expected, "nothing new in a later cell"
    assert printed(after) == "another cell\n"
    [twin] = [output for output in after if output["type"] == "update_display_data"]
    assert twin["transient"]["display_id"] == place
    assert set(twin["data"]) == {"text/html", "text/plain"}
    assert twin["data"]["text/plain"].startswith("Both are done.")
    assert own != watched.cell

    [ended] = watched.run("job.result()")
    assert ended["data"] == twin["data"], "asked for in another cell, it is shown there too"
    assert text(watched.run("job")) == "<lead: completed; .result(), .cancel(), .done>"
    last = "import axe_nb; print(job.done, axe_nb.last() is job.result())"
    assert text(watched.run(last)) == "True True\n"


@pytest.mark.req("D-8")
def test_cancelling_keeps_what_was_done(watched: Kernel) -> None:
    watched.run("%%axe never --bg -o job\ngo")
    # ipykernel 6 says of updates in the background that they belong to the latest cell
    *_, error = watched.run("job.result(timeout=0.1)")
    assert error["evalue"] == "never is still running; .cancel() stops it"
    stopped = watched.run("job.cancel(); r = job.result(60); print(r.status, job.done, job)")
    assert printed(stopped).startswith("cancelled True <never: cancelled;")
    watched.run("%%axe never -c -m script/echo -o again\nand now?")
    assert text(watched.run("print(again.text)")) == "You said: and now?\n"


def test_what_is_wrong_beforehand_is_an_error_of_the_cell(watched: Kernel) -> None:
    for cell, told in (
        ("%%axe nobody --bg\nhi", "agent config not found: nobody"),
        ("%%axe echo --bg\n{{ nobody }}", 'unknown name "nobody" in {{ nobody }} (line 2)'),
        ("%%axe echo --bg -c\nhi", 'nothing to continue: agent "echo" has not run in this session'),
        ("%%axe echo --bg -v\nhi", "--bg and --verbose cannot be combined"),
        ("%%axe echo --bg --raises error\nhi", "--bg and --raises cannot be combined"),
    ):
        [error] = watched.run(cell)
        assert error["evalue"] == told


def test_headless_it_runs_in_the_foreground_with_the_same_handle(cells: Kernel) -> None:
    [plain] = cells.run("%%axe echo\nhi")
    [shown] = cells.run("%%axe echo --bg -o job\nhi")
    assert (shown["type"], shown["data"]) == ("display_data", plain["data"])
    assert text(cells.run("print(job.done, job.result().text)")) == "True You said: hi\n"
    *_, error = cells.run("%%axe never --bg -o job\nhi", interrupt_after=1.5)
    assert error["ename"] == "KeyboardInterrupt"
    assert cells.run("%axe run echo --bg -o job -p hi")[0]["data"] == plain["data"]


def test_a_handle_can_be_awaited_however_its_run_ends(watched: Kernel) -> None:
    for agent, stop, ending in (
        ("slow", "", "completed late: hi"),
        ("broken", "", "error "),
        ("never", "job.cancel(); ", "cancelled "),
    ):
        watched.run(f"%%axe {agent} --bg -o job\nhi")
        said = printed(watched.run(f"{stop}r = await job; print(r.status, r.text)"))
        assert said == f"{ending}\n"
