import pytest

from duplex_trio.protocol.duplex import AppendHints


@pytest.mark.parametrize(
    ("hints", "speech"),
    [
        ({}, None),
        ({"is_speech": False, "vad": {"is_speech": True}, "speech_probability": 1.0}, False),
        ({"vad": {"is_speech": True}, "speech_probability": 0.0}, True),
        ({"vad": {"speech_probability": 0.5}}, True),
        ({"vad": {"probability": 0.49}, "speech_probability": 1.0}, False),
        ({"vad": {"is_speech": "yes", "probability": True}, "speech_probability": 0.5}, True),
        ({"vad": {}}, None),
        ({"speech_probability": 0.49}, False),
    ],
)
def test_the_most_explicit_statement_about_speech_counts(hints, speech):
    assert AppendHints(**hints).stated_speech is speech


@pytest.mark.parametrize(
    ("words", "intent"),
    [
        (("barge_in", "interrupt", "cancel", " Cancel "), "barge_in"),
        (("listen", "continue", "ack"), "listen"),
        (("drop", "ignore", "silence"), "drop"),
        ((None, "", "whatever"), None),
    ],
)
def test_overlap_words(words, intent):
    assert {AppendHints(overlap_action=word).overlap_intent for word in words} == {intent}
