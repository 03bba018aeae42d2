"""What Tab offers in the TOML of an agent, by what stands before the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest

from axe_nb.agents.config import config_path
from axe_nb.nb.toml_offers import list_toml_offers

BUDGET = ["max_tool_calls", "max_tokens", "timeout_ms"]

OFFERED = {
    # keys of the table that the cursor is in
    "mo": ["model", "mode"],
    'name = "x"\nmodel = "y"\nmo': ["mode"],
    "[sub_agents_config]\nmax_": ["max_depth", "max_concurrent", "max_turns"],
    "[sub_agents_config]\nparallel = true\n[sub_agents_config.budget]\n": BUDGET,
    "sub_agents_config.budget.": BUDGET,
    "sub_agents_config . budget . ": BUDGET,
    "[mcp_servers.time]\nst": ["start_timeout"],
    "[params]\ntop": ["top_p", "top_k"],
    "[permissions]\nwrite": ["write_file"],
    'system_prompt = "{{ topic }}, {{ n }}, {{ f(x) }}"\n[vars]\nn = 1\n': ["topic"],
    "[not_a_table]\n": [],
    # tables
    "[sub": ["sub_agents_config", "sub_agents_config.budget"],
    "[sub_agents_config]\n[sub": ["sub_agents_config.budget"],
    "[sub_agents_config.": ["budget"],
    # values, with the quotes and brackets that they need
    'mode = "a': ["ask", "auto"],
    "mode = ": ['"plan"', '"ask"', '"auto"'],
    'mode = "': ["plan", "ask", "auto"],
    "mode = 'pl": ["plan"],
    "stream = ": ["true", "false"],
    "[sub_agents_config]\nask = ": ['"deny"', '"person"'],
    "sub_agents_config.parallel = f": ["false"],
    '[permissions]\ngrep = "al': ["allow"],
    'sandbox = "d': ["docker:"],
    '[mcp_servers.time]\ntransport = "s': ["streamable-http", "sse"],
    'tools = ["read_file", "gr': ["grep"],
    'tools = [\n  "grep",  # "[\n  "gr': [],
    "tools = gr": ['["grep"]'] ,
    "tools = [gr": ['"grep"'],
    # what is left open above does not matter
    'description = "open\nmo': ["model", "mode"],
    'tools = ["grep",\n[limits]\nmax_r': ["max_requests"],
    # variables in a prompt
    'vars.tone = "dry"\nsystem_prompt = """\nIt\'s {{ to': ["tone"],
    "vars.tone = 'dry'\nsystem_prompt = 'Be {{": ["tone"],
}  # fmt: skip


@pytest.mark.parametrize("above", OFFERED)
def test_what_fits_at_the_cursor_is_offered(project: Path, above: str) -> None:
    offered = list_toml_offers(above, "\n")
    assert offered is not None
    written, texts = offered
    assert texts == OFFERED[above]
    assert above.endswith(written)


@pytest.mark.parametrize(
    "above",
    [
        "# mo", 'model = "a/b" ', 'system_prompt = """\nmo', "description = ", "[limits] ",
        "[limits]\nmax_cost = ", "tools = [] ", 'skill = "ski',
    ],
)  # fmt: skip
def test_nothing_is_offered_in_text_and_where_any_value_goes(above: str) -> None:
    assert list_toml_offers(above, "") is None


def test_keys_that_stand_below_the_cursor_are_not_offered_again() -> None:
    below = '\nmode = "plan"\n[limits]\nmax_requests = 1\n'
    assert list_toml_offers("mo", below) == ("mo", ["model"])
    assert list_toml_offers("[l", below) == ("l", [])
    assert list_toml_offers("[limits]\nmax_r", "\n[retry]\nmax_retries = 1") == (
        "max_r",
        ["max_requests"],
    )


def test_servers_of_the_settings_are_offered(project: Path) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text('[mcp_servers.clock]\ncommand = ["clock"]\n', "utf-8")
    assert list_toml_offers("mcp_servers = [", "]") == ("", ['"clock"'])
    assert list_toml_offers("[mcp_servers.", "]") == ("", ["clock"])
