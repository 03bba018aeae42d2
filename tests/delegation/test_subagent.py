"""subagent: every row of seeds 002 and 004, with models that are functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from axe_nb import ConfigError, ProviderError, Request, Response, Usage, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.tools.tool import Limits
from tests.delegation.copies import offered, play, recorded, told, tool
from tests.engine.in_process import check_history, heard, said, texts


def sub(label: Any = "scout", task_prompt: Any = "look around", **more: Any) -> Any:
    return call("subagent", label=label, task_prompt=task_prompt, **more)


run = partial(play, tools=("subagent",), mine=(tool("peek"),))
"""The boss's result; it has `subagent` and a harmless tool."""


@pytest.mark.req("X-21", "X-20", "X-4", "X-42", "D-6", "D-17")
def test_the_answer_to_a_second_question_is_all_that_the_parent_sees() -> None:
    log: list[Request] = []
    child = recorded(log, said(call("peek"), "a long first answer", "the summary"))
    result = run({"scout": child}, sub())
    assert told(result) == "the summary"
    assert not heard(result)[0].is_error
    assert [m.content for m in result.children[0].messages if m.role == "user"] == [
        "look around",
        "Summarize your findings concisely",
    ]
    assert [m.content for m in log[0].messages] == ["look around"], "its own conversation"
    everything = "\n".join(m.content for m in result.messages)
    assert "a long first answer" not in everything
    assert "look around" not in everything


@pytest.mark.req("D-17")
def test_the_summary_is_asked_for_without_tools_and_its_calls_are_dropped() -> None:
    log: list[Request] = []
    stubborn = Response("the summary", (call("peek"),))
    result = run({"scout": recorded(log, said(call("peek"), "found", stubborn))}, sub())
    assert offered(log[0]) == ["peek", "subagent"]
    assert offered(log[2]) == []
    assert told(result) == "the summary"
    child = result.children[0]
    assert child.tool_calls == 1
    check_history(child.messages)
    result = run({"scout": said("what I found", Response(""))}, sub())
    assert told(result) == "what I found", "where the summary is empty"


@pytest.mark.req("X-22", "X-25", "D-34")
def test_a_child_that_completes_is_noted_as_complete() -> None:
    child = said(Response("first", usage=Usage(10, 1)), Response("second", usage=Usage(20, 2)))
    result = run({"scout": child}, sub())
    notes = dict(result.children[0].metadata)
    assert notes == {
        "task_id": "0.1", "depth": "1", "token_estimate": "33", "subagent_label": "scout",
        "recursion_depth": "0", "completion_status": "complete", "turns_used": "1",
        "tokens_used": "33", "prompt_tokens": "30", "completion_tokens": "3",
    }  # fmt: skip
    assert "complete" not in told(result), "notes are for people, not for the model"


@pytest.mark.req("X-23", "X-24", "X-10", "X-42", "D-7", "D-17")
def test_a_child_that_runs_out_of_turns_still_reports_and_is_no_error() -> None:
    log: list[Request] = []

    def child(request: Request) -> Any:
        return call("peek") if request.tools else "partial findings"

    result = run({"scout": recorded(log, child)}, sub(max_turns=2))
    assert told(result) == "partial findings"
    assert not heard(result)[0].is_error
    assert len(log) == 3, "two turns and the summary"
    one = result.children[0]
    assert one.status == "max_turns"
    assert one.tool_calls == 1, "the calls of the last turn are not run"
    expected = {
        "completion_status": "incomplete", "max_turns_reached": "true", "turns_used": "2",
        "max_turns": "2",
    }  # fmt: skip
    assert expected.items() <= one.metadata.items()
    assert result.ok
    check_history(one.messages)


@pytest.mark.req("X-3", "X-18")
def test_ten_turns_are_the_default_and_the_configuration_can_change_it() -> None:
    def child(request: Request) -> Any:
        return call("peek") if request.tools else "summary"

    three = SubAgentsConfig(max_turns=3)
    for one, config, used in (
        (sub(), SubAgentsConfig(), "10"), (sub(), three, "3"), (sub(max_turns=5), three, "5"),
    ):  # fmt: skip
        result = run({"scout": child}, one, sub_agents_config=config)
        assert result.children[0].metadata["turns_used"] == used


