"""Glyph-flow: a small text-conditioned flow-matching network that recalls emoji glyphs, as a model of video.

It is a real diffusion sampler at the size of a toy: 32x32 pixels, a few million parameters, trained by `train` on the
glyphs of one font. It recalls what it was trained on and mixes it; it is no model of scenes.
"""
