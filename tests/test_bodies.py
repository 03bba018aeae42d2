"""The requests of every test are held against the types of the providers' own SDKs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.providers import sdk
from tests.providers.dialects import MODULES, ask

each = pytest.mark.parametrize("name", MODULES)


@each
def test_a_test_in_any_folder_is_watched(name: str) -> None:
    assert MODULES[name].body is not sdk.BODIES[name]


@each
@pytest.mark.any_body
def test_a_body_that_an_sdk_does_not_take_fails_the_test(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULES[name], "body", lambda _: b'{"model": 1, "messages": []}')
    with pytest.raises(ValidationError), sdk.watching():
        MODULES[name].body(ask())
