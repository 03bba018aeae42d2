"""Some of the replies of `python -m tests.providers.fuzz`."""

import pytest

from tests.providers.dialects import MODULES
from tests.providers.fuzz import KINDS, run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", MODULES)
@pytest.mark.req("B-5", "D-31", "D-32")
@pytest.mark.any_body
def test_a_mutated_reply_is_an_answer_or_a_provider_error(protocol: str, kind: str) -> None:
    answers, _ = run(protocol, kind, 400)
    assert 40 < answers < 360
