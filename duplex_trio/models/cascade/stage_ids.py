"""The stages of the cascade by number."""

ASR, LLM, TTS = 0, 1, 2
