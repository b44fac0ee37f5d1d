import pytest

from duplex_trio.protocol.duplex import ERROR_CLASSES, ErrorEvent, RealtimeError

# wire.md 5.2 and 5.3 with our classes, README D5, engine.md 10.9.
SERVER = """internal_error runtime_append_failed runtime_append_task_failed runtime_signal_failed
    runtime_abort_failed runtime_data_plane_stream_failed runtime_data_plane_text_without_audio
    runtime_touch_failed engine_error server_vad_unavailable commit_aborted runtime_resume_failed
    realtime_input_failed session_update_aborted timeout engine_dead stale_fence not_found invalid_argument
    failed_precondition"""
RATE_LIMIT = "resource_exhausted input_backpressure engine_backpressure"
INVALID = """bad_event bad_audio config_timeout invalid_json event_too_large unknown_event session_exists
    session_closed unknown_session invalid_duplex_runtime_config instructions_update_unsupported
    model_update_unsupported voice_update_after_audio_unsupported ref_audio_update_unsupported
    persona_update_unsupported voice_update_unsupported unsupported_nemotron_duplex_mode
    unsupported_native_response_options response_already_active response_not_active
    response_create_without_input text_only_turn_unsupported input_audio_buffer_empty missing_item_id
    item_not_found playback_item_mismatch playback_item_not_found playback_ack_too_late
    unsupported_audio_format unsupported_turn_detection unsupported_ref_audio_path ref_audio_required
    native_text_append_unsupported invalid_video_frames invalid_input_modality invalid_function_call_output
    invalid_session_resume session_resume_expired unsupported_session_resume invalid_resume_token
    session_resume_conflict invalid_event_ack barge_in_unsupported invalid_image unsupported
    invalid_sliding_window_config sliding_window_update_unsupported function_response_backlog
    unsupported_modality duplicate_item_id model_not_found response_cancel_not_active
    conversation_already_has_active_response input_audio_buffer_commit_empty item_retrieve_invalid_item_id
    item_create_duplicate_item_id cannot_update_voice unknown_parameter invalid_value"""


@pytest.mark.parametrize(
    ("codes", "error_class"),
    [(INVALID, "invalid_request_error"), (SERVER, "server_error"), (RATE_LIMIT, "rate_limit_error")],
)
def test_each_code_has_its_class(codes, error_class):
    assert {code: ERROR_CLASSES.get(code) for code in codes.split()} == dict.fromkeys(
        codes.split(), error_class
    )


def test_an_unknown_code_is_a_programming_error():
    with pytest.raises(AssertionError):
        RealtimeError("no_such_code", "x")


def test_an_event_id_is_added_once():
    error = RealtimeError("bad_event", "x", param="audio", retryable=False)
    named = error.with_event_id("first")
    assert (named.code, named.message, named.param, named.event_id, named.retryable) == (
        "bad_event",
        "x",
        "audio",
        "first",
        False,
    )
    assert error.event_id is None
    assert named.with_event_id("second") is named
    assert error.with_event_id(None) is error


def test_a_path_is_replaced():
    error = RealtimeError("bad_event", "x", param="text", event_id="mine").with_param("item.text")
    assert (error.param, error.event_id) == ("item.text", "mine")


def test_as_an_event():
    event = ErrorEvent.from_error(RealtimeError("engine_dead", "x", retryable=True), event_id="e")
    assert event.event_id == "e"
    assert event.error.type == "server_error"
    assert event.duplex is not None
    assert event.duplex.retryable is True
    assert ErrorEvent.from_error(RealtimeError("engine_dead", "x")).duplex is None


def test_text_for_logs():
    assert str(RealtimeError("bad_event", "expected an object")) == "bad_event: expected an object"
