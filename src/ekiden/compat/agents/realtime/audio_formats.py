"""Audio formats by their short names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openai.types.realtime.realtime_audio_formats import (
    AudioPCM,
    AudioPCMA,
    AudioPCMU,
    RealtimeAudioFormats,
)

from ekiden.compat.agents.logger import logger

_PCM_HZ, _G711_HZ = 24_000, 8_000
_KINDS: dict[str, RealtimeAudioFormats] = {}
for _names, _format in (
    (("pcm16", "pcm", "audio/pcm"), AudioPCM(type="audio/pcm", rate=24_000)),
    (("g711_ulaw", "pcmu", "audio/pcmu"), AudioPCMU(type="audio/pcmu")),
    (("g711_alaw", "pcma", "audio/pcma"), AudioPCMA(type="audio/pcma")),
):
    _KINDS.update(dict.fromkeys(_names, _format))


def to_realtime_audio_format(
    input_audio_format: str | RealtimeAudioFormats | Mapping[str, Any] | None,
) -> RealtimeAudioFormats | None:
    """The API's object for a name or a mapping; `None` for formats that it does not know."""
    given: Any = input_audio_format
    if isinstance(given, Mapping):
        given = given.get("type")
    elif not isinstance(given, str):
        return input_audio_format  # type: ignore[return-value]
    found = _KINDS.get(given or "")
    if found is None:
        logger.debug("unknown audio format")
        return None
    return found.model_copy()


def audio_ms(audio_format: Any, audio: bytes) -> float:
    """How long it takes to play the audio; unknown formats count as 16-bit PCM."""
    known = to_realtime_audio_format(audio_format)
    if isinstance(known, AudioPCMU | AudioPCMA):
        return len(audio) / _G711_HZ * 1000
    return len(audio) / 2 / _PCM_HZ * 1000
