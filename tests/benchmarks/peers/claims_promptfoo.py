"""What the page says of promptfoo, tried."""

from with_promptfoo import evaluate


async def offline_model():
    tests = [{"vars": {"word": "done"}}]
    found = evaluate({"providers": ["echo"], "prompts": ["{{word}}"], "tests": tests}, 1)
    assert found["results"][0]["response"]["output"] == "done"


async def scores():
    tests = [
        {"vars": {"word": word}, "assert": [{"type": "equals", "value": "Say yes"}]}
        for word in ("yes", "no")
    ]
    prompts = ["Say {{word}}", "Please say {{word}}"]
    found = evaluate({"providers": ["echo"], "prompts": prompts, "tests": tests}, 1)
    assert (found["stats"]["successes"], found["stats"]["failures"]) == (1, 3)
