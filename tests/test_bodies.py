"""The requests of every test are held against the types of the providers' own SDKs."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tests.providers import sdk
from tests.providers.dialects import BY_NAME, MODULES
from tests.providers.raw_server import always, raw_server, reply

each = pytest.mark.parametrize("name", MODULES)


@each
def test_a_test_in_any_folder_is_watched(name: str) -> None:
    assert MODULES[name].PROVIDER.body is not sdk.BODIES[name]


@each
@pytest.mark.any_body
def test_a_body_that_an_sdk_does_not_take_fails_the_test(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = staticmethod(lambda *_: b'{"model": 1, "messages": []}')
    monkeypatch.setattr(MODULES[name].PROVIDER, "body", wrong)
    dialect = BY_NAME[name]
    hello = json.dumps(dialect.reply("hello", (), dialect.done)).encode()
    with raw_server(always(reply(hello))) as server:
        with pytest.raises(ValidationError), sdk.watching():
            dialect.send(server.url)
        assert len(server.requests) == 1
