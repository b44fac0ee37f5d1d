"""Which deployment makes a clip, by what a person calls it."""

from __future__ import annotations

from duplex_trio.cli.compose import read_deploy
from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import DeployConfig


def read_video_deploy(model: str) -> DeployConfig:
    """The deployment of a model of video.

    Args:
        model: `scene`, `glyph-flow`, the name of another deployment, or a file.

    Raises:
        CommandError: there is none, it is faulty, or it makes no video.
    """
    known = {"glyph-flow": "glyph_flow"}
    deploy = read_deploy(known.get(model, model), models={})
    if deploy.session_mode != "video":
        raise CommandError(
            f"--model {model}: this deployment makes no video (session_mode: {deploy.session_mode})"
        )
    return deploy
