"""The training data: glyphs of a colour emoji font as small pictures, or generated shapes where there is no font."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.models.glyph_flow.captions import SEQUENCES, caption_of

FONT_PATHS = (
    "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",
    "/usr/share/fonts/noto/NotoColorEmoji.ttf",
    "/usr/share/fonts/google-noto-emoji/NotoColorEmoji.ttf",
    "/usr/share/fonts/noto-emoji/NotoColorEmoji.ttf",
    "~/.local/share/fonts/NotoColorEmoji.ttf",
)
"""Where distributions put Noto Colour Emoji."""

FONT_ADVICE = (
    "Noto Colour Emoji (with bitmaps, SIL Open Font License 1.1) was not found. Install it, such as with "
    "`apt install fonts-noto-color-emoji`, or name its file with --font"
)
BITMAP_SIZE = 109
"""The one size, in pixels, of the font's bitmaps (its CBDT table has a single strike)."""

SOURCE_SIDE = 64
"""Side in pixels of a glyph as it is kept for training; augmented, it is reduced to the network's side."""

_CELL = (136, 128)
_BLOCKS = ((0x203C, 0x3300), (0x1F300, 0x1FB00))
"""Where Unicode has its emoji: miscellaneous symbols of the first plane, pictographs of the second one."""

Glyphs = npt.NDArray[np.float32]


@frozen(eq=False)
class GlyphSet:
    """Pictures with their captions.

    Attributes:
        captions: one for each picture, all different.
        pictures: shape (count, 4, side, side) in [-1, 1]: red, green and blue over white, and the opacity.
        source: where they come from, for the model card.
        licence: under which they may be used.
        sha256: of the font; empty for generated ones.
    """

    captions: tuple[str, ...]
    pictures: Glyphs
    source: str
    licence: str
    sha256: str = ""


class FontMissingError(Exception):
    """There is no usable font; the message says where to get one."""


def find_font(named: str | None = None) -> Path:
    """The font's file.

    Raises:
        FontMissingError: it is not where it was said to be, or not in any usual place.
    """
    for path in (named,) if named else FONT_PATHS:
        found = Path(path).expanduser()
        if found.is_file():
            return found
    raise FontMissingError(f"no such font: {named}" if named else FONT_ADVICE)


def font_glyphs(font: Path, *, limit: int | None = None) -> GlyphSet:
    """Render the glyphs of a font that have a caption, in the order of their code points.

    Args:
        font: the file.
        limit: take only so many.

    Raises:
        FontMissingError: it cannot be read as a font with bitmaps of 109 pixels.
    """
    from PIL import Image, ImageDraw, ImageFont

    try:
        face = ImageFont.truetype(str(font), BITMAP_SIZE)
    except OSError as error:
        raise FontMissingError(f"{font} is not a colour font with bitmaps: {error}. {FONT_ADVICE}") from error
    single = (chr(code) for first, end in _BLOCKS for code in range(first, end))
    captions: dict[str, Glyphs] = {}
    for glyph in (*single, *SEQUENCES):
        if limit is not None and len(captions) >= limit:
            break
        caption = caption_of(glyph)
        if caption is None or caption in captions:
            continue
        if len(glyph) > 1 and face.getlength(glyph) > _CELL[0]:
            continue  # this layout engine does not join sequences: it would be two pictures side by side
        image = Image.new("RGBA", _CELL, (0, 0, 0, 0))
        ImageDraw.Draw(image).text((0, 0), glyph, font=face, embedded_color=True)
        if image.getbbox() is not None:
            captions[caption] = _picture(image)
    return GlyphSet(
        tuple(captions),
        np.stack(list(captions.values())),
        "Noto Colour Emoji",
        "SIL Open Font License 1.1",
        hashlib.sha256(font.read_bytes()).hexdigest(),
    )


def _picture(image: object) -> Glyphs:
    """A glyph, centred by its own box, over white; shape (4, 64, 64)."""
    from PIL import Image

    assert isinstance(image, Image.Image)
    box = image.getbbox()
    assert box is not None
    glyph = image.crop(box)
    side = max(*glyph.size, 96)  # what is drawn small stays smaller than the others
    square = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    square.paste(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    small = np.asarray(square.convert("RGBa").resize((SOURCE_SIDE, SOURCE_SIDE), Image.Resampling.LANCZOS))
    scaled = small.astype(np.float32) / 255.0
    colour, opacity = scaled[..., :3], scaled[..., 3:]
    over_white = colour + (1.0 - opacity)
    joined = np.concatenate([over_white, opacity], axis=-1).transpose(2, 0, 1)
    return np.ascontiguousarray(joined * np.float32(2.0) - np.float32(1.0))


_COLOURS = {"red": (220, 40, 40), "green": (50, 170, 70), "blue": (50, 90, 220), "yellow": (240, 200, 40)}
_SHAPES = ("circle", "square", "triangle", "ring")


def generated_glyphs(limit: int | None = None) -> GlyphSet:
    """Sixteen coloured shapes, drawn by formula, to try the training without a font."""
    axis = (np.arange(SOURCE_SIDE, dtype=np.float32) + 0.5) / SOURCE_SIDE * 2.0 - 1.0
    y, x = np.meshgrid(axis, axis, indexing="ij")
    radius = np.hypot(x, y)
    inside = {
        "circle": radius < 0.8,
        "square": np.maximum(abs(x), abs(y)) < 0.75,
        "triangle": (y < 0.7) & (y > 2.0 * abs(x) - 0.8),
        "ring": (radius < 0.85) & (radius > 0.5),
    }
    captions, pictures = [], []
    for colour, rgb in _COLOURS.items():
        for shape in _SHAPES:
            opacity = inside[shape].astype(np.float32)[None]
            ink = np.asarray(rgb, np.float32)[:, None, None] / 255.0
            pictures.append(np.concatenate([ink * opacity + (1.0 - opacity), opacity]) * 2.0 - 1.0)
            captions.append(f"{colour} {shape}")
    return GlyphSet(tuple(captions[:limit]), np.stack(pictures[:limit]), "generated shapes", "Apache-2.0")
