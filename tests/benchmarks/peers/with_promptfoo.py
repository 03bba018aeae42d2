"""promptfoo: its command, in a process of its own each time, without its cache."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

SETTINGS = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}


def ask():
    (answer,) = many(["go"], 1, 0)
    return answer


def many(prompts, at_once, seconds):
    url = os.environ["MODEL_URL"] + "/v1"
    config = {"apiBaseUrl": url, "apiKey": "none"}
    settings = {
        "providers": [{"id": f"openai:chat:child-{seconds}", "config": config}],
        "prompts": ["{{prompt}}"],
        "tests": [{"vars": {"prompt": prompt}} for prompt in prompts],
    }
    return [one["response"]["output"] for one in evaluate(settings, at_once)["results"]]


def evaluate(settings, at_once):
    """What `promptfoo eval` finds; a test that fails makes its exit code 100."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "promptfooconfig.json").write_text(json.dumps(settings), "utf-8")
        command = json.loads(os.environ["PROMPTFOO"])
        options = ["eval", "--no-cache", "--no-table", "--no-progress-bar", "-j", str(at_once)]
        subprocess.run(
            [*command, *options, "-o", "found.json"], cwd=folder, check=False,
            env=os.environ | SETTINGS | {"PROMPTFOO_CONFIG_DIR": folder},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return json.loads(Path(folder, "found.json").read_text("utf-8"))["results"]
