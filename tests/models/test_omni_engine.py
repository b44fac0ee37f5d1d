"""Requests to the real models: a batch, speech in, speech out, and the same through a chat completion."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from duplex_trio.deploy import load_deploy
from duplex_trio.entrypoints.async_omni import Message, OmniRequest, Sampling, Sound
from duplex_trio.entrypoints.omni import Omni
from duplex_trio.models.cascade.pipeline import CascadePipeline
from duplex_trio.models.cascade.settings import LLM
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.speech import SAMPLE_RATE_HZ, Speaker

pytestmark = pytest.mark.models


class _WithEngine(CascadePipeline):
    """The cascade with the language model that all tests share."""

    shared: StageWorker

    def build_worker(self, stage_id: int) -> StageWorker:
        return self.shared if stage_id == LLM else super().build_worker(stage_id)


@pytest.fixture(scope="module")
def omni(llm_worker: StageWorker) -> Iterator[Omni]:
    pipeline = _WithEngine(load_deploy("cascade_cpu"))
    pipeline.shared = llm_worker
    with Omni(pipeline) as omni:
        yield omni


def test_a_batch_of_questions(omni: Omni) -> None:
    questions = ["What is the capital of France?", "Name a fruit.", "Say hello.", "What is the moon?"] * 4
    requests = [
        OmniRequest(question, temperature=0.0, max_output_tokens=12, sampling=Sampling(seed=1))
        for question in questions
    ]
    results = omni.generate(requests)
    assert [result.error for result in results] == [None] * len(questions)
    assert all(result.text and result.usage.output_tokens <= 12 for result in results)
    assert "Paris" in results[0].text
    # Greedy answers to one question are one answer, wherever in the batch it was asked.
    assert {result.text for result in results[0::4]} == {results[0].text}
    assert len({result.text for result in results}) == 4


def test_speech_in_and_speech_out(omni: Omni) -> None:
    said = Speaker().say("What is a good breakfast?")
    earlier = Message("user", Sound(said[::2].copy(), SAMPLE_RATE_HZ // 2))
    request = OmniRequest(
        [earlier, Message("assistant", "Eggs."), Message("user", Sound(said, SAMPLE_RATE_HZ))],
        modalities=["text", "audio"],
        max_output_tokens=24,
    )
    (result,) = omni.generate(request, progress=False)
    assert result.error is None
    assert result.transcript is not None
    assert "breakfast" in result.transcript.lower()
    assert result.text
    seconds = len(result.pcm) / result.sample_rate_hz
    assert 0.3 < seconds < 30
    assert float(np.sqrt(np.mean(result.pcm**2))) > 0.01
    assert {"0", "1", "2"} <= set(result.stages)


def test_a_request_that_does_not_fit_costs_the_others_nothing(omni: Omni) -> None:
    endless = "word " * 200_000
    fits, refused = omni.generate(
        [OmniRequest("Say hello.", max_output_tokens=8), OmniRequest(endless, max_output_tokens=8)]
    )
    assert fits.error is None
    assert fits.text
    assert refused.error is not None
    assert refused.error.code == "context_length_exceeded"
