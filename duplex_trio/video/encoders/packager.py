"""The seam between encoded pictures and the container that they travel in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from attrs import frozen


@frozen
class Sample:
    """One encoded picture. `keyframe` tells whether it can be decoded without those before it."""

    data: bytes
    keyframe: bool


class Packager(ABC):
    """Puts samples into a container part by part. Pure: bytes in, bytes out.

    The header, all parts and the trailer, one behind the other, are one file. Frames are numbered from 0 through all
    parts; each is shown for the same time.
    """

    @property
    @abstractmethod
    def header(self) -> bytes:
        """What comes before the first part."""

    @abstractmethod
    def bytes_max(self, count: int, sample_bytes: int) -> int:
        """The most bytes that a part takes with so many samples, which hold so many bytes together."""

    @abstractmethod
    def part(self, samples: Sequence[Sample]) -> bytes:
        """Package the next samples: one at least."""

    @abstractmethod
    def trailer(self) -> bytes:
        """An index of all keyframes that began a part; empty if there were none."""


def cut(
    samples: Sequence[Sample], packager: Packager, bytes_max: int, *, taken: int
) -> Iterator[Sequence[Sample]]:
    """Divide samples so that each part fits in `bytes_max`, the first one with `taken` bytes before it.

    A sample that does not fit by itself is a part of its own: there is no smaller one.
    """
    begin, held = 0, 0
    for index, sample in enumerate(samples):
        held += len(sample.data)
        count = index + 1 - begin
        if count > 1 and taken + packager.bytes_max(count, held) > bytes_max:
            yield samples[begin:index]
            begin, held, taken = index, len(sample.data), 0
    yield samples[begin:]
