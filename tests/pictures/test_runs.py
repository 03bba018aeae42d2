"""Pictures in runs: prompts, files and results of tools over each protocol; recordings; views."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, call, script, script_server
from axe_nb.agents.agent_tables import TreeLimits
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, ToolResult
from axe_nb.pictures.picture import Picture
from axe_nb.providers import ollama, openai
from axe_nb.providers.reply_errors import read_reply
from axe_nb.recording.history_recorder import find_writer, history_path
from axe_nb.recording.modes import Mode
from axe_nb.scripting.wire import Protocol
from axe_nb.views.html import twin
from axe_nb.views.outline import as_text
from tests.delegation.copies import said
from tests.pictures.samples import FIRST, JPEG, PDF, SECOND, Shown, claimed_png, png
from tests.protocols import PROTOCOLS, provider_of
from tests.run_history.test_history import read_text
from tests.views.test_html import Page

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def chart(town: str) -> Any:
    """Draws a chart.

    Args:
        town: its town.
    """
    return [f"Chart of {town}:", Shown(SECOND.data)]


def look(request: Request) -> Any:
    """A model that asks for a chart, then says how many pictures it has been sent."""
    if request.turn == 1:
        return [call("chart", town="Ulm")]
    return f"{len(request.pictures)}: {request.last}"


def run_look(protocol: str = "script", **options: Any) -> RunResult:
    script("look")(look)
    agent = Agent("a", f"{provider_of(protocol)}/look", tools=(chart,))
    return axe_nb.run(agent, ["What is this?", FIRST.data], **options)


@every_protocol
def test_pictures_of_prompt_and_tools_reach_the_model(protocol: Protocol, project: Path) -> None:
    seen: list[tuple[Picture, ...]] = []

    @script("see")
    def see(request: Request) -> Any:
        seen.append(request.pictures)
        return look(request)

    with script_server(protocol) as server:
        agent = Agent("a", f"{provider_of(protocol)}/see", tools=(chart,))
        result = axe_nb.run(agent, ["What is this?", FIRST.data])
    assert result.ok, result.error
    assert seen == [(FIRST,), (FIRST, SECOND)]
    assert result.prompt == f"What is this?\n\n{FIRST.mark(1)}"
    (told,) = result.log[0].results
    assert told.content == f"Chart of Ulm:\n{SECOND.mark(1)}"
    assert told.pictures == (SECOND,)
    assert [body for body in server.requests if FIRST.base64 in json.dumps(body)] == server.requests


def test_pictures_of_a_result_follow_it_where_a_result_is_only_text() -> None:
    shown = ToolResult("i", f"c {SECOND.mark(1)}", name="chart", pictures=(SECOND,))
    told = Message("tool", tool_results=(shown,))
    result, extra = openai.encode(told)
    assert (result["role"], result["content"]) == ("tool", f"c {SECOND.mark(1)}")
    assert extra["role"] == "user"
    assert extra["content"][0]["text"] == f"Shown by the result of chart:\n{SECOND.mark(1)}"
    assert ollama.encode(told)[1]["images"] == [SECOND.base64]
    plain = Message("user", "[picture 1: 4×3 PNG, 70 bytes]")
    assert openai.encode(plain) == [{"role": "user", "content": plain.content}]


@every_protocol
def test_a_document_is_sent_where_it_is_read(protocol: Protocol, project: Path) -> None:
    script("see")(lambda request: ",".join(one.format for one in request.pictures))
    with script_server(protocol) as server:
        result = axe_nb.run(Agent("a", f"{provider_of(protocol)}/see"), [PDF])
    is_named = '.pdf"' in json.dumps(server.requests)
    assert is_named == (protocol in ("openai", "responses"))
    told = "PDF" if protocol != "ollama" else "bad_request: Ollama cannot read PDF files"
    assert (result.error or result.text) == told


def test_files_that_are_pictures_are_sent_with_the_prompt_once(project: Path) -> None:
    (project / "plots").mkdir()
    (project / "plots" / "a.txt").write_bytes(FIRST.data)  # the name does not count
    (project / "plots" / "b.png").write_bytes(b"no picture")
    (project / "plots" / "c.png").write_bytes(SECOND.data[:-5])
    (project / "d.png").symlink_to("/etc/hostname")
    script("echo")(lambda request: f"{len(request.pictures)} {'b.png' in request.system}")
    agent = Agent("a", "script/echo", files=("**/*.png", "**/*.txt"))
    result = axe_nb.run(agent, ["Look", JPEG])
    assert result.text == "2 True"
    assert result.pictures == (Picture(JPEG), FIRST)
    assert result.prompt.endswith(f"\n\nplots/a.txt: {FIRST.mark(2)}")
    assert any("plots/c.png skipped: the PNG is damaged" in one for one in result.warnings)
    again = axe_nb.run(agent, "And now?", continue_from=result)
    assert (again.text, again.pictures, again.prompt) == ("2 True", (), "And now?")


def test_a_picture_that_is_too_large_is_refused_before_anything_is_sent(project: Path) -> None:
    sent: list[Request] = []
    script("count")(lambda request: sent.append(request) or "ok")
    agent = Agent("a", "script/count", limits=TreeLimits(max_picture_bytes=1000))
    damaged = png(3000, 2000, noise=bytes(2000)).replace(b"IDAT", b"IDAX")
    small = [png(noise=bytes(800), colour=n) for n in range(5)]
    for pictures, told in (
        ([damaged], r"the picture \(3000×2000 PNG, .* kB\) is too large"),
        (small, "more than 4 kB, four times limits.max_picture_bytes"),
    ):
        with pytest.raises(ConfigError, match=told):
            axe_nb.run(agent, pictures)
    assert sent == []
    assert axe_nb.run(agent, small[:4]).ok


def test_a_result_with_too_many_pictures_is_an_error_for_the_model(project: Path) -> None:
    def shots(count: int) -> list[bytes]:
        """Takes pictures of 800 bytes."""
        return [png(noise=bytes(800), colour=n) for n in range(count)]

    def draw() -> Any:
        """Draws what models do not read."""
        return Shown(b"<svg/>")

    script("shoot")(said(*(call("shots", count=count) for count in (3, 2, 1)), "done"))
    small = TreeLimits(max_picture_bytes=1000)
    results = axe_nb.run(Agent("a", "script/shoot", tools=(shots,), limits=small), "go").log[:3]
    assert [len(turn.results[0].pictures) for turn in results] == [3, 0, 1]
    assert [turn.results[0].is_error for turn in results] == [False, True, False]
    assert "would be more than 4 kB" in results[1].results[0].content
    script("x")(lambda request: [call("draw")] if request.turn == 1 else request.last)
    result = axe_nb.run(Agent("a", "script/x", tools=(draw,)), "go")
    assert result.text.startswith("Error: not a supported picture: its bytes have another format")


@pytest.mark.parametrize(
    "words",
    [
        "Invalid content type. image_url is only supported by certain models.",
        "'claude-2.1' does not support image input.",
        "No endpoints found that support image input",
        "At most 0 image(s) may be provided in one prompt.",
        "m is not a multimodal model",
        "this model is missing data required for image input",
        "image input is not supported - hint: you may need to provide the mmproj",
        "Failed to deserialize: unknown variant `image_url`, expected `text`",
        "Model does not support images. Please use a model that does.",
        "Image input is not enabled for this model",
        "This model doesn't support the image content block that you provided.",
    ],
)
def test_a_model_that_cannot_see_is_named_with_the_words_of_its_server(words: str) -> None:
    seeing = Request("m", [Message("user", FIRST.mark(1), pictures=(FIRST,))])

    def read(provider: str, words: str, request: Request) -> ProviderError:
        body = json.dumps({"error": {"message": words}}).encode()
        with pytest.raises(ProviderError) as raised:
            read_reply(PROVIDERS[provider], 400, {}, body, request=request)
        return raised.value

    error = read("openai", words, seeing)
    assert error.detail == f'model "m" cannot read pictures: {words}'
    assert error.hint == "choose another model, or leave out the pictures"
    assert "cannot read" not in read("openai", words, Request("m", [Message("user")])).message
    large = "image exceeds 5 MB maximum"
    assert read("anthropic", large, seeing).detail == large


def test_a_saved_run_has_the_bytes_of_a_picture_once(project: Path) -> None:
    result = run_look()
    result.save("run.json")
    assert axe_nb.load("./run.json") == result
    assert RunResult.from_dict(result.to_dict(full=True)) == result
    text = (project / "run.json").read_text("utf-8")
    assert [text.count(one.base64) for one in (FIRST, SECOND)] == [1, 1]
    request = axe_nb.load("./run.json").request("0/2")
    assert SECOND.base64 in request.raw.decode()
    assert FIRST.base64 not in str(request)
    assert request.context["prompt"] >= FIRST.tokens
    assert request.context["results"] >= SECOND.tokens
    assert request.context.total < 200


@pytest.mark.parametrize("damage", ["missing", "no picture"])
def test_a_file_with_damaged_pictures_is_refused_in_one_line(damage: str, project: Path) -> None:
    data, key = run_look().to_dict(full=True), FIRST.digest[:20]
    data["by_digest"][key] = base64.b64encode(b"<svg/>").decode()
    if damage == "missing":
        del data["by_digest"][key]
    with pytest.raises(ConfigError, match="picture") as raised:
        RunResult.from_dict(data)
    assert "\n" not in raised.value.message


@every_protocol
def test_a_cassette_knows_pictures_by_their_digests(protocol: Protocol, project: Path) -> None:
    with script_server(protocol), axe_nb.cassette("one.axe", "record"):
        first = run_look(protocol)
    assert first.ok, first.error
    text = (project / "one.axe").read_text("utf-8")
    assert FIRST.digest in text
    assert FIRST.base64 not in text
    with axe_nb.cassette("one.axe", "replay"):
        assert run_look(protocol).text == first.text
        agent = Agent("a", f"{provider_of(protocol)}/look", tools=(chart,))
        other = axe_nb.run(agent, ["What is this?", png(40, 30, 201)])
    assert not other.ok


def test_a_tool_that_is_recorded_shows_its_picture_without_running_again(project: Path) -> None:
    ran: list[str] = []

    @axe_nb.tool(record=True)
    def snap(town: str) -> Any:
        """Takes a picture."""
        ran.append(town)
        return [town, SECOND.data]

    script("look")(said([call("snap", town="Ulm"), call("snap", town="Bonn")], "seen"))
    modes: tuple[Mode, ...] = ("record", "replay")
    for mode in modes:
        with axe_nb.cassette("one.axe", mode):
            result = axe_nb.run(Agent("a", "script/look", tools=("snap",)), "go")
        assert [one.pictures for one in result.log[0].results] == [(SECOND,)] * 2
    assert sorted(ran) == ["Bonn", "Ulm"]


def test_the_history_has_the_bytes_of_a_picture_once_and_no_filter_changes_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    monkeypatch.setenv("MY_SECRET_TOKEN", FIRST.base64[40:70])
    path = history_path()
    try:
        result = run_look()
        loaded = axe_nb.load(1)
        assert loaded == result
        assert loaded.messages == result.messages
        text = read_text(path, 1)
        assert [text.count(one.base64) for one in (FIRST, SECOND)] == [1, 1]
        again = axe_nb.run(Agent("a", "script/look"), "more", continue_from=loaded)
        assert axe_nb.load(2).messages == again.messages
    finally:
        find_writer(path).flush()


def test_the_tree_shows_each_picture_small_and_once(project: Path) -> None:
    def repeat(town: str) -> Any:
        """Draws the same again."""
        return FIRST

    script("twice")(said([call("chart", town="Ulm"), call("repeat", town="Ulm")], "seen"))
    result = axe_nb.run(Agent("a", "script/twice", tools=(chart, repeat)), ["Look", FIRST.data])
    page = Page(twin(result)["text/html"])
    sources = page.values("src")
    assert sources == [FIRST.url, SECOND.url]
    assert page.tags.count("img") == 2
    text = as_text(result)
    assert f"was shown: {FIRST.shown}" in text
    assert f"result: {FIRST.mark(1)}" in text
    assert "1 picture" in text
    assert FIRST.base64 not in text


def test_a_page_has_room_for_so_many_pictures(project: Path) -> None:
    # no library can unpack them, so that they are their own thumbnails
    drawn = [claimed_png(60, 40 + n) + bytes(15_000) for n in range(58)]

    def album() -> Any:
        """Shows pictures."""
        return drawn[:8]

    script("x")(said(call("album"), "done"))
    result = axe_nb.run(Agent("a", "script/x", tools=(album,)), drawn[8:])
    page = twin(result)["text/html"]
    assert 8 < page.count("<img ") < 16
    assert len(page) < 260_000
    assert "; 42 more pictures" in as_text(result)
