"""uvloop in place of asyncio's own loop: what `uvicorn` and `uvloop.install()` give a program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from axe_nb.providers.openai import OpenAI
from tests.providers.conftest import OwnCA
from tests.providers.dialects import KEY, ask
from tests.providers.raw_server import Peer, RawServer, always, raw_server, reply

uvloop = pytest.importorskip("uvloop", reason="uvloop does not exist for Windows")

SCHEMES = ["http", "https"]


@pytest.fixture(autouse=True)
def environment(own_ca: OwnCA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own_ca.file))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(params=SCHEMES)
def context(request: pytest.FixtureRequest, own_ca: OwnCA) -> object:
    return own_ca.server() if request.param == "https" else None


async def say(url: str) -> str:
    return (await OpenAI(url, KEY).send(ask())).content


def test_requests_are_answered_and_share_a_kept_connection(context: object) -> None:
    async def several(url: str) -> list[str]:
        return [await say(url) for _ in range(3)]

    with raw_server(always(reply()), context) as server:
        assert uvloop.run(several(server.url)) == ["hello"] * 3
        assert {asked.connection for asked in server.requests} == {0}


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n\r\ndata: {"], ids=["head", "stream"])
def test_cancelling_closes_the_connection(context: object, sent: bytes) -> None:
    closed = threading.Event()

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(sent)
        if peer.wait_until_closed():
            closed.set()

    async def cancel(server: RawServer) -> None:
        task = asyncio.create_task(say(server.url))
        await asyncio.to_thread(server.asked.acquire, timeout=20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(closed.wait, 20)

    with raw_server(answer, context) as server:
        uvloop.run(cancel(server))


PROGRAM = """
import asyncio, sys, warnings
import uvloop
warnings.simplefilter("ignore", DeprecationWarning)
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())  # as uvloop.install() does
import axe_nb

@axe_nb.tool
def add(a: int, b: int) -> int:
    return a + b

agent = axe_nb.Agent("a", "openai/m", tools=[add])
print(axe_nb.run(agent, "hi").text)
print(axe_nb.run(agent, "hi").text)
print([run.text for run in axe_nb.map(agent, ["one", "two"])])

async def main():
    print((await axe_nb.arun(agent, "hi")).text)

asyncio.run(main())
"""


def test_a_process_whose_every_loop_is_of_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(always(reply())) as server:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", server.url)
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
        )
    assert ended.stdout.splitlines() == ["hello", "hello", "['hello', 'hello']", "hello"]
    assert (ended.returncode, ended.stderr) == (0, "")
