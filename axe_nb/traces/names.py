"""Names of spans and attributes, after the semantic conventions for generative AI.

They are literals because the constants of OpenTelemetry's own package are private, deprecated and
behind the published text.
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/, status Development, as of 2026-11.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
REQUEST_MODEL = "gen_ai.request.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
ERROR = "error.type"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that allows the four attributes above: `true`."""

PLACE = "axe_nb.place"
STATUS = "axe_nb.status"
RETRY = "axe_nb.retry"
COST = "axe_nb.cost"
SOURCE = "axe_nb.source"
"""Names of our own: the place in the tree, the status of a run, the event of a retry, the price of
a turn or of a run without its children in US dollars, where it is known, and the source of an
answer that a fork did not ask for."""
