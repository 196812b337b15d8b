"""Routing by meaning with two encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ekiden import Agent, Router, RoutingSettings
from ekiden.core.profile import Triggers
from ekiden.routing import semantic
from ekiden.routing.learner import Learner, Views
from ekiden.routing.semantic import SemanticStage, semantic_stage
from ekiden.routing.settings import SemanticSettings

SUBJECTS = (
    ("invoice", "refund", "charged", "money", "账单", "退款"),
    ("flight", "hotel", "train", "airport", "航班", "酒店"),
)


class Subjects:
    """Sees which subject a text has, by its words."""

    name, dimensions = "subjects-1", 8

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[7] = bool(text.strip())
            for number, words in enumerate(SUBJECTS):
                row[number] = 3 * sum(word in text for word in words)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32)


class English(Subjects):
    """The same for English alone; what it was asked to embed is kept."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert texts
        self.asked += texts
        return super().embed(texts)

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return np.array([text.isascii() and bool(text.strip()) for text in texts], dtype=np.bool_)


class Blind(Subjects):
    """Every text is the same to it."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        vectors[:, 0] = [bool(text.strip()) for text in texts]
        return vectors


def agents(*spoken: tuple[str, ...]) -> list[Agent[Any]]:
    return [
        Agent(name, triggers=Triggers(examples=texts))
        for name, texts in zip(("billing", "travel"), spoken, strict=True)
    ]


ENGLISH = agents(
    ("my invoice", "a refund", "I was charged"),
    ("a flight", "the hotel", "by train"),
)
CHINESE = agents(("我的账单", "我要退款"), ("查航班", "订酒店"))
MIXED = agents(("my invoice", "我要退款", "a refund"), ("a flight", "订酒店", "the hotel"))


def scores(stage: SemanticStage, text: str) -> dict[str, float]:
    return {each.agent: each.score for each in stage.decide(text).candidates}


def test_the_second_encoder_finds_what_the_first_misses() -> None:
    blind = SemanticStage(ENGLISH, Blind())
    seeing = SemanticStage(ENGLISH, Blind(), second=English())
    text = "ZZZ money ZZZ"
    assert scores(seeing, text)["billing"] > scores(blind, text)["billing"] + 0.1
    assert seeing.decide("ZZZ airport ZZZ").candidates[0].agent == "travel"


@pytest.mark.parametrize("text", ["查酒店", "退款！", "天气"])
def test_a_request_unknown_to_the_second_encoder_is_decided_without_it(text: str) -> None:
    alone = SemanticStage(ENGLISH, Subjects())
    both = SemanticStage(ENGLISH, Subjects(), second=English())
    assert scores(both, text) == scores(alone, text)
    assert both.lead(text) == alone.lead(text)
    assert both.decide(text).agent == alone.decide(text).agent


def test_a_team_unknown_to_the_second_encoder_is_learnt_without_it() -> None:
    alone = SemanticStage(CHINESE, Subjects())
    both = SemanticStage(CHINESE, Subjects(), second=English())
    for text in ("a flight", "账单"):
        assert scores(both, text) == scores(alone, text)


def test_examples_in_several_languages_are_combined() -> None:
    stage = SemanticStage(MIXED, Subjects(), second=English())
    for text, agent in (("refund", "billing"), ("航班", "travel"), ("hotel", "travel")):
        assert stage.decide(text).candidates[0].agent == agent


def test_the_second_encoder_is_asked_only_about_known_texts() -> None:
    second = English()
    stage = SemanticStage(MIXED, Subjects(), second=second)
    stage.decide("订酒店")
    stage.decide("")
    assert all(text.isascii() and text for text in second.asked)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_has_no_agent(text: str) -> None:
    stage = SemanticStage(ENGLISH, Subjects(), second=English())
    assert stage.decide(text).agent is None
    assert stage.lead(text) == float("-inf")


def test_similarity_is_learnt_although_some_texts_are_unknown() -> None:
    draw = np.random.default_rng(5)
    owners = np.arange(60) % 3
    first = np.ones((60, 4), dtype=np.float32) / 2
    second = (np.eye(3, 8)[owners] + 0.2 * draw.normal(size=(60, 8))).astype(np.float32)
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    second[::4] = 0
    letters = np.tile(np.eye(1, 4, dtype=np.float32), (60, 1))
    views = Views(meaning=first, letters=letters, second=second)
    learner = Learner(views, owners, np.ones(60, dtype=np.float32), agents=3)
    known = second.any(axis=1)
    assert (learner.scores(views).argmax(axis=1) == owners)[known].all()
    assert (learner.left_out.argmax(axis=1) == owners)[known].mean() > 0.9
    assert np.abs(learner.left_out).max() < 2


def test_views_without_a_second_encoder_stay_without_one() -> None:
    plain = Views(meaning=np.eye(2, dtype=np.float32), letters=np.eye(2, dtype=np.float32))
    more = Views(meaning=plain.meaning, letters=plain.letters, second=plain.meaning)
    assert plain.with_more(more).second is None
    assert more.with_more(more).rows(np.array([0, 3])).second is not None


def test_an_installed_second_encoder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    second = English()
    monkeypatch.setattr(semantic, "local_embedder", Subjects)
    monkeypatch.setattr(semantic, "second_encoder", lambda: second)
    stage = semantic_stage(ENGLISH, SemanticSettings())
    assert isinstance(stage, SemanticStage)
    assert "my invoice" in second.asked


async def test_a_broken_configured_encoder_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(semantic, "local_embedder", Subjects)
    monkeypatch.setenv("EKIDEN_ENCODER", str(tmp_path))
    router = Router(ENGLISH, settings=RoutingSettings(strategy="semantic"))
    why = await router.prepare()
    assert why is not None
    assert "EKIDEN_ENCODER" in why
    assert "config.json" in why
