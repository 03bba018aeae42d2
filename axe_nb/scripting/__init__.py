"""Script models: Python functions and files of rules, in process or served over loopback.

- `lookup` finds a script by its name; `@script` registers a function.
- `rules` reads a TOML file into rules, which answer a request.
- `provider` is the provider `script`, which answers in process.
- `server` answers over loopback, in the four protocols of `wire`.
"""
