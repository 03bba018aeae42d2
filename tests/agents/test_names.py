"""Names of agents and models: which are valid."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.agents.names import check_name, parse_model
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


@pytest.mark.req("B-12")
@pytest.mark.parametrize("name", ["a", "test-runner", "my agent", "Größe", "v1.2", "研究员"])
def test_a_plain_name_is_accepted(name: str) -> None:
    check_name(name)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_model_or_a_config_error(text: str) -> None:
    try:
        provider, name = parse_model(text)
    except ConfigError:
        return
    assert f"{provider}/{name}" == text
