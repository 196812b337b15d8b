"""Escalation chains in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.core.errors import SettingsInvalid
from ekiden.core.questions import EscalationStep
from ekiden.inbox import InboxSettings
from ekiden.project.settings import load_settings


def load(folder: Path, text: str) -> InboxSettings:
    """What a settings file says about the inbox."""
    path = folder / ".ekiden" / "settings.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return load_settings(folder, environ={}, home=folder / "home").settings.inbox


def test_role_and_escalation_are_read(tmp_path: Path) -> None:
    read = load(
        tmp_path,
        '{"inbox": {"role": "総務", "escalation": [{"role": " 经理 ", "after_s": 60},'
        ' {"role": "CEO", "after_s": 3600.5}]}}',
    )
    chain = (EscalationStep(role="经理", after_s=60.0), EscalationStep(role="CEO", after_s=3600.5))
    assert read == InboxSettings(role="総務", escalation=chain)


def test_the_default_is_the_operator_without_escalation(tmp_path: Path) -> None:
    assert load(tmp_path, "{}") == InboxSettings(role="operator", escalation=())


def test_the_value_is_shown_as_json(tmp_path: Path) -> None:
    steps = [{"role": "CEO", "after_s": 60}]
    loaded = load_settings(
        tmp_path, overrides={"inbox.escalation": steps}, environ={}, home=tmp_path
    )
    assert loaded.value("inbox.escalation") == [{"role": "CEO", "after_s": 60.0}]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"CEO"', "must be a list of steps"),
        ("[5]", "number 1 is a number"),
        ('[{"role": "CEO"}]', "number 1 is an object with other keys"),
        ('[{"role": "CEO", "after_s": 5, "x": 1}]', "other keys"),
        ('[{"role": "", "after_s": 5}]', 'whose "role" must not be empty'),
        ('[{"role": "a\\nb", "after_s": 5}]', "a line break"),
        ('[{"role": "CEO", "after_s": 0}]', 'whose "after_s" must be a number'),
        ('[{"role": "CEO", "after_s": "1h"}]', 'whose "after_s" must be a number'),
        ("[" + ",".join(['{"role": "CEO", "after_s": 5}'] * 51) + "]", "at most 50 steps"),
    ],
)
def test_an_invalid_escalation_is_refused_with_the_reason(
    tmp_path: Path, value: str, problem: str
) -> None:
    with pytest.raises(SettingsInvalid, match=problem):
        load(tmp_path, f'{{"inbox": {{"escalation": {value}}}}}')
