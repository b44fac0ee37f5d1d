"""A Trio structured-concurrency server for full-duplex speech models.

The layers, each importing only what stands below it:

    cli            the `duplex-trio` command, the one place where everything is put together
    testing        scripted sessions on a mock clock, for our tests and yours
    serving        transport: HTTP and WebSocket in front of sessions
    clients        the other end of the wire
    entrypoints    Python access to an engine: AsyncOmni, DuplexOmni
    engine         all sessions of a model, and the stages they share
    session        one session: pure ledgers in `session.state`, tasks in `session.run`
    models         concrete models, each behind a plugin
    plugin         what a model brings, as ABCs
    stages         compute: one worker thread for each model runtime
    protocol       the wire: OpenAI Realtime (tier 1) and its duplex extensions (tiers 2 and 3)
    deploy         deployment files

The tasks of a running server, where each level is a file called `run.py`:

    run_server                       serving/run.py
    |- engine                        engine/run.py
    |  |- stage[asr, llm, tts, vad]  stages/run.py    one thread each; commands in, outputs out
    |  `- session[id]  x N           session/run.py   egress, detector, actor, lease, epochs
    |     `- epoch[n]                                 the one thing a barge-in cancels
    |        |- appender                              one turn at a time to the stages
    |        `- pump[request]  x N                    what the model says, on its way to the client
    `- hypercorn
       `- connection  x N            serving/run.py   reads frames, hands commands to the session
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("duplex-trio")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
