"""Reads numbers out: amounts of money, dates, times, measures, ordinals, years, fractions and plain numbers
become words.

Owns how English speakers say them; the words of a number are num2words'. Takes text without markup, leaves no
digit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_N = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"
_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])"
_YEAR = r"(?P<year>\d{4})"
_HALF_DAY = r"(?:\s?(?P<half>[AaPp](?:\.[Mm]\b(?:\.(?!\s*$))?|[Mm]\b)))"
_SCALES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_SCALE = r"(?P<scale>\s(?:hundred|thousand|million|billion|trillion)\b|\s?(?:[kKmMbBtT]|bn)\b)?"

_CURRENCIES = {
    "$": ("dollar", "cent"),
    "\u20ac": ("euro", "cent"),
    "\u00a3": ("pound", "penny"),
    "\u00a5": ("yen", ""),
    "\u20b9": ("rupee", "paisa"),
}
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
_MONTH = "(?P<month>" + "|".join(f"{name}|{name[:3]}" for name in _MONTHS) + r"|Sept)\b\.?"
_UNITS = {
    "km/h": "kilometer per hour", "m/s": "meter per second", "kph": "kilometer per hour", "mph": "mile per hour",
    "km": "kilometer", "cm": "centimeter", "mm": "millimeter", "nm": "nanometer", "m": "meter", "mi": "mile",
    "ft": "foot", "yd": "yard", "kg": "kilogram", "mg": "milligram", "g": "gram", "lb": "pound", "lbs": "pound",
    "oz": "ounce", "ml": "milliliter", "mL": "milliliter", "l": "liter", "L": "liter", "tsp": "teaspoon",
    "tbsp": "tablespoon", "kcal": "kilocalorie", "cal": "calorie", "KB": "kilobyte", "kB": "kilobyte", "MB": "megabyte",
    "GB": "gigabyte", "TB": "terabyte", "Mbps": "megabit per second", "Hz": "hertz", "kHz": "kilohertz",
    "MHz": "megahertz", "GHz": "gigahertz", "ms": "millisecond", "s": "second", "sec": "second", "min": "minute",
    "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "W": "watt", "kW": "kilowatt", "kWh": "kilowatt hour",
    "V": "volt", "mAh": "milliampere hour", "\u00b0C": "degree Celsius", "\u00b0F": "degree Fahrenheit",
    "\u00b0": "degree", "sq ft": "square foot", "px": "pixel", "dB": "decibel",
}  # fmt: skip
_PLURALS = {"foot": "feet", "hertz": "hertz", "kilohertz": "kilohertz", "megahertz": "megahertz", "yen": "yen",
            "gigahertz": "gigahertz", "penny": "pence", "paisa": "paise"}  # fmt: skip
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_SIGN = "[" + "".join(_CURRENCIES) + "]"
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DENOMINATORS = {*range(2, 11), 12, 16, 20, 100}
_FRACTIONS = {2: "half", 3: "third", 4: "quarter"}
_SET_PHRASES = {"24/7": "twenty-four seven", "9/11": "nine eleven"}


def words_for(number: int, to: str = "cardinal") -> str:
    """A whole number in words, as a `cardinal`, an `ordinal` or a `year`; from 10^15 on digit by digit."""
    from num2words import num2words

    if abs(number) >= 10**15:
        return _digits(str(abs(number)))
    text: str = num2words(number, to=to)
    return text.replace(",", "").replace("oh-", "oh ")


def read_numbers(text: str) -> str:
    """The text with everything that has digits in words."""
    text = "".join(_plain_digit(character) for character in text)
    for pattern, reading in _READINGS:
        text = pattern.sub(reading, text)
    return text


def _plain_digit(character: str) -> str:
    if character.isascii() or not character.isnumeric():
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character == "\u00b2":
        return " squared"
    if character == "\u00b3":
        return " cubed"
    plain = unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    return f" {plain} " if any(c.isdecimal() and c.isascii() for c in plain) else character


def _number(text: str) -> str:
    """A number with optional grouping and decimals.

    "1,234.50" is one thousand two hundred thirty-four point five zero.
    """
    whole, point, decimals = text.replace(",", "").partition(".")
    if not point and len(whole) > 1 and whole.startswith("0"):
        return _digits(whole)
    said = _digits(whole) if len(whole) > 15 else words_for(int(whole))
    return f"{said} point {_digits(decimals)}" if decimals else said


def _digits(text: str) -> str:
    return " ".join(_DIGITS[int(digit)] for digit in text if digit.isdecimal())


def _count(number: str, singular: str) -> str:
    """A number with its noun, which is plural unless the number is one.

    "kilometers per hour", "degrees Celsius".
    """
    if number in ("1", "1.0"):
        return f"{_number(number)} {singular}"
    noun, per, rest = singular.partition(" per ")
    if noun.startswith("degree "):
        noun = noun.replace("degree", "degrees")
    else:
        first, _, last = noun.rpartition(" ")
        noun = f"{first} {_plural(last)}".strip()
    return f"{_number(number)} {noun}{per}{rest}"


def _plural(noun: str) -> str:
    return _PLURALS.get(noun, f"{noun}s")


def _scaled(match: re.Match[str]) -> str:
    scale = (match["scale"] or "").strip()
    return _SCALES.get(scale.lower(), scale)


def _money(match: re.Match[str]) -> str:
    unit, part = _CURRENCIES[match["currency"]]
    amount = match["amount"].replace(",", "")
    scale = _scaled(match)
    if scale:
        return f"{_number(amount)} {scale} {_plural(unit)}"
    whole, point, cents = amount.partition(".")
    if not part or not point or len(cents) != 2:
        return _count(amount, unit)
    said = [_count(whole, unit)] if whole.strip("0") or not int(cents) else []
    if int(cents):
        said.append(_count(str(int(cents)), part))
    return " and ".join(said)


def _time(match: re.Match[str]) -> str:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    half = (match["half"] or "").replace(".", "").upper()
    said = words_for(hour)
    if minute or match["second"]:
        said += f" {'oh ' if 0 < minute < 10 else ''}{words_for(minute)}"
    elif not half:
        said += " o'clock"
    if match["second"]:
        said += f" and {_count(str(second), 'second')}"
    return f"{said} {half}".strip()


def _hour(match: re.Match[str]) -> str:
    return f"{words_for(int(match['hour']))} {match['half'].replace('.', '').upper()}"


def _year(text: str) -> str:
    year = int(text)
    return words_for(year, "year") if 1100 <= year <= 2099 else words_for(year)


def _decade(match: re.Match[str]) -> str:
    year = match["year"]
    if len(year) == 4:
        tens = words_for(int(year[2:])) if year[2:] != "00" else "hundred"
        said = "two thousand" if year == "2000" else f"{words_for(int(year[:2]))} {tens}"
    else:
        said = words_for(int(year))
    return said[:-1] + "ies" if said.endswith("y") else said + "s"


def _month_name(text: str) -> str:
    return next(name for name in _MONTHS if name[:3] == text[:3])


def _date(month: str, day: int, year: str | None) -> str:
    said = f"{month} {words_for(day, 'ordinal')}"
    return f"{said}, {_year(year)}" if year else said


def _month_day(match: re.Match[str]) -> str:
    return _date(_month_name(match["month"]), int(match["day"]), match["year"])


def _day_month(match: re.Match[str]) -> str:
    year = f", {_year(match['year'])}" if match["year"] else ""
    return f"the {words_for(int(match['day']), 'ordinal')} of {_month_name(match['month'])}{year}"


def _numeric_date(match: re.Match[str]) -> str:
    month, day = int(match["month"]), int(match["day"])
    if month > 12:
        month, day = day, month
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return " ".join(words_for(int(part)) for part in re.split(r"\D", match[0]))
    return _date(_MONTHS[month - 1], day, match["year"])


def _ordinal(match: re.Match[str]) -> str:
    return words_for(int(match["number"].replace(",", "")), "ordinal")


def _measure(match: re.Match[str]) -> str:
    return _count(match["number"], _UNITS[match["unit"]])


def _fraction(match: re.Match[str]) -> str:
    whole, above, below = match["whole"], int(match["above"]), int(match["below"])
    if match[0] in _SET_PHRASES:
        return _SET_PHRASES[match[0]]
    if below not in _DENOMINATORS or not 1 <= above < below:
        before = f"{words_for(int(whole))} " if whole else ""
        return f"{before}{words_for(above)} over {words_for(below)}"
    name = _FRACTIONS.get(below) or words_for(below, "ordinal")
    if above > 1:
        name = "halves" if name == "half" else f"{name}s"
    said = f"{words_for(above)} {name}"
    return f"{words_for(int(whole))} and {said}" if whole else said


def _range(match: re.Match[str]) -> str:
    low, high = match["low"], match["high"]
    years = len(low) == len(high) == 4
    return f"{_year(low)} to {_year(high)}" if years else f"{_number(low)} to {_number(high)}"


def _version(match: re.Match[str]) -> str:
    return " point ".join(words_for(int(part)) for part in match[0].split("."))


def _phone(match: re.Match[str]) -> str:
    return ", ".join(_digits(group) for group in re.findall(r"\d+", match[0]))


def _height(match: re.Match[str]) -> str:
    return f"{_number(match['feet'])} foot {_number(match['inches'])}"


def _power(match: re.Match[str]) -> str:
    exponent = match["exponent"]
    return {"2": " squared", "3": " cubed"}.get(exponent, f" to the power of {_number(exponent)}")


def _plain(match: re.Match[str]) -> str:
    text = match[0]
    return _year(text) if re.fullmatch(r"[1-9]\d{3}", text) else _number(text)


_Reading = Callable[[re.Match[str]], str] | str


def _rules(*rules: tuple[str, _Reading]) -> list[tuple[re.Pattern[str], _Reading]]:
    return [(re.compile(pattern), reading) for pattern, reading in rules]


_READINGS = _rules(
    (r"(?<![\w.-])(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])", _phone),
    (r"(?<![\w.-])\d{3}-\d{4}(?![\w-])", _phone),
    (rf"\b{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)\b", _numeric_date),
    (rf"\b(?P<month>\d\d?)/(?P<day>\d\d?)/{_YEAR}\b", _numeric_date),
    (rf"(?<=\d)(?:\s?\u2212\s?|\s-\s)(?={_SIGN}?\d)", " minus "),
    (rf"(?<![\w)])[-\u2212](?={_SIGN}?\d)", "minus "),
    (rf"(?P<currency>{_SIGN})\s?(?P<amount>{_N}){_SCALE}", _money),
    (
        rf"\b(?P<hour>1?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?!\d){_HALF_DAY}?",
        _time,
    ),
    (rf"\b(?P<hour>1?\d){_HALF_DAY}", _hour),
    (r"\b(?P<feet>\d)['\u2019\u2032]\s?(?P<inches>\d\d?)(?:[\"\u201d\u2033]|'')?(?!\w)", _height),
    (r"\b(?P<year>[1-9]\d{2}0|[2-9]0)['\u2019]?s\b", _decade),
    (rf"\b{_MONTH}\s{_DAY}(?:st|nd|rd|th)?(?![\d:%]|[,.]\d)(?:,?\s{_YEAR}\b)?", _month_day),
    (rf"\b(?:the )?(?<![.,:/-]){_DAY}(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,?\s{_YEAR}\b)?", _day_month),
    (r"\b(?P<number>\d{1,15}|\d{1,3}(?:,\d{3}){1,4})(?:st|nd|rd|th)\b", _ordinal),
    (r"(?<![\w./])(?:(?P<whole>\d{1,9})\s)?(?P<above>\d{1,9})/(?P<below>\d{1,9})(?![\w/])", _fraction),
    (rf"(?<![\w.,-])(?P<low>{_N})(?:-|\s?\u2013\s?)(?P<high>{_N})(?![\w-])", _range),
    (rf"(?<!\d)(?P<number>{_N})\s?%", lambda match: f"{_number(match['number'])} percent"),
    (rf"(?<![\w.])(?P<number>{_N})\s?(?P<unit>{_UNIT})(?!\w)", _measure),
    (rf"(?<![\w.])(?P<number>{_N})(?P<scale>[kMB]|bn)\b", lambda m: f"{_number(m['number'])} {_scaled(m)}"),
    (r"\s?\^\(?(?P<exponent>\d+)\)?", _power),
    (r"(?<![\w.])\d{1,9}(?:\.\d{1,9}){2,}(?!\w)", _version),
    (
        r"(?<!\d)(?P<low>\d+):(?P<high>\d+)",
        lambda match: f"{_number(match['low'])} to {_number(match['high'])}",
    ),
    (r"(?<![\w.])\.(?P<decimals>\d+)", lambda match: f"point {_digits(match['decimals'])}"),
    (r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])", " "),
    (_N, _plain),
)
