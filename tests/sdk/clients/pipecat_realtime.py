"""A pipecat pipeline around its OpenAI realtime service, which is set up in no way but for its address and a tool.

Usage: pipecat_realtime.py WS_URL
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from loguru import logger
from parts import (
    API_KEY,
    GREETING,
    LAST,
    LONG,
    SPEECH_FOLDER,
    TOOL,
    Heard,
    Microphone,
    report,
    speech,
    weather,
)
from pipecat.adapters.schemas.function_schema import FunctionSchema
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    FunctionCallResultFrame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMMessagesAppendFrame,
    LLMRunFrame,
    OutputAudioRawFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000


class Loudspeaker(BaseOutputTransport):
    """Plays in real time, into nothing."""

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        await asyncio.sleep(len(frame.audio) / 2 / frame.sample_rate)
        return True


class Spectator(BaseObserver):
    """Hears what the service pushes into the pipeline, and what the pipeline does to it."""

    def __init__(self, service: OpenAIRealtimeLLMService) -> None:
        super().__init__()
        self._service = service
        self.heard = Heard()

    async def on_push_frame(self, data: FramePushed) -> None:
        frame = data.frame
        if isinstance(frame, ErrorFrame):
            self.heard.fail(frame.error)
        if data.source is self._service:
            self.heard.add(frame)

    async def next(self, kind: type[Frame]) -> Any:
        return await self.heard.next(lambda frame: isinstance(frame, kind), kind.__name__)

    async def answer(self) -> dict[str, Any]:
        """The next answer's words, and how much sound it has."""
        frames = await self.heard.until(lambda frame: isinstance(frame, TTSStoppedFrame), "end of an answer")
        sound = sum(len(frame.audio) for frame in frames if isinstance(frame, TTSAudioRawFrame))
        words = [frame.text for frame in frames if isinstance(frame, TTSTextFrame)]
        return {"answer": "".join(words), "bytes": sound}


async def get_weather(params: FunctionCallParams) -> None:
    await params.result_callback(weather(**params.arguments))


async def main(ws_url: str) -> None:
    service = OpenAIRealtimeLLMService(api_key=API_KEY, base_url=ws_url)
    service.register_function("get_weather", get_weather)
    tool = FunctionSchema(
        name=TOOL["name"],
        description=TOOL["description"],
        properties=TOOL["parameters"]["properties"],
        required=TOOL["parameters"]["required"],
    )
    context = LLMContext(
        [{"role": "developer", "content": GREETING}], ToolsSchema([tool] if SPEECH_FOLDER is None else [])
    )
    user, assistant = LLMContextAggregatorPair(context)
    loudspeaker = Loudspeaker(TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE_HZ))
    spectator = Spectator(service)
    worker = PipelineWorker(
        Pipeline([user, service, loudspeaker, assistant]),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
        observers=[spectator],
    )
    runner = WorkerRunner(handle_sigint=False)
    running = asyncio.create_task(runner.run(worker))
    talking = asyncio.create_task(talk(worker, service, spectator))
    await asyncio.wait([running, talking], return_when=asyncio.FIRST_COMPLETED)
    if not talking.done():
        raise RuntimeError("the pipeline ended by itself")
    await worker.cancel()
    await running
    talking.result()


async def real_speech(spectator: Spectator, microphone: Microphone) -> None:
    """A question, a cut into its answer, and the first sound of the next one."""
    microphone.say(speech("question", 1.0))
    heard = await spectator.next(TranscriptionFrame)
    await spectator.next(TTSAudioRawFrame)
    microphone.say(speech("stop", 0.6))
    await spectator.next(InterruptionFrame)
    cut = await spectator.next(TranscriptionFrame)
    await spectator.next(TTSAudioRawFrame)
    report("real", heard=[heard.text, cut.text])


async def talk(worker: PipelineWorker, service: OpenAIRealtimeLLMService, spectator: Spectator) -> None:
    async def send(pcm: bytes) -> None:
        await worker.queue_frame(InputAudioRawFrame(audio=pcm, sample_rate=RATE_HZ, num_channels=1))

    async def write(text: str) -> None:
        # Behind the user aggregator, which would only note it: the service sends it, and asks for an answer.
        message = {"role": "user", "content": text}
        await service.queue_frame(LLMMessagesAppendFrame([message], run_llm=True))

    if SPEECH_FOLDER is not None:
        async with Microphone(send).on() as microphone:
            await real_speech(spectator, microphone)
        return
    await worker.queue_frame(LLMRunFrame())
    report("text", **await spectator.answer())
    async with Microphone(send).on() as microphone:
        microphone.say(speech("question", 1.0))
        heard = await spectator.next(TranscriptionFrame)
        report("speech", heard=heard.text, **await spectator.answer())
        await write(LONG)
        await spectator.next(TTSAudioRawFrame)
        microphone.say(speech("stop", 0.6))
        await spectator.next(InterruptionFrame)
        await spectator.next(TranscriptionFrame)
        report("interruption", **await spectator.answer())
        for name in ("tool", "tool_said"):
            microphone.say(speech("weather", 0.6))
            called = await spectator.next(FunctionCallResultFrame)
            answer = await spectator.answer()
            while "sunny" not in answer["answer"]:  # what was said before the call
                answer = await spectator.answer()
            report(name, arguments=called.arguments, **answer)
    await write(LAST)
    report("last", **await spectator.answer())


logger.remove()
logger.add(sys.stderr, level="DEBUG")
asyncio.run(main(sys.argv[1]))
