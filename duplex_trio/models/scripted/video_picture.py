"""The pictures of the scripted video model: they say which chunk and frame they are, and what they were rendered from.

The upper half is a grid of four rows of eight cells, black for 0 and white for 1, the highest bit first: two rows for
the chunk, two for the frame since the start of the video. The lower half is one colour: the state of the prompt. At
64x64 a cell has 8x8 pixels, so that all of it outlives lossy coding.
"""

from __future__ import annotations

import zlib
from colorsys import hsv_to_rgb

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.plugin.video.plugin import Frame

Colour = npt.NDArray[np.float32]
"""Red, green and blue in 0..255, shape (3,): the state of a prompt, and mixtures of such."""

COLUMNS, ROWS = 8, 8
NUMBER_BITS = 16
NAMED_COLOURS = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "red": (220, 30, 30),
    "green": (30, 200, 30),
    "blue": (30, 30, 220),
    "yellow": (220, 220, 30),
    "cyan": (30, 220, 220),
    "magenta": (220, 30, 220),
    "orange": (230, 130, 20),
    "grey": (128, 128, 128),
}


@frozen(eq=False)
class ScriptedPicture:
    """What a picture says.

    Attributes:
        chunk: the chunk that it was rendered in, modulo 65,536.
        frame: its number since the start of the video, modulo 65,536.
        colour: the state of the prompt.
    """

    chunk: int
    frame: int
    colour: Colour


def colour_of(text: str) -> Colour:
    """The state of a prompt: the first colour that it names, or one that is made of its letters."""
    for word in text.lower().replace(",", " ").split():
        if word in NAMED_COLOURS:
            return np.array(NAMED_COLOURS[word], np.float32)
    hue = zlib.crc32(text.encode("utf-8", "surrogatepass")) / 2**32
    return np.array([255 * part for part in hsv_to_rgb(hue, 0.8, 0.9)], np.float32)


def draw(picture: ScriptedPicture, width: int, height: int) -> Frame:
    """Draw a picture of `width` x `height` pixels, 64 of each at least."""
    frame = np.empty((height, width, 3), np.uint8)
    frame[height // 2 :] = np.clip(np.rint(picture.colour), 0, 255).astype(np.uint8)
    bits = _bits(picture.chunk) + _bits(picture.frame)
    for cell, bit in enumerate(bits):
        frame[_cell(cell, width, height)] = 255 * bit
    return frame


def read_picture(frame: Frame) -> ScriptedPicture:
    """Read a picture, also after it has been coded: numbers are right, colours to about 5 of 255."""
    height, width = frame.shape[:2]
    bits = [
        int(_middle(frame[_cell(cell, width, height)]).mean() > 127) for cell in range(COLUMNS * ROWS // 2)
    ]
    colour = _middle(frame[height // 2 :]).reshape(-1, 3).mean(axis=0).astype(np.float32)
    return ScriptedPicture(_number(bits[:NUMBER_BITS]), _number(bits[NUMBER_BITS:]), colour)


def _cell(number: int, width: int, height: int) -> tuple[slice, slice]:
    row, column = divmod(number, COLUMNS)
    return (
        slice(row * height // ROWS, (row + 1) * height // ROWS),
        slice(column * width // COLUMNS, (column + 1) * width // COLUMNS),
    )


def _middle(part: Frame) -> Frame:
    height, width = part.shape[:2]
    return part[height // 4 : height - height // 4, width // 4 : width - width // 4]


def _bits(number: int) -> list[int]:
    return [number >> place & 1 for place in reversed(range(NUMBER_BITS))]


def _number(bits: list[int]) -> int:
    return int("".join(map(str, bits)), 2)
