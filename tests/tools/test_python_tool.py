"""Functions of the user's own as tools."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from axe_nb.engine.toolbox import BUILT_IN, SESSION, tool
from axe_nb.errors import ConfigError
from axe_nb.results import RunStopped
from axe_nb.tools.python_tool import tool_of
from axe_nb.tools.tool import ToolContext, ToolError, ToolOutput, cut_output
from tests.calls import answer, context, failure, run


def test_the_function_stays_callable_and_is_known_by_name() -> None:
    @tool
    def double(n: int) -> int:
        """Twice the number."""
        return 2 * n

    assert double(4) == 8
    assert SESSION.tools["double"] is tool_of(double)
    assert not BUILT_IN.known & SESSION.tools.keys()
    assert SESSION.tools["double"].description == "Twice the number."
    assert double.__name__ == "double"


@pytest.mark.req("D-19")
def test_marks_say_what_a_tool_may_do() -> None:
    for options, effect in (
        ({}, "user"),
        ({"read_only": True}, "read"),
        ({"writes": True}, "write"),
    ):
        tool(name="marked", **options)(lambda: None)  # type: ignore[arg-type]
        assert SESSION.tools["marked"].effect == effect


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tool(lambda: 1), "a lambda has no name that a model could call"),
        (lambda: tool(name="two words")(lambda: 1), '"two words" is not a valid tool name'),
        (lambda: tool(name="grep")(lambda: 1), '"grep" is a built-in tool'),
        (lambda: tool(name="x", read_only=True, writes=True)(lambda: 1),
         "a tool cannot have both read_only and writes"),
        (lambda: tool(name="x")(lambda: (yield)), "x yields its results"),
    ],
)  # fmt: skip
def test_what_can_be_no_tool_is_refused_at_once(make: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.message == text
    assert caught.value.hint


def test_a_plain_function_can_be_passed_as_a_tool(tmp_path: Path) -> None:
    def triple(n: int) -> int:
        return 3 * n

    given = tool_of(triple)
    assert run(given, tmp_path, n="5") == "15"
    assert (given.effect, tool_of(given)) == ("user", given)
    assert "triple" not in SESSION.tools


@dataclass
class Trip:
    to: str
    days: int = 1


def test_arguments_arrive_as_the_types_of_the_signature(tmp_path: Path) -> None:
    def book(
        trip: Trip, kind: Literal["train", "boat"], /, *, notes: list[str] | None = None
    ) -> Any:
        assert isinstance(trip, Trip)
        return {"to": trip.to, "days": trip.days, "kind": kind, "notes": notes}

    text = run(tool_of(book), tmp_path, trip={"to": "Ulm"}, kind="boat", notes='["ä"]')
    assert text == '{"to": "Ulm", "days": 1, "kind": "boat", "notes": ["ä"]}'


@pytest.mark.req("D-11")
def test_arguments_that_were_no_json_are_not_run_with_defaults(tmp_path: Path) -> None:
    def clean(folder: str = ".") -> str:
        return "cleaned"

    with pytest.raises(ToolError, match="the arguments were not a JSON object"):
        asyncio.run(tool_of(clean).fn(context(tmp_path, raw='{"folder": '), {}))


async def never_awaited() -> int:
    return 1


async def steps() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (itertools.count, "an iterator (count): return a list"),
        (steps, "an iterator (async_generator): return a list"),
        (lambda: asyncio.create_task(never_awaited()),
         "a coroutine or future: await it and return the result"),
    ],
)  # fmt: skip
def test_a_result_that_is_still_to_come_is_an_error_that_says_what_to_return(
    tmp_path: Path, make: Callable[[], Any], told: str
) -> None:
    async def give() -> Any:
        return make()

    assert failure(tool_of(give), tmp_path) == f"the tool returned {told}"


def test_the_end_of_a_whole_run_passes_through(tmp_path: Path) -> None:
    async def spend() -> None:
        raise RunStopped("max_tokens", "all spent")

    with pytest.raises(RunStopped):
        run(tool_of(spend), tmp_path)


def test_a_function_may_have_the_context_which_no_model_knows_of(tmp_path: Path) -> None:
    def where(name: str, ctx: ToolContext) -> str:
        return f"{name} in {ctx.workdir.name} for {ctx.agent.name}"

    def optional(name: str, ctx: ToolContext | None = None) -> str:
        return where(name, ctx) if ctx else "no context"

    for function in (where, optional):
        made = tool_of(function)
        assert run(made, tmp_path, name="x") == f"x in {tmp_path.name} for tester"
        assert list(made.parameters) == ["name"]


@pytest.mark.req("D-8")
def test_a_cancelled_function_is_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, done = threading.Event(), threading.Event()

    def wait() -> str:
        release.wait(20)
        print("too late")
        done.set()
        return "late"

    async def cancelled() -> float:
        task = asyncio.create_task(answer(tool_of(wait), tmp_path, {}))
        await asyncio.sleep(0.05)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(cancelled()) < 5
    release.set()
    assert done.wait(20)
    assert capsys.readouterr().out == ""


def test_what_a_function_prints_goes_into_its_own_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(name: str, silent: bool = False) -> str | None:
        print("hello from", name)
        print("careful,", name, file=sys.stderr)
        time.sleep(0.05)
        return None if silent else name.upper()

    async def talk_later(name: str) -> str:
        sys.stdout.writelines(["hello ", f"from {name}"])
        await asyncio.sleep(0.05)
        return name.upper()

    async def printing() -> list[str]:
        silent = {"name": "b", "silent": True}
        calls = ((talk, {"name": "a"}), (talk, silent), (talk_later, {"name": "c"}))
        texts = [asyncio.create_task(answer(tool_of(f), tmp_path, given)) for f, given in calls]
        await asyncio.sleep(0.02)
        print("the cell's own")
        return await asyncio.gather(*texts)

    assert asyncio.run(printing()) == [
        "A\n\nPrinted:\nhello from a\ncareful, a",
        "hello from b\ncareful, b",
        "C\n\nPrinted:\nhello from c",
    ]
    assert capsys.readouterr() == ("the cell's own\n", "")


@pytest.mark.req("X-30")
def test_an_exception_is_an_error_for_the_model_with_what_was_printed(tmp_path: Path) -> None:
    ends = [
        ValueError("no number"), ToolError("no such table"), ToolOutput("not today", is_error=True),
    ]  # fmt: skip

    def work() -> Any:
        print("on the way")
        if isinstance(end := ends.pop(0), Exception):
            raise end
        return end

    printed = "\n\nPrinted:\non the way"
    assert failure(tool_of(work), tmp_path) == f"ValueError: no number{printed}"
    assert failure(tool_of(work), tmp_path) == f"no such table{printed}"
    output = asyncio.run(tool_of(work).fn(context(tmp_path), {}))
    assert output == ToolOutput(f"not today{printed}", is_error=True)


def test_results_and_printing_have_a_bound(tmp_path: Path) -> None:
    def flood() -> str:
        for _ in range(1000):
            print("p" * 1000)
        return "é" * 100_000

    text = run(tool_of(flood), tmp_path)
    assert text.startswith("é" * 32_768 + "\n... (truncated: the first 65536 of ")
    limit, printed = 65_536, 16_384
    size = 200_000 + len("\n\nPrinted:\n") + printed
    assert text.endswith(f"the first {limit} of {size} bytes)")
    assert cut_output("x" * limit) == "x" * limit


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_printing_works_where_python_has_no_streams(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, stream, None)

    def talk() -> str:
        print("hello", file=getattr(sys, stream), flush=True)
        return "done"

    assert run(tool_of(talk), tmp_path) == "done\n\nPrinted:\nhello"
    print("nobody hears it", file=getattr(sys, stream), flush=True)
    getattr(sys, stream).writelines(["nor", "that"])
