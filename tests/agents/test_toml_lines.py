"""The line that a key of a TOML text stands on, however it is written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.conversion.toml_tables import line_of

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
