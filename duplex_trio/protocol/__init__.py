"""The wire: what clients and sessions say to each other, as values and as JSON.

`realtime` is OpenAI's protocol, `duplex` extends it and is the only door to it, `dialects` writes events
for the three kinds of client. Nothing here does I/O, reads a clock or makes an id.
"""
