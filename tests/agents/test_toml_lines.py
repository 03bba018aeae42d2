"""The line that a key of a TOML text stands on, however it is written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.agents.agent import Agent
from axe_nb.agents.user_config import Config, config_path
from axe_nb.conversion.toml_tables import line_of
from axe_nb.errors import ConfigError
from axe_nb.scripting.rules import parse_script as parse

pytestmark = pytest.mark.req("D-27")


@pytest.mark.parametrize("quotes", ['"""', "'''"])
@pytest.mark.parametrize("more", ["", "x", "{q}", "{q}{q}", "x{q}y{q}{q}z", "\n\n{q}\n"])
def test_a_string_that_ends_in_quotes_ends_where_toml_says(quotes: str, more: str) -> None:
    inner = more.format(q=quotes[0])
    text = f"a = {quotes}{inner}{quotes}\nb = 1\n"
    assert line_of(text, ("b",)) == 2 + inner.count("\n")


def test_the_line_of_a_key_below_a_long_text_is_found_in_one_pass() -> None:
    """A text that is parsed again for every line of it would take hours here."""
    text = 'system_prompt = """\n' + "a line of the prompt\n" * 40_000 + '"""\nmodle = "x"\n'
    assert line_of(text, ("modle",)) == 40_003


@settings(deadline=None)
@given(st.text(alphabet="[]{}\"'#=\\\n .ab", max_size=40))
def test_no_text_makes_it_fail(text: str) -> None:
    line = line_of(text, ("a",))
    assert line is None or 1 <= line <= text.count("\n") + 1


@pytest.mark.parametrize(
    "toml", [r'workdir = "C:\Users\x"', 'system_prompt = """\nmatch \\d+\n"""']
)
def test_a_backslash_in_double_quotes_says_to_use_single_quotes(toml: str) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text(toml, "utf-8")
    for attempt in (
        lambda: Agent.from_toml(toml), lambda: parse(toml, "x.toml"), Config.load,
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=r"^failed to parse .* \(at ") as caught:
            attempt()
        assert caught.value.hint.endswith("use single quotes")
