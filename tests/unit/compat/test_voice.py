"""Speech in, an agent's answer, speech out; live transcription over a real WebSocket."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
import websockets
from openai import AsyncOpenAI

from ekiden.compat.agents import Agent
from ekiden.compat.agents.voice import (
    AudioInput,
    OpenAISTTModel,
    SingleAgentVoiceWorkflow,
    StreamedAudioInput,
    STTModelSettings,
    STTWebsocketConnectionError,
    VoicePipeline,
)
from ekiden.compat.agents.voice.testing import ScriptedSTTModel, ScriptedTTSModel, pcm16_samples
from ekiden.testing import ScriptedModel, say, transfer

_SOUND = np.array([1, -2, 3], dtype=np.int16)


async def _events(pipeline: VoicePipeline, audio: Any) -> list[Any]:
    result = await pipeline.run(audio)
    return [event async for event in result.stream()]


async def test_an_agent_speaks_its_answer_sentence_by_sentence_in_order() -> None:
    text = "That is the first sentence of it. And here is the second one."
    tts = ScriptedTTSModel([[pcm16_samples([1])], [pcm16_samples([2])]])
    pipeline = VoicePipeline(
        workflow=SingleAgentVoiceWorkflow(Agent(name="one", model=ScriptedModel([say(text)]))),
        stt_model=ScriptedSTTModel(["Hello?"]),
        tts_model=tts,
    )
    events = await _events(pipeline, AudioInput(_SOUND))
    kinds = [getattr(each, "event", "audio") for each in events]
    assert kinds == ["turn_started", "audio", "audio", "turn_ended", "session_ended"]
    assert [each.data.tolist() for each in events if hasattr(each, "data")] == [[1], [2]]
    assert [each.text for each in tts.calls] == text.replace(". ", ".|").split("|")


async def test_a_failure_of_the_workflow_is_shown_and_raised() -> None:
    pipeline = VoicePipeline(
        workflow=SingleAgentVoiceWorkflow(Agent(name="one", model=ScriptedModel([]))),
        stt_model=ScriptedSTTModel([RuntimeError("deaf")]),
        tts_model=ScriptedTTSModel(),
    )
    result = await pipeline.run(AudioInput(_SOUND))
    events = result.stream()
    assert (await anext(events)).type == "voice_stream_event_error"
    with pytest.raises(RuntimeError, match="deaf"):
        await anext(events)


class _Server:
    """Transcribes each piece of audio as one turn, as OpenAI's API does over the wire."""

    def __init__(self, *, fails: bool = False) -> None:
        self.session: Any = None
        self.audio: list[bytes] = []
        self._fails = fails

    async def __call__(self, socket: Any) -> None:
        await socket.send(json.dumps({"type": "session.created"}))
        async for message in socket:
            event = json.loads(message)
            answers: list[dict[str, Any]] = []
            if event["type"] == "session.update":
                self.session = event["session"]
                answers = [{"type": "error" if self._fails else "session.updated"}]
            elif event["type"] == "input_audio_buffer.append":
                self.audio.append(base64.b64decode(event["audio"]))
                item = f"item_{len(self.audio)}"
                kind = "conversation.item.input_audio_transcription.completed"
                answers = [{"type": "input_audio_buffer.committed", "item_id": item}]
                answers += [{"type": kind, "item_id": item, "transcript": f"turn {item}"}]
            elif event["type"] == "input_audio_buffer.commit":
                answers = [{"type": "error", "error": {"code": "input_audio_buffer_commit_empty"}}]
            for answer in answers:
                await socket.send(json.dumps(answer))


async def _heard(server: _Server) -> list[str]:
    async with websockets.serve(server, "127.0.0.1", 0) as serving:
        port = next(iter(serving.sockets)).getsockname()[1]
        client = AsyncOpenAI(api_key="sk-none", base_url=f"http://127.0.0.1:{port}/v1")
        audio = StreamedAudioInput()
        for samples in (_SOUND, _SOUND, None):
            await audio.add_audio(samples)
        model = OpenAISTTModel("gpt-transcribe", client)
        settings = STTModelSettings(language="en")
        session = await model.create_session(audio, settings, True, True)
        found = [text async for text in session.transcribe_turns()]
        await session.close()
        return found


async def test_live_speech_is_transcribed_turn_by_turn_until_the_input_ends() -> None:
    server = _Server()
    assert await _heard(server) == ["turn item_1", "turn item_2"]
    assert server.audio == [_SOUND.tobytes()] * 2
    wanted = {"model": "gpt-transcribe", "languages": ["en"]}
    assert server.session["audio"]["input"]["transcription"] == wanted


async def test_a_refused_session_is_an_error_with_the_message_of_the_server() -> None:
    with pytest.raises(STTWebsocketConnectionError, match="transcription failed"):
        await _heard(_Server(fails=True))


async def test_the_next_turn_starts_with_the_last_agent() -> None:
    model = ScriptedModel([transfer("other"), say("I am the other."), say("Still me.")])
    other = Agent(name="other", model=model)
    workflow = SingleAgentVoiceWorkflow(Agent(name="one", model=model, handoffs=[other]))
    said = ["".join([text async for text in workflow.run("Hello?")]) for _ in range(2)]
    assert said == ["I am the other.", "Still me."]
