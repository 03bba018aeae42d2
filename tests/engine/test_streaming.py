"""Whether a model streams changes what is seen on the way, not what a run comes to (D-24)."""

import asyncio
from pathlib import Path

import pytest

import axe_nb
from axe_nb.events import Event, RunFinished, TextDelta

SCRIPT = """
stream = {streams}
[[rule]]
when = {{ turn = 1 }}
text = "I shall ask the child."
calls = [{{ tool = "call_agent", arguments = {{ agent = "child", task = "look" }} }}]
[[rule]]
text = "The child said what it saw."
"""


def events(project: Path, streams: str) -> list[Event]:
    for name, extra in (("lead", 'sub_agents = ["child"]'), ("child", "")):
        agent = f'name = "{name}"\nmodel = "script/{name}"\n{extra}\n'
        (project / "axe" / "agents" / f"{name}.toml").write_text(agent)
    scripts = project / "axe" / "scripts"
    scripts.mkdir(exist_ok=True)
    (scripts / "lead.toml").write_text(SCRIPT.format(streams=streams))
    (scripts / "child.toml").write_text(f'stream = {streams}\n[[rule]]\ntext = "A bird, two."\n')

    async def collect() -> list[Event]:
        return [event async for event in axe_nb.stream("lead", "go")]

    return asyncio.run(collect())


@pytest.mark.req("D-24", "A-C2")
def test_a_run_that_streams_has_the_record_of_one_that_does_not(project: Path) -> None:
    whole, streamed = events(project, "false"), events(project, "true")
    pieces = [event for event in streamed if isinstance(event, TextDelta)]
    assert "".join(piece.text for piece in pieces if piece.run == "0.1") == "A bird, two."
    assert len(pieces) > 10
    kept = [type(event) for event in streamed if not isinstance(event, TextDelta)]
    assert [type(event) for event in whole] == kept

    ends = [run[-1] for run in (whole, streamed)]
    records = [end.result.to_dict() for end in ends if isinstance(end, RunFinished)]
    for record in records:
        assert record["text"] == "The child said what it saw."
        for run in (record, *record["children"]):
            del run["duration_ms"]
    one, other = records
    assert one == other
