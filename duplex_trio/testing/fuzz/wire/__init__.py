"""Fuzzing of bytes: almost valid streams of bytes against a server in a process of its own.

`mutate` changes bytes, `recorded` makes valid streams, `answers` says what a server may write, `live` is the
session beside all this that must not notice anything, `run` throws. `frames` needs no server: it holds the
two frame layers against each other.
"""
