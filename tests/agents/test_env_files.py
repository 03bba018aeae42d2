"""`.env` files: what is read, what is kept, what a file of a project cannot set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from axe_nb.agents.user_config import EMPTY, KEPT, KEY_ELSEWHERE, SET, UNKNOWN, load_env
from axe_nb.errors import ConfigError
from axe_nb.notebook.line_magic import list_keys
from axe_nb.secrets import redact
from tests.files import settings


@pytest.fixture(autouse=True)
def same_environment(project: Path, nothing_left: None) -> Iterator[None]:
    """Takes away what a test has set."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def put(text: str | bytes) -> str:
    Path(".env").write_bytes(text if isinstance(text, bytes) else text.encode())
    return ".env"


VALUES = {
    "OPENAI_API_KEY=plain": "plain",
    "export OPENAI_API_KEY=plain": "plain",
    "  OPENAI_API_KEY = two words  # a comment": "two words",
    "OPENAI_API_KEY=with#hash": "with#hash",
    "OPENAI_API_KEY='# $x \\n'  # kept as it is": "# $x \\n",
    'OPENAI_API_KEY="a # b"': "a # b",
    "OPENAI_API_KEY=a=b=c": "a=b=c",
    "OPENAI_API_KEY=one\nOPENAI_API_KEY=two\r\n": "two",
    "\ufeffOPENAI_API_KEY=after a mark\r\n": "after a mark",
}


@pytest.mark.parametrize("line", VALUES)
def test_a_line_sets_a_variable(line: str) -> None:
    names = load_env(put(f"# first\n\n{line}\n" if not line.startswith("\ufeff") else line))
    assert names == {SET: ["OPENAI_API_KEY"]}
    assert os.environ["OPENAI_API_KEY"] == VALUES[line]


def test_a_variable_that_has_a_value_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    names = load_env(put("OPENAI_API_KEY=theirs\nANTHROPIC_API_KEY=new\nOLLAMA_API_KEY=''\n"))
    assert names == {
        SET: ["ANTHROPIC_API_KEY"], KEPT: ["OPENAI_API_KEY"], EMPTY: ["OLLAMA_API_KEY"],
    }  # fmt: skip
    assert (os.environ["OPENAI_API_KEY"], os.environ["ANTHROPIC_API_KEY"]) == ("mine", "new")
    assert "OLLAMA_API_KEY" not in os.environ


REFUSED = [
    "PATH", "LD_PRELOAD", "PYTHONPATH", "AXE_NB_TRUST", "AXE_CASSETTE", "AXE_FOO_BASE_URL",
    "XDG_CONFIG_HOME", "HOME", "EDITOR", "GIT_SSH_COMMAND", "BASH_ENV", "HTTPS_PROXY",
    "SSL_CERT_FILE", "PIP_INDEX_URL", "A", "DATABASE_URL", "GITHUB_TOKEN", "GROQ_API_KEY",
    "OPENAI_BASE_URL", "openai_api_key", "OPENAI_API_KEY_2", "SCRIPT_API_KEY",
]  # fmt: skip


@pytest.mark.req("D-81")
@pytest.mark.parametrize("name", REFUSED)
def test_only_keys_of_providers_are_set(name: str) -> None:
    before = os.environ.get(name)
    names = load_env(put(f"{name}=evil\nOPENAI_API_KEY=fine\n"))
    assert names == {SET: ["OPENAI_API_KEY"], UNKNOWN: [name]}
    assert os.environ.get(name) == before


def test_keys_of_own_providers_are_known() -> None:
    settings('[providers.groq]\nprotocol = "openai"\nbase_url = "https://groq.example"\n')
    assert load_env(put("GROQ_API_KEY=value\n")) == {SET: ["GROQ_API_KEY"]}


ADDRESSES = [("OPENAI_API_KEY", "AXE_OPENAI_BASE_URL"), ("OLLAMA_API_KEY", "AXE_OLLAMA_BASE_URL")]


@pytest.mark.req("D-81")
@pytest.mark.parametrize(("key", "address"), ADDRESSES)
def test_a_file_sets_an_address_only_for_the_key_that_it_brings(
    key: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = f"{address}=http://127.0.0.1:9\n"
    for before in ("the person's own", None):  # which may come after the address too
        if before:
            monkeypatch.setenv(key, before)
        else:
            monkeypatch.delenv(key)
        assert load_env(put(there)) == {KEY_ELSEWHERE: [address]}
        assert address not in os.environ
    monkeypatch.setenv(key, "the person's own")
    names = load_env(put(f"{there}{key}=theirs\n"))
    assert names == {KEPT: [key], KEY_ELSEWHERE: [address]}
    monkeypatch.delenv(key)
    assert load_env(put(f"{there}{key}=theirs\n")) == {SET: [key, address]}
    monkeypatch.delenv(key)


@pytest.mark.req("D-81")
def test_a_key_in_the_settings_is_not_sent_elsewhere_either() -> None:
    settings(
        '[providers.openai]\napi_key = "mine"\n[providers.own]\nprotocol = "openai"\n'
        'base_url = "https://own.example"\nheaders = { x-team = "secret" }\n'
    )
    for name in ("OPENAI", "OWN"):
        text = f"{name}_API_KEY=theirs\nAXE_{name}_BASE_URL=http://127.0.0.1:9\n"
        assert load_env(put(text))[KEY_ELSEWHERE] == [f"AXE_{name}_BASE_URL"]


WRONG = [
    "A=1\nsk-secret-value\n", "A=1\n1B=secret\n", f"A=1\n{'B' * 101}=secret",
    "A=1\nB='secret\nmore'\n", 'A=1\nB="secret" more\n', "A=1\nB=sec\0ret\n",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_line_is_named_without_what_it_holds_and_nothing_is_set(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^not a NAME=VALUE line") as caught:
        load_env(put(text))
    said = "\n".join(caught.value.lines())
    assert "in .env, line 2" in said
    assert "sec" not in said
    assert "A" not in os.environ


def test_a_file_that_cannot_be_one_is_refused() -> None:
    Path("folder").mkdir()
    for file, problem in (
        ("missing", "No such file"), ("folder", "not a file"), ("a\0b", "not a"),
        (put(b"A=1\nB=\xff\xfe\n"), r"not UTF-8 \(at line 2\)"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"^cannot read .*{problem}"):
            load_env(file)
    assert "A" not in os.environ


@pytest.mark.req("D-60")
def test_a_key_that_was_read_is_known_to_the_filter() -> None:
    load_env(put("OPENAI_API_KEY=abcd-efgh-1234\n"))
    assert redact("it is abcd-efgh-1234") == "it is ***"


def test_keys_are_listed_by_name_with_their_state(monkeypatch: pytest.MonkeyPatch) -> None:
    settings('[providers.anthropic]\napi_key = "mine"\n')
    load_env(put("OPENAI_API_KEY=secret-1\nAXE_OPENAI_BASE_URL=http://127.0.0.1:9\n"))
    assert [found[1:] for found in list_keys()] == [
        ("ANTHROPIC_API_KEY", "in config.toml"), ("OPENAI_API_KEY", "set"),
        ("AXE_OPENAI_BASE_URL", "set"), ("OLLAMA_API_KEY", "not set, not needed"),
    ]  # fmt: skip
