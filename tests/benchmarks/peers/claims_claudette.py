"""What the page says of claudette, tried."""

from with_claudette import chat, nothing


async def saved():
    one, other = chat("child-0"), chat("child-0")
    await one("go")
    other.h = list(one.h)
    await other("more")
    assert len(other.h) == 4


async def limit():
    one = chat("chain-9-0", [nothing])
    steps = [step async for step in one.toolloop("go", max_steps=3)]
    assert sum(hasattr(step, "stop_reason") for step in steps) == 3
