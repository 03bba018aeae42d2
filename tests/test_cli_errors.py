"""Whatever can be wrong is told in at most three lines: cause, place, next step; with its code."""

from pathlib import Path

import pytest

from axe_nb import cli
from axe_nb.conversion.toml_tables import TOML_HINT
from tests.files import put
from tests.wire.replay import Replay

KEY = "sk-secret-0123456789abcdef"


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], piped):
    """Runs `axe-nb run a` with more words; (exit code, stdout, lines of stderr)."""
    put("axe/agents/a.toml", 'name = "a"\nmodel = "script/a"\n')
    put("axe/scripts/a.toml", '[[rule]]\ntext = "fine"\n')
    for provider in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)

    def run(*words: str, name: str = "a") -> tuple[int, str, list[str]]:
        code = cli.main(["run", name, "-p", "x", *words])
        written = capsys.readouterr()
        assert KEY not in written.out + written.err
        assert "Traceback" not in written.err
        return code, written.out, written.err.splitlines()

    return run


AGENTS = {
    "no TOML": ("name = a", [
        'failed to parse agent config "a": Invalid value (at line 1, column 8)',
        "in axe/agents/a.toml", TOML_HINT]),
    "no name": ('model = "script/a"', ["agent config missing required field: name",
                                       "in axe/agents/a.toml", 'add name = "…"']),
    "no model": ('name = "a"', ["agent config missing required field: model",
                                "in axe/agents/a.toml", 'add model = "…"']),
    "no UTF-8": (b"\xff", ['failed to read agent config "a": not UTF-8 (at line 1)',
                           "in axe/agents/a.toml"]),
}  # fmt: skip


@pytest.mark.req("A-X2", "B-1", "D-27")
@pytest.mark.parametrize("case", AGENTS)
def test_an_agent_that_is_not_right_exits_2(case: str, run) -> None:
    text, lines = AGENTS[case]
    put("axe/agents/a.toml", text)
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err == ["error: " + lines[0], *lines[1:]]


LINES = {
    "no such agent": (("aa",), 2, ["agent config not found: aa", 'did you mean "a"?']),
    "no such agent, none near": (("zzz",), 2, [
        "agent config not found: zzz",
        "create it with `axe-nb agents init zzz`, in a notebook `%axe init zzz`; "
        "register an Agent in a variable with axe_nb.define(agent)",
    ]),
    "a bad model": (("a", "-m", "gpt"), 1, [
        'invalid model format "gpt": expected provider/model-name',
        "for example anthropic/claude-sonnet-5-5, ollama/llama3.2 or script/lead"]),
    "a parameter that JSON cannot say": (("a", "--param", "top_p=NaN"), 2, [
        "params.top_p must be valid JSON: no dates, nan or inf"]),
}  # fmt: skip


@pytest.mark.req("A-X1", "A-X2", "B-2")
@pytest.mark.parametrize("case", LINES)
def test_a_line_that_asks_for_what_there_is_not_is_told(case: str, run) -> None:
    (name, *words), code, lines = LINES[case]
    assert run(*words, name=name) == (code, "", ["error: " + lines[0], *lines[1:]])


SAYS = '{"error": {"type": "e", "message": "the server\'s own words"}}'
REPLIES = {
    "401": (401, SAYS, 3, "auth: the server's own words", "_API_KEY"),
    "404": (404, SAYS, 1, "bad_request: the server's own words", "check the model name"),
    "500": (500, SAYS, 3, "server: the server's own words", "try again"),
    "500 without words": (500, "", 3, "server: 500 Internal Server Error", "try again"),
    "HTML": (200, "<!DOCTYPE html><h1>Welcome</h1>", 3, "server: the reply is not a JSON", None),
    "no answer in it": (200, "{}", 3, "server: response contains no ", None),
    "hangs up": (0, "", 3, "server: the connection to http://127.0.0.1", "try again"),
}


@pytest.mark.req("A-X1", "A-X3", "A-13.5", "B-5")
@pytest.mark.parametrize("provider", ["anthropic", "openai", "ollama"])
@pytest.mark.parametrize("case", REPLIES)
def test_a_server_that_does_not_answer_as_it_should_is_told(
    case: str, provider: str, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, body, expected, cause, step = REPLIES[case]
    reply = {"status": status, "body": body} if status else {"network": "close_before_headers"}
    with Replay({"x": reply}) as replay:
        monkeypatch.setenv(f"AXE_{provider.upper()}_BASE_URL", replay.url("x"))
        code, out, err = run("-m", f"{provider}/some-model")
    assert (code, out) == (expected, "")
    assert err[0].startswith(f"error: {cause}")
    assert err[1] == "in agent a, turn 1" + f" (HTTP status {status})" * case.isdecimal()
    assert len(err) <= 3
    if step:
        assert step in err[2]


@pytest.mark.req("A-X3", "B-4")
@pytest.mark.parametrize("provider", ["anthropic", "openai", "ollama"])
def test_a_server_that_is_not_there_is_told_with_its_address(
    provider: str, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Replay({"x": {}}) as replay:
        url = replay.url("x")
    monkeypatch.setenv(f"AXE_{provider.upper()}_BASE_URL", url)
    code, out, err = run("-m", f"{provider}/some-model")
    who = "Ollama" if provider == "ollama" else "the server"
    assert (code, out) == (3, "")
    assert err[0] == f"error: server: connection refused: is {who} running? (expected at {url})"
    assert len(err) == 3


@pytest.mark.req("A-X3", "D-10")
def test_a_server_that_takes_its_time_is_told_with_the_setting(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Replay({"x": {"network": "silence"}}) as replay:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", replay.url("x"))
        code, out, err = run("-m", "openai/slow", "--timeout", "0.3")
    assert (code, out) == (3, "")
    told = ["error: timeout after 0.3s", "in agent a, turn 1", "give it more time with --timeout"]
    assert err == told


@pytest.mark.parametrize("key", ["schlüssel-" + KEY, "a\x07b" + KEY, "two\n" + KEY, "“" + KEY])
def test_a_key_that_is_none_exits_3_and_is_not_repeated(
    key: str, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    code, out, err = run("-m", "openai/gpt")
    assert (code, out) == (3, "")
    assert err[0] == 'error: the API key of provider "openai" contains invalid characters'
