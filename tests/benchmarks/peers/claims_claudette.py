"""What the page says of claudette, tried."""

from with_claudette import chat


async def saved():
    one, other = chat("child-0"), chat("child-0")
    await one("go")
    other.h = list(one.h)
    await other("more")
    assert len(other.h) == 4
