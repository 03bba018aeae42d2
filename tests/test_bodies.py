"""The requests of every test are held against the types of the providers' own SDKs."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tests.providers import sdk
from tests.providers.dialects import BY_NAME, MODULES, ask
from tests.providers.raw_server import always, raw_server, reply

each = pytest.mark.parametrize("name", MODULES)


@each
@pytest.mark.any_body
def test_a_body_that_is_sent_is_watched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULES[name], "body", lambda *_: b'{"model": 1, "messages": []}')
    dialect = BY_NAME[name]
    hello = json.dumps(dialect.reply("hello", (), dialect.done)).encode()
    with raw_server(always(reply(hello))) as server:
        with pytest.raises(ValidationError), sdk.watching():
            dialect.send(server.url)
        assert len(server.requests) == 1


@each
@pytest.mark.any_body
def test_a_body_that_an_sdk_does_not_take_fails_the_test(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULES[name], "body", lambda _: b'{"model": 1, "messages": []}')
    with pytest.raises(ValidationError), sdk.watching():
        MODULES[name].body(ask())
