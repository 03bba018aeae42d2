"""`allowed_hosts`: which patterns there are, and which hosts they match."""

from __future__ import annotations

import pytest

from axe_nb import Agent, ConfigError
from axe_nb.agents.names import is_allowed


@pytest.mark.req("D-50")
@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("python.org", "python.org", True),
        ("Python.ORG", "python.org", True),
        ("python.org.", "python.org", True),
        ("python.org", "python.org.", True),
        ("python.org", "docs.python.org", False),
        ("python.org", "python.org.evil.com", False),
        ("python.org", "evilpython.org", False),
        ("*.python.org", "docs.python.org", True),
        ("*.python.org", "a.b.python.org", True),
        ("*.python.org", "python.org", False),
        ("*.python.org", "evilpython.org", False),
        ("*.python.org", ".python.org", False),
        ("*", "any.example", True),
        ("*", "", True),
        ("python.org", "", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("*.bücher.example", "a.xn--bcher-kva.example", True),
        ("93.184.216.34", "93.184.216.34", True),
        ("2606:4700::1111", "2606:4700:0::1111", True),
        ("[2606:4700::1111]", "2606:4700::1111", True),
    ],
)
def test_a_pattern_matches_a_host(pattern: str, host: str, matches: bool) -> None:
    assert is_allowed(host, [pattern]) is matches


@pytest.mark.req("D-50")
@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("https://python.org", "write only the host, without https:// and path"),
        ("python.org/docs", "write only the host, without https:// and path"),
        ("python.org:443", "write only the host, without port and user name"),
        ("me@python.org", "write only the host, without port and user name"),
        ("*python.org", 'use "*" alone for all hosts'),
        ("docs.*.org", 'use "*" alone for all hosts'),
        ("*.*.org", 'use "*" alone for all hosts'),
        ("**", 'use "*" alone for all hosts'),
        ("*.1.2.3.4", "an IP address has no subdomains"),
        ("", "not a valid host name"),
        ("*.", "not a valid host name"),
        ("a..b", "not a valid host name"),
        ("-a.b", "not a valid host name"),
        ("a b", "not a valid host name"),
    ],
)
def test_other_entries_are_refused_with_their_line(pattern: str, told: str) -> None:
    text = f'name = "a"\nmodel = "script/a"\nallowed_hosts = ["ok.example", "{pattern}"]\n'
    with pytest.raises(ConfigError) as failed:
        Agent.from_toml(text)
    assert told in str(failed.value)
    assert "allowed_hosts has an invalid entry" in str(failed.value)
    assert failed.value.place == "line 3"
