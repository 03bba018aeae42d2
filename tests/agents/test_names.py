"""Names of agents, models and hosts: which are valid, and which hosts match."""

import pytest

from axe_nb import Agent
from axe_nb.agents.names import check_name, is_allowed, parse_model
from axe_nb.errors import ConfigError


@pytest.mark.req("B-2")
@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("openai/meta/llama-3:70b", ("openai", "meta/llama-3:70b")),
        ("OpenAI/x", ("OpenAI", "x")),
    ],
)
def test_a_model_is_split_on_the_first_slash(model: str, parts: tuple[str, str]) -> None:
    assert parse_model(model) == parts


@pytest.mark.req("B-2", "D-12", "D-13", "A-X1")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt", 'invalid model format "gpt": expected provider/model-name'),
        ("", 'invalid model format "": expected provider/model-name'),
        ("/gpt", 'invalid model format "/gpt": empty provider'),
        (" /gpt", 'invalid model format " /gpt": empty provider'),
        ("openai/", 'invalid model format "openai/": empty model name'),
        ("openai/ \t", 'invalid model format "openai/ \\t": empty model name'),
        ('a"b', 'invalid model format "a\\"b": expected provider/model-name'),
    ],
)
def test_what_is_no_model_is_told_with_the_part_that_lacks(model: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_model(model)
    assert str(caught.value) == message
    assert caught.value.exit_code == 1
    assert caught.value.hint


@pytest.mark.req("B-12")
@pytest.mark.parametrize(
    "name",
    ["", "  ", "a/b", "/a", "a\\b", "..", "../a", "a..b", "C:a", "a\0b", "a\nb", "a\x1b[2Jb"],
)
def test_a_name_that_is_no_plain_file_name_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^invalid agent name ") as caught:
        check_name(name)
    assert str(caught.value).isprintable()
    assert caught.value.exit_code == 2


@pytest.mark.req("D-50")
@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("python.org", "python.org", True), ("Python.ORG", "python.org", True),
        ("python.org.", "python.org", True), ("python.org", "python.org.", True),
        ("python.org", "docs.python.org", False), ("python.org", "python.org.evil.com", False),
        ("python.org", "evilpython.org", False), ("*.python.org", "docs.python.org", True),
        ("*.python.org", "a.b.python.org", True), ("*.python.org", "python.org", False),
        ("*.python.org", "evilpython.org", False), ("*.python.org", ".python.org", False),
        ("*", "any.example", True), ("*", "", True), ("python.org", "", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("*.bücher.example", "a.xn--bcher-kva.example", True),
        ("93.184.216.34", "93.184.216.34", True), ("2606:4700::1111", "2606:4700:0::1111", True),
        ("[2606:4700::1111]", "2606:4700::1111", True),
    ],
)  # fmt: skip
def test_a_pattern_matches_a_host(pattern: str, host: str, matches: bool) -> None:
    assert is_allowed(host, [pattern]) is matches


@pytest.mark.req("D-50")
@pytest.mark.parametrize(
    "pattern",
    [
        "https://python.org", "python.org/docs", "python.org:443", "me@python.org", "*python.org",
        "docs.*.org", "*.*.org", "**", "*.1.2.3.4", "", "*.", "a..b", "-a.b", "a b",
    ],
)  # fmt: skip
def test_other_entries_are_refused_with_their_line(pattern: str) -> None:
    text = f'name = "a"\nmodel = "script/a"\nallowed_hosts = ["ok.example", "{pattern}"]\n'
    with pytest.raises(ConfigError, match="allowed_hosts has an invalid entry") as failed:
        Agent.from_toml(text)
    assert failed.value.place == "line 3"
