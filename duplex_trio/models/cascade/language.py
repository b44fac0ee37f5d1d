"""The language model of a cascade: here, in an engine of this server, or on an engine elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from urllib.parse import urlsplit

import attrs

from duplex_trio.deploy.stage import RemoteDeploy, StageDeploy
from duplex_trio.models.cascade.profiles import ChatProfile, profile_for
from duplex_trio.models.cascade.settings import CascadeSettings
from duplex_trio.models.references import resolve_reference
from duplex_trio.protocol.sampling import KNOBS
from duplex_trio.stages.port import Stage
from duplex_trio.stages.remote.facts import RemoteFacts
from duplex_trio.stages.remote.run import RemoteChatStage
from duplex_trio.stages.vllm_chat import ChatTokenizer

ONLY_VLLM = frozenset({"top_k", "min_p", "repetition_penalty"})
"""Knobs that OpenAI's own API does not have."""


class LanguageModel(ABC):
    """The model of one deployment.

    Attributes:
        name: what people know it by.
        profile: how it wants to be told things.
    """

    name: str
    profile: ChatProfile

    @abstractmethod
    def settings(self, voices: tuple[str, ...]) -> CascadeSettings:
        """What the cascade must know of it.

        Args:
            voices: those of the synthesis.
        """


class LocalLanguageModel(LanguageModel):
    """A model whose files are here.

    Args:
        stage: what the deployment says.
        reference: which model.

    Raises:
        ModelReferenceError: it cannot be found.
    """

    def __init__(self, stage: StageDeploy, reference: str) -> None:
        found = resolve_reference(reference, "llm")
        assert found.path is not None
        self.name = found.name
        self.path = str(found.path)
        profile = profile_for(self.name)
        self._tokenizer = ChatTokenizer.from_model(self.path, template=profile.chat_template)
        knows_calls = self._tokenizer.takes_tools
        self.profile = attrs.evolve(
            profile, knows_calls=knows_calls, tags_calls=not knows_calls or self._tokenizer.tags_calls
        )
        self._context_tokens = stage.max_model_len

    def settings(self, voices: tuple[str, ...]) -> CascadeSettings:
        """Its own tokenizer counts."""
        return CascadeSettings(
            profile=self.profile,
            voices=voices,
            context_tokens=self._context_tokens,
            count_tokens=self._tokenizer.count,
            guided=True,
        )


class RemoteLanguageModel(LanguageModel):
    """A model on an engine elsewhere. Its tokenizer is not here, so tokens are estimated.

    Its profile goes by the configured name of the model; the engine tells the name of one that is not configured
    only when it runs.

    Args:
        stage: what the deployment says.
    """

    def __init__(self, stage: StageDeploy) -> None:
        assert stage.remote is not None
        self.remote: RemoteDeploy = stage.remote
        self.name = self.remote.model or urlsplit(self.remote.base_url).netloc
        profile = profile_for(self.name)
        # The engine's chat template is the one in force. Calls are written in tags either way: the model is taught
        # them by the prompt, or the engine reads its calls, and the stage writes them so.
        self.profile = attrs.evolve(profile, knows_calls=self.remote.tool_calls == "native", tags_calls=True)
        self._context_tokens = stage.max_model_len
        self._facts = RemoteFacts()

    def build_stage(self, name: str) -> Stage:
        """Make the stage that asks the engine.

        Args:
            name: what it is called in logs and metrics.

        Raises:
            ValueError: the engine's address, its key or another setting is faulty.
        """
        return RemoteChatStage(name, self.remote, facts=self._facts)

    def settings(self, voices: tuple[str, ...]) -> CascadeSettings:
        """What it can be asked for depends on the engine."""
        vllm = self.remote.flavor == "vllm"
        return CascadeSettings(
            profile=self.profile,
            voices=voices,
            context_tokens=lambda: self._context_tokens or self._facts.context_tokens,
            count_tokens=self._facts.count,
            guided=vllm,
            knobs=KNOBS if vllm else KNOBS - ONLY_VLLM,
        )
