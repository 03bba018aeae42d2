"""promptfoo: its command, in a process of its own each time, without its cache."""

import csv
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
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "tests.csv").open("w", encoding="utf-8") as file:
            csv.writer(file).writerows([["prompt"], *([prompt] for prompt in prompts)])
        url = os.environ["MODEL_URL"] + "/v1"
        model = {
            "id": f"openai:chat:child-{seconds}",
            "config": {"apiBaseUrl": url, "apiKey": "none"},
        }
        settings = {"providers": [model], "prompts": ["{{prompt}}"], "tests": "file://tests.csv"}
        Path(folder, "promptfooconfig.json").write_text(json.dumps(settings), "utf-8")
        command = json.loads(os.environ["PROMPTFOO"])
        options = ["eval", "--no-cache", "--no-table", "--no-progress-bar", "-j", str(at_once)]
        subprocess.run(
            [*command, *options, "-o", "found.json"], cwd=folder, check=True,
            env=os.environ | SETTINGS | {"PROMPTFOO_CONFIG_DIR": folder},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        found = json.loads(Path(folder, "found.json").read_text("utf-8"))
    return [one["response"]["output"] for one in found["results"]["results"]]
