"""Keys, base URLs and the global settings file: which one wins, what is said where one lacks."""

from pathlib import Path

import pytest

from axe_nb.agents import user_config
from axe_nb.agents.user_config import Config
from axe_nb.errors import ConfigError
from tests.files import settings

SECRET = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def no_retries_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the variable that keeps other tests from waiting."""
    monkeypatch.delenv("AXE_NB_RETRIES")


@pytest.mark.req("B-3")
def test_a_key_comes_from_the_environment_then_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    settings('[providers.openai]\napi_key = " in-file "\n')
    monkeypatch.setenv("OPENAI_API_KEY", "in-env\n")
    assert Config.load().api_key("openai") == "in-env"
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert Config.load().api_key("openai") == "in-file"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert Config.load().api_key("openai") == "in-file"


@pytest.mark.req("B-3")
def test_ollama_and_scripts_need_no_key_but_may_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Config.load().api_key("ollama") == Config.load().api_key("script") == ""
    monkeypatch.setenv("OLLAMA_API_KEY", "mine")
    assert Config.load().api_key("ollama") == "mine"


@pytest.mark.req("B-3")
@pytest.mark.parametrize(
    ("provider", "url"),
    [
        ("anthropic", "https://api.anthropic.com"),
        ("openai", "https://api.openai.com"),
        ("ollama", "http://localhost:11434"),
    ],
)
def test_a_base_url_comes_from_the_environment_then_the_file_then_is_the_providers_own(
    provider: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Config.load().base_url(provider) == url
    settings(f'[providers.{provider}]\nbase_url = "http://file:1"\n')
    assert Config.load().base_url(provider) == "http://file:1"
    monkeypatch.setenv(f"AXE_{provider.upper()}_BASE_URL", "http://env:2")
    assert Config.load().base_url(provider) == "http://env:2"
    monkeypatch.setenv(f"AXE_{provider.upper()}_BASE_URL", "")
    assert Config.load().base_url(provider) == "http://file:1"


@pytest.mark.parametrize("url", ["localhost:11434", "ftp://h", SECRET, "/v1", "v1"])
def test_what_is_no_http_address_is_refused_and_not_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_OLLAMA_BASE_URL", url)
    with pytest.raises(ConfigError) as caught:
        Config.load().base_url("ollama")
    assert str(caught.value) == (
        'base URL of provider "ollama" must be a valid URL that starts with http:// or https://'
    )
    assert "AXE_OLLAMA_BASE_URL" in caught.value.hint
    assert SECRET not in "\n".join(caught.value.lines())


BROKEN = {
    b"[providers": "parse config file: ",
    b"providers = 3": "parse config file: providers must be tables, line 1",
    b"[retry]\n\nmax_retries = -1":
        "parse config file: retry.max_retries must be non-negative, line 3",
    b'[prices."a/b"]\ninput = 1\noutput = "free"':
        "parse config file: prices.a/b.output must be a number, line 3",
    b'[providers.openai]\nbase_url = "localhost:1234"':
        "parse config file: providers.openai.base_url must be a valid URL that starts with "
        "http:// or https://, line 2",
    b"[provider.openai]\napi_key = 'x'": "parse config file: provider is an unknown table, line 1",
    b"x = " + b"1" * 5000: "parse config file: Exceeds the limit",
    b"x = " + b"[" * 5000: "parse config file: its values are nested",
    b"# \xff": "read config file: not UTF-8 (at line 1)",
    b"#" * 10**7: "read config file: larger than 1048576 bytes",
}  # fmt: skip
"""Text of the file → the error, and the line of its place."""


@pytest.mark.req("B-3", "A-X2")
@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_settings_file_is_told_with_its_place(data: bytes) -> None:
    message, _, line = BROKEN[data].partition(", line ")
    settings("").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        Config.load().api_key("openai")
    assert str(caught.value).startswith(f"failed to {message}")
    assert "\n" not in str(caught.value)
    at = f", line {line}" if line else ""
    assert caught.value.place == f"in $XDG_CONFIG_HOME/axe/config.toml{at}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "[providers]\nopenai = 'a8f3hidden'",
        "[providers.openai]\napi_key = ['a8f3hidden']",
        "[providers.openai]\napi_key = 83",
        "[providers.openai]\nkey_command = 'a8f3hidden'",
        "[providers.openai]\nheaders = 'a8f3hidden'",
        "[providers.openai]\nbase_url = 'a8f3hidden'",
        "[mcp_servers.m]\ncommand = ['x']\nenv = ['a8f3hidden']",
        "[mcp_servers.m]\nurl = 'https://u:a8f3hidden@[h'",
    ],
)
def test_a_wrong_value_that_may_be_a_secret_is_not_quoted(text: str) -> None:
    settings(text)
    with pytest.raises(ConfigError) as caught:
        Config.load()
    told = "\n".join(caught.value.lines())
    assert " must be a " in told
    assert "83" not in told
    assert "hidden" not in told


@pytest.mark.req("B-3")
def test_no_settings_file_is_an_empty_one_and_it_is_read_anew_each_time() -> None:
    assert Config.load() == Config({})
    settings('[providers.openai]\napi_key = "a"\n')
    assert Config.load().api_key("openai") == "a"
    settings("").write_text('[providers.openai]\napi_key = "b"\n[servers.x]\na = 1\n', "utf-8-sig")
    assert Config.load().api_key("openai") == "b"
    settings(f'[providers.openai]\napi_key = "{SECRET}"\n')
    assert SECRET not in repr(Config.load())


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("provider", "providers"), ("Providers", "providers"), ("price", "prices"),
        ("mcpServers", "mcp_servers"), ("mcp-servers", "mcp_servers"),
    ],
)  # fmt: skip
def test_a_misspelt_table_is_told_with_the_right_name(name: str, right: str) -> None:
    settings(f"[{name}.x]\na = 1\n")
    with pytest.raises(ConfigError) as caught:
        Config.load()
    assert caught.value.hint == f"did you mean [{right}]?"


def test_the_config_folder_follows_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "~/elsewhere")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    assert user_config.config_path() == Path("/home/me/elsewhere/axe/config.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert user_config.config_path() == Path("/home/me/.config/axe/config.toml")
    assert user_config.agent_dirs() == [
        Path("axe/agents"), Path("/home/me/.config/axe/agents"),
    ]  # fmt: skip


def test_the_first_settings_file_holds_nothing_yet_and_all_of_it_can_be_used() -> None:
    settings(user_config.SCAFFOLD)
    assert Config.load() == Config({})
    lines = user_config.SCAFFOLD.splitlines()
    settings("\n".join(line.removeprefix("# ") for line in lines[2:]))
    assert Config.load().base_url("openai") == "https://api.openai.com"
    assert set(Config.load().providers) == {"openai", "groq"}
