"""Fuzzing: what a client may send that nobody thought of, and what must hold whatever it sends.

Structure: `vocabulary` finds out from the command classes what messages may hold, `messages` makes right and
almost right ones of it, `program` a list of what a client does, `run` plays it against an application in
`scene` on a mock clock, and `judge` reads the answers. `structure` does so until the time is over.

Bytes: `wire` throws almost valid streams at a server in a process of its own.

    python -m duplex_trio.testing.fuzz structure --seconds 600
    python -m duplex_trio.testing.fuzz websocket --seconds 600 --seed 7
    python -m duplex_trio.testing.fuzz http --serve "--ws asgi"
    python -m duplex_trio.testing.fuzz frames
    python -m duplex_trio.testing.fuzz coverage

Structure needs hypothesis, of the `test` extra; coverage needs atheris.
"""
