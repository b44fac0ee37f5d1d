"""What a model is to the engine that runs requests: its stages, and how a request travels through them.

`config` declares (stages, their sources, what processes a request), `topology` says what a declaration must
be, `declared` loads what its paths name, `pipeline` is a declared model together
with what a deployment says of it, `processor` joins the stages for whole turns, `requests` and `results` are
the values that travel, and `registry` finds models by name, those of other packages too.

Nothing here knows sessions: `duplex_trio.plugin` adds what a model needs for them.
"""
