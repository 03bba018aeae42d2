"""Which script a name means, what its function may answer, and how it fails."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ConfigError, ProviderError, Request, Response, ToolCall, Usage
from axe_nb.agents.user_config import config_dir
from axe_nb.messages import Delta, Message
from axe_nb.scripting.provider import ScriptProvider
from axe_nb.scripting.rules import Scripts, functions, known


@pytest.fixture(autouse=True)
def no_functions() -> Iterator[None]:
    functions.clear()
    yield
    functions.clear()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def ask(name: str, *dirs: Path, text: str = "hi", on_delta: Any = None) -> Response:
    request = Request(name, (Message("user", text),), agent="boss")
    return asyncio.run(ScriptProvider(dirs).send(request, on_delta))


def test_a_script_is_looked_for_in_order(project: Path) -> None:
    given = project / "given"
    write(config_dir() / "scripts" / "lead.toml", '[[rule]]\ntext = "config"')
    assert ask("lead").content == "config"
    write(project / "axe" / "scripts" / "lead.toml", '[[rule]]\ntext = "project"')
    assert ask("lead").content == "project"
    write(given / "lead.toml", '[[rule]]\ntext = "given"')
    assert ask("lead", given).content == "given"
    assert ask("lead").content == "project"

    @axe_nb.script("lead")
    def first(request: Request) -> str:
        return "first"

    @axe_nb.script("lead")
    def second(request: Request) -> str:
        return f"second to {request.agent}, turn {request.turn}"

    assert ask("lead", given).content == "second to boss, turn 1"
    assert first(Request("lead", ())) == "first"
    assert known((given,)) == ["lead"]
    path = write(project / "my" / "rules.toml", '[[rule]]\ntext = "by path"')
    for name in ("./my/rules.toml", "my/rules.toml", str(path)):
        assert ask(name).content == "by path"


@pytest.mark.parametrize("name", ["../outside", "sub/lead", "a\\b", "C:x", "a\0b", " "])
def test_a_name_that_is_no_plain_one_reaches_no_file(project: Path, name: str) -> None:
    write(project / "axe" / "outside.toml", '[[rule]]\ntext = "x"')
    write(project / "axe" / "scripts" / "sub" / "lead.toml", '[[rule]]\ntext = "x"')
    with pytest.raises(ConfigError) as raised:
        Scripts().find(name)
    assert raised.value.message == f"script not found: {name}".replace("\0", "\ufffd")
    assert raised.value.hint == "use a plain name or the path of a .toml file"


def test_an_unknown_script_is_told_with_the_nearest_name_or_where_it_was_looked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    scripts = Scripts((Path("lessons/scripts"),))
    with pytest.raises(ConfigError) as raised:
        scripts.find("lead")
    assert raised.value.message == "script not found: lead"
    assert raised.value.hint == (
        'before a run, define @axe_nb.script("lead"), or write lead.toml in '
        "lessons/scripts, axe/scripts, ~/.config/axe/scripts; "
        "docs/scripts.md shows how"
    )
    with pytest.raises(ProviderError) as failed:
        ask("lead")
    assert (str(failed.value), failed.value.exit_code) == (
        "bad_request: script not found: lead", 1,
    )  # fmt: skip
    write(project / "axe" / "scripts" / "lead.toml", '[[rule]]\ntext = "x"')
    Scripts().find("lead")
    with pytest.raises(ConfigError) as raised:
        Scripts().find("laed")
    assert raised.value.hint == 'did you mean "lead"?'
    write(project / "axe" / "scripts" / "lead.toml", "").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"failed to read script axe/scripts/lead\.toml: ."):
        Scripts().find("lead")


@pytest.mark.parametrize("name", ["", " ", "a/b", "a.toml", 3, lambda request: "x"])
def test_a_function_needs_a_plain_name(name: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        axe_nb.script(name)
    assert raised.value.hint == 'write @axe_nb.script("NAME") above it'


def test_text_and_calls_and_whole_responses_are_answers(project: Path) -> None:
    answers: dict[str, Any] = {
        "text": "12345678",
        "one": axe_nb.call("look", at={1: (2, 3)}),
        "more": [axe_nb.call("look", at="x"), axe_nb.call("look", at="y")],
        "whole": Response("t", (ToolCall("id1", "look"),), "odd", Usage(5, 6), seconds=9),
    }

    @axe_nb.script("lead")
    async def answer(request: Request) -> Any:
        await asyncio.sleep(0)
        return answers[request.last]

    class Model:
        async def __call__(self, request: Request) -> str:
            return "an object's"

    axe_nb.script("object")(Model())
    assert ask("object").content == "an object's"
    assert ask("lead", text="text") == Response("12345678", (), "stop", Usage(1, 2))
    one = ask("lead", text="one")
    assert one.tool_calls == (axe_nb.call("look", at={"1": [2, 3]}),), "as over a socket"
    assert (one.content, one.stop_reason) == ("", "tool_calls")
    assert [c.arguments["at"] for c in ask("lead", text="more").tool_calls] == ["x", "y"]
    assert ask("lead", text="whole") == answers["whole"]


def test_a_plain_function_does_not_hold_up_the_others(project: Path) -> None:
    together = threading.Barrier(8, timeout=10)

    @axe_nb.script("lead")
    def answer(request: Request) -> str:
        together.wait()  # passes only when all eight are here
        return "met"

    async def ask_all() -> list[Response]:
        request = Request("lead", (Message("user", "hi"),))
        return await asyncio.gather(*(ScriptProvider().send(request) for _ in range(8)))

    assert {answer.content for answer in asyncio.run(ask_all())} == {"met"}


class Strange(BaseException):
    """As some libraries stop what runs in them."""


@pytest.mark.parametrize(
    ("fault", "is_async", "told"),
    [
        (KeyError("x"), False, "raised KeyError: 'x' in line {}"),
        (ValueError("one\ntwo"), True, "raised ValueError: one two in line {}"),
        (StopIteration(), False, "raised StopIteration in line {}"),
        (SystemExit(3), False, "raised SystemExit: 3 in line {}"),
        (Strange(), True, "raised Strange in line {}"),
    ],
)
def test_a_function_that_breaks_is_a_server_error_that_names_it(
    project: Path, fault: BaseException, is_async: bool, told: str
) -> None:
    def plain(request: Request) -> str:
        raise fault

    async def later(request: Request) -> str:
        raise fault

    function = axe_nb.script("lead")(later if is_async else plain)
    line = function.__code__.co_firstlineno + 1
    result = axe_nb.run(axe_nb.Agent(name="a", model="script/lead"), "hi")
    assert result.status == "error"
    assert result.error == f'server: script "lead" {told.format(line)}'


@pytest.mark.parametrize("left", [KeyboardInterrupt, asyncio.CancelledError])
def test_stopping_is_no_failure_of_a_function(project: Path, left: type[BaseException]) -> None:
    async def stops(request: Request) -> str:
        raise left

    axe_nb.script("lead")(stops)
    with pytest.raises(left):
        ask("lead")


@pytest.mark.parametrize(
    ("said", "kind"),
    [(None, "None"), (3, "int"), ([], "list"), (["text"], "list"),
     (Response(None), "Response")],  # type: ignore[arg-type]
)  # fmt: skip
def test_what_no_model_can_say_is_a_server_error(project: Path, said: Any, kind: str) -> None:
    axe_nb.script("lead")(lambda request: said)
    with pytest.raises(ProviderError) as raised:
        ask("lead")
    assert str(raised.value) == (
        f'server: script "lead" returned {kind}, not text, tool calls or a Response'
    )


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}])
@pytest.mark.parametrize("in_pieces", [False, True])
def test_arguments_that_are_no_json_are_a_server_error(
    value: object, in_pieces: bool, project: Path
) -> None:
    made = axe_nb.call("look", at=value)
    axe_nb.script("lead")(lambda request: (piece for piece in [made]) if in_pieces else made)
    with pytest.raises(ProviderError, match='"lead": the arguments of a call cannot be written as'):
        ask("lead")


@pytest.mark.req("D-8")
def test_a_cancelled_request_waits_no_longer(project: Path) -> None:
    write(project / "axe" / "scripts" / "slow.toml", '[[rule]]\ntext = "x"\ndelay = 60')

    @axe_nb.script("stuck")
    def answer(request: Request) -> str:
        time.sleep(3)
        return "x"

    async def cancelled(name: str) -> None:
        async with asyncio.timeout(0.1):
            await ScriptProvider().send(Request(name, (Message("user", "hi"),)))

    for name in ("slow", "stuck"):
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            asyncio.run(cancelled(name))
        assert time.monotonic() - started < 2


def test_text_is_handed_over_word_by_word_where_the_script_streams(project: Path) -> None:
    text = "  One two,\\nthree. "
    write(
        project / "axe" / "scripts" / "lead.toml",
        f'stream = true\n[[rule]]\nwhen = "whole"\nstream = false\ntext = "{text}"\n'
        f'[[rule]]\ndelay = 0.2\ntext = "{text}"',
    )
    pieces: list[tuple[str, float]] = []
    started = time.monotonic()

    def on_delta(delta: Delta) -> None:
        pieces.append((delta.text, time.monotonic() - started))

    assert ask("lead", on_delta=on_delta).content == "  One two,\nthree. "
    assert [piece for piece, _ in pieces] == ["  ", "One ", "two,\n", "three. "]
    assert pieces[-1][1] - pieces[0][1] >= 0.14, "spread over the delay"
    assert ask("lead").content == "  One two,\nthree. ", "nobody listens"
    pieces.clear()
    ask("lead", text="whole", on_delta=on_delta)
    assert pieces == []
