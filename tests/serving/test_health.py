"""`/health`: each state of the server, and what is told beside it."""

from typing import Any

import orjson
import pytest

from duplex_trio.engine.health import EngineHealth, ReplicaHealth, StageHealth

READY = ReplicaHealth(name="llm[0]", state="ready", load_s=1.25, live_requests=2)
DOWN = ReplicaHealth(
    name="llm[1]",
    state="restarting",
    load_s=3.0,
    restarts_total=4,
    last_error="OSError: gone",
    retry_in_s=0.26,
)
GIVEN_UP = ReplicaHealth(name="llm[1]", state="failed", last_error="OSError: gone")


def stage(*replicas: ReplicaHealth) -> StageHealth:
    return StageHealth(name="llm", replicas=replicas)


async def ask(http: Any, app: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    status, sent, body = await http(app, "GET", "/health", headers)
    assert sent[b"content-type"] == b"application/json"
    return status, orjson.loads(body)


async def test_it_says_how_the_server_is_and_what_it_does(omni: Any, app_for: Any, http: Any) -> None:
    omni.stages = [stage(READY, DOWN)]
    status, health = await ask(http, app_for(model_name="voice"))
    assert 0 <= health.pop("uptime_s") < 60
    assert (status, health) == (
        200,
        {
            "status": "degraded",
            "model": "voice",
            "session_mode": "duplex",
            "sessions": 0,
            "max_sessions": 8,
            "chats": 0,
            "stages": [
                {
                    "name": "llm",
                    "state": "degraded",
                    "replicas": [
                        {
                            "name": "llm[0]",
                            "state": "ready",
                            "load_s": 1.2,
                            "live_requests": 2,
                            "restarts": 0,
                            "last_error": None,
                            "retry_in_s": None,
                        },
                        {
                            "name": "llm[1]",
                            "state": "restarting",
                            "load_s": 3.0,
                            "live_requests": 0,
                            "restarts": 4,
                            "last_error": "OSError: gone",
                            "retry_in_s": 0.3,
                        },
                    ],
                }
            ],
        },
    )


@pytest.mark.parametrize(
    ("stages", "status", "word"),
    [
        ([], 200, "ready"),
        ([stage(READY), stage(READY)], 200, "ready"),
        ([stage(READY), stage(READY, DOWN)], 200, "degraded"),
        ([stage(READY, GIVEN_UP)], 200, "degraded"),
        ([stage(READY), stage(DOWN)], 503, "degraded"),
        ([stage(GIVEN_UP)], 503, "degraded"),
    ],
)
async def test_the_worst_stage_decides(
    omni: Any, app_for: Any, http: Any, stages: list[StageHealth], status: int, word: str
) -> None:
    omni.stages = stages
    app = app_for()
    found, health = await ask(http, app)
    assert (found, health["status"]) == (status, word)
    app.deployment.begin_drain()
    found, health = await ask(http, app)
    assert (found, health["status"]) == (503, "draining")


async def test_who_shows_no_key_gets_the_word_alone(omni: Any, app_for: Any, http: Any) -> None:
    omni.stages = [stage(READY, DOWN)]
    app = app_for(api_keys=("sk-test",))
    assert await ask(http, app) == (200, {"status": "degraded"})
    assert await ask(http, app, {"authorization": "Bearer sk-other"}) == (200, {"status": "degraded"})
    _, health = await ask(http, app, {"authorization": "Bearer sk-test"})
    assert health["model"] == "test-model"


class FakeVideo:
    """An engine of video beside speech."""

    model_name = "scene"
    videos, max_videos = 1, 2

    def __init__(self, *replicas: ReplicaHealth) -> None:
        self._replicas = replicas

    def health(self) -> EngineHealth:
        return EngineHealth(stages=(StageHealth(name="text_encoder", replicas=self._replicas),))


@pytest.mark.parametrize(
    ("speech", "video", "told"),
    [
        ((READY,), (READY,), (200, "ready", "ready")),
        ((READY,), (READY, DOWN), (200, "degraded", "degraded")),
        ((READY, DOWN), (READY,), (200, "degraded", "ready")),
        ((READY,), (DOWN,), (503, "degraded", "degraded")),
        ((DOWN,), (READY,), (503, "degraded", "ready")),
    ],
)
async def test_video_beside_speech_is_told_of_and_counts(
    omni: Any,
    app_for: Any,
    http: Any,
    speech: tuple[ReplicaHealth, ...],
    video: tuple[ReplicaHealth, ...],
    told: tuple[int, str, str],
) -> None:
    """The server is as well as the worse of both; each is told of by itself."""
    omni.stages = [stage(*speech)]
    app = app_for()
    app.deployment.video_omni = FakeVideo(*video)
    status, health = await ask(http, app)
    assert (status, health["status"], health["video"]["status"]) == told
    assert [one["name"] for one in health["stages"]] == ["llm"]
    assert [one["name"] for one in health["video"]["stages"]] == ["text_encoder"]
    assert (health["video"]["videos"], health["video"]["max_videos"]) == (1, 2)


async def test_strangers_are_told_nothing_of_video(app_for: Any, http: Any) -> None:
    app = app_for(api_keys=("k",))
    app.deployment.video_omni = FakeVideo(READY)
    assert list((await ask(http, app))[1]) == ["status"]