@pytest.mark.req("X-18", "X-19", "D-4", "D-39")
def test_a_child_is_a_copy_of_its_caller() -> None:
    log: list[Request] = []
    parts = {"scout": recorded(log, said("first", "second"))}
    result = run(parts, sub(), system_prompt="You are careful.", params={"temperature": 0.3})
    [child] = result.children
    assert (child.agent, child.model) == ("scout", result.model)
    assert (log[0].system, log[0].params) == ("You are careful.", {"temperature": 0.3})


@pytest.mark.req("X-2", "X-21", "X-42", "X-43")
def test_all_arguments_together_are_understood() -> None:
    log: list[Request] = []
    result = run(
        {"test_agent": recorded(log, said("first", "short"))},
        sub("test_agent", "Do something", summary_prompt="Summarize",
            allowed_tools=["file_ops", "terminal"], max_turns=5),
        tools=("subagent", "file_ops", "terminal"),
    )  # fmt: skip
    assert told(result) == "short"
    assert result.children[0].agent == "test_agent"
    assert [log[0].last, log[1].last] == ["Do something", "Summarize"]
    assert set(offered(log[0])) == {
        "read_file", "list_dir", "find_files", "write_file", "edit_file", "run_command", "subagent",
    }  # fmt: skip


READERS = {"read_file", "list_dir", "find_files"}

FILTERS = [
    ("X-12", {}, {"peek", "grep", *READERS, "subagent"}),
    ("X-12", {"allowed_tools": None}, {"peek", "grep", *READERS, "subagent"}),
    ("X-13", {"allowed_tools": ["peek"]}, {"peek", "subagent"}),
    ("X-13", {"allowed_tools": ["peek", "grep", "peek"]}, {"peek", "grep", "subagent"}),
    ("X-16", {"allowed_tools": []}, {"subagent"}),
    ("D-20", {"allowed_tools": ["search_files"]}, {"grep", "subagent"}),
    ("D-20", {"allowed_tools": ["file_ops_readonly"]}, {*READERS, "subagent"}),
    ("D-20", {"allowed_tools": ["file_ops"]}, {*READERS, "subagent"}),
]


@pytest.mark.parametrize(("row", "more", "names"), FILTERS, ids=[str(f[:2]) for f in FILTERS])
@pytest.mark.req("X-12", "X-13", "X-16", "X-17", "X-40", "D-20", "D-4")
def test_the_child_has_the_callers_tools_filtered_and_a_subagent_of_its_own(
    row: str, more: dict[str, Any], names: set[str]
) -> None:
    log: list[Request] = []
    scout = recorded(log, said(call("grep", pattern="x"), "first", "second"))
    result = run({"scout": scout}, sub(**more), tools=("subagent", "grep", "file_ops_readonly"))
    assert set(offered(log[0])) == names, row
    assert texts(result.children[0])[0].startswith("Unknown tool: ") == ("grep" not in names)


@pytest.mark.req("X-29", "D-7", "X-37")
def test_a_child_whose_server_fails_is_an_error_result_with_what_it_had_said() -> None:
    def fail(_: Request) -> Any:
        raise ProviderError("rate_limit", "slow down")

    result = run({"scout": said(Response("I have begun", (call("peek"),)), fail)}, sub())
    [answer] = heard(result)
    assert answer.is_error
    assert answer.content == (
        'Error: subagent "scout" failed: rate_limit: slow down\n\nIts text so far:\nI have begun'
    )
    notes = result.children[0].metadata
    assert (notes["completion_status"], notes["turns_used"]) == ("incomplete", "1")
    assert result.ok


@pytest.mark.req("X-27", "D-6")
def test_a_long_result_is_cut_at_the_limit() -> None:
    result = run({"scout": said("first", "x" * 5000)}, sub())
    assert told(result) == "x" * 4096 + "\n... (truncated)"
    exact = run({"scout": said("first", "x" * 4096)}, sub())
    assert told(exact) == "x" * 4096
    config = SubAgentsConfig(output_limit=10)
    short = run({"scout": said("first", "äöüß" * 5)}, sub(), sub_agents_config=config)
    assert told(short) == "äöüßä\n... (truncated)"


@pytest.mark.req("X-39")
def test_limits_of_nothing_are_refused_where_they_are_made() -> None:
    with pytest.raises(ConfigError, match=r"(?m)^max_turns must be greater than 0$"):
        Limits(turns=0)
