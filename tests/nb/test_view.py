"""When a run is shown live, and what is sent to the browser; in real kernels of both lines."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

import pytest

from axe_nb.views.markdown import render
from tests.nb.kernels import WIDGET, Kernel, Output, contents, kinds, shown, text

SETUP = """
import asyncio, axe_nb, os
os.environ.pop("PYTEST_VERSION", None)  # a person watches
from axe_nb import Agent, Response, call

@axe_nb.script("lead")
def lead(request):
    if request.turn == 1:
        return tuple(call("call_agent", agent="child", task=f"part {n}{PAD}") for n in range(3))
    return Response("All **done**.")

@axe_nb.script("child")
async def child(request):
    await asyncio.sleep(PAUSE)
    return f"did {request.last}"

axe_nb.define(Agent("child", "script/child"))
lead = axe_nb.define(Agent("lead", "script/lead", sub_agents=("child",)))
PAUSE, PAD = 0.3, ""
"""

RUN = "r = axe_nb.run('lead', 'Go.')"


def test_where_a_person_watches_a_widget_is_fed_and_then_replaced(cells: Kernel) -> None:
    outputs = cells.run(RUN, live=True)
    first, last = shown(outputs)
    assert set(first) == {WIDGET, "text/html", "text/plain"}
    assert "Still running when last seen" in first["text/html"]
    assert set(last) == {"text/html", "text/plain"}
    assert last["text/plain"].startswith("All **done**.")
    assert kinds(outputs)[-1] == "comm_close"
    assert "did Task: part 2" in text(cells.run("print(r.children[2].text)"))
    headless = cells.run(RUN)
    assert (kinds(headless), shown(headless)) == (["display_data"], [last])
    cells.run("%load_ext axe_nb\n%config AxeMagics.display = 'live'")
    assert "comm_open" in kinds(cells.run(RUN)), "headless, too"


@pytest.mark.parametrize(
    "before",
    [
        "\n%load_ext axe_nb\n%config AxeMagics.display = 'static'",
        "os.environ['PYTEST_VERSION'] = '9'",
    ],
)
def test_the_live_view_needs_a_person(cells: Kernel, before: str) -> None:
    cells.run(f"import os; {before}")
    assert kinds(cells.run(RUN, live=True)) == ["display_data"]


def test_captured_output_is_the_twin_at_once(cells: Kernel) -> None:
    assert cells.run("%%capture kept\nr = axe_nb.run('lead', 'Go.')", live=True) == []
    said = text(cells.run("print(len(kept.outputs), *sorted(kept.outputs[0].data))"))
    assert said == "1 text/html text/plain\n"


GATHER = """
@axe_nb.script("slow")
async def slow(request):
    n = int(request.last)
    await asyncio.sleep(0.1 * (3 - n))
    return f"did {n}"

axe_nb.define(Agent("slow", "script/slow"))
results = await asyncio.gather(*[axe_nb.arun("slow", str(n)) for n in range(3)])
"""


@pytest.mark.parametrize("live", [False, True], ids=["headless", "live"])
def test_runs_of_a_gather_have_a_display_each(cells: Kernel, live: bool) -> None:
    outputs = cells.run(GATHER, live=live)
    assert len([o for o in outputs if o["type"] == "display_data"]) == 3, text(outputs)
    ends = [data["text/plain"].split("\n")[0] for data in shown(outputs) if WIDGET not in data]
    assert sorted(ends) == ["did 0", "did 1", "did 2"]
    if not live:
        assert ends == sorted(ends), "in the order of the calls, whichever ends first"


STREAM = """
import time

@axe_nb.script("words")
def words(request):
    for n in range(3000):
        yield f"word{n} "
        time.sleep(max(0, began + n / 900 - time.monotonic()))  # a server waits for no machine

