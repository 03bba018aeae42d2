"""What Tab offers in the TOML of an agent, by the line of the cursor and the last header above."""

from __future__ import annotations

from pathlib import Path

import pytest

from axe_nb.notebook.completion import list_offers

MAGIC = "%%axe_agent x"

OFFERED = {
    # keys of the table that the cursor is in
    "mo": ["model", "mode"],
    'name = "x"\nmodel = "y"\nmo': ["mode"],
    "[sub_agents_config]\nmax_": ["max_depth", "max_concurrent", "max_turns"],
    "[sub_agents_config]\nparallel = true\n[sub_agents_config.budget]\n": [
        "max_tool_calls", "max_tokens", "timeout_ms",
    ],
    "[mcp_servers.time]\nst": ["start_timeout"],
    "[params]\ntop": ["top_p", "top_k"],
    "[permissions]\nwrite": ["write_file"],
    "[not_a_table]\n": [],
    "[sub": ["sub_agents_config", "sub_agents_config.budget"],
    "[sub_agents_config]\n[sub": ["sub_agents_config.budget"],
}  # fmt: skip


def offers(above: str, below: str = "") -> tuple[str, list[str]] | None:
    lines = f"{MAGIC}\n{above}".split("\n")
    return list_offers(lines[:-1], lines[-1], f"{MAGIC}\n{above}{below}")


@pytest.mark.parametrize("above", OFFERED)
def test_what_fits_at_the_cursor_is_offered(project: Path, above: str) -> None:
    offered = offers(above, "\n")
    assert offered is not None
    written, texts = offered
    assert texts == OFFERED[above]
    assert above.endswith(written)


@pytest.mark.parametrize(
    "above",
    ["# mo", 'model = "a/b" ', 'system_prompt = """\nmo', "[limits] ", 'mode = "a'],
)
def test_nothing_is_offered_in_text_and_for_values(above: str) -> None:
    assert offers(above) is None
