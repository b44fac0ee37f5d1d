"""An example of each message that clients send, and the errors that it may be answered with beyond its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_trio.protocol.duplex import COMMAND_CLASSES

OWN = frozenset(
    {
        "input.text.append",
        "input.cancel",
        "barge_in",
        "turn.signal",
        "playback.ack",
        "session.heartbeat",
        "session.close",
        "session.resume",
        "session.event_ack",
    }
)
"""Commands that OpenAI does not have. They are read in every dialect."""

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "session.update": {
        "session": {
            "instructions": "Be brief.",
            "audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 400}}},
        }
    },
    "input_audio_buffer.append": {"audio": "AAAAAAAAAAA=", "is_speech": False, "duration_ms": 0.17},
    "input_audio_buffer.commit": {"response_create": True},
    "input_audio_buffer.clear": {},
    "output_audio_buffer.clear": {},
    "response.create": {"response": {"instructions": "Answer in one word.", "output_modalities": ["text"]}},
    "response.cancel": {},
    "conversation.item.create": {
        "item": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "What is a good breakfast?"}],
        }
    },
    "conversation.item.delete": {"item_id": "item_1"},
    "conversation.item.truncate": {"item_id": "item_2", "content_index": 0, "audio_end_ms": 1500},
    "conversation.item.retrieve": {"item_id": "item_2"},
    "input.text.append": {"text": "and quietly, please"},
    "input.cancel": {},
    "barge_in": {},
    "turn.signal": {"event": "user_started"},
    "playback.ack": {"played_ms": 640, "response_id": "resp_1", "item_id": "item_resp_1"},
    "session.heartbeat": {},
    "session.close": {"reason": "goodbye"},
    "session.resume": {
        "session_id": "duplex-1",
        "resume_token": "the token of session.created",
        "last_received_server_event_seq": 41,
        "attempt": 1,
    },
    "session.event_ack": {"server_event_seq": 41},
}

_AUDIO = ("bad_audio", "unsupported_audio_format", "invalid_input_modality", "input_backpressure")

ERRORS: Mapping[str, tuple[str, ...]] = {
    "session.update": (
        "invalid_value",
        "unsupported_audio_format",
        "unsupported_turn_detection",
        "cannot_update_voice",
        "instructions_update_unsupported",
        "ref_audio_update_unsupported",
        "ref_audio_required",
        "invalid_duplex_runtime_config",
    ),
    "input_audio_buffer.append": (
        *_AUDIO,
        "invalid_video_frames",
        "server_vad_unavailable",
        "barge_in_unsupported",
    ),
    "input_audio_buffer.commit": ("input_audio_buffer_commit_empty", "input_backpressure", "unsupported"),
    "response.create": (
        "conversation_already_has_active_response",
        "response_create_without_input",
        "text_only_turn_unsupported",
        "unsupported_native_response_options",
        "unknown_parameter",
        "item_not_found",
    ),
    "response.cancel": ("response_cancel_not_active", "response_not_active"),
    "conversation.item.create": (
        "item_create_duplicate_item_id",
        "item_not_found",
        "invalid_function_call_output",
        "invalid_image",
        "unsupported",
        "input_backpressure",
        *_AUDIO[:2],
    ),
    "conversation.item.delete": ("item_not_found",),
    "conversation.item.truncate": ("item_not_found",),
    "conversation.item.retrieve": ("item_retrieve_invalid_item_id",),
    "input.text.append": ("native_text_append_unsupported",),
    "input.cancel": ("barge_in_unsupported",),
    "barge_in": ("barge_in_unsupported",),
    "turn.signal": ("unsupported", "bad_event"),
    "playback.ack": ("playback_item_mismatch", "playback_item_not_found", "unsupported"),
    "session.resume": (
        "invalid_resume_token",
        "session_resume_expired",
        "unsupported_session_resume",
        "session_resume_conflict",
        "runtime_resume_failed",
    ),
}
"""What a session may answer to a message whose fields are as they should be."""

assert EXAMPLES.keys() == COMMAND_CLASSES.keys()
assert ERRORS.keys() <= COMMAND_CLASSES.keys()
