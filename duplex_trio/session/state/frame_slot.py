"""The newest video frames of a session, on their way to the model with its next unit or turn.

A model looks at what there is to see now: frames that came before the newest ones and were not taken are of
no use to it. So the slot holds a few and forgets the rest, and a flood of frames stays as small as one of
them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from attrs import define, field


@define
class FrameSlot:
    """Frames in order of their arrival, oldest first; encoded pictures.

    Args:
        frames_max: most frames held.
    """

    frames_max: int
    _frames: deque[bytes] = field(factory=deque)

    @property
    def held_bytes(self) -> int:
        """Bytes of the frames held."""
        return sum(map(len, self._frames)) if self._frames else 0

    def bytes_with(self, frames: Sequence[bytes]) -> int:
        """How many bytes would be held if these came too."""
        if not frames:
            return self.held_bytes
        newest = [*self._frames, *frames][-self.frames_max :]
        return sum(map(len, newest))

    def put(self, frames: Sequence[bytes]) -> None:
        """Frames came: the newest stay."""
        self._frames.extend(frames)
        self._forget_old()

    def peek(self) -> tuple[bytes, ...]:
        """The frames held, which stay."""
        return tuple(self._frames)

    def take(self) -> tuple[bytes, ...]:
        """The frames held, which are gone then."""
        taken = tuple(self._frames)
        self._frames.clear()
        return taken

    def put_back(self, frames: Sequence[bytes]) -> None:
        """Frames that were taken could not be delivered: they are older than what came meanwhile."""
        self._frames.extendleft(reversed(frames))
        self._forget_old()

    def forget(self, frames: Sequence[bytes]) -> None:
        """Frames that were looked at have been used; what came since stays."""
        used = set(map(id, frames))
        self._frames = deque(frame for frame in self._frames if id(frame) not in used)

    def clear(self) -> None:
        """Forget all of them."""
        self._frames.clear()

    def _forget_old(self) -> None:
        while len(self._frames) > self.frames_max:
            self._frames.popleft()
