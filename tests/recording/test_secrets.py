"""No record of a cassette holds a secret, however a stream cuts it."""

from __future__ import annotations

import json
import string
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Response, ToolCall
from axe_nb.messages.exchanges import Exchange
from axe_nb.recording.cassette import decode, encode
from axe_nb.secrets import find_filter, redact

OFTEN = settings(
    max_examples=80, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

SECRETS = (
    st.text(string.ascii_letters + string.digits + "+/=\"\\%&' é\n🏛", min_size=8, max_size=40)
    .map(str.strip)
    .filter(lambda text: len(text) > 7 and len(set(text)) > 3 and text[0] not in "/ ")
    .filter(lambda text: not text.isalpha())  # as the keys of a record are, such as `protocol`
)


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS, others=st.text('ab "\\né', max_size=30), data=st.data())
def test_no_record_holds_a_streamed_secret(secret: str, others: str, data: st.DataObject) -> None:
    said = f"{others} {secret} {others}"
    cuts = data.draw(st.sets(st.integers(0, len(said)), max_size=9))
    pieces = [Delta(said[a:b]) for a, b in pairwise(sorted({0, len(said), *cuts}))]
    deltas = tuple(one for piece in pieces for one in (piece, Delta("hm", "reasoning")))
    exchange = Exchange(turn=1, deltas=deltas, response=Response(said, (), "stop"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        if secret not in find_filter().forms:
            return  # too ordinary
        kept = encode(exchange, find_filter())
        assert secret not in json.dumps(kept, ensure_ascii=False)
        again = decode(kept, 1, 1)
        assert again.deltas[0] == Delta(redact(said))
        assert again.response == Response(redact(said), (), "stop")
    again = decode(encode(exchange, find_filter()), 1, 1)
    assert (again.deltas[0].text, again.response) == (said, exchange.response), "not secret now"


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS)
def test_a_secret_in_a_reply_or_an_error_is_in_no_record(secret: str) -> None:
    text = f"{'A long answer. ' * 5}{secret}{' More of it.' * 12}"
    echo = {"openai": {"reasoning_content": text}}
    response = Response(text, (ToolCall("c", "f", {"a": [text]}),), echo=echo, reasoning=text)
    error = ProviderError("server", "it broke", partial_text=text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        if secret not in find_filter().forms:
            return
        for exchange in (Exchange(turn=1, response=response), Exchange(turn=1, error=error)):
            kept = encode(exchange, find_filter())
            again = decode(kept, 1, 1).response
            assert again is None or again.content == again.reasoning == redact(text)
            assert json.dumps(secret)[1:-1] not in json.dumps(kept)
