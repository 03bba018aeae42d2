"""Decisions about steps in cassettes: recorded, replayed without a person, and mismatches told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from axe_nb import CassetteMiss, ConfigError, RunResult, Step
from axe_nb.engine.person import AskPerson, Decision, Question
from axe_nb.recording.cassette import Cassette
from axe_nb.session.overrides import Overrides
from axe_nb.views.outline import as_text
from tests.engine.in_process import Stage, ask, ask_session, lead, stage
from tests.stepping.deciders import DECISIONS, MEASURE, Decider, surveyor


def play(
    cassette: Any, step: Any = True, *, made: Stage | None = None, person: AskPerson | None = None,
    prompt: str = "go", **more: Any,
) -> RunResult:  # fmt: skip
    made = made or stage(surveyor("lead", "Rome", "Oslo"))
    made.session.cassette = cassette
    overrides = Overrides(step=step, tools=(MEASURE, "measure"), **more)
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
    names = [f"c{n}" for n in range(3)]

    def made() -> Stage:
        return stage(lead(*map(ask, names)), *(surveyor(n, n) for n in names))

    def decide(step: Step) -> Any:
        return step.result(f"by hand in {step.run}") if step.tool == "measure" else None

    first = record(tmp_path / "c", decide, made=made())
    assert first.text == "by hand in 0.1\nby hand in 0.2\nby hand in 0.3"
    assert play(Cassette(tmp_path / "c", "replay"), made=made()).text == first.text
    ended = record(tmp_path / "d", lambda s: "end" if s.run == "0.2" else None, made=made())
    assert play(Cassette(tmp_path / "d", "replay"), made=made()).text == ended.text


def test_a_cassette_without_decisions_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    record(tmp_path / "c", None)
    with pytest.raises(ConfigError, match="no one can be prompted here, and no decision"):
        play(Cassette(tmp_path / "c", "replay"))


def test_a_decision_that_is_missing_is_a_miss_that_names_its_place(tmp_path: Path) -> None:
    record(tmp_path / "c", Decider(), break_at="turn")
    result = play(Cassette(tmp_path / "c", "replay"))
    assert isinstance(result.cause, CassetteMiss)
    missing = "lacks the person's decision before call 1, measure (agent lead, at 0)"
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
