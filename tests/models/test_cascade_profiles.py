"""Which profile a language model gets, and what a deployment may change about it."""

from __future__ import annotations

import pytest

from duplex_trio.models.cascade.profiles import ChatProfile, profile_for, with_sampling


@pytest.mark.parametrize(
    "name",
    ["smollm2-135m", "SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-360M-Instruct", "/models/smollm2-135m/"],
)
def test_small_models_are_known_by_name(name: str) -> None:
    """By the last part of a reference or a path, in any case: no system role, few messages, short answers."""
    profile = profile_for(name)
    assert not profile.system_role
    assert profile.history_messages_max < ChatProfile().history_messages_max
    assert profile.sentences_max is not None


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-1.5B-Instruct", "llama", ""])
def test_other_models_get_the_general_profile(name: str) -> None:
    """They are told that they are heard, not read."""
    assert profile_for(name) == ChatProfile()
    assert "spoken" in (ChatProfile().default_instructions or "")


def test_a_deployment_sets_the_sampling() -> None:
    """Its values replace the profile's; the rest stays."""
    profile = with_sampling(ChatProfile(), {"temperature": 0.0, "max_tokens": 64, "seed": 7})
    assert (profile.temperature, profile.max_tokens) == (0.0, 64)
    assert profile.top_p == ChatProfile().top_p
