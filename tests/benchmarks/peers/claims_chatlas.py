"""What the page says of chatlas, tried."""

from chatlas import ToolRejectError
from with_chatlas import chat, say


async def approval():
    one, ran = chat("chain-1-0"), []

    async def nothing() -> str:
        """Deletes."""
        ran.append("it")
        return "ok"

    def ask(request):
        raise ToolRejectError("no")

    one.register_tool(nothing)
    one.on_tool_request(ask)
    await say(one, "go")
    assert one.get_last_turn().text == "done"
    assert not ran


async def saved():
    one, other = chat("child-0"), chat("child-0.0")
    await say(one, "go")
    turns = [type(turn).model_validate_json(turn.model_dump_json()) for turn in one.get_turns()]
    await say(other, "more", turns)
    assert len(other.get_turns()) == 4


async def exported():
    one = chat("child-0")
    await say(one, "go")
    assert "done" in one.export("chat.html").read_text("utf-8")
