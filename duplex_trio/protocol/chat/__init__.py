"""Chat completions as OpenAI's clients speak them: requests in, whole answers and chunks out. Sans-IO.

Knows no session, so that a model served by requests alone can answer the same. What is made here of a request, items
and `Sampling`, is what both understand; what an answer is made of are `pieces`.
"""

from duplex_trio.protocol.chat.errors import ChatError, of_code, unsupported
from duplex_trio.protocol.chat.messages import ChatItem
from duplex_trio.protocol.chat.pieces import (
    ANSWER_RATE_HZ,
    CallPiece,
    ChatPiece,
    ChatUsage,
    FinishPiece,
    FinishReason,
    SpeechPiece,
    TextPiece,
    TranscriptPiece,
)
from duplex_trio.protocol.chat.render import AnswerFrame, StreamedAnswer, WholeAnswer
from duplex_trio.protocol.chat.request import ChatAudio, ChatRequest, read_chat_request
from duplex_trio.protocol.chat.spoken import SPOKEN_TTL_S, SpokenAnswers
from duplex_trio.protocol.realtime.items import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    ItemPart,
    MessageItem,
)

__all__ = [
    "ANSWER_RATE_HZ",
    "SPOKEN_TTL_S",
    "AnswerFrame",
    "CallPiece",
    "ChatAudio",
    "ChatError",
    "ChatItem",
    "ChatPiece",
    "ChatRequest",
    "ChatUsage",
    "FinishPiece",
    "FinishReason",
    "FunctionCallItem",
    "FunctionCallOutputItem",
    "InputAudioPart",
    "InputImagePart",
    "ItemPart",
    "MessageItem",
    "SpeechPiece",
    "SpokenAnswers",
    "StreamedAnswer",
    "TextPiece",
    "TranscriptPiece",
    "WholeAnswer",
    "of_code",
    "read_chat_request",
    "unsupported",
]
