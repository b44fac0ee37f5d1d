"""The skeleton of a diffusion world model for steered video: what goes where, with a tiny random network in its place.

It runs as it stands, on a CPU and without weights, and makes coloured noise. For a real model replace `encode_text`,
`WorldNetwork` and `Decoder` by its own, and keep the session: it holds what has to be right for prompts that change
while a video runs. docs/video-models.md explains it line by line.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from attrs import evolve, frozen
from torch import nn
from torch.nn import functional

from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest, prompt_of
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.worker import SerialWorker, StageWorker

TOKENS, WIDTH = 16, 32
"""Length that prompts are padded to, and values a token; 512 and 4096 for a UMT5."""

LATENT_FRAMES, LATENT_SIDE = 3, 4
"""A chunk in latent space: 3 latent frames of 4x4 places, which the decoder makes 9 frames of."""

CONTEXT_CHUNKS = 2
"""Chunks of the past that a new one attends to."""

DEFAULT_STEPS = 4


# The state of a prompt -----------------------------------------------------------------------------------------------


@frozen(eq=False)
class TextStates:
    """What a prompt is to the model: the text encoder's hidden states, padded to one length so that two can be mixed.

    Attributes:
        hidden: shape (16, 32), float32; zero where there is no token.
        mask: shape (16,), true where there is one.
    """

    hidden: npt.NDArray[np.float32]
    mask: npt.NDArray[np.bool_]


def blend_states(source: TextStates, target: TextStates, alpha: float) -> TextStates:
    """Mix element by element; a place counts as soon as either prompt has a token there."""
    hidden = source.hidden + (target.hidden - source.hidden) * np.float32(alpha)
    return TextStates(hidden, source.mask | target.mask)


def encode_text(text: str) -> TextStates:
    """Stands for a text encoder: each word has random hidden states of its own, the same every time."""
    words = text.lower().split()[:TOKENS]
    hidden = np.zeros((TOKENS, WIDTH), np.float32)
    for place, word in enumerate(words):
        hidden[place] = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(WIDTH)
    return TextStates(hidden, np.arange(TOKENS) < max(1, len(words)))


class TextEncoderWorker(SerialWorker):
    """Stage 0. A large encoder belongs into a stage: a deployment gives it a process, a device and replicas."""

    name = "text_encoder"

    def load(self) -> None:
        """Load weights here, not in the constructor: the worker may be pickled to another process."""

    def process(self, request: StageRequest, state: Any, unit: str) -> Iterator[TextStates]:
        """Encode one prompt."""
        yield encode_text(unit)


# The network ---------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class KeysValues:
    """Keys and values of an attention; shape (tokens, 32) each."""

    keys: torch.Tensor
    values: torch.Tensor


class WorldNetwork(nn.Module):  # type: ignore[misc]  # torch is not read by the type checker
    """Stands for a causal diffusion transformer of one layer: a chunk attends to the past and to the prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.past_keys_values = nn.Linear(WIDTH, 2 * WIDTH)
        self.prompt_keys_values = nn.Linear(WIDTH, 2 * WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.moment = nn.Linear(1, WIDTH)

    def read_prompt(self, state: TextStates) -> KeysValues:
        """Cross-attention's keys and values: of the prompt alone, so they are good for all steps and chunks of it."""
        tokens = torch.from_numpy(state.hidden[state.mask])
        return KeysValues(*self.prompt_keys_values(tokens).chunk(2, dim=-1))

    def read_past(self, latents: torch.Tensor, prompt: KeysValues) -> KeysValues:
        """Self-attention's keys and values of a finished chunk; they depend on the prompt as well."""
        informed = latents + self._attend(self.query(latents), prompt)
        return KeysValues(*self.past_keys_values(informed).chunk(2, dim=-1))

    def forward(
        self, latents: torch.Tensor, moment: float, prompt: KeysValues, past: list[KeysValues]
    ) -> torch.Tensor:
        """The velocity of a chunk's latents, (places, 32), at a moment from 1 (noise) to 0."""
        query = self.query(latents + self.moment(torch.tensor([moment])))
        hidden = self._attend(query, prompt)
        for chunk in past:
            hidden = hidden + self._attend(query, chunk)
        return latents - torch.tanh(self.out(hidden))

    def _attend(self, query: torch.Tensor, to: KeysValues) -> torch.Tensor:
        return functional.scaled_dot_product_attention(query[None], to.keys[None], to.values[None])[0]


class Decoder(nn.Module):  # type: ignore[misc]
    """Stands for the decoder of a causal VAE: three frames from a latent frame."""

    def __init__(self) -> None:
        super().__init__()
        self.colours = nn.Linear(WIDTH, 9)

    def forward(self, latents: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Frames of a chunk: (places, 32) to (9, height, width, 3), uint8."""
        places = torch.sigmoid(self.colours(latents)).view(LATENT_FRAMES, LATENT_SIDE, LATENT_SIDE, 3, 3)
        frames = places.permute(0, 3, 4, 1, 2).reshape(3 * LATENT_FRAMES, 3, LATENT_SIDE, LATENT_SIDE)
        large = functional.interpolate(frames, (height, width), mode="bilinear")
        return (large.permute(0, 2, 3, 1) * 255.0).to(torch.uint8)


# One video -----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Caches:
    """What is kept from chunk to chunk.

    Attributes:
        version: of the prompt; grows with every other one. Keys of batch caches and CUDA graphs include it.
        prompt: cross-attention's keys and values of that version; None once they are void.
        past: self-attention's of the last chunks, the oldest first.
        latents: of the same chunks; what `past` is computed from anew.
    """

    version: int = 0
    prompt: KeysValues | None = None
    past: tuple[KeysValues, ...] = ()
    latents: tuple[torch.Tensor, ...] = ()


class WorldSession(VideoModelSession):
    """One video. `encode_interaction` runs while `render_chunk` does, in another thread, and shares nothing with it."""

    def __init__(
        self, request: VideoRequest, stages: StageCaller, network: WorldNetwork, decoder: Decoder
    ) -> None:
        self._stages = stages
        self._network = network
        self._decoder = decoder
        self._size = (request.height, request.width)
        self._steps = request.num_inference_steps or DEFAULT_STEPS
        self._noise = torch.Generator().manual_seed(request.seed)
        self.caches = Caches()

    def encode_interaction(self, event: OmniInteractionEvent) -> TextStates:
        """Refuse what the model does not know; the sender is told, and the video goes on."""
        (state,) = self._stages.call(0, prompt_of(event, "The model"))
        assert isinstance(state, TextStates)
        return state

    def blend(self, source: TextStates, target: TextStates, alpha: float) -> TextStates:
        """Called before a chunk's first step and never within its steps."""
        return blend_states(source, target, alpha)

    def render_chunk(
        self,
        index: int,
        state: TextStates,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterator[Frame]:
        """Denoise a chunk under one state of the prompt, remember it, and decode it."""
        with torch.inference_mode():
            prompt = self._prompt(state, changed)
            if hard:
                self._read_past_anew(prompt)
            latents = self._denoise(prompt, cancelled)
            if latents is None:
                return
            self._remember(latents, prompt)
            frames = self._decoder(latents, *self._size)[:n_frames].numpy()
        yield from frames

    def _prompt(self, state: TextStates, changed: bool) -> KeysValues:
        """Another state voids what was computed of the last one, also where it moved by one step of a transition."""
        if changed:
            self.caches = evolve(self.caches, version=self.caches.version + 1, prompt=None)
        prompt = self.caches.prompt
        if prompt is None:
            prompt = self._network.read_prompt(state)
            self.caches = evolve(self.caches, prompt=prompt)
        return prompt

    def _read_past_anew(self, prompt: KeysValues) -> None:
        """A hard update is to be seen at once, but the cached past still says the old prompt: read it anew.

        In a transition of several chunks the past is left as it is: it leaves the context by itself, and the model
        moves on smoothly from what was seen.
        """
        past = tuple(self._network.read_past(latents, prompt) for latents in self.caches.latents)
        self.caches = evolve(self.caches, past=past)

    def _denoise(self, prompt: KeysValues, cancelled: Callable[[], bool]) -> torch.Tensor | None:
        places = LATENT_FRAMES * LATENT_SIDE * LATENT_SIDE
        latents = torch.randn(places, WIDTH, generator=self._noise)
        for step in range(self._steps):
            if cancelled():  # a step of a real model takes tens of milliseconds, a chunk most of a second
                return None
            moment = 1.0 - step / self._steps
            velocity = self._network(latents, moment, prompt, list(self.caches.past))
            latents = latents - velocity / self._steps
        return latents

    def _remember(self, latents: torch.Tensor, prompt: KeysValues) -> None:
        """Only whole chunks are remembered: one that was cancelled leaves no trace."""
        past = (*self.caches.past, self._network.read_past(latents, prompt))
        self.caches = evolve(
            self.caches,
            past=past[-CONTEXT_CHUNKS:],
            latents=(*self.caches.latents, latents)[-CONTEXT_CHUNKS:],
        )

    def close(self) -> None:
        """Give the memory of the device back now, not when the session happens to be collected."""
        self.caches = Caches()


# The model -----------------------------------------------------------------------------------------------------------


class WorldPlugin(VideoModelPlugin):
    """The model of one engine: weights that all of its videos share."""

    def __init__(self) -> None:
        self._network: WorldNetwork | None = None
        self._decoder: Decoder | None = None

    @property
    def capabilities(self) -> VideoCapabilities:
        """What requests are held to; a GPU that has room for one video says so."""
        return VideoCapabilities(
            native_fps=16.0,
            chunk_frames=3 * LATENT_FRAMES,
            default_width=128,
            default_height=128,
            side_multiple=16,
            default_transition_chunks=3,
            start_fields=frozenset({"num_inference_steps"}),
            max_sessions=1,
        )

    def load(self) -> None:
        """Load the weights, compile, and run once. Here they are random."""
        torch.manual_seed(0)
        self._network = WorldNetwork().eval().requires_grad_(False)
        self._decoder = Decoder().eval().requires_grad_(False)

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        """Begin a video."""
        assert self._network is not None
        assert self._decoder is not None
        if request.num_inference_steps is not None and request.num_inference_steps > 8:
            raise ValueError("num_inference_steps must be 8 or less: the model is distilled")
        return WorldSession(request, stages, self._network, self._decoder)

    def close(self) -> None:
        """Release the weights."""
        self._network = self._decoder = None


class WorldPipeline(Pipeline):
    """The declaration: one stage for prompts, and the plugin that makes video."""

    config = PipelineConfig(
        name="world_model",
        stages=(StageSpec(stage_id=0, name="text_encoder", loads_model=False, final_output="prompt_state"),),
        video_plugin=f"{__name__}:plugin_of",
        default_session_mode="video",
    )

    def model_name(self) -> str:
        """The name that clients may ask for."""
        return "world-model"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the stage's runtime."""
        return TextEncoderWorker()


def plugin_of(pipeline: Pipeline) -> WorldPlugin:
    """Make the plugin of the pipeline."""
    return WorldPlugin()
