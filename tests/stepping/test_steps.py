"""Steps: one at a time in a whole tree, what each decision does, and their replay."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, CassetteMiss, ConfigError, Request, RunResult, Step, call
from axe_nb.engine.person import AskPerson, Decision, Question
from axe_nb.events import Event, PersonAnswered, PersonAsked, RunFinished
from axe_nb.messages import ToolParameter
from axe_nb.recording.cassette import Cassette
from axe_nb.session.drive import Approver, NullView, drive
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from axe_nb.tools.tool import Tool, ToolContext
from axe_nb.views.outline import as_text
from axe_nb.views.rows import make_row
from axe_nb.views.transcript import Transcript, TreeNode, nodes_below
from tests.engine.in_process import Stage, agent, ask, ask_session, check_events, heard, lead, stage


async def _measure(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    return f"{arguments['town']} has {len(str(arguments['town']))} letters"


MEASURE = Tool(
    "measure", "Measures a town.", {"town": ToolParameter("string", required=True)}, _measure,
    "read",
)  # fmt: skip


def surveyor(name: str = "lead", *towns: str) -> Agent:
    """An agent that measures the towns in its first turn, and then says the results."""

    def model(request: Request) -> Any:
        if request.results:
            return "; ".join(result.content for result in request.results)
        return [call("measure", town=town) for town in towns or ("Rome",)]

    return agent(name, model, tools=(MEASURE,))


class Decider:
    """Decides by place and kind, goes on elsewhere; keeps all steps."""

    def __init__(self, **decisions: Callable[[Step], Any]) -> None:
        self.decisions = decisions
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> Any:
        self.steps.append(step)
        decide = self.decisions.get(f"{step.kind}{step.number or step.turn}")
        return decide(step) if decide else None

    @property
    def seen(self) -> list[str]:
        """The steps in words: `0/1 request`, `0/1 call measure`."""
        return [f"{s.place} {s.kind} {s.tool}".strip() for s in self.steps]


def _edit_reply(step: Step) -> Any:
    if step.kind == "request":
        return step.edit()
    return step.edit("mine") if step.kind == "reply" and step.turn == 2 else None


ROME, OSLO = "Rome has 4 letters", "Oslo has 4 letters"

DECISIONS: dict[str, tuple[Callable[[Step], Any], str, str]] = {
    "edited": (
        lambda s: s.edit({"town": "Trondheim"}) if s.number == 1 else None,
        "Trondheim has 9 letters\n(The user changed the arguments of this call to "
        f'{{"town":"Trondheim"}}); {OSLO}', '(edited by you) Trondheim',
    ),
    "given": (
        lambda s: s.result({"letters": 7}) if s.number == 2 else None,
        f'{ROME}; {{"letters": 7}}', "given by you",
    ),
    "skipped": (
        lambda s: "skip" if s.number == 1 else None,
        f"Error: skipped by the user; the call was not made; {OSLO}", "skipped by you",
    ),
    "reply given": (lambda s: s.result("I say so") if s.turn == 2 else None, "I say so", "given"),
    "first reply given": (
        lambda s: (
            s.result(call("measure", town="Bergen")) if s.place == "0/1" and not s.tool else None
        ),
        "Bergen has 6 letters", "given",
    ),
    "reply edited": (_edit_reply, "mine", "edited"),
    "request skipped": (lambda s: "skip" if s.turn == 2 else None, "", "skipped"),
    "run to the end": (lambda s: "end" if s.number == 2 else None, f"{ROME}; {OSLO}", "Rome"),
    "stopped": (lambda s: "stop" if s.turn == 2 else None, "", "stopped by the user"),
}  # fmt: skip
"""Name → what decides, the answer, and a part of the run as text."""


def chain() -> Stage:
    """lead → middle → low, which measures a town."""
    return stage(lead(ask("middle")), lead(ask("low"), name="middle"), surveyor("low"))


@pytest.mark.parametrize(
    ("where", "seen"),
    [
        (
            (),
            ["0/1 request", "0/1 call call_agent", "0.1/1 request", "0.1/1 call call_agent",
             "0.1.1/1 request", "0.1.1/1 call measure", "0.1.1/2 request", "0.1/2 request",
             "0/2 request"],
        ),
        ("tool:measure", ["0.1.1/1 call measure"]),
        ("agent:middle", ["0.1/1 request", "0.1/1 call call_agent", "0.1/2 request"]),
        ("depth:2", ["0.1.1/1 request", "0.1.1/1 call measure", "0.1.1/2 request"]),
        (["tool:measure", "depth:0"],
         ["0/1 request", "0/1 call call_agent", "0.1.1/1 call measure", "0/2 request"]),
    ],
)  # fmt: skip
def test_a_tree_pauses_everywhere_or_only_at_its_breaks(where: Any, seen: list[str]) -> None:
    decider, made = Decider(), chain()
    result = made.play(step=decider, break_at=where)
    assert result.text == "Rome has 4 letters"
    assert decider.seen == seen
    check_events(made.events, result)


def test_a_place_that_is_wrong_is_an_error_and_one_that_was_not_reached_a_warning() -> None:
    for where in ("tools:grep", "tool:", "tool", "turn:3", "depth:x"):
        with pytest.raises(ConfigError, match="is not a breakpoint"):
            Overrides(break_at=(where,))
    where = "tool:measures, tool:measure"
    result = chain().play(step=Decider(), break_at=where)
    assert result.warnings == ("the run never reached --break tool:measures",)


def parallel() -> Stage:
    """lead → three children at once, each of which measures a town."""
    names = [f"c{n}" for n in range(3)]
    return stage(lead(*map(ask, names)), *(surveyor(n, n) for n in names))


def test_steps_of_children_at_once_come_one_at_a_time_while_others_go_on() -> None:
    open_now, most = 0, 0

    async def decide(step: Step) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(open_now, most)
        if step.run == "0.1":
            await waiting.wait()
        open_now -= 1

    made = parallel()
    waiting = asyncio.Event()

    def model(request: Request) -> Any:
        waiting.set()  # c1 has been asked, while the step of c0 is open
        return "done"

    axe_nb.script("c1")(model)
    assert made.play(step=decide, break_at="agent:c0").ok
    assert parallel().play(step=decide).ok
    assert most == 1


def test_stop_in_a_child_ends_the_whole_tree_and_its_siblings() -> None:
    sent: list[str] = []

    async def slow(_: Request) -> str:
        sent.append("slow")
        await asyncio.sleep(60)
        return "never"

    def decide(step: Step) -> Any:
        return "stop" if step.run == "0.1" and step.kind == "call" else "go"

    made = stage(lead(ask("low"), ask("slow")), surveyor("low"), agent("slow", slow))
    result = made.play(step=decide)
    assert (result.status, result.error) == ("cancelled", "stopped by the user at a prompt")
    assert {child.status for child in result.children} == {"cancelled"}
    assert result.turns == 1
    assert "You may retry" not in as_text(result), "the lead is told nothing, as it is over"
    check_events(made.events, result)


def test_a_step_is_not_an_approval() -> None:
    asked: list[str] = []

    async def person(question: Question) -> Decision:
        asked.append(type(question).__name__)
        return Decision("go") if isinstance(question, Step) else Decision("no")

    root = surveyor().but(tools=(replace(MEASURE, effect="write"),))
    overrides = Overrides(step=True)
    made = stage(root)
    result = asyncio.run(ask_session(made.session, root, "go", overrides, ask_person=person))
    assert asked == ["Step", "Step", "ApprovalRequest", "Step"]
    assert "permission denied for measure by the user" in result.text


def rows(transcript: Transcript) -> list[str]:
    assert transcript.root
    nodes: list[TreeNode] = [transcript.root]
    made = []
    while nodes:
        node = nodes.pop(0)
        row = make_row(node)
        made.append(" · ".join(filter(None, (row.who, row.asked, row.cost))))
        nodes[:0] = nodes_below(node)
    return made


def test_a_call_at_whose_question_the_run_was_stopped_did_not_run() -> None:
    made, transcript = chain(), Transcript()
    made.emit = lambda event: transcript.apply(event, 0.0)
    made.play(step=Decider(call1=lambda step: "stop"))
    assert rows(transcript)[1:] == ["middle · work · not run"]


def test_the_tree_says_who_waits_for_the_person_and_no_longer_once_it_is_decided() -> None:
    made, waiting, transcript = chain(), {}, Transcript()

    def show(event: Any) -> None:
        transcript.apply(event, 0.0)
        if isinstance(event, PersonAsked):
            waiting.setdefault((event.run, bool(event.call_id)), rows(transcript))
        if isinstance(event, PersonAnswered):
            assert "waits for you" not in "".join(rows(transcript))

    made.emit = show
    made.play(step=Decider())
    assert "waits for you · turn 1" in waiting["0", False][0]
    request, call = waiting["0.1.1", False], waiting["0.1.1", True]
    assert "low waits for you" in request[0]
    assert [row for row in request[1:] if "waits for you" in row]
    assert any(row.startswith("measure") and "waits for you" in row for row in call)


def test_where_no_one_can_be_asked_it_is_an_error_before_anything_is_sent() -> None:
    sent: list[Request] = []
    made = stage(agent("lead", lambda request: sent.append(request) or "x"))
    with pytest.raises(ConfigError, match="--step pauses the run: no one can be prompted here"):
        made.play(step=True)
    with pytest.raises(ConfigError, match="--break pauses the run"):
        made.play(break_at="depth:0")
    assert sent == []
    assert made.events == []


def test_a_stepped_run_can_be_forked_and_kept_turns_are_no_steps() -> None:
    decider = Decider(
        request1=lambda step: step.result(call("measure", town="Bergen")),
        call1=lambda step: step.result("six"),
    )
    made = stage(surveyor())
    first = made.play(step=decider)
    assert first.text == "six"
    again = Decider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("axe_nb.api.session", made.session)
        forked = first.fork("0/2", prompt="And now?", step=again)
    assert again.seen == ["0/2 request", "0/2 call measure", "0/3 request"]
    assert [turn.source for turn in forked.log] == ["recorded", "", ""]
    assert axe_nb.RunResult.from_dict(first.to_dict(full=True)) == first


def test_an_interrupt_while_a_step_is_open_cancels_the_run() -> None:
    async def work() -> RunResult | None:
        begun = asyncio.Event()

        async def decide(step: Step) -> None:
            begun.set()
            await asyncio.sleep(60)

        overrides = Overrides(step=decide)
        handle = Session().start(RunRequest(agent=surveyor(), overrides=overrides))
        task = asyncio.create_task(handle.execute(lambda event: None))
        async with asyncio.timeout(20):
            await begun.wait()
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return handle.finished

    assert getattr(asyncio.run(work()), "status", "") == "cancelled"


class Seen(NullView):
    """A view that notes who waits, and when the other child has ended."""

    def __init__(self, *, is_live: bool) -> None:
        self.is_live = is_live
        self.other_ended = threading.Event()
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()

    def event(self, event: Event) -> None:
        self.threads.add(threading.current_thread())
        if isinstance(event, PersonAsked):
            self.asked.append(event.run)
        if isinstance(event, RunFinished) and event.run == "0.2":
            self.other_ended.set()


def step(view: Seen, seconds: float) -> list[bool]:
    """Steps through the first of two children; whether the end of the other was shown meanwhile."""
    shown: list[bool] = []
    may_end = threading.Event()

    def answer(question: Question) -> Decision:
        may_end.set()
        shown.append(view.other_ended.wait(seconds))
        return Decision("go")

    def other(_: object) -> str:
        may_end.wait(20)
        return "done"

    made = stage(lead(ask("first"), ask("other")), agent("first", "x"), agent("other", other))
    overrides = Overrides(step=True, break_at=("agent:first",))
    handle = made.session.start(RunRequest(agent="lead", prompt="go", overrides=overrides))
    assert drive(handle, view, Approver(answer)).ok
    assert view.asked == ["0.1"]
    return shown


def test_a_live_view_goes_on_while_the_prompt_is_open_and_a_terminal_is_left_alone() -> None:
    live, terminal = Seen(is_live=True), Seen(is_live=False)
    assert step(live, 20) == [True]
    assert len(live.threads) == 2
    assert step(terminal, 0.3) == [False]
    assert terminal.threads == {threading.current_thread()}


def test_a_view_that_fails_meanwhile_ends_the_run() -> None:
    class Broken(Seen):
        def event(self, event: Event) -> None:
            super().event(event)
            if self.other_ended.is_set():
                raise LookupError("broken view")

    with pytest.raises(LookupError, match="broken view"):
        step(Broken(is_live=True), 20)


SKIP: Any = lambda step: "skip"  # noqa: E731
EDIT: Any = lambda step: step.edit({"town": "Trondheim"})  # noqa: E731


def run(decider: Any, *towns: str, **options: Any) -> RunResult:
    return stage(surveyor("lead", *towns)).play(step=decider, **options)


def test_each_request_and_call_is_a_step_that_tells_what_comes() -> None:
    decider = Decider()
    result = run(decider, "Rome", "Oslo")
    assert result.text == "Rome has 4 letters; Oslo has 4 letters"
    assert decider.seen[0] == "0/1 request"
    assert sorted(decider.seen[1:3]) == ["0/1 call measure"] * 2
    assert decider.seen[3:] == ["0/2 request"]
    first, call, _, last = decider.steps
    assert (first.agent, first.model, first.text) == ("lead", "script/lead", "go")
    assert first.body["messages"][-1] == {"role": "user", "content": "go"}
    assert call.arguments == {"town": "Rome"}
    assert "Oslo has 4 letters" in last.text
    assert "step" not in as_text(result)


@pytest.mark.parametrize("arguments", [{"town": 4}, {}])
def test_edited_arguments_that_do_not_fit_end_the_run(arguments: dict[str, Any]) -> None:
    result = run(Decider(call1=lambda step: step.edit(arguments)))
    assert result.status == "error"
    assert str(result.error).startswith(
        "step: the edited arguments of measure do not match its schema: data"
    )
    assert "town" in str(result.error)


def test_the_row_of_a_child_says_that_its_task_was_edited() -> None:
    changed = {"agent": "middle", "task": "measure Trondheim"}
    result = chain().play(step=Decider(call1=lambda s: s.edit(changed)), break_at="depth:0")
    marked = [line for line in as_text(result).splitlines() if "task edited" in line]
    assert len(marked) == 1
    assert "middle" in marked[0]


def test_what_was_changed_is_in_the_result_and_what_was_not_asked_costs_nothing() -> None:
    skipped, edited = heard(run(Decider(call1=SKIP, call2=EDIT), "Oslo", "Rome"))
    assert edited.edited == {"town": "Trondheim"}
    assert (skipped.is_error, skipped.is_skipped) == (True, True)
    axe_nb.expect(run(Decider(call1=SKIP)), "no measure; failed == 0")
    assert heard(run(Decider(call1=lambda step: step.result("x"))))[0].note == "given by you"
    for source, decider in {
        "given": Decider(request2=lambda step: step.result("I say so.")),
        "skipped": Decider(request2=SKIP),
        "edited": Decider(request2=lambda step: step.edit(), reply2=lambda step: step.edit("x")),
    }.items():
        last = run(decider).log[1]
        assert (last.source, last.usage.total > 0) == (source, source == "edited")


def test_run_to_the_end_makes_no_further_pause() -> None:
    decider = Decider(request1=lambda _: "end")
    assert run(decider).text == "Rome has 4 letters"
    assert decider.seen == ["0/1 request"]


def fail(step: Step) -> Any:
    raise LookupError("no such town")


@pytest.mark.parametrize(
    ("decide", "problem"),
    [
        (
            lambda step: "yes",
            'the step function returned "yes", which is not a decision; return "go"',
        ),
        (lambda step: 7, "the step function returned int, which is not a decision"),
        (fail, "the step function failed: LookupError: no such town"),
    ],
)
def test_a_function_that_does_not_decide_ends_the_run(decide: Any, problem: str) -> None:
    result = run(decide)
    assert (result.status, result.turns) == ("error", 0)
    assert str(result.error).startswith(problem)


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROME_API_KEY", "sk-secret-of-rome-123456")
    decider = Decider()
    stage(surveyor("lead", "sk-secret-of-rome-123456")).play(
        "say sk-secret-of-rome-123456", step=decider
    )
    shown = [f"{s.arguments} {s.body} {s.text} {s!r}" for s in decider.steps]
    assert "sk-secret" not in "".join(shown)
    assert decider.steps[1].arguments == {"town": "***"}


def play(
    cassette: Any, step: Any = True, *, made: Stage | None = None, person: AskPerson | None = None,
    prompt: str = "go", **more: Any,
) -> RunResult:  # fmt: skip
    made = made or stage(surveyor("lead", "Rome", "Oslo"))
    made.session.cassette = cassette
    overrides = Overrides(step=step, **more)
    assert made.root
    return asyncio.run(ask_session(made.session, made.root, prompt, overrides, ask_person=person))


def record(path: Path, step: Any, **more: Any) -> RunResult:
    cassette = Cassette(path, "record")
    result = play(cassette, step, **more)
    cassette.save()
    return result


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_told_in_the_tree_and_replayed(name: str, tmp_path: Path) -> None:
    decide, text, told = DECISIONS[name]
    decider = Decider()
    first = record(tmp_path / "c", decide)
    assert first.text == text
    assert told in as_text(first)
    for step in (True, decider):
        again = play(Cassette(tmp_path / "c", "replay"), step)
        assert as_text(again) == as_text(first)
        assert again.messages == first.messages
        assert (again.status, again.error) == (first.status, first.error)
    assert decider.seen == []


def test_decisions_of_a_person_and_of_a_function_are_the_same(tmp_path: Path) -> None:
    async def person(question: Question) -> Decision:
        assert isinstance(question, Step)
        return Decision("result", "seven") if question.number == 2 else Decision("go")

    record(tmp_path / "a", True, person=person)
    record(tmp_path / "b", lambda s: s.result("seven") if s.number == 2 else None)
    texts = [(tmp_path / name).read_text() for name in "ab"]
    assert texts[0] == texts[1]
    assert '"step":"call"' in texts[0].replace(" ", "")


def test_parallel_children_replay_their_own_decisions_in_any_timing(tmp_path: Path) -> None:
    def decide(step: Step) -> Any:
        return step.result(f"by hand in {step.run}") if step.tool == "measure" else None

    first = record(tmp_path / "c", decide, made=parallel())
    assert first.text == "by hand in 0.1\nby hand in 0.2\nby hand in 0.3"
    assert play(Cassette(tmp_path / "c", "replay"), made=parallel()).text == first.text
    ended = record(tmp_path / "d", lambda s: "end" if s.run == "0.2" else None, made=parallel())
    assert play(Cassette(tmp_path / "d", "replay"), made=parallel()).text == ended.text


def test_a_cassette_without_decisions_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    record(tmp_path / "c", None)
    with pytest.raises(ConfigError, match="no one can be prompted here, and no decision"):
        play(Cassette(tmp_path / "c", "replay"))


def test_a_decision_that_is_missing_is_a_miss_that_names_its_place(tmp_path: Path) -> None:
    record(tmp_path / "c", Decider(), break_at="tool:measure")
    result = play(Cassette(tmp_path / "c", "replay"))
    assert isinstance(result.cause, CassetteMiss)
    missing = "lacks the person's decision before turn 1 (agent lead, at 0)"
    assert missing in str(result.error)
    assert "record it with" in result.cause.hint


def test_a_decision_that_no_longer_fits_says_what_changed(tmp_path: Path) -> None:
    record(tmp_path / "c", Decider())
    header, _, text = (tmp_path / "c").read_text().partition("\n")
    data = json.loads(text)
    for one in data:
        if one.get("asked", {}).get("call") == 2:
            one["asked"]["arguments"]["town"] = "Bonn"
    (tmp_path / "c").write_text(f"{header}\n{json.dumps(data)}")
    result = play(Cassette(tmp_path / "c", "replay"))
    assert "before call 2, measure: its arguments changed in town: " in str(result.error)
    assert "Bonn" in str(result.error)


def test_a_run_that_was_stopped_may_go_on_where_someone_can_be_asked(tmp_path: Path) -> None:
    record(tmp_path / "c", DECISIONS["stopped"][0])
    decider = Decider()
    assert play(Cassette(tmp_path / "c", "auto"), decider).text.startswith("Rome has 4")
    assert decider.seen == ["0/2 request"]


def test_no_secret_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROME_API_KEY", "sk-secret-of-rome-123456")
    record(tmp_path / "c", lambda s: s.result("it is sk-secret-of-rome-123456") if s.tool else None)
    assert "sk-secret" not in (tmp_path / "c").read_text()