began = time.monotonic()
r = axe_nb.run(Agent("words", "script/words"), "Go.")
print(time.monotonic() - began)
"""


def join_answers(told: list[Any]) -> list[str]:
    """The HTML of the answer that stands in the page after each of the news."""
    blocks, pages = dict[int, str](), list[str]()
    for news in told:
        blocks |= {int(at): html for at, html in news["parts"].items()}
        pages.append("".join(blocks[at] for at in range(news["size"])))
    return pages


def live_texts(outputs: list[Output]) -> list[str]:
    """The texts that the browser was told while the run went on."""
    return [re.sub("<[^>]*>|\n", "", page) for page in join_answers(contents(outputs)) if page]


def test_a_fast_stream_is_sent_ten_times_a_second_and_at_a_bounded_pace(cells: Kernel) -> None:
    outputs = cells.run(STREAM, live=True)
    told = contents(outputs)
    took = float(text(outputs).split("\n")[-1] or text(outputs).split("\n")[-2])
    assert len(told) <= took * 10 + 3
    answer = "".join(f"word{n} " for n in range(3000))
    html = render(answer[:20_000])
    more = f"<p>… {len(answer) - 20_000:,} more characters</p>"
    [page] = [part for part in join_answers(told)[-1:] if part.startswith(html + more)]
    assert page.endswith("word2998 word2999 </pre>")
    assert shown(outputs)[-1]["text/html"].count(html) == 1, "it is what stands there at the end"
    # a paragraph that grows is rendered, and sent, at a bounded pace
    assert sum(len("".join(news["parts"].values())) for news in told) < 60_000 * (took + 3)


STREAMING = """
import axe_nb.scripting.rules
from pathlib import Path
Path("axe/scripts").mkdir(exist_ok=True)
Path("axe/scripts/talks.toml").write_text('''
stream = true
[[rule]]
text = "Once upon a time there was a stream."
delay = 1.5
''')
talks = axe_nb.define(Agent("talks", "script/talks"))
"""


@pytest.mark.req("D-24")
def test_a_live_run_shows_its_text_as_it_comes_unless_that_is_turned_off(cells: Kernel) -> None:
    cells.run(f"%load_ext axe_nb\n{STREAMING}")
    whole = "Once upon a time there was a stream."
    live = cells.run("r = axe_nb.run('talks', 'Go.')", live=True)
    assert live_texts(live)[0] != whole
    assert "\nStream:   yes\n" in text(cells.run("%%axe talks --dry-run\nGo.", live=True))
    assert "Stream:" not in text(cells.run("%%axe talks --dry-run\nGo."))
    for cell in ("r = axe_nb.run('talks', 'Go.', stream=False)", "%%axe talks --no-stream\nGo."):
        outputs = cells.run(cell, live=True)
        assert set(live_texts(outputs)) <= {whole}
        assert shown(outputs)[-1] == shown(live)[-1]


def test_an_interrupted_run_leaves_its_twin(cells: Kernel) -> None:
    cells.run("PAUSE = 20")
    started = time.monotonic()
    outputs = cells.run(RUN, live=True, interrupt_after=1.0)
    assert time.monotonic() - started < 15
    assert "⊘ lead · script/lead · cancelled · 1 turn" in shown(outputs)[-1]["text/plain"]
    assert "comm_close" in kinds(outputs)
    assert outputs[-1]["type"] == "error"


def test_a_front_end_that_fails_does_not_touch_the_run(cells: Kernel) -> None:
    cells.spoilt = True
    cells.run(
        "import ipywidgets\n"
        "def fail(*args, **kwargs): raise RuntimeError('no front end')\n"
        "ipywidgets.Widget.send = fail\n"
        "PAUSE = 2.0"
    )
    outputs = cells.run(RUN, live=True)
    assert "All **done**." in shown(outputs)[-1]["text/plain"]
    assert "error" not in kinds(outputs)


def test_under_a_jupyter_server_the_output_is_readable_at_every_moment(served: Kernel) -> None:
    served.run("PAUSE = 2.5")
    outputs = served.run(RUN, live=True)
    first, *told, last = shown(outputs)
    assert all(set(data) == {"text/html", "text/plain"} for data in (first, *told, last))
    [place] = {o["transient"]["display_id"] for o in outputs if "display_data" in o["type"]}
    assert place
    assert 1 <= len(told) <= 4
    texts = "\n".join(data["text/plain"] for data in told)
    assert re.search(
        r"● lead · script/lead · turn 1 · 0 of 3 sub-agents done · 3 running · .*\d s\n"
        r"Still running when last seen\. Its result, once it has ended: axe_nb\.last\(\)\. "
        r"After a kernel restart: %axe history",
        texts,
    )
    states = [o["data"]["state"] for o in outputs if o["type"] == "comm_open"]
    [mark] = [state["mark"] for state in states if "mark" in state]
    assert all(mark in data["text/html"] for data in (first, *told))
    assert mark not in last["text/html"]
    times = [each["now"] for each in contents(outputs) if "now" in each]
    assert max(b - a for a, b in itertools.pairwise(times)) < 2.4, "no news is news"
    served.run("os.environ.pop('JPY_SESSION_NAME')")
    assert shown(served.run(RUN))[-1] == last


def test_the_latest_widget_is_kept_for_a_page_that_is_loaded_anew(served: Kernel) -> None:
    served.run("PAUSE = 0.0")
    outputs = served.run(RUN, live=True)
    kept = {o["comm_id"] for o in outputs if o["type"] == "comm_open"}
    assert not kept & {o["comm_id"] for o in outputs if o["type"] == "comm_close"}
    outputs = served.run(RUN, live=True)
    assert {o["comm_id"] for o in outputs if o["type"] == "comm_close"} == kept, "its layout, too"
    served.run("__vsc_ipynb_file__ = 'test.ipynb'")  # a page that is not the server's own
    first, _ = shown(served.run(RUN, live=True))
    assert set(first) == {WIDGET, "text/html", "text/plain"}
