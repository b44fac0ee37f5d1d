"""The table of limits says what the code says."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from duplex_trio.deploy import DuplexSessionDeploy, SessionLimits, VideoSessionDeploy, load_deploy
from duplex_trio.deploy.keys import file_key
from duplex_trio.protocol.duplex import MAX_MESSAGE_BYTES

DOCUMENT, _, VIDEOS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text().partition("## Videos\n")
NO_LIMITS = {"server_vad_model_path", "warmup_frames", "reaper_interval_s", "completed_append_cache_size"}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    """The cells of each row by the key in front."""
    return rows_of(DOCUMENT)


def rows_of(text: str) -> dict[str, list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {key.strip("`"): others for key, *others in cells}


NONE_MEANS = {
    "max_chats": "4 beside sessions, else 64",
    "stage_commands_max": "two for each session and chat",
}


def shown(key: str, value: object) -> str:
    """A default as the table has it."""
    if value is None:
        return NONE_MEANS[key]
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def test_the_table_has_every_limit_and_no_other(rows: dict[str, list[str]]) -> None:
    """In files' own words; what is no limit is named below the table."""
    keys = {file_key(attribute) for attribute in attrs.fields(DuplexSessionDeploy)}
    assert set(rows) == keys - NO_LIMITS
    text = DOCUMENT.rpartition("\n|")[2]
    assert all(f"`{key}`" in text for key in NO_LIMITS)
    assert f"{MAX_MESSAGE_BYTES // 2**20} MiB" in text


@pytest.mark.parametrize("attribute", attrs.fields(DuplexSessionDeploy), ids=file_key)
def test_defaults_are_those_of_the_code(
    rows: dict[str, list[str]], attribute: attrs.Attribute[object]
) -> None:
    """And each says what it limits and what happens then."""
    key = file_key(attribute)
    if key in NO_LIMITS:
        return
    default, what, reached = rows[key]
    assert default == shown(key, attribute.default)
    assert what
    assert reached


def test_the_example_loads(tmp_path: Path) -> None:
    """It is a file that can be served."""
    example = DOCUMENT.split("```yaml\n")[1].split("```")[0]
    path = tmp_path / "deploy.yaml"
    path.write_text(example)
    session = load_deploy(path).duplex_session
    assert isinstance(session, SessionLimits)
    assert (session.max_sessions, session.speech_s_max, session.media_lead_ms) == (16, 60, 200)


def test_the_table_of_videos_is_that_of_the_code(tmp_path: Path) -> None:
    rows = rows_of(VIDEOS)
    assert set(rows) == {file_key(attribute) for attribute in attrs.fields(VideoSessionDeploy)}
    for attribute in attrs.fields(VideoSessionDeploy):
        default, what, reached = rows[file_key(attribute)]
        told = "one for each core" if attribute.default is None else f"{attribute.default:.15g}"
        assert (default, bool(what), bool(reached)) == (told, True, True)
    path = tmp_path / "deploy.yaml"
    path.write_text(VIDEOS.split("```yaml\n")[1].split("```")[0])
    videos = load_deploy(path).video_session
    assert (videos.max_sessions, videos.max_session_s) == (8, 60)
