"""One line to a live conversation: a session with the scripted model, in this process or over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from duplex_trio.clients.config import SessionConfig
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.serving.options import ServeOptions
from duplex_trio.testing.breakable import BreakableClient
from duplex_trio.testing.dialogue.caller import script_of
from duplex_trio.testing.memory import serve_in_memory
from duplex_trio.testing.returning import ReturningTalker, open_returning
from duplex_trio.testing.run import finish, scripted_omni


@asynccontextmanager
async def open_session(
    script: Script | None = None,
    *,
    config: SessionConfig | None = None,
    patch: Mapping[str, Any] | None = None,
    dialect: DialectName = "duplex",
    **engine: Any,
) -> AsyncIterator[ReturningTalker]:
    """A session with the scripted model, without a server: the session as such, fast and exact to the millisecond.

    ```python
    async def test_the_weather(autojump_clock):
        async with open_session(Script(replies={"hello": "hello yourself"})) as session:
            await script().say("hello").expects_reply("hello yourself").play(session)
    ```

    When the block is over the session is closed, and must have kept the rules that every session keeps
    (`check_stream`) and left nothing behind.

    Args:
        script: what the model hears and says; by default it says back what it hears.
        config: the settings to begin with, as a client asks for them.
        patch: the same as the session object of `session.update`; what it names wins over `config`.
        dialect: how the session behaves where OpenAI's protocol and ours differ: `duplex`, `ga` or `beta`.
        **engine: more of `scripted_omni`: `pipeline=` another model, `limits=`, `max_sessions=`, `step_s=` how long
            a step of the model takes.

    Raises:
        AssertionError: at the end of the block, see above.
    """
    async with scripted_omni(script, **engine) as omni:
        asked = {} if config is None else config.to_session_payload(None)
        talker = await open_returning(omni, patch={**asked, **(patch or {})}, dialect=dialect)
        talker.script = script_of(omni)
        yield talker
        await finish(omni, talker)


@asynccontextmanager
async def open_client(
    script: Script | None = None,
    *,
    config: SessionConfig | None = None,
    options: ServeOptions | None = None,
    client_options: Mapping[str, Any] | None = None,
    **engine: Any,
) -> AsyncIterator[BreakableClient]:
    """The same through the whole server: a real client, a WebSocket in memory, the real application.

    ```python
    async def test_a_lost_connection(autojump_clock):
        async with open_client(Script(replies={"hello": "hello yourself"})) as client:
            await script().say("hello").drop().wait(5).resume().expects_reply("hello yourself").play(client)
    ```

    Args:
        script: what the model hears and says; by default it says back what it hears.
        config: the settings that the client asks for.
        options: how to serve, such as `ServeOptions(api_keys=("secret",))`.
        client_options: more of `DuplexClient`, such as `{"api_key": "secret"}`.
        **engine: more of `scripted_omni`.
    """
    async with scripted_omni(script, **engine) as omni, serve_in_memory(omni, options) as server:
        client = BreakableClient(
            server.url,
            connect=server.connect,
            script=script_of(omni),
            config=config,
            **(client_options or {}),
        )
        async with client:
            yield client
