"""`--continue` over each protocol: whatever end a run had, the next request is valid."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from axe_nb.scripting.server import script_server
from axe_nb.scripting.wire import Protocol
from tests.nb.kernels import Kernels, text, write_agents
from tests.protocols import PROTOCOLS, provider_of
from tests.providers import sdk

pytestmark = pytest.mark.req("D-32")

CALLS = """
[[rule]]
when = { last = "^begin" }
text = "I ask both."
calls = [
  { tool = "call_agent", arguments = { agent = "quick", task = "one" } },
  { tool = "call_agent", arguments = { agent = "slow", task = "two" } },
]

[[rule]]
when = { last = "^begin again" }
text = "Back."
"""

SCRIPTS = {
    "calls": CALLS,
    "quick": '[[rule]]\ntext = "quick answer"\n',
    "slow": '[[rule]]\ndelay = 20\ntext = "late"\n',
    "done": '[[rule]]\ntext = "Heard: {last}"\n',
    "plain": '[[rule]]\ntext = "Done at once."\n',
    "fails": (
        '[[rule]]\nwhen = { turn = 1 }\ntext = "One moment."\n'
        'calls = [{ tool = "call_agent", arguments = { agent = "quick", task = "one" } }]\n'
        '[[rule]]\nstatus = 529\nerror = "Overloaded"\n'
    ),
    "fails-at-once": '[[rule]]\nstatus = 500\nerror = "oh"\n',
}


ENDS = {
    "a normal end": ("plain", "completed"),
    "an interrupt": ("calls", "cancelled"),
    "a timeout": ("calls --timeout 1.5", "timeout"),
    "an error after a call": ("fails", "error"),
    "an error at once": ("fails-at-once", "error"),
}
"""How a run ended → (its agent, with options; its status)."""


def calls_and_results(protocol: Protocol, body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(ids of the calls, ids or names that results answer) of a request, in order."""
    calls: list[str] = []
    results: list[str] = []
    for message in body.get("messages") or body["input"]:
        if protocol == "responses":
            calls += [message["call_id"]] if message.get("type") == "function_call" else []
            is_result = message.get("type") == "function_call_output"
            results += [message["call_id"]] if is_result else []
        elif protocol == "anthropic":
            blocks = message["content"] if isinstance(message["content"], list) else []
            calls += [block["id"] for block in blocks if block["type"] == "tool_use"]
            results += [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        else:
            calls += [call.get("id", "") for call in message.get("tool_calls") or []]
            results += [message.get("tool_call_id", "")] if message["role"] == "tool" else []
    return calls, results


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_goes_on_after_every_end(
    project: Path, protocol: Protocol, kernels: Kernels
) -> None:
    callers = dict.fromkeys(("calls", "fails"), 'sub_agents = ["quick", "slow"]\n')
    write_agents(project, SCRIPTS, provider_of(protocol), **callers)
    with script_server(protocol) as server:
        cells = kernels.at(Path(sys.executable), project)  # with the address of the server
        assert cells.run("%load_ext axe_nb") == []
        for end, (line, status) in ENDS.items():
            after = 2.5 if status == "cancelled" else None
            cells.run(f"%%axe {line} -o r\nbegin", interrupt_after=after)
            agent = line.split()[0]
            assert text(cells.run("print(r.status)")).strip() == status, end
            before = len(server.requests)
            said = cells.run(f"%%axe {agent} -c -o s -m {provider_of(protocol)}/done -q\nand then?")
            # servers of OpenAI's protocol refuse two messages of the user's in a row
            is_one = protocol == "openai" and end == "an error at once"
            assert text(said) == f"Heard: {'begin' * is_one}{chr(10) * 2 * is_one}and then?", end
            assert len(server.requests) == before + 1, end

            body = server.requests[-1]
            sdk.takes(protocol, json.loads(json.dumps(body)))
            messages = body.get("messages") or body["input"]
            roles = [message.get("role") for message in messages]
            assert "and then?" in json.dumps(messages[-1]), end
            assert "begin" in json.dumps(messages[0]), end
            if protocol == "anthropic":
                assert not any(one == other for one, other in pairwise(roles))
            calls, results = calls_and_results(protocol, body)
            assert sorted(calls) == sorted(results), f"{end}: every call has its one result"
            assert bool(calls) == (agent in ("calls", "fails")), end
            if agent == "calls":
                whole = json.dumps(body)
                assert "quick answer" in whole, "what was finished is kept"
            cells.run("%axe reset")
