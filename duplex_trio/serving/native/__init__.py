"""WebSockets on Trio without a server in between (decision D17).

`frames` is RFC 6455's framing and `head` finds requests that are ours, both without I/O; `pipes` carries bytes,
`writer` writes frames whole, and `channel` puts them together. `listener` stands before hypercorn and chooses.
"""
