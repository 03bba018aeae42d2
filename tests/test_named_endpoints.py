"""Servers that config.toml names: `[providers.groq] protocol = "openai"` and `groq/llama-4`."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import axe_nb
from axe_nb import cli
from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config, config_path
from axe_nb.agents.provider_table import PROVIDERS, describe_provider
from axe_nb.commands.agent_problems import problems
from axe_nb.commands.doctor import Finding, examine
from axe_nb.engine.make_provider import make
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.session.session import session
from tests.providers.dialects import BY_NAME, KEY, ask
from tests.wire.replay import Replay

HELLO = {"status": 200, "body": BY_NAME["openai"].reply("hello", (), "stop")}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for info in PROVIDERS.values():
        monkeypatch.delenv(info.key_variable or "UNUSED", raising=False)
        monkeypatch.delenv(info.url_variable, raising=False)


@pytest.fixture
def server() -> Iterator[Replay]:
    replies = {
        "groq": HELLO,
        "own": HELLO,
        "models": {"status": 200, "body": {"data": [{"id": "llama-4"}]}},
        "refused": {"status": 401, "body": {"error": {"message": "no"}}},
        "silence": {"network": "silence"},
    }
    with Replay(replies) as replay:
        yield replay


def settings(text: str) -> None:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(text, "utf-8")


def groq(server: Replay, reply: str = "groq", more: str = "") -> None:
    settings(
        f'[providers.groq]\nprotocol = "openai"\nbase_url = "{server.url(reply)}/v1"\n'
        f'api_key_env = "MY_GROQ_KEY"\n{more}\n[providers.openai]\nbase_url = "{server.url("own")}"'
    )


def examined(*agents: Agent) -> list[Finding]:
    for agent in agents:
        session.define(agent)
    return asyncio.run(examine(None, session.agents, session.find))


@pytest.mark.req("B-3", "D-33")
def test_servers_of_one_protocol_work_side_by_side(
    server: Replay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server)
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    assert axe_nb.run(Agent(name="a", model="groq/llama-4"), "hi").text == "hello"
    assert axe_nb.run(Agent(name="b", model="openai/gpt-5"), "hi").text == "hello"
    [at_groq], [at_openai] = server.log("groq"), server.log("own")
    assert (at_groq.path, at_groq.body["model"]) == ("/v1/chat/completions", "llama-4")
    assert at_groq.headers["authorization"] == f"Bearer {KEY}"
    assert at_openai.headers["authorization"] == "Bearer another-key"


@pytest.mark.req("B-3")
def test_an_endpoints_variables_are_made_of_its_name(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings('[providers.my-server]\nprotocol = "openai"\nbase_url = "http://nowhere"')
    monkeypatch.setenv("AXE_MY_SERVER_BASE_URL", server.url("groq"))
    monkeypatch.setenv("MY_SERVER_API_KEY", KEY)
    asyncio.run(make("my-server", Config.load()).send(ask()))
    assert server.log("groq")[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_endpoint_that_names_no_key_is_asked_without_one(server: Replay) -> None:
    settings(f'[providers.lab]\nprotocol = "openai"\nbase_url = "{server.url("groq")}"')
    asyncio.run(make("lab", Config.load()).send(ask()))
    assert "authorization" not in server.log("groq")[0].headers


@pytest.mark.req("D-22")
def test_a_key_that_an_endpoint_names_and_nobody_set_is_missing(server: Replay) -> None:
    groq(server)
    with pytest.raises(ConfigError) as raised:
        make("groq", Config.load())
    assert str(raised.value) == (
        'no API key for provider "groq": set MY_GROQ_KEY, or api_key under [providers.groq] in '
        "$XDG_CONFIG_HOME/axe/config.toml"
    )
    assert raised.value.exit_code == 3


def test_an_endpoints_own_headers_are_sent_with_the_key_put_in(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server, more='headers = { "Api-Key" = "{key}", Authorization = "none", x-team = "7" }')
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    asyncio.run(make("groq", Config.load()).send(ask()))
    headers = server.log("groq")[0].headers
    assert (headers["api-key"], headers["authorization"], headers["x-team"]) == (KEY, "none", "7")


def test_a_server_that_is_silent_for_too_long_is_a_timeout(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server, "silence", "read_timeout = 0.2")
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    with pytest.raises(ProviderError) as raised:
        asyncio.run(make("groq", Config.load()).send(ask()))
    assert str(raised.value).startswith("timeout: no data from http://127.0.0.1")
    assert str(raised.value).endswith("within 0.2s")
    assert raised.value.hint == "raise read_timeout under [providers.groq] in config.toml"


@pytest.mark.req("B-5")
def test_a_refusal_names_the_endpoints_own_settings(
    server: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server, "refused")
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    with pytest.raises(ProviderError) as raised:
        asyncio.run(make("groq", Config.load()).send(ask()))
    assert raised.value.hint == (
        "check MY_GROQ_KEY, or api_key under [providers.groq] in config.toml"
    )


KNOWN = "must be anthropic, openai or ollama"


@pytest.mark.parametrize(
    ("table", "told", "hint"),
    [
        ('protocol = "opnai"', f'providers.x.protocol {KNOWN}, not "opnai"', ""),
        ('protocol = "script"', f'providers.x.protocol {KNOWN}, not "script"', ""),
        ('protocol = "openai"\nread_timeout = -1', "providers.x.read_timeout must be non-neg", ""),
        (
            'protocol = "openai"\nheaders = 3', "providers.x.headers must be a table of strings",
            "",
        ),
        ('protocol = "openai"\nheaders = {a = "é"}', "providers.x.headers.a contains char", ""),
        (
            'protocol = "openai"\nheaders = {Content-Length = "0"}',
            "providers.x.headers.Content-Length is set by axe_nb: remove it", "",
        ),
        ('protocol = "openai"\nheaders = {"a:b" = ""}', "providers.x.headers must have names", ""),
        (
            'protocol = "openai"\nbase_ulr = "http://h"',
            'unknown key "providers.x.base_ulr" (line 3)', 'did you mean "base_url"?',
        ),
    ],
)  # fmt: skip
@pytest.mark.req("D-27")
def test_a_mistake_in_an_endpoints_table_is_told(table: str, told: str, hint: str) -> None:
    settings(f"[providers.x]\n{table}")
    with pytest.raises(ConfigError) as raised:
        Config.load()
    assert str(raised.value).startswith(f"failed to parse config file: {told}")
    assert raised.value.hint == hint
    line = "" if "(line" in told else f", line {table.count(chr(10)) + 2}"
    assert raised.value.place == f"in $XDG_CONFIG_HOME/axe/config.toml{line}"


@pytest.mark.req("D-27")
def test_a_built_in_provider_is_checked_alike_and_keeps_its_protocol() -> None:
    settings('[providers.openai]\napi_kee = "x"')
    with pytest.raises(ConfigError, match=r'unknown key "providers.openai.api_kee" \(line 2\)'):
        Config.load()
    settings('[providers.openai]\nprotocol = "ollama"')
    problem = r'(?m)providers.openai.protocol must be openai, not "ollama"$'
    with pytest.raises(ConfigError, match=problem):
        Config.load()


def test_a_name_in_capitals_is_refused() -> None:
    settings('[providers.Groq]\nprotocol = "openai"')
    with pytest.raises(ConfigError, match=r"providers\.Groq must be a lower-case name"):
        Config.load()


@pytest.mark.req("B-2")
def test_another_programs_provider_is_let_be_until_it_is_used() -> None:
    settings('[providers.bedrock]\nregion = "us-east-1"\n[providers.lab]\nprotocol = "ollama"')
    with pytest.raises(ConfigError) as raised:
        make("bedrock", Config.load())
    assert str(raised.value) == (
        'unsupported provider "bedrock": supported providers are anthropic, openai, ollama, '
        "script, lab"
    )
    assert raised.value.hint == (
        'add protocol = "openai" under [providers.bedrock] in $XDG_CONFIG_HOME/axe/config.toml'
    )


def test_the_doctor_asks_a_named_endpoint(
    server: Replay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groq(server, "models")
    monkeypatch.setenv("MY_GROQ_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "")
    found = examined(Agent(name="a", model="groq/llama-3"))
    told = {f.what: f.message for f in found if f.what.startswith("groq")}
    assert told["groq key"] == "set (MY_GROQ_KEY)"
    [up, lacking] = [f for f in found if f.what == "groq server"]
    assert up.message == f"up at {server.url('models')}/v1, 1 model"
    assert (lacking.message, lacking.next_step) == (
        'has no "llama-3", needed by agent a', 'did you mean "llama-4"?',
    )  # fmt: skip
    assert [f.state for f in found if f.what == "agents"] == ["right"]


def test_the_doctor_names_the_variable_of_an_endpoints_missing_key(
    server: Replay, project: Path
) -> None:
    groq(server)
    [key] = [f for f in examined(Agent(name="a", model="groq/x")) if f.what == "groq key"]
    assert key.message == "MY_GROQ_KEY is not set, needed by agent a"
    assert key.next_step.startswith("set MY_GROQ_KEY, or api_key under [providers.groq]")


def test_a_models_provider_is_no_mistake_where_the_settings_name_it(project: Path) -> None:
    settings('[providers.lab]\nprotocol = "openai"\napi_key_env = "LAB"')
    [missing] = problems(Agent(name="a", model="lab/x"), session.find)
    [unknown] = problems(Agent(name="a", model="bla/x"), session.find)
    assert (missing.is_mistake, unknown.is_mistake) == (False, True)


def test_a_key_in_the_file_is_no_part_of_what_is_printed() -> None:
    settings(f'[providers.lab]\nprotocol = "openai"\nheaders = {{ a = "{KEY}" }}')
    config = Config.load()
    assert KEY not in repr(config) + repr(config.provider("lab"))


@pytest.mark.req("B-12")
@pytest.mark.parametrize(
    ("keys", "file", "model"),
    [
        ((), "", "anthropic/claude-sonnet-5-5"),
        (("OPENAI_API_KEY",), "", "openai/gpt-6.1-terra"),
        (("ANTHROPIC_API_KEY",), "", "anthropic/claude-sonnet-5-5"),
        (("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "", "anthropic/claude-sonnet-5-5"),
        ((), '[providers.openai]\napi_key = "k"', "openai/gpt-6.1-terra"),
        (
            ("ANTHROPIC_API_KEY",), '[providers.openai]\napi_key = "k"',
            "anthropic/claude-sonnet-5-5",
        ),
        ((), '[providers.openai]\napi_key_env = "MINE"', "anthropic/claude-sonnet-5-5"),
        (("MINE",), '[providers.openai]\napi_key_env = "MINE"', "openai/gpt-6.1-terra"),
        (("OPENAI_API_KEY",), "broken", "openai/gpt-6.1-terra"),
    ],
)  # fmt: skip
def test_the_first_agent_file_names_a_model_of_the_provider_that_has_a_key(
    keys: tuple[str, ...], file: str, model: str, project: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    settings(file)
    for variable in keys:
        monkeypatch.setenv(variable, KEY)
    assert cli.main(["agents", "init", "lead"]) == 0
    assert Agent.load("lead").model == model
    assert KEY not in (project / "axe" / "agents" / "lead.toml").read_text("utf-8")


@pytest.mark.req("D-33")
def test_the_documented_addresses_are_those_that_are_asked() -> None:
    page = (Path(__file__).parent.parent / "docs" / "providers.md").read_text("utf-8")
    blocks = re.findall(
        r"^```toml\n(?:# config.toml\n)?(\[providers\..*?)^```", page, re.MULTILINE | re.DOTALL
    )
    table = {k: v for code in blocks for k, v in tomllib.loads(code)["providers"].items()}
    urls = {name: entry["base_url"] for name, entry in table.items() if "base_url" in entry}
    gemini = "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
    asked = {
        "azure": "https://RESOURCE.openai.azure.com/openai/v1/chat/completions",
        "lmstudio": "http://localhost:1234/v1/chat/completions",
        "vllm": "http://localhost:8000/v1/chat/completions",
        "llamacpp": "http://localhost:8080/v1/chat/completions",
        "openrouter": "https://openrouter.ai/api/v1/chat/completions",
        "gemini": gemini,
        "groq": "https://api.groq.com/openai/v1/chat/completions",
        "vertex": "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/"
        "endpoints/openapi/chat/completions",
        "bedrock": "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/chat/completions",
        "litellm": "http://localhost:4000/v1/chat/completions",
        "vault": "https://models.example.com/v1/chat/completions",
        "lab": "https://models.lab.example/v1/chat/completions",
        "local": "http://localhost:8080/v1/chat/completions",
        "gateway": "https://gateway.example.com/anthropic/v1/messages",
    }
    assert urls.keys() == asked.keys()
    for name, url in urls.items():
        described = describe_provider(name, table[name])
        assert described
        root, info = described.choose_api(url, "m").locate(url)
        assert root + info.api_path + info.chat_path == asked[name]


def test_a_prompt_cache_is_on_or_off(project: Path) -> None:
    file = project / "axe" / "agents" / "one.toml"
    file.write_text('name = "one"\nmodel = "script/one"\n[params]\nprompt_cache = "off"\n')
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("one", "go")
    for part in ("one.toml", "params.prompt_cache", "line 4", "true or false"):
        assert part in " ".join(caught.value.lines())


def test_an_error_names_the_place_where_the_address_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings('[providers.my-server]\nprotocol = "openai"\nbase_url = "http://127.0.0.1:9"')
    hints = []
    for variable in ("", "http://127.0.0.1:10"):
        monkeypatch.setenv("AXE_MY_SERVER_BASE_URL", variable)
        result = axe_nb.run(None, "hello", model="my-server/x", display=False)
        assert isinstance(result.cause, ProviderError)
        hints += [result.cause.hint]
    assert hints == [
        "start it, or check base_url under [providers.my-server] in config.toml",
        "start it, or check AXE_MY_SERVER_BASE_URL in the environment",
    ]
