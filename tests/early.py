"""Loaded by pytest before its plug-ins, `-p tests.early`: two of them import `jsonschema`.

That takes each process more than a second, unless it is done as here.
"""

from axe_nb.conversion.json_schema import load_jsonschema

load_jsonschema()
