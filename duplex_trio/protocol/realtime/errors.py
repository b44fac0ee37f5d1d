"""Every error a client can be told about, as one exception class and one table of codes.

Owns the code -> error class table and `RealtimeError`. Rendering an error as an event is `events`; when each
code is raised is the business of the code that raises it.

The error tree, by who is at fault and what the client can do:

    RealtimeError
    |- invalid_request_error     the message or its timing is wrong: change it
    |  |- framing                event_too_large, invalid_json, bad_event, unknown_event, bad_audio, ...
    |  |- parameters             invalid_value, unknown_parameter, unsupported_audio_format, ...
    |  |- session                session_closed, model_update_unsupported, cannot_update_voice, ...
    |  |- conversation           item_not_found, item_create_duplicate_item_id, ...
    |  |- response               conversation_already_has_active_response, response_cancel_not_active, ...
    |  |- playback               playback_item_not_found, playback_ack_too_late, ...
    |  `- resume                 invalid_resume_token, session_resume_expired, ...
    |- server_error              a model, a stage or the server failed: the same message may work later
    `- rate_limit_error          a bound was reached: wait, then send again
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from duplex_trio.protocol.refusal import RequestRefused

ErrorClass = Literal["invalid_request_error", "server_error", "rate_limit_error"]

_INVALID_REQUEST = """
    event_too_large invalid_json bad_event unknown_event bad_audio config_timeout invalid_video_frames
    invalid_input_modality invalid_image unsupported multi_api_duplex_unsupported

    invalid_value unknown_parameter unsupported_audio_format unsupported_modality unsupported_turn_detection
    unsupported_native_response_options invalid_duplex_runtime_config invalid_session_config
    invalid_sliding_window_config

    session_exists session_closed unknown_session model_not_found model_update_unsupported
    instructions_update_unsupported cannot_update_voice voice_update_after_audio_unsupported
    voice_update_unsupported persona_update_unsupported ref_audio_update_unsupported ref_audio_required
    unsupported_ref_audio_path sliding_window_update_unsupported unsupported_nemotron_duplex_mode

    missing_item_id item_not_found item_retrieve_invalid_item_id item_create_duplicate_item_id
    duplicate_item_id invalid_function_call_output function_response_backlog

    response_already_active conversation_already_has_active_response response_not_active
    response_cancel_not_active response_create_without_input text_only_turn_unsupported
    input_audio_buffer_empty input_audio_buffer_commit_empty native_text_append_unsupported
    barge_in_unsupported context_length_exceeded

    playback_item_mismatch playback_item_not_found playback_ack_too_late

    invalid_session_resume session_resume_expired unsupported_session_resume invalid_resume_token
    session_resume_conflict invalid_event_ack
"""

_SERVER = """
    internal_error engine_error engine_dead timeout server_vad_unavailable commit_aborted
    session_update_aborted runtime_append_failed runtime_append_task_failed runtime_signal_failed
    runtime_abort_failed
    runtime_data_plane_stream_failed runtime_data_plane_text_without_audio runtime_touch_failed
    runtime_resume_failed realtime_input_failed function_call_invalid nemotron_function_call_parse_error stale_fence
    not_found invalid_argument failed_precondition
"""

_RATE_LIMIT = "resource_exhausted input_backpressure engine_backpressure"

ERROR_CLASSES: Mapping[str, ErrorClass] = MappingProxyType(
    {
        **dict.fromkeys(_INVALID_REQUEST.split(), "invalid_request_error"),
        **dict.fromkeys(_SERVER.split(), "server_error"),
        **dict.fromkeys(_RATE_LIMIT.split(), "rate_limit_error"),
    }
)
"""The error class (`error.type` on the wire) of each code."""


class RealtimeError(RequestRefused):
    """A fault to report to the client as an `error` event; the session stays usable.

    Attributes:
        code: a key of `ERROR_CLASSES`; any other is a programming error.
        message: one sentence for people.
        param: the field at fault as a path in the client's message, such as `item.content[0].text`.
        event_id: the `event_id` of the client message that caused it.
        retryable: whether sending the same again may work; None when unstated.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        event_id: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        assert code in ERROR_CLASSES, f"unknown error code {code!r}"
        super().__init__(code, message, param=param)
        self.event_id = event_id
        self.retryable = retryable

    @classmethod
    def of(cls, refused: RequestRefused) -> RealtimeError:
        """The same refusal as the wire tells it; a code that the wire does not know becomes `invalid_value`."""
        if isinstance(refused, RealtimeError):
            return refused
        code = refused.code if refused.code in ERROR_CLASSES else "invalid_value"
        return cls(code, refused.message, param=refused.param)

    @property
    def error_class(self) -> ErrorClass:
        """What the wire calls `error.type`."""
        return ERROR_CLASSES[self.code]

    def with_event_id(self, event_id: str | None) -> RealtimeError:
        """This error naming the client message that caused it; an id already present is kept."""
        if event_id is None or self.event_id is not None:
            return self
        return RealtimeError(
            self.code, self.message, param=self.param, event_id=event_id, retryable=self.retryable
        )

    def with_param(self, param: str | None) -> RealtimeError:
        """This error at `param`, which replaces the field named so far."""
        return RealtimeError(
            self.code, self.message, param=param, event_id=self.event_id, retryable=self.retryable
        )
