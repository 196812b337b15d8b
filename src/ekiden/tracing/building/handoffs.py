"""Handoffs as spans: one each, however many events tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ekiden.core.events import Event
from ekiden.tracing.building.facts import is_transfer, split_details, text
from ekiden.tracing.building.parts import Part
from ekiden.tracing.building.scene import Scene

_MODEL: Final[Mapping[str, str]] = {"kind": "model"}


def take_handoff(scene: Scene, event: Event, details: Mapping[str, Any]) -> None:
    """A handoff moved."""
    found = details.get("id")
    handoff_id = found if isinstance(found, str) else event.event_id
    key = f"handoff/{handoff_id}"
    handoff = scene.known.get(key)
    if handoff is None:
        handoff = scene.known[key] = _new(scene, event, details, key)
        scene.open_handoffs[key] = handoff
    else:
        _tell(scene, handoff, event, details)
    if "compensation" in details:
        _note_compensation(handoff, event, details)
        return
    if is_transfer(event, details) and handoff.end is None:
        scene.end_stay()
        scene.arriving = handoff
        scene.heard.extend(event.items)
    match details.get("status", "completed"):
        case "completed":
            scene.end(handoff)
        case "failed" | "rolled_back":
            handoff.fail(event.error)
            scene.end(handoff)
            scene.heard.extend(event.items)
            if scene.arriving is handoff:
                scene.arriving = None
            if "undoes" in details:
                scene.end_stay("rolled_back", event.error or "rolled back")
    if handoff.end is not None:
        scene.open_handoffs.pop(key, None)


def _new(scene: Scene, event: Event, details: Mapping[str, Any], key: str) -> Part:
    name = f"{text(details.get('from'), '?')} → {text(details.get('to'), '?')}"
    handoff = scene.new(event, "handoff", name, parent=_place(scene, event, details), key=key)
    handoff.details.setdefault("policy", "graceful")
    handoff.details.setdefault("by", _MODEL)
    handoff.details["moves"] = _moves(details)
    wanted = details.get("at")
    began = wanted.get("initiated") if isinstance(wanted, Mapping) else None
    if isinstance(began, int) and handoff.parent is not None:
        handoff.start = max(min(began, handoff.start), handoff.parent.start)
    if event.error is not None and "compensation" in details:
        handoff.error, handoff.status = None, "ok"
    return handoff


def _place(scene: Scene, event: Event, details: Mapping[str, Any]) -> Part:
    """Below the stay of who hands over; what nobody's work led to is no part of a stay."""
    is_made = is_transfer(event, details)
    if details.get("begins_run") or (scene.run is None and not is_made):
        return scene.run or scene.session
    if details.get("status") == "completed" and not is_made:
        return scene.place()  # It was begun before what is known here.
    if event.agent != details.get("from") and scene.stay is not None:
        return scene.stay
    return scene.working_stay(event)


def _tell(scene: Scene, handoff: Part, event: Event, details: Mapping[str, Any]) -> None:
    scene.tells_of(event, handoff)
    if "compensation" in details:
        return
    facts, words = split_details(details)
    facts["moves"] = [*handoff.details.get("moves", ()), *_moves(details)]
    handoff.tell(event.seq, facts, words)


def _note_compensation(handoff: Part, event: Event, details: Mapping[str, Any]) -> None:
    tried: dict[str, Any] = {"key": details.get("compensation"), "attempt": details.get("attempt")}
    if event.error is not None:
        tried["failed"] = True
        handoff.content.setdefault("compensation_errors", []).append(event.error)
    handoff.details.setdefault("compensations", []).append(tried)


def _moves(details: Mapping[str, Any]) -> list[Any]:
    moves = details.get("moves")
    return list(moves) if isinstance(moves, list) else [details.get("status", "completed")]
