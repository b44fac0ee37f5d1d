"""The entrance for WebSockets: who may come in, and whether there is anything to come in to yet.

Both transports lead here. What is served behind it depends on the engine, and is the `Service`'s.
"""

from __future__ import annotations

import structlog
from attrs import frozen

from duplex_trio.serving.auth import AccessPolicy
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.nowhere import lead_nowhere
from duplex_trio.serving.paths import VIDEO_PATH
from duplex_trio.serving.responses import Response, refusal_response, still_loading

log = structlog.get_logger("duplex_trio.serving")


@frozen(kw_only=True)
class SocketEntrance:
    """What every WebSocket passes.

    Attributes:
        deployment: what is served.
        access: who may come in.
    """

    deployment: Deployment
    access: AccessPolicy

    async def serve(self, channel: WebSocketChannel) -> None:
        """Serve one WebSocket, from the request for it to its end."""
        request = channel.request
        refusal = self.access.check(request.path, request.headers, request.subprotocols)
        if refusal is not None:
            await _deny(channel, refusal_response(refusal), refusal.code, refusal.message)
        elif self.deployment.service is None:
            await _deny(channel, still_loading(), "loading", "the model is being loaded")
        elif request.path != VIDEO_PATH:
            await self.deployment.service.serve_socket(channel)
        elif self.deployment.video is not None:
            await self.deployment.video.serve(channel)
        else:
            await lead_nowhere(channel, f"{VIDEO_PATH} is not available: this deployment serves no video")


async def _deny(channel: WebSocketChannel, response: Response, code: str, message: str) -> None:
    request = channel.request
    log.info("client.refused", client=request.client, path=request.path, code=code, message=message)
    await channel.deny(response.status, response.body, response.headers)
