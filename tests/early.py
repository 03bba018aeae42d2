"""Loaded by pytest before its plug-ins, `-p tests.early`: two of them import `jsonschema`.

That builds 39 parsers for a format that no test uses, which takes each process almost a second.
"""

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # an import fails
import jsonschema  # noqa: E402, F401

del sys.modules["rfc3987_syntax"]
