"""Nothing that a server repeats of its secrets gets out: not in answers, streams or errors."""

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
from axe_nb.providers.secrets import Secrets
from tests.providers.dialects import ask
from tests.providers.raw_server import RawServer, always, raw_server, reply
from tests.providers.streams import chunk, sse

KEY = "sk-abc/def+ghi=jklmnop"
TOKEN = "token-0123456789abcdef"
PASSWORD = "pa55w0rd-5ecre7"
LOGIN = b64encode(f"me:{PASSWORD}".encode()).decode()

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


def said(server: RawServer) -> tuple[str, str]:
    """The answer, and what has been shown of it before."""
    deltas: list[Delta] = []
    response = asyncio.run(provider(server.url).send(ask(), deltas.append))
    return response.content, "".join(delta.text for delta in deltas)


@each_secret
@pytest.mark.req("B-3")
def test_a_whole_answer_has_no_secrets_however_they_are_written(secret: str) -> None:
    answer = {"choices": [{"message": {"content": f"it is {secret}!"}, "finish_reason": "stop"}]}
    written = json.dumps(answer)
    escaped = written.replace(secret, "".join(f"\\u{ord(letter):04x}" for letter in secret))
    for body in (written.encode(), slashed(answer), escaped.encode()):
        with raw_server(always(reply(body))) as server:
            assert said(server) == ("it is ***!", "")


@each_secret
@pytest.mark.req("B-3")
def test_a_streamed_answer_has_no_secrets_however_it_is_cut(secret: str) -> None:
    for at in range(0, len(secret) + 1, 5):
        pieces = [chunk({"content": piece}) for piece in ("it is ", secret[:at], secret[at:], "!")]
        body = sse(*pieces, chunk(finish_reason="stop"), "[DONE]").replace(b"/", b"\\/")
        with raw_server(always(reply(body))) as server:
            assert said(server) == ("it is ***!", "it is ***!")


@each_secret
@pytest.mark.req("B-3")
def test_an_error_has_no_secrets_wherever_it_comes_from(secret: str) -> None:
    words = f"the login {secret} is bad"
    replies = {
        "status": reply(slashed({"error": {"message": words}}), status="401 Unauthorized"),
        "text": reply(words.encode(), "content-type: text/plain", status="502 Bad Gateway"),
        "no JSON": reply(words.encode(), "content-type: text/plain"),
        "whole": reply(slashed({"error": {"message": words}})),
        "choice": reply(slashed({"choices": [{"error": {"message": words}}]})),
        "event": reply(sse({"error": {"message": words}})),
        "words": reply(sse(words)),
        "event of a choice": reply(sse({"choices": [{"error": {"message": words}}]})),
        "last words": reply(sse({"message": words})),
    }
    for name, made in replies.items():
        with raw_server(always(made)) as server, pytest.raises(ProviderError) as raised:
            said(server)
        shown = f"{raised.value!r} {raised.value.hint} {vars(raised.value)}"
        assert "the login *** is bad" in shown, name
        assert secret not in shown, name


@pytest.mark.parametrize("written", [quote(KEY, safe=""), b64encode(KEY.encode()).decode()])
@pytest.mark.req("B-3")
def test_an_error_has_no_part_of_a_secret_that_is_written_in_another_form(written: str) -> None:
    words = f"{'x' * 45} {written}"  # it is cut within the secret
    replies = {
        "status": reply(json.dumps({"error": {"message": words}}).encode(), status="400 No"),
        "page": reply(words.encode(), "content-type: text/html"),
        "redirect": reply(b"", f"location: http://other/{written}", status="302 Found"),
    }
    for name, made in replies.items():
        with raw_server(always(made)) as server, pytest.raises(ProviderError) as raised:
            said(server)
        assert written[:10] not in f"{raised.value!r} {vars(raised.value)}", name


def test_a_streamed_name_has_no_secrets() -> None:
    call = {"index": 0, "id": "a", "function": {"name": f"get_{TOKEN}", "arguments": "{}"}}
    body = sse(chunk({"tool_calls": [call]}), chunk(finish_reason="tool_calls"), "[DONE]")
    deltas: list[Delta] = []
    with raw_server(always(reply(body))) as server:
        response = asyncio.run(provider(server.url).send(ask(), deltas.append))
    assert response.tool_calls[0].name == "get_***"
    assert [delta.name for delta in deltas if delta.name] == ["get_***"]


@pytest.mark.parametrize(
    ("headers", "words", "expected"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, f"{TOKEN}, Bearer {TOKEN}", "***, ***"),
        ({"cookie": f"a={TOKEN}; b"}, f"a={TOKEN}; b", "***"),
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
    assert Secrets.of(provider(headers=headers)).mask_error(words) == expected


def test_a_password_may_have_characters_that_json_escapes() -> None:
    password = '"quoted\\"'
    url = f"http://me:{quote(password)}@127.0.0.1"
    text = json.dumps({"said": password})
    assert Secrets.of(OpenAI(url, "")).mask_json(json.loads(text)) == {"said": "***"}


def test_a_name_that_stands_alone_in_a_base_url_is_a_secret() -> None:
    token = OpenAI(f"http://{TOKEN}@127.0.0.1", "")
    assert Secrets.of(token).mask_text(f"{TOKEN}!") == "***!"
    name = OpenAI("http://assistant@127.0.0.1", "")
    assert Secrets.of(name).mask_text("your assistant") == "your assistant"


def test_secrets_are_not_shown() -> None:
    secrets = Secrets.of(provider())
    assert secrets.in_answers
    assert repr(secrets) == "Secrets()"


def test_an_address_that_cannot_be_read_has_no_login() -> None:
    assert Secrets.of(OpenAI("http://[::1", KEY)).in_errors == (KEY,)
