"""`.env` files: what is read, what is kept, what a file of a project cannot set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from axe_nb.agents.config import config_path
from axe_nb.agents.env_files import EXPANDED, KEY_ELSEWHERE, MAX_NAMES, list_keys, load_env
from axe_nb.errors import ConfigError
from axe_nb.redaction import redact


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
    "A=plain": "plain",
    "export A=plain": "plain",
    "  A = two words  # a comment": "two words",
    "A=with#hash": "with#hash",
    "A='# $x ${x} \\n'  # kept as it is": "# $x ${x} \\n",
    'A="line\\nline \\"q\\" \\${x}"': 'line\nline "q" ${x}',
    "A=a=b=c": "a=b=c",
    "A=$HOME": "$HOME",
    "A=one\nA=two\r\n": "two",
    "\ufeffA=after a mark\r\n": "after a mark",
}


@pytest.mark.parametrize("line", VALUES)
def test_a_line_sets_a_variable(line: str) -> None:
    names = load_env(put(f"# first\n\n{line}\n" if not line.startswith("\ufeff") else line))
    assert (names.set, os.environ["A"]) == (("A",), VALUES[line])


def test_a_variable_that_has_a_value_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("GROQ_API_KEY", " ")
    names = load_env(put("OPENAI_API_KEY=theirs\nGROQ_API_KEY=new\nEMPTY=\nQUOTED=''\n"))
    assert (names.set, names.kept) == (("GROQ_API_KEY",), ("OPENAI_API_KEY",))
    assert names.empty == ("EMPTY", "QUOTED")
    assert (os.environ["OPENAI_API_KEY"], os.environ["GROQ_API_KEY"]) == ("mine", "new")
    assert not {"EMPTY", "QUOTED"} & os.environ.keys()


REFUSED = [
    "PATH", "PATHEXT", "path", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES",
    "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "AXE_NB_TRUST", "AXE_CASSETTE",
    "AXE_NB_HISTORY", "AXE_NB_DISPLAY", "AXE_FOO_BASE_URL", "XDG_CONFIG_HOME", "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR", "JUPYTER_PATH", "HOME", "USERPROFILE", "SHELL", "EDITOR", "VISUAL",
    "PAGER", "BROWSER", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EXTERNAL_DIFF", "SSH_ASKPASS",
    "BASH_ENV", "ENV", "IFS", "PROMPT_COMMAND", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT",
    "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "http_proxy", "HTTPS_PROXY", "ALL_PROXY",
    "NO_PROXY", "SSL_CERT_FILE", "SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "PIP_INDEX_URL", "UV_INDEX_URL", "CONDA_PREFIX", "VIRTUAL_ENV", "DOCKER_HOST", "KUBECONFIG",
    "MPLBACKEND", "OTEL_EXPORTER_OTLP_ENDPOINT", "PYTEST_ADDOPTS", "TMPDIR", "AWS_CONFIG_FILE",
    "MANPAGER", "GOFLAGS", "MAKEFLAGS", "SHELLOPTS", "HOSTALIASES", "GTK_MODULES", "VIMINIT",
    "CC", "RUSTC", "PYSPARK_PYTHON", "COVERAGE_PROCESS_START", "R_PROFILE_USER", "GOPROXY",
    "GCONV_PATH", "LESSOPEN", "COMSPEC", "APPDATA", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
]  # fmt: skip


@pytest.mark.req("D-54")
@pytest.mark.parametrize("name", REFUSED)
def test_what_runs_programs_or_changes_trust_is_refused_by_name(name: str) -> None:
    before = os.environ.get(name)
    names = load_env(put(f"{name}=evil\nMY_SETTING=fine\n"))
    assert (tuple(names.refused), names.set) == ((name,), ("MY_SETTING",))
    assert os.environ.get(name) == before


PLAIN = [
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "HF_TOKEN", "PERPLEXITY_API_KEY",
    "DATABASE_URL", "DEBUG", "MODEL", "AXE_OPENAI_BASE_URL", "OPENAI_BASE_URL", "LANGFUSE_HOST",
    "AWS_SECRET_ACCESS_KEY", "LANGUAGE_MODEL", "SEED",
]  # fmt: skip


def test_keys_addresses_and_plain_settings_are_set() -> None:
    names = load_env(put("".join(f"{name}=value\n" for name in PLAIN)))
    assert (list(names.set), dict(names.refused)) == (PLAIN, {})


@pytest.mark.req("D-54")
@pytest.mark.parametrize(
    ("key", "address"),
    [
        ("OPENAI_API_KEY", "AXE_OPENAI_BASE_URL"), ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ("OLLAMA_API_KEY", "AXE_OLLAMA_BASE_URL"), ("LANGFUSE_TOKEN", "LANGFUSE_HOST"),
        ("GROQ_KEY", "GROQ_API_BASE"),
    ],
)  # fmt: skip
def test_a_file_cannot_send_the_persons_own_key_elsewhere(
    key: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{key}=theirs\n{address}=http://127.0.0.1:9\n"
    monkeypatch.setenv(key, "the person's own")
    names = load_env(put(text))
    assert (names.kept, dict(names.refused)) == ((key,), {address: KEY_ELSEWHERE})
    assert address not in os.environ
    monkeypatch.delenv(key)
    assert load_env(put(text)).set == (key, address), "with its own key it may"
    monkeypatch.delenv(key)


@pytest.mark.req("D-54")
def test_a_key_in_the_settings_is_not_sent_elsewhere_either() -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text(
        '[providers.openai]\napi_key = "mine"\n[providers.own]\nprotocol = "openai"\n'
        'base_url = "https://own.example"\nheaders = { x-team = "secret" }\n'
    )
    text = "AXE_OPENAI_BASE_URL=http://127.0.0.1:9\nAXE_OWN_BASE_URL=http://127.0.0.1:9\n"
    names = load_env(put(text))
    assert list(names.refused.values()) == [KEY_ELSEWHERE] * 2


def test_a_reference_to_another_variable_is_refused_not_sent_as_it_is() -> None:
    names = load_env(put('A=${HOME}/x\nB="${C}"\nD=x$y\n'))
    assert (dict(names.refused), names.set) == ({"A": EXPANDED, "B": EXPANDED}, ("D",))


WRONG: dict[str | bytes, str] = {
    "A=1\nsk-secret-value\n": "not a NAME=VALUE line",
    "A=1\n1B=secret\n": "not a NAME=VALUE line",
    f"A=1\n{'B' * 101}=secret": "not a NAME=VALUE line",
    "A=1\nB='secret\nmore'\n": "the quotes around the value are not closed",
    'A=1\nB="secret" more\n': "the quotes around the value are not closed",
    "A=1\nB=sec\0ret\n": "the value contains a NUL character",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_line_is_named_without_what_it_holds_and_nothing_is_set(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_env(put(text))
    said = "\n".join(caught.value.lines())
    assert said.startswith(WRONG[text])
    assert "in .env, line 2" in said
    assert "sec" not in said
    assert "A" not in os.environ


def test_a_file_that_cannot_be_one_is_refused() -> None:
    Path("folder").mkdir()
    for file, problem in (("missing", "No such file"), ("folder", "not a file"), ("a\0b", "not a")):
        with pytest.raises(ConfigError, match=f"^cannot read .*{problem}"):
            load_env(file)
    with pytest.raises(ConfigError, match=r"cannot read .*not UTF-8 \(at line 2\)"):
        load_env(put(b"A=1\nB=\xff\xfe\n"))
    with pytest.raises(ConfigError, match=r"cannot read .*larger than"):
        load_env(put(b"A=" + b"x" * 10_000_000))
    with pytest.raises(ConfigError, match=f"more than {MAX_NAMES} variables"):
        load_env(put("".join(f"V{n}=1\n" for n in range(MAX_NAMES + 1))))
    assert not {"A", "V0"} & os.environ.keys()


@pytest.mark.req("D-60")
def test_a_key_that_was_read_is_known_to_the_filter() -> None:
    load_env(put("MY_SERVICE_TOKEN=abcd-efgh-1234\n"))
    assert redact("it is abcd-efgh-1234") == "it is ***"


def test_keys_are_listed_by_name_with_their_state(monkeypatch: pytest.MonkeyPatch) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text('[providers.anthropic]\napi_key = "mine"\n')
    load_env(put("OPENAI_API_KEY=secret-1\nAXE_OPENAI_BASE_URL=http://127.0.0.1:9\n"))
    assert [(found.variable, found.state) for found in list_keys()] == [
        ("ANTHROPIC_API_KEY", "in config.toml"), ("OPENAI_API_KEY", "set"),
        ("AXE_OPENAI_BASE_URL", "set"), ("OLLAMA_API_KEY", "not set, not needed"),
    ]  # fmt: skip
