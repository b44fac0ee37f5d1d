"""What can go wrong in an encoder.

EncoderError                the pictures cannot be made into payloads
└── EncoderUnavailableError  the library, or the codec within it, is not installed
"""

from __future__ import annotations


class EncoderError(Exception):
    """Pictures could not be encoded: the codec refused them, or they are not of the video's size."""


class EncoderUnavailableError(EncoderError):
    """What encodes is not installed. The message says what to install, or which format can be had instead."""
