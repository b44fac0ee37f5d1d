"""What updates do to a session as a whole: formats, turn taking, locks, what is unknown, and real clients' updates."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from duplex_trio.protocol.duplex.audio import AudioFormat
from duplex_trio.protocol.duplex.session import (
    DialectName,
    DuplexSessionConfig,
    SemanticVad,
    ServerVad,
    SessionDefaults,
    SessionLocks,
    apply_patch,
    default_config,
)
from duplex_trio.protocol.realtime.errors import RealtimeError

DEFAULTS = SessionDefaults(
    model="served",
    voice="mary",
    silence_duration_ms=600,
    extra_body={"seed": 1},
    private_extra_body_keys=frozenset({"token_ids"}),
)
DIALECTS: tuple[DialectName, ...] = ("ga", "beta", "duplex")


def start(dialect: DialectName = "ga", **changes: Any) -> DuplexSessionConfig:
    return evolve(default_config(DEFAULTS, dialect), **changes)


def patched(
    patch: dict[str, Any],
    config: DuplexSessionConfig | None = None,
    dialect: DialectName = "ga",
    **kwargs: Any,
) -> DuplexSessionConfig:
    return apply_patch(config or start(dialect), patch, dialect=dialect, **kwargs)


def refusal(
    patch: dict[str, Any],
    config: DuplexSessionConfig | None = None,
    dialect: DialectName = "ga",
    **kwargs: Any,
) -> RealtimeError:
    with pytest.raises(RealtimeError) as caught:
        patched(patch, config, dialect, **kwargs)
    return caught.value


class TestDefaults:
    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_nothing_declared_is_24_khz_server_vad_and_speech(self, dialect: DialectName) -> None:
        config = start(dialect)
        assert (config.input_format.encoding, config.input_format.sample_rate_hz) == ("pcm16", 24000)
        assert config.input_format == config.output_format
        assert config.turn_detection == ServerVad(silence_duration_ms=600)
        assert config.speaks
        assert config.overlap_policy == "barge_in_on_speech"
        assert not config.auto_response

    def test_only_a_duplex_session_leaves_turns_to_a_model_that_owns_them(self) -> None:
        defaults = evolve(DEFAULTS, owns_turns=True)
        assert default_config(defaults, "duplex").turn_detection is None
        assert default_config(defaults, "duplex").overlap_policy == "listen_only"
        for dialect in ("ga", "beta"):
            assert default_config(defaults, dialect).turn_detection is not None

    @pytest.mark.parametrize(
        ("dialect", "policy"),
        [("ga", "commit_all_on_done"), ("beta", "commit_all_on_done"), ("duplex", "ack_only")],
    )
    def test_the_history_policy_belongs_to_the_dialect_for_good(
        self, dialect: DialectName, policy: str
    ) -> None:
        for wanted in ("commit_all_on_done", "ack_only"):
            changed = patched({"playback_commit_policy": wanted}, dialect=dialect)
            assert changed.playback_commit_policy == policy
            assert changed == start(dialect)


class TestFormats:
    @pytest.mark.parametrize(
        ("patch", "in_force"),
        [
            (
                {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
                AudioFormat("g711_ulaw", 8000, "audio/pcmu"),
            ),
            (
                {"audio": {"input": {"format": {"type": "audio/pcm"}}}},
                AudioFormat("pcm16", 24000, "audio/pcm"),
            ),
            ({"audio": {"input": {"format": {"rate": 16000}}}}, AudioFormat("pcm16", 16000, "audio/pcm")),
            ({"audio": {"input": {"sample_rate_hz": 48000}}}, AudioFormat("pcm16", 48000, "audio/pcm")),
            ({"audio": {"input": {"sample_rate": 48000}}}, AudioFormat("pcm16", 48000, "audio/pcm")),
            ({"input_audio_format": "g711_alaw"}, AudioFormat("g711_alaw", 8000, "g711_alaw")),
            ({"input_audio_format": "pcm16", "sample_rate_hz": 16000}, AudioFormat("pcm16", 16000, "pcm16")),
            ({"sample_rate": 16000, "sample_rate_hz": None}, AudioFormat("pcm16", 16000, "audio/pcm")),
            (
                {"input_audio_format": {"type": "pcm16", "sample_rate": 8000}},
                AudioFormat("pcm16", 8000, "pcm16"),
            ),
            (
                {"input_audio_format": "g711_ulaw", "audio": {"input": {"format": {"type": "audio/pcma"}}}},
                AudioFormat("g711_alaw", 8000, "audio/pcma"),
            ),
            (
                {
                    "sample_rate_hz": 16000,
                    "audio": {"input": {"sample_rate_hz": 8000, "format": {"rate": 48000}}},
                },
                AudioFormat("pcm16", 16000, "audio/pcm"),
            ),
        ],
    )
    def test_the_input_format_in_each_spelling(self, patch: dict[str, Any], in_force: AudioFormat) -> None:
        changed = patched(patch)
        assert changed == evolve(start(), input_format=in_force)

    @pytest.mark.parametrize(
        ("patch", "in_force"),
        [
            (
                {"audio": {"output": {"format": {"type": "audio/pcma"}}}},
                AudioFormat("g711_alaw", 8000, "audio/pcma"),
            ),
            ({"output_audio_format": "g711_ulaw"}, AudioFormat("g711_ulaw", 8000, "g711_ulaw")),
            ({"response_format": "wav"}, AudioFormat("wav", 24000, "wav")),
            ({"audio": {"output": {"sample_rate_hz": 16000}}}, AudioFormat("pcm16", 16000, "audio/pcm")),
            (
                {"response_format": "wav", "output_audio_format": "pcm16"},
                AudioFormat("pcm16", 24000, "pcm16"),
            ),
        ],
    )
    def test_the_output_format_in_each_spelling(self, patch: dict[str, Any], in_force: AudioFormat) -> None:
        assert patched(patch) == evolve(start(), output_format=in_force)

    def test_one_direction_leaves_the_other_and_null_returns_to_the_default(self) -> None:
        config = patched({"input_audio_format": "g711_ulaw", "output_audio_format": "g711_alaw"})
        config = patched({"audio": {"output": {"voice": "x"}}}, config)
        assert config.input_format.encoding == "g711_ulaw"
        config = patched({"audio": {"input": {"format": None}}}, config)
        assert config.input_format == start().input_format
        assert config.output_format.encoding == "g711_alaw"

    @pytest.mark.parametrize(
        ("patch", "code", "param"),
        [
            ({"input_audio_format": "mp3"}, "unsupported_audio_format", "session.input_audio_format"),
            ({"input_audio_format": "wav"}, "unsupported_audio_format", "session.input_audio_format"),
            ({"input_audio_format": "g711-ulaw"}, "unsupported_audio_format", "session.input_audio_format"),
            ({"output_audio_format": "pcm_f32le"}, "unsupported_audio_format", "session.output_audio_format"),
            ({"audio": {"input": {"format": 5}}}, "unsupported_audio_format", "session.audio.input.format"),
            ({"audio": {"output": {"format": {"rate": 1}}}}, "bad_event", "session.audio.output.format.rate"),
            ({"sample_rate_hz": "16000"}, "bad_event", "session.sample_rate_hz"),
            ({"audio": {"input": {"sample_rate": True}}}, "bad_event", "session.audio.input.sample_rate"),
            (
                {"audio": {"output": {"sample_rate_hz": 4000}}},
                "bad_event",
                "session.audio.output.sample_rate_hz",
            ),
        ],
    )
    def test_refusals(self, patch: dict[str, Any], code: str, param: str) -> None:
        error = refusal(patch)
        assert (error.code, error.param) == (code, param)

    def test_the_duplex_dialect_reads_the_hyphenated_names(self) -> None:
        changed = patched({"input_audio_format": "g711-ulaw"}, dialect="duplex")
        assert changed.input_format == AudioFormat("g711_ulaw", 8000, "g711-ulaw")

    def test_formats_are_checked_before_turn_detection(self) -> None:
        patch = {"input_audio_format": "mp3", "turn_detection": {"type": "native"}, "voice": 5}
        assert refusal(patch).code == "unsupported_audio_format"
        del patch["input_audio_format"]
        assert refusal(patch).code == "unsupported_turn_detection"


class TestTurnTaking:
    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_a_threshold_alone_keeps_everything_else(self, dialect: DialectName) -> None:
        config = patched(
            {"turn_detection": {"type": "server_vad", "silence_duration_ms": 750}}, dialect=dialect
        )
        config = patched({"audio": {"input": {"turn_detection": {"threshold": 0.8}}}}, config, dialect)
        assert config.turn_detection == ServerVad(threshold=0.8, silence_duration_ms=750)
        config = patched({"audio": {"input": {"turn_detection": None}}}, config, dialect)
        assert config.turn_detection is None
        assert config.overlap_policy == "listen_only"

    def test_the_nested_spelling_wins_and_the_models_silence_is_the_default(self) -> None:
        patch = {"turn_detection": None, "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
        config = start(turn_detection=SemanticVad())
        assert patched(patch, config).turn_detection == ServerVad(silence_duration_ms=600)

    def test_refusals_name_the_spelling_used(self) -> None:
        flat = refusal({"turn_detection": {"threshold": 2}})
        nested = refusal({"audio": {"input": {"turn_detection": {"threshold": 2}}}})
        assert flat.code == nested.code == "unsupported_turn_detection"
        assert flat.param == "session.turn_detection.threshold"
        assert nested.param == "session.audio.input.turn_detection.threshold"

    @pytest.mark.parametrize(
        ("patch", "interrupts", "policy"),
        [
            ({"turn_detection": {"interrupt_response": False}}, False, "listen_only"),
            ({"overlap_policy": "listen_only"}, False, "listen_only"),
            ({"extra_body": {"overlap_policy": "listen_only"}}, False, "listen_only"),
            ({"overlap_policy": "barge_in_on_speech"}, True, "barge_in_on_speech"),
            ({"overlap_policy": None}, True, "barge_in_on_speech"),
            (
                {"overlap_policy": "listen_only", "turn_detection": {"interrupt_response": False}},
                False,
                "listen_only",
            ),
        ],
    )
    def test_overlap_policy_and_turn_detection_agree(
        self, patch: dict[str, Any], interrupts: bool, policy: str
    ) -> None:
        changed = patched(patch, dialect="duplex")
        assert changed.turn_detection is not None
        assert changed.turn_detection.interrupt_response is interrupts
        assert changed.overlap_policy == policy
        assert "overlap_policy" not in changed.extra_body

    @pytest.mark.parametrize(
        ("patch", "param"),
        [
            (
                {"turn_detection": {"threshold": 0.5}, "overlap_policy": "listen_only"},
                "session.overlap_policy",
            ),
            ({"turn_detection": None, "overlap_policy": "barge_in_on_speech"}, "session.overlap_policy"),
            (
                {"turn_detection": None, "extra_body": {"overlap_policy": "barge_in_on_speech"}},
                "session.extra_body.overlap_policy",
            ),
        ],
    )
    def test_a_contradiction_is_refused(self, patch: dict[str, Any], param: str) -> None:
        error = refusal(patch, dialect="duplex")
        assert (error.code, error.param) == ("unsupported_turn_detection", param)

    def test_interrupting_needs_detection(self) -> None:
        off = start("duplex", turn_detection=None, overlap_policy="listen_only")
        assert (
            refusal({"overlap_policy": "barge_in_on_speech"}, off, "duplex").param == "session.overlap_policy"
        )
        assert patched({"overlap_policy": "listen_only"}, off, "duplex") == off

    def test_by_duration_is_for_sessions_without_detection(self) -> None:
        """It stays until it is changed, or detection is turned on; with detection on it is refused."""
        off = start("duplex", turn_detection=None, overlap_policy="by_duration", overlap_barge_in_ms=900)
        assert (off.overlap_policy, off.overlap_barge_in_ms) == ("by_duration", 900)
        assert patched({"instructions": "Be brief."}, off, "duplex").overlap_policy == "by_duration"
        assert patched({"turn_detection": None}, off, "duplex").overlap_policy == "by_duration"
        assert patched({"overlap_policy": "listen_only"}, off, "duplex").overlap_policy == "listen_only"
        assert patched({"overlap_policy": None}, off, "duplex").overlap_policy == "listen_only"
        on = patched({"turn_detection": {"type": "server_vad"}}, off, "duplex")
        assert on.overlap_policy == "barge_in_on_speech"
        error = refusal({"overlap_policy": "by_duration"}, on, "duplex")
        assert (error.code, error.param) == ("unsupported_turn_detection", "session.overlap_policy")


class TestExtraBody:
    def test_it_merges_key_by_key_and_null_deletes(self) -> None:
        config = patched({"extra_body": {"auto_response": True, "knob": {"a": 1}}}, dialect="duplex")
        assert config.auto_response
        assert config.extra_body == {"seed": 1, "auto_response": True, "knob": {"a": 1}}
        config = patched({"extra_body": {"auto_response": False, "knob": {"b": 2}, "seed": None}}, config)
        assert not config.auto_response
        assert config.extra_body == {"auto_response": False, "knob": {"b": 2}}
        config = patched({"extra_body": {"auto_response": None}}, config)
        for owns_turns in (False, True):  # unsaid, it is as the model is
            defaults = evolve(config.defaults, owns_turns=owns_turns)
            assert evolve(config, defaults=defaults).auto_response is owns_turns
        assert patched({"extra_body": None}, config).extra_body == {"seed": 1}

    def test_the_servers_own_keys_are_refused(self) -> None:
        error = refusal({"extra_body": {"token_ids": [1]}})
        assert (error.code, error.param) == ("invalid_duplex_runtime_config", "session.extra_body.token_ids")

    def test_it_cannot_grow_without_end(self) -> None:
        config = patched({"extra_body": {"a": "x" * 600_000}})
        error = refusal({"extra_body": {"b": "x" * 600_000}}, config)
        assert (error.code, error.param) == ("invalid_value", "session.extra_body")


class TestUnknownKeys:
    def test_they_are_kept_merged_and_deleted_by_null(self) -> None:
        config = patched(
            {"x_app": {"a": 1, "b": 2}, "audio": {"input": {"gain": 3}}, "use_tts_template": True}
        )
        assert config.unknown == {
            "x_app": {"a": 1, "b": 2},
            "audio": {"input": {"gain": 3}},
            "use_tts_template": True,
        }
        config = patched({"x_app": {"b": None, "c": [None]}, "audio": {"output": {"gain": 4}}}, config)
        assert config.unknown["x_app"] == {"a": 1, "c": [None]}
        assert config.unknown["audio"] == {"input": {"gain": 3}, "output": {"gain": 4}}
        assert "x_app" not in patched({"x_app": None}, config).unknown

    def test_what_only_the_server_sets_is_ignored(self) -> None:
        owned = {
            "id": "mine",
            "object": "x",
            "type": "realtime",
            "session_id": "s",
            "state": "closed",
            "epoch": 9,
        }
        assert patched({**owned, "expires_at": 5, "capabilities": {}, "playback": {"sent_ms": 5}}) == start()

    def test_what_json_cannot_express_is_left_out(self) -> None:
        assert patched({"a": object(), "b": {1: 2}, "c": 1, 5: 6}).unknown == {"c": 1}  # type: ignore[dict-item]

    def test_they_cannot_grow_without_end(self) -> None:
        config = patched({"a": "x" * 600_000})
        error = refusal({"b": "x" * 600_000}, config)
        assert (error.code, error.param) == ("invalid_value", "session")
        assert patched({"a": None, "b": "x" * 600_000}, config).unknown.keys() == {"b"}


class TestLocks:
    def test_nothing_is_locked_at_open(self) -> None:
        patch = {"model": "other", "voice": "ash", "instructions": "x", "ref_audio": "data:,x"}
        changed = patched(patch)
        assert (changed.model, changed.voice, changed.instructions) == ("other", "ash", "x")

    @pytest.mark.parametrize(
        ("locked", "patch", "code", "param"),
        [
            (SessionLocks(voice_spoken=True), {"voice": "ash"}, "cannot_update_voice", "session.voice"),
            (
                SessionLocks(voice_spoken=True),
                {"audio": {"output": {"voice": {"id": "ash"}}}},
                "cannot_update_voice",
                "session.audio.output.voice",
            ),
            (
                SessionLocks(context_locked=True),
                {"instructions": "other"},
                "instructions_update_unsupported",
                "session.instructions",
            ),
            (
                SessionLocks(ref_audio=True),
                {"ref_audio": "data:,x"},
                "ref_audio_update_unsupported",
                "session.ref_audio",
            ),
        ],
    )
    def test_a_locked_field_refuses_a_change_with_all_that_came_with_it(
        self, locked: SessionLocks, patch: dict[str, Any], code: str, param: str
    ) -> None:
        error = refusal({**patch, "speed": 1.2}, locked=locked)
        assert (error.code, error.param) == (code, param)

    def test_a_locked_field_takes_what_it_has(self) -> None:
        every = SessionLocks(voice_spoken=True, context_locked=True, ref_audio=True)
        config = start(instructions="Be kind.", ref_audio="data:,x")
        patch = {
            "model": "served",
            "audio": {"output": {"voice": "mary", "speed": 1.5}},
            "instructions": "Be kind.",
            "ref_audio": "data:,x",
        }
        assert patched(patch, config, locked=every) == evolve(config, speed=1.5)

    def test_instructions_change_at_any_time_where_the_model_reads_them_anew(self) -> None:
        changed = patched({"instructions": "x"}, locked=SessionLocks(voice_spoken=True))
        assert changed.instructions == "x"
