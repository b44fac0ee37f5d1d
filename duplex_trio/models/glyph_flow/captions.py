"""What a glyph is called: the words that a text encoder reads for it."""

from __future__ import annotations

import re
import unicodedata

_LEFT_OUT = re.compile(
    r"^(REGIONAL INDICATOR|EMOJI (MODIFIER|COMPONENT)|(NEGATIVE )?SQUARED |CIRCLED |INPUT SYMBOL|COMBINING "
    r"|CLOCK FACE .*THIRTY|.*\bARROWS?\b|.*-POINTING DOUBLE|.*\bSMALL (SQUARE|ORANGE|BLUE|RED)\b"
    r"|HEAVY (MULTIPLICATION|DIVISION|MINUS|PLUS|EQUALS)|KEYCAP|.*(RIGHTWARDS|LEFTWARDS)|WAVY DASH|PART ALTERNATION)"
)
"""Names of symbols, letters and parts of sequences: pictures of nothing that a prompt would ask for."""

_NOISE_WORDS = re.compile(
    r"\b(SYMBOL|SIGN|ORNAMENT|HEAVY|MEDIUM|LARGE|BLACK|WHITE|EMBLEM|FRONT-FACING|UP POINTING|BACKHAND)\b"
)
"""Words that tell one code point from another one and say nothing of the picture (a black sun is yellow)."""

_KEPT = frozenset(
    {"BLACK HEART", "WHITE HEART", "BLACK LARGE SQUARE", "WHITE LARGE SQUARE", "WAVING WHITE FLAG"}
    | {
        "WAVING BLACK FLAG",
        "WHITE FLOWER",
        "BLACK NIB",
        "LARGE RED CIRCLE",
        "LARGE BLUE CIRCLE",
        "CONSTRUCTION SIGN",
    }
    | {"MEDIUM WHITE CIRCLE", "MEDIUM BLACK CIRCLE"}
)
"""Names in which such a word does say something."""

SEQUENCES: dict[str, str] = {
    "\U0001f43b\u200d\u2744\ufe0f": "polar bear",
    "\U0001f408\u200d\u2b1b": "black cat",
    "\U0001f3f4\u200d\u2620\ufe0f": "pirate flag",
    "\u2764\ufe0f\u200d\U0001f525": "burning heart",
    "\U0001f3f3\ufe0f\u200d\U0001f308": "rainbow flag",
    "\U0001f469\u200d\U0001f680": "astronaut",
    "\U0001f9d1\u200d\U0001f692": "firefighter",
    "\U0001f9d1\u200d\U0001f373": "cook",
    "\U0001f9d1\u200d\U0001f33e": "farmer",
    "\U0001f9d1\u200d\U0001f3a8": "painter",
}
"""Pictures of several code points, which have no name of their own in Unicode."""

ALIASES: dict[str, tuple[str, ...]] = {
    "water wave": ("ocean waves", "the sea", "a surfing wave"),
    "automobile": ("a car", "a red car"),
    "izakaya lantern": ("a red paper lantern", "warm lanterns"),
    "night with stars": ("a starry night over a city", "city at night"),
    "snow capped mountain": ("snowy mountains", "a mountain peak with snow"),
    "snowflake": ("snow", "a snowy winter day"),
    "cloud with snow": ("falling snow", "a snowy street"),
    "cloud with rain": ("rain", "rainy weather"),
    "thunder cloud and rain": ("a thunderstorm", "a stormy sky"),
    "evergreen tree": ("a pine tree in a forest", "a forest"),
    "deciduous tree": ("a tree", "a green tree in summer"),
    "palm tree": ("a tropical palm",),
    "beach with umbrella": ("a tropical beach", "a sunny beach at noon"),
    "desert": ("sand dunes in the desert", "dunes"),
    "volcano": ("an erupting volcano with lava", "volcano at night"),
    "milky way": ("a galaxy", "stars in outer space"),
    "rocket": ("a rocket flying into space", "a spaceship"),
    "flying saucer": ("a ufo",),
    "full moon": ("the moon in the night sky",),
    "sun with rays": ("the sun", "sunshine", "a sunny day"),
    "sunrise": ("sunrise over the ocean", "dawn"),
    "sunset over buildings": ("sunset", "a city at sunset"),
    "cityscape": ("skyscrapers", "a city skyline"),
    "foggy": ("fog", "a foggy bridge"),
    "bridge at night": ("a bridge over a river at night",),
    "fire": ("flames", "a campfire"),
    "house with garden": ("a house", "a cottage"),
    "dog face": ("a dog", "a puppy"),
    "cat face": ("a cat", "a kitten"),
    "bear face": ("a bear",),
    "fox face": ("a fox",),
    "lion face": ("a lion",),
    "frog face": ("a frog",),
    "wolf face": ("a wolf",),
    "horse face": ("a horse's head",),
    "unicorn face": ("a unicorn",),
    "honeybee": ("a bee",),
    "jack-o-lantern": ("a halloween pumpkin", "a carved pumpkin"),
    "smiling face with open mouth": ("a smiley", "a happy face"),
    "crying face": ("a sad face",),
    "robot face": ("a robot",),
    "heart": ("a red heart", "love"),
    "hot beverage": ("a cup of coffee", "a cup of tea"),
    "slice of pizza": ("pizza",),
    "spouting whale": ("a whale",),
    "sauropod": ("a dinosaur",),
    "cherry blossom": ("cherry blossoms in spring",),
    "maple leaf": ("autumn leaves",),
    "wrapped present": ("a gift",),
    "personal computer": ("a laptop computer",),
    "european castle": ("a castle",),
    "earth globe americas": ("the planet earth",),
    "ringed planet": ("the planet saturn",),
    "coral": ("a coral reef under water",),
    "aubergine": ("an eggplant",),
    "soccer ball": ("a football",),
    "steam locomotive": ("an old steam train",),
    "cloud with lightning": ("lightning",),
}
"""Other ways to say it, for pictures that people ask for in other words than Unicode's."""

TEMPLATES = ("{}", "a {}", "a picture of a {}", "{} emoji")
"""How a prompt may put it."""


def caption_of(glyph: str) -> str | None:
    """The cleaned name of a glyph, in lower case; None for one that shows nothing nameable."""
    if len(glyph) > 1:
        return SEQUENCES.get(glyph)
    name = unicodedata.name(glyph, "")
    if not name or _LEFT_OUT.match(name):
        return None
    if name not in _KEPT:
        name = _NOISE_WORDS.sub("", name)
    name = re.sub(r"(?<=[A-Z])S (?=(HAT|CLOTHES|SHOE|SANDAL|BOOTS)\b)", "'S ", name)
    return " ".join(name.lower().split()) or None


def phrasings(caption: str) -> tuple[str, ...]:
    """All prompts that stand for a caption in training; the caption itself is the first."""
    return tuple(template.format(caption) for template in TEMPLATES) + ALIASES.get(caption, ())
