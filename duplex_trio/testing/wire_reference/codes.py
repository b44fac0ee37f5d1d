"""What error codes and close codes mean to a client."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "event_too_large": "a message of more than 15 MiB",
    "invalid_json": "a message that is not JSON",
    "bad_event": "a message that is no object, a field that is missing or of the wrong kind, or a binary frame",
    "unknown_event": "there is no message of this type",
    "bad_audio": "sound that is not base64, or not in its format",
    "config_timeout": "the client said nothing within 10 s of connecting",
    "invalid_video_frames": "frames that are too many, too large, or no JPEG or PNG",
    "invalid_input_modality": "an append without what the model needs, or with what it does not take",
    "invalid_image": "a picture that is no JPEG or PNG, or too large",
    "unsupported": "the model or the deployment does not do that",
    "invalid_value": "a field has a value that it cannot have",
    "unknown_parameter": "a field that there is not, where none is ignored",
    "unsupported_audio_format": "an encoding or rate that is not taken",
    "unsupported_turn_detection": "settings of turn detection that there are not, or that contradict each other",
    "unsupported_native_response_options": "a model that owns its turns takes none of these options for one response",
    "invalid_duplex_runtime_config": "a key of `extra_body` that only the server sets, or that the model refuses",
    "session_closed": "the session is ending or has ended",
    "unknown_session": "there is no such session",
    "model_not_found": "no such model is served",
    "instructions_update_unsupported": "the model cannot take other instructions once it has heard sound",
    "cannot_update_voice": "the voice has spoken already",
    "ref_audio_update_unsupported": "the voice reference is in use",
    "ref_audio_required": "the model needs a voice reference to speak",
    "missing_item_id": "which item is not said",
    "item_not_found": "there is no such item",
    "item_retrieve_invalid_item_id": "there is no such item",
    "item_create_duplicate_item_id": "there is an item with this id",
    "invalid_function_call_output": "there is no such call, or it has its output",
    "conversation_already_has_active_response": "an answer is being made",
    "response_not_active": "the response that is named is not the one in progress",
    "response_cancel_not_active": "no response is in progress",
    "response_create_without_input": "there is nothing to answer",
    "text_only_turn_unsupported": "the model answers sound only",
    "input_audio_buffer_commit_empty": "nothing was appended since the last commit",
    "native_text_append_unsupported": "the model does not read while it listens",
    "barge_in_unsupported": "the model cannot be interrupted",
    "context_length_exceeded": "the conversation is longer than the model can read",
    "playback_item_mismatch": "the item is not that of the response",
    "playback_item_not_found": "no sound of this response is known",
    "invalid_session_resume": "the request to resume is not what it should be",
    "session_resume_expired": "the session has ended",
    "unsupported_session_resume": "the session ends with its connection, or this is not the first message",
    "invalid_resume_token": "no session has this id and this token",
    "session_resume_conflict": "a number of no event, or a request that came too late",
    "invalid_event_ack": "a number of no event",
    "internal_error": "a fault of the server",
    "engine_error": "a model failed",
    "engine_dead": "a model's process or thread has died; it is started again",
    "timeout": "a stage took longer than `unit_timeout_s`",
    "server_vad_unavailable": "voice activity is not to be had for the moment: commit by hand",
    "runtime_append_failed": "a stage did not take the turn",
    "runtime_data_plane_stream_failed": "a stage broke in the middle of an answer",
    "runtime_resume_failed": "the session could not be taken over",
    "function_call_invalid": "the model called a function that there is not, or with arguments that it does not take",
    "stale_fence": "input for an epoch that is over",
    "resource_exhausted": "as many sessions as the server takes, or it is shutting down",
    "input_backpressure": "more waits than the limits allow: slow down, and send it again",
}
"""The codes that something in this package says."""

CLOSE_CODES: Mapping[int, str] = {
    1000: "the session is over, and its reason is that of the frame: of `session.closed` or `session.expired`; "
    "`session_replaced` when another connection has taken it over; `idle_timeout` when the client was silent for "
    "`idle_timeout_s`",
    1001: "the server is going away: `server_shutdown`",
    1008: "the connection was refused, with the code of the `error` before it; `slow_reader` when the client does "
    "not read; `journal_gap` when missed events are no longer kept",
    1009: "a message of more than 16 MiB",
    1011: "a fault of the server or a model, with its code",
    1013: "there is no place: `resource_exhausted`",
}
