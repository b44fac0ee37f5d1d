"""What `/health` says: the state of the server in one word and one status, then of its stages and their replicas.

    loading    503  the model is being loaded, or answers its warm-up turn
    ready      200  every stage has all of its replicas
    degraded   200  a replica is down, and its stage has another one
    degraded   503  a stage has no replica that works: what needs it fails until it is back
    draining   503  the server is on its way out

Where video is served beside speech, what is said of the server is true of both, and `video` tells of the engine of
video by itself.

A load balancer needs the status alone. Where clients have to show a key, who shows none gets the word alone: an
error may name files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.responses import Response

if TYPE_CHECKING:
    from duplex_trio.engine.health import EngineHealth, ReplicaHealth, StageHealth
    from duplex_trio.entrypoints.video_omni import VideoOmni


def health_response(deployment: Deployment, *, detailed: bool) -> Response:
    """Tell how the server is.

    Args:
        deployment: what is served.
        detailed: tell more than the word.
    """
    health = deployment.omni.health() if deployment.omni is not None else None
    video = deployment.video_omni.health() if deployment.video_omni is not None else None
    word, status = _state(deployment, [one for one in (health, video) if one is not None])
    body: dict[str, Any] = {"status": word}
    if detailed:
        body |= _details(deployment, health)
        if deployment.video_omni is not None and video is not None:
            body["video"] = _video(deployment, deployment.video_omni, video)
    return Response(status, orjson.dumps(body))


def _state(deployment: Deployment, engines: Sequence[EngineHealth]) -> tuple[str, int]:
    if deployment.phase != "ready" or not engines:
        return deployment.phase, 503
    stages = tuple(stage for engine in engines for stage in engine.stages)
    match attrs.evolve(engines[0], stages=stages).state:
        case "ready":
            return "ready", 200
        case "degraded":
            return "degraded", 200
        case _:
            return "degraded", 503


def _details(deployment: Deployment, health: EngineHealth | None) -> Mapping[str, Any]:
    omni, service = deployment.omni, deployment.service
    return {
        "model": deployment.model_name,
        "session_mode": None if omni is None else omni.session_mode,
        "uptime_s": round(deployment.uptime_s, 1),
        **({} if service is None else service.occupancy()),
        "stages": [] if health is None else [_stage(stage) for stage in health.stages],
    }


def _video(deployment: Deployment, omni: VideoOmni, health: EngineHealth) -> Mapping[str, Any]:
    return {
        "model": omni.model_name,
        "status": _state(deployment, [health])[0],
        "videos": omni.videos,
        "max_videos": omni.max_videos,
        "stages": [_stage(stage) for stage in health.stages],
    }


def _stage(stage: StageHealth) -> Mapping[str, Any]:
    return {
        "name": stage.name,
        "state": stage.state,
        "replicas": [_replica(replica) for replica in stage.replicas],
    }


def _replica(replica: ReplicaHealth) -> Mapping[str, Any]:
    return {
        "name": replica.name,
        "state": replica.state,
        "load_s": _rounded(replica.load_s),
        "live_requests": replica.live_requests,
        "restarts": replica.restarts_total,
        "last_error": replica.last_error,
        "retry_in_s": _rounded(replica.retry_in_s),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
