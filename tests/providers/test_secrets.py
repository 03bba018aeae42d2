"""What a server repeats of its secrets gets out neither in answers nor in errors."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ProviderError
from axe_nb.messages import Delta
from axe_nb.providers.openai import OpenAI
from axe_nb.providers.protocol import find_secrets
from axe_nb.secrets import redact
from tests.providers.dialects import ask
from tests.providers.raw_server import RawServer, always, raw_server, reply
from tests.providers.streams import chunk, sse

KEY = "sk-abc/def+ghi=jklmnop"
TOKEN = "token-0123456789abcdef"
PASSWORD = "pa55w0rd-5ecre7-long"
LOGIN = b64encode(f"me:{PASSWORD}".encode()).decode()

pytestmark = pytest.mark.req("B-3")
each_secret = pytest.mark.parametrize("secret", [KEY, TOKEN, PASSWORD, LOGIN])


def provider(
    base_url: str = "http://127.0.0.1", key: str = KEY, headers: Mapping[str, str] | None = None
) -> OpenAI:
    known = PROVIDERS["openai"]
    own = {"x-token": TOKEN} if headers is None else headers
    info = replace(known, headers={**known.headers, **own})
    return OpenAI(base_url.replace("://", f"://me:{PASSWORD}@"), key, info)


def slashed(value: Any) -> bytes:
    """JSON as servers in PHP write it."""
    return json.dumps(value).replace("/", "\\/").encode()


def said(server: RawServer) -> str:
    deltas: list[Delta] = []
    return asyncio.run(provider(server.url).send(ask(), deltas.append)).content


def shown_by(made: bytes) -> str:
    """All of the error that a reply leads to."""
    with raw_server(always(made)) as server, pytest.raises(ProviderError) as raised:
        said(server)
    return f"{raised.value!r} {raised.value.hint} {vars(raised.value)}"


@each_secret
def test_an_answer_has_no_secrets_however_they_are_written_or_cut(secret: str) -> None:
    answer = {"choices": [{"message": {"content": f"it is {secret}!"}, "finish_reason": "stop"}]}
    written = json.dumps(answer)
    escaped = written.replace(secret, "".join(f"\\u{ord(letter):04x}" for letter in secret))
    pieces = [chunk({"content": piece}) for piece in ("it is ", secret[:5], secret[5:], "!")]
    stream = sse(*pieces, chunk(finish_reason="stop"), "[DONE]").replace(b"/", b"\\/")
    for body in (written.encode(), slashed(answer), escaped.encode(), stream):
        with raw_server(always(reply(body))) as server:
            assert said(server) == "it is ***!"


@each_secret
def test_an_error_has_no_secrets_wherever_it_comes_from(secret: str) -> None:
    words = f"the login {secret} is bad"
    replies = (
        reply(slashed({"error": {"message": words}}), status="401 Unauthorized"),
        reply(words.encode(), "content-type: text/plain", status="502 Bad Gateway"),
        reply(words.encode(), "content-type: text/plain"),
        reply(slashed({"error": {"message": words}})),
        reply(slashed({"choices": [{"error": {"message": words}}]})),
        reply(sse({"error": {"message": words}})),
        reply(sse(words)),
        reply(sse({"message": words})),
    )
    for made in replies:
        shown = shown_by(made)
        assert "the login *** is bad" in shown, made
        assert secret not in shown, made


@pytest.mark.parametrize("written", [quote(KEY, safe=""), b64encode(KEY.encode()).decode()])
def test_an_error_has_no_part_of_a_secret_that_is_written_in_another_form(written: str) -> None:
    words = f"{'x' * 45} {written}"  # it is cut within the secret
    replies = (
        reply(json.dumps({"error": {"message": words}}).encode(), status="400 No"),
        reply(words.encode(), "content-type: text/html"),
        reply(b"", f"location: http://other/{written}", status="302 Found"),
    )
    for made in replies:
        assert written[:10] not in shown_by(made), made


@pytest.mark.parametrize(
    ("headers", "words", "expected"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, f"{TOKEN}, Bearer {TOKEN}", "***, ***"),
        ({"x-gateway": f"a={TOKEN}; b"}, f"a={TOKEN}; b", "***"),
        ({"x-key": "{key}"}, f"key {KEY}", "key ***"),
        ({"x-short": "none"}, "none exists", "none exists"),
        # what a server says of these is about the request
        ({"anthropic-beta": "files-api-2025"}, "no files-api-2025", "no files-api-2025"),
        ({"x-title": "Research Assistant"}, "Research Assistant", "Research Assistant"),
    ],
)
def test_the_values_of_own_headers_are_secrets_unless_they_are_known_not_to_be(
    headers: Mapping[str, str], words: str, expected: str
) -> None:
    find_secrets(provider(headers=headers))
    assert redact(words) == expected
