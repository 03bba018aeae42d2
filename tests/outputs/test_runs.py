"""Structured output in runs: over each protocol, refused, with tools, repaired, recorded."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, CassetteMiss, ConfigError, Request, RunResult, call, script, script_server
from axe_nb.cli import main
from axe_nb.errors import ProviderError
from axe_nb.scripting.wire import Protocol
from axe_nb.views.outline import as_text
from tests.protocols import PROTOCOLS, address_of, provider_of
from tests.providers.dialects import BY_NAME
from tests.wire.replay import Replay

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}

GOOD = '{"name": "Ulm", "people": 3}'
ULM = {"name": "Ulm", "people": 3}


class Server:
    """A server that sends given replies, one after another, and keeps the requests."""

    def __init__(self, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
        self._replay, self._monkeypatch = replay, monkeypatch

    def connect(self, protocol: str, *replies: Any) -> Agent:
        self._replay.replies = {"x": {"sequence": [*replies]}}
        for variable, value in address_of(protocol, self._replay.url("x")).items():
            self._monkeypatch.setenv(variable, value)
        return Agent("a", f"{provider_of(protocol)}/m")

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [asked.body for asked in self._replay.log("x")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Replay({}) as replay:
        yield Server(replay, monkeypatch)


def asked_of(result: RunResult) -> list[str]:
    return [turn.asked for turn in result.log]


CLOSED = {**SCHEMA, "additionalProperties": False}
NAMED = {"type": "json_schema", "name": "answer", "strict": True, "schema": CLOSED}

FORMS: dict[str, dict[str, Any]] = {
    "openai": {"response_format": {
        "type": "json_schema", "json_schema": {k: v for k, v in NAMED.items() if k != "type"}}},
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
    "responses": {"text": {"format": NAMED}},
    "ollama": {"format": SCHEMA},
}  # fmt: skip


def said(protocol: str, text: str, *calls: Any) -> dict[str, Any]:
    dialect = BY_NAME[protocol]
    stop = dialect.calling if calls else dialect.done
    return {"status": 200, "body": dialect.reply(text, calls, stop)}


def refuse(message: str, status: int = 400) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message}}}


ANSWER = said("openai", "", ("c1", "give_answer", ULM))


@every_protocol
def test_each_protocol_has_its_own_form(protocol: Protocol, server: Server) -> None:
    agent = server.connect(protocol, said(protocol, GOOD))
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert result.data == ULM
    assert FORMS[protocol].items() <= server.bodies[0].items()
    assert result.request().body.items() >= FORMS[protocol].items()


REFUSALS = {
    "openai": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with "
    "this model.",
    "responses": "Invalid parameter: 'text.format' of type 'json_schema' is not supported with "
    "model version `m`.",
    "anthropic": "output_config.format: Extra inputs are not permitted",
    "ollama": "json: cannot unmarshal object into Go struct field ChatRequest.format of type "
    "string: field format of type string",
}

CHOICES: dict[str, Any] = {
    "openai": {"type": "function", "function": {"name": "give_answer"}},
    "responses": {"type": "function", "name": "give_answer"},
    "anthropic": {"type": "tool", "name": "give_answer"},
}


@every_protocol
def test_a_server_without_a_form_gets_a_tool_for_the_answer(
    protocol: Protocol, server: Server
) -> None:
    refusal = refuse(REFUSALS[protocol])
    answer = said(protocol, "", ("call_1", "give_answer", ULM))
    agent = server.connect(protocol, refusal, answer)
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert (result.data, result.turns, result.tool_calls) == (ULM, 1, 0)
    assert result.messages[-1].content == '{"name":"Ulm","people":3}'
    _, sent = server.bodies
    assert not FORMS[protocol].keys() & sent.keys()
    [tool] = sent["tools"]
    assert "give_answer" in json.dumps(tool)
    assert sent.get("tool_choice") == CHOICES.get(protocol)
    assert "give_answer" in json.dumps(result.request().body), "as it was sent"


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_the_tool_is_offered_but_not_forced_beside_other_tools(
    protocol: str, server: Server, project: Path
) -> None:
    refusal = refuse(REFUSALS[protocol])
    early = ("call_1", "give_answer", {"name": "early", "people": 0})
    agent = server.connect(protocol, refusal,
        said(protocol, "", early, ("call_2", "list_dir", {"path": "."})),
        said(protocol, "", ("call_3", "give_answer", ULM)),
    ).but(tools=("list_dir",))  # fmt: skip
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert (result.data, result.turns, result.tool_calls) == (ULM, 2, 1)
    assert [c.name for c in result.log[0].calls] == ["list_dir"], "an answer beside calls is early"
    assert all("tool_choice" not in body for body in server.bodies)


@pytest.mark.req("D-65")
def test_ollama_is_asked_for_the_form_on_the_last_turn_only(server: Server, project: Path) -> None:
    replies = [
        said("ollama", "", (None, "list_dir", {"path": "."})),
        said("ollama", "It is Ulm."), said("ollama", GOOD),
    ]  # fmt: skip
    agent = server.connect("ollama", *replies).but(tools=("list_dir",))
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert (result.data, asked_of(result)) == (ULM, ["", "", "output"])
    assert ["format" in body for body in server.bodies] == [False, False, True]
    assert "tools" not in server.bodies[2]
    assert "gives its answer as JSON" in as_text(result)


def test_one_repair_is_asked_for_counted_and_shown(project: Path) -> None:
    @script("m")
    def m(request: Request) -> Any:
        return '{"name": "Ulm", "people": "many"}' if request.turn == 1 else GOOD

    result = axe_nb.run(Agent("a", "script/m", tools=("list_dir",)), "hi", output=SCHEMA)
    assert (result.data, result.turns, asked_of(result)) == (ULM, 2, ["", "repair"])
    assert result.usage.output_tokens == sum(t.usage.output_tokens for t in result.log)
    mistake, shown = "data.people: 'many' is not of type 'integer'", as_text(result)
    assert mistake in result.log[1].question
    assert mistake in shown
    assert "repairs its answer" in shown
    repair = result.exchanges[1]
    assert (repair.tools, [tool.name for tool in repair.past_tools]) == ((), ["list_dir"])


@pytest.mark.parametrize("second", ["no JSON either", " "])
def test_a_wrong_repair_is_a_failed_run_that_keeps_the_text(second: str, project: Path) -> None:
    script("m")(lambda request: "no JSON" if request.turn == 1 else second)
    result = axe_nb.run(Agent("a", "script/m"), "hi", output=SCHEMA)
    assert (result.status, result.data, result.turns) == ("error", None, 2)
    assert result.text == (second if second.strip() else "no JSON")
    assert str(result.error).startswith(
        "the answer does not match its schema (even after one repair"
    )
    with pytest.raises(axe_nb.RunError) as raised:
        result.raise_for_status()
    assert raised.value.hint


@pytest.mark.parametrize("text", ['{"name": "U', GOOD])
def test_a_cut_answer_is_not_repaired_and_one_with_valid_data_has_a_warning(
    text: str, server: Server
) -> None:
    cut = {"status": 200, "body": BY_NAME["openai"].reply(text, (), "length")}
    result = axe_nb.run(server.connect("openai", cut), "hi", output=SCHEMA)
    assert (result.ok, len(server.bodies)) == (text == GOOD, 1)
    told = ("".join(result.warnings), result.error or "")
    assert ["raise params.max_tokens" in one for one in told] == [result.ok, not result.ok]


@every_protocol
def test_a_sub_agent_with_an_output_gives_its_parent_json(
    protocol: Protocol, project: Path
) -> None:
    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            return [call("call_agent", agent="town", task=t) for t in ("one", "two")]
        total = sum(json.loads(r.content)["people"] for r in request.results)
        return f'{{"value": {total}}}'

    @script("town")
    def town(request: Request) -> Any:
        if "two" in request.last and request.turn == 1:
            return "```json\n{}\n```"
        return ULM

    axe_nb.define(Agent("lead", f"{provider_of(protocol)}/lead", sub_agents=("town",)))
    axe_nb.define(Agent("town", f"{provider_of(protocol)}/town", output=SCHEMA))
    with script_server(protocol):
        result = axe_nb.run("lead", "hi", output=int)
    assert (result.data, result.ok) == (6, True)
    assert [child.data for child in result.children] == [ULM] * 2
    assert [asked_of(child) for child in result.children] == [[""], ["", "repair"]]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing.json", "No such file"),
        ("../secret.json", "must be in the folder of the agent's file"),
        ("/etc/passwd", "must be in the folder of the agent's file"),
        ("~/secret.json", "must be in the folder of the agent's file"),
        ("link.json", "cannot be used"),
        ("list.json", "does not contain a JSON object"),
        ("bad.json", "it is not JSON"),
        ("deep.json", "nested too deeply|not JSON"),
    ],
)
def test_a_schema_beside_an_agent_file_is_read_and_one_elsewhere_or_broken_refused(
    name: str, problem: str, project: Path
) -> None:
    folder = project / "axe" / "agents"
    (project / "axe" / "secret.json").write_text('{"canary": "s3cr3t"}')
    (folder / "link.json").symlink_to(project / "axe" / "secret.json")
    (folder / "list.json").write_text("[1]")
    (folder / "bad.json").write_text("{canary")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "town.json").write_text(json.dumps(SCHEMA))
    text = 'name = "t"\nmodel = "script/m"\n[output]\nschema = "{}"\n'
    script("m")(lambda request: ULM)
    (folder / "t.toml").write_text(text.format("town.json"))
    assert axe_nb.run("t", "hi").data == ULM
    (folder / "t.toml").write_text(text.format(name))
    with pytest.raises(ConfigError, match=problem) as raised:
        axe_nb.run("t", "hi")
    assert "\n" not in raised.value.message
    assert "s3cr3t" not in str(raised.value)


@every_protocol
def test_data_is_recorded_replayed_and_kept(protocol: Protocol, project: Path) -> None:
    turns: list[int] = []

    @script("m")
    def m(request: Request) -> Any:
        turns.append(request.turn)
        return "{}" if request.turn == 1 else ULM

    agent = Agent("a", f"{provider_of(protocol)}/m", output=SCHEMA)
    with script_server(protocol), axe_nb.cassette("c.axe", "record"):
        first = axe_nb.run(agent, "hi")
    with axe_nb.cassette("c.axe", "replay"):
        again = axe_nb.run(agent, "hi")
    with axe_nb.cassette("c.axe", "replay"):
        other = axe_nb.run(agent.but(output={**SCHEMA, "required": ["name"]}), "hi")
    assert first.data == again.data == ULM
    assert isinstance(other.cause, CassetteMiss)
    assert "output" in str(other.cause)
    again.save("r.axe")
    for kept in (axe_nb.load("r.axe"), pickle.loads(pickle.dumps(first))):
        assert (kept.data, asked_of(kept)) == (first.data, ["", "repair"])
    script("m")(lambda request: {"n": 1})
    with script_server(protocol):
        another = axe_nb.run(agent, "more", output=dict[str, int], continue_from=first)
    assert another.data == {"n": 1}, "a continued conversation may ask for another form"


def test_the_command_line_reads_a_schema_from_a_file(
    project: Path, capsys: pytest.CaptureFixture[str], piped: Any
) -> None:
    (project / "town.json").write_text(json.dumps(SCHEMA))
    rules = project / "axe" / "scripts"
    rules.mkdir()
    (rules / "m.toml").write_text('[[rule]]\ntext = \'{"name": "Ulm", "people": 3}\'\n')
    (project / "axe" / "agents" / "t.toml").write_text('name = "t"\nmodel = "script/m"\n')
    asked = ["run", "t", "-p", "hi", "--output"]
    assert main([*asked, "town.json"]) == 0
    assert json.loads(capsys.readouterr().out) == ULM
    assert main([*asked, "nothing.json"]) == 2
    assert "nothing.json" in capsys.readouterr().err
    assert main([*asked, "town.json", "--dry-run"]) == 0
    assert "--- Output ---" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Failed to parse grammar", 500),
        ("Failed to initialize samplers: failed to parse grammar", 400),
        ("invalid JSON schema in format", 500),
        ("The provided JSON schema contains features not supported by xgrammar.", 400),
        ("guided_json is not supported", 400),
        ("json mode cannot be combined with tool/function calling", 400),
        ("Function calling with a response mime type: 'application/json' is unsupported", 400),
        ("GenerateContentRequest.generation_config.response_schema: should be non-empty", 400),
        ('Invalid JSON payload received. Unknown name "response_format": Cannot find field.', 400),
        ("Unsupported JSON schema fields: {'pattern'}", 422),
        ("No endpoints found that support the requested structured outputs", 404),
    ],
)
def test_a_refusal_in_a_servers_own_words_leads_to_the_tool(
    message: str, status: int, server: Server
) -> None:
    agent = server.connect("openai", refuse(message, status), ANSWER)
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert (result.data, len(server.bodies)) == (ULM, 2)


def test_a_server_that_cannot_be_made_to_call_is_only_offered_the_tool(server: Server) -> None:
    first = refuse("response_format is not supported")
    second = refuse("the model does not support this tool_choice in thinking mode")
    agent = server.connect("openai", first, second, ANSWER)
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert result.data == ULM
    assert ["tool_choice" in body for body in server.bodies] == [False, True, False]
    assert result.request().body == server.bodies[2]


@pytest.mark.req("D-65")
@pytest.mark.parametrize(
    ("params", "is_forced"),
    [
        ({}, True),
        ({"reasoning_effort": "none"}, True),
        ({"thinking": {"type": "disabled"}}, True),
        ({"reasoning": {"effort": "none", "summary": "auto"}}, True),
        ({"reasoning": {"enabled": False, "exclude": True}}, True),
        ({"reasoning_effort": "low"}, False),
        ({"thinking": {"type": "enabled"}}, False),
        ({"reasoning": {"effort": "low", "enabled": True}}, False),
        ({"reasoning": {"max_tokens": 2000}}, False),
        ({"enable_thinking": True}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, False),
    ],
)
def test_where_the_model_is_told_to_think_the_tool_is_never_forced(
    params: dict[str, Any], is_forced: bool, server: Server
) -> None:
    replies = refuse("response_format is not supported"), ANSWER
    agent = server.connect("openai", *replies).but(params=params)
    assert axe_nb.run(agent, "hi", output=SCHEMA).data == ULM
    assert ("tool_choice" in server.bodies[1]) is is_forced


def test_a_server_that_refuses_both_is_an_error_of_one_line(server: Server) -> None:
    replies = [refuse("response_format is not supported"), refuse("tools are not supported")]
    agent = server.connect("openai", *replies, said("openai", GOOD))
    result = axe_nb.run(agent, "hi", output=SCHEMA)
    assert str(result.error).partition("\n")[::2] == (result.error, "")
    assert "tools are not supported" in str(result.error)
    assert isinstance(result.cause, ProviderError)
    assert "structured output from this model needs a tool" in result.cause.hint
    assert axe_nb.run(agent, "hi", output=SCHEMA).ok, "the form is tried again"


def test_a_server_that_ignores_the_form_in_silence_is_offered_a_tool_in_the_next_request(
    server: Server,
) -> None:
    """Third-party servers of Anthropic's protocol take `output_config`, and do nothing with it."""
    called = said("anthropic", "", ("t", "give_answer", ULM))
    replies = said("anthropic", "It is Ulm."), called
    result = axe_nb.run(server.connect("anthropic", *replies), "hi", output=SCHEMA)
    assert (result.data, result.error) == (ULM, None)
    first, second = server.bodies
    assert ("output_config" in first, "output_config" in second) == (True, False)
    assert second["tool_choice"] == CHOICES["anthropic"]
