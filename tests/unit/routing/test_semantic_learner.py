"""Learning from a few texts, and what would be if one of them were not there."""

from __future__ import annotations

import numpy as np
import pytest

from ekiden.core.agent import Agent
from ekiden.core.profile import Triggers
from ekiden.routing import learner, texts
from ekiden.routing.learner import (
    DescribedCalibration,
    Learner,
    TaughtCalibration,
    Views,
    calibrate,
)
from ekiden.routing.texts import texts_of


def _views(count: int, seed: int = 3) -> tuple[Views, np.ndarray]:
    """Points around the corners of a cube, and whose they are."""
    draw = np.random.default_rng(seed)
    owners = np.arange(count) % 3
    meaning = np.eye(3, 8)[owners] + 0.3 * draw.normal(size=(count, 8))
    meaning /= np.linalg.norm(meaning, axis=1, keepdims=True)
    letters = np.tile(np.eye(1, 4, dtype=np.float32), (count, 1))
    return Views(meaning=meaning.astype(np.float32), letters=letters), owners


def _ones(count: int) -> np.ndarray:
    return np.ones(count, dtype=np.float32)


def test_unseen_points_are_assigned_to_the_nearest_corner() -> None:
    views, owners = _views(60)
    learner = Learner(views, owners, _ones(60), agents=3)
    asked, meant = _views(30, seed=4)
    assert (learner.scores(asked).argmax(axis=1) == meant).mean() > 0.9


def test_leave_one_out_scores_equal_those_of_a_learner_without_that_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learner, "EMPHASIS", 0.0)
    views, owners = _views(30)
    whole = Learner(views, owners, _ones(30), agents=3)
    kept = np.arange(1, 30)
    without = Learner(views.rows(kept), owners[kept], _ones(29), agents=3)
    found = without.scores(views.rows(np.array([0])))[0]
    assert found == pytest.approx(whole.left_out[0], abs=0.06)


def test_landmarks_represent_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    views, owners = _views(120)
    asked, meant = _views(30, seed=5)
    exact = Learner(views, owners, _ones(120), agents=3)
    monkeypatch.setattr(learner, "LANDMARKS", 60)
    rough = Learner(views, owners, _ones(120), agents=3)
    assert rough.scores(asked) == pytest.approx(exact.scores(asked), abs=0.25)
    assert rough.left_out == pytest.approx(exact.left_out, abs=0.4)
    assert (rough.scores(asked).argmax(axis=1) == meant).mean() > 0.9


def test_a_text_in_another_script_is_not_scored_lower() -> None:
    views, owners = _views(60)
    learner = Learner(views, owners, _ones(60), agents=3)
    other = Views(meaning=views.meaning, letters=views.letters[:, ::-1])
    same, foreign = learner.scores(views), learner.scores(other)
    assert (same.argmax(axis=1) == foreign.argmax(axis=1)).all()
    assert foreign.max(axis=1).mean() >= same.max(axis=1).mean() - 0.05


def test_without_texts_the_default_calibration_is_used() -> None:
    nothing = np.zeros((0, 3), np.float32)
    assert calibrate(nothing, np.zeros(0, np.intp)) == TaughtCalibration.usual()


def test_the_remaining_probability_means_no_agent() -> None:
    calibration = TaughtCalibration(sharpness=10, line=0.2)
    found = calibration.judge(np.array([0.9, 0.1], np.float32), np.array([-0.2], np.float32))
    assert found.probable[0] > 1 - found.probable.sum() > found.probable[1]


def _described(*agents: float, other: float = 0.0) -> tuple[float, float]:
    scores = np.array(agents, np.float32)
    found = DescribedCalibration().judge(scores, np.array([other], np.float32))
    assert 0 < found.probable.sum() < 1
    return float(found.probable.max()), found.lead


def test_a_clear_margin_decides_at_a_low_score() -> None:
    close, near = _described(0.1, 0.1)
    clear, _ = _described(0.1, -0.1)
    assert clear > 0.8 > close
    assert near > 0, "it is for one of the two"
    weak, low = _described(0.02, 0.0, 0.0, other=0.2)
    assert weak < 0.5
    assert low < 0, "another subject is nearer"


def test_the_required_lead_grows_with_the_number_of_agents() -> None:
    few, _ = _described(0.3, 0.1)
    many, _ = _described(0.3, *[0.1] * 400)
    assert many < few


def test_the_threshold_keeps_95_percent() -> None:
    lead = np.linspace(0, 1, 2001, dtype=np.float32)
    scores = np.stack([lead, np.zeros_like(lead), np.zeros_like(lead)], axis=1)
    calibration = calibrate(scores, np.zeros(2001, np.intp))
    kept = [calibration.judge(row[:-1], row[-1:]).lead >= 0 for row in scores]
    assert np.mean(kept) == pytest.approx(0.95, abs=0.01)


def test_examples_have_the_highest_weight() -> None:
    with_examples = Agent(
        "billing-desk", description="Money.", triggers=Triggers(examples=("pay", "pay"))
    )
    found = texts_of([with_examples, Agent("oneWord", description="One. Two."), Agent("42")])
    assert [(each.agent, each.text, each.weight) for each in found] == [
        (0, "pay", 1.0),
        (0, "Money.", 0.5),
        (0, "billing desk", 0.1),
        (1, "One. Two.", 1.0),
        (1, "One.", 0.5),
        (1, "Two.", 0.5),
        (1, "One", 0.5),
        (1, "Two", 0.5),
        (1, "one word", 0.2),
        (2, "42", 1.0),
    ]


def test_too_many_texts_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_TEXTS", 20)
    long = Agent("long", triggers=Triggers(examples=tuple(f"text {n}" for n in range(100))))
    found = texts_of([long, Agent("short")])
    assert [each.text for each in found if each.agent == 0][:3] == ["text 0", "text 10", "text 20"]
    assert [each.text for each in found if each.agent == 1] == ["short"]


def test_the_required_lead_grows_beyond_the_fitted_number_of_agents() -> None:
    def lead(count: int) -> float:
        scores = np.zeros(count, np.float32)
        scores[0] = 0.4
        return DescribedCalibration().judge(scores, np.zeros(1, np.float32)).lead

    within, beyond = lead(75) - lead(150), lead(150) - lead(300)
    assert beyond == pytest.approx(within + np.log(2), abs=1e-4)
