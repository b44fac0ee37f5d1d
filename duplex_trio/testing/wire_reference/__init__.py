"""The pages `docs/wire.md` and `docs/wire/*.md`, made from the classes of the protocol.

`fields` reads what classes and their docstrings say, `commands`, `codes` and `routes` hold the few tables that
no class has, `orders` holds conversations to see in which order things are said, and `pages` writes it down.
`python -m duplex_trio.testing.wire_reference` prints what would change, with `--write` it changes it.
"""
