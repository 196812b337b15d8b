"""Records by which version of an agent an event was made, and what its model was sent.

The first such event of an agent in a run names the version; so does the first one after a process
resumes the run, because its agents may be others. All later ones were made by the same version. A
model call also names the parts of its request that are the same in many sessions: instructions,
tools, settings and the format of the answer. They are a document, which is stored once. Parts that
were computed for the session are stored as a step of the session. Items, and the block about a
handoff in the instructions, follow from the events.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, ItemView, ModelRequest
from ekiden.core.documents import to_json
from ekiden.core.events import MADE_BY, EventType
from ekiden.core.values import dumps
from ekiden.core.versions import agent_version
from ekiden.runtime.config import RunConfig
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.parts import SideWrites
from ekiden.sessions.request_parts import SHORT, begin_use, key_of
from ekiden.storage.base import Store
from ekiden.storage.values import copy_json

SENT = "sent"
"""The key, in a model call, of the key of the step with the computed parts of its request."""
VIEW = "view"
"""The key, in a model call, of the view after an input filter: the key of the step with the result
of the filter, and the number of the event after which the view continues."""
_CACHE = "_shared_parts"
"""The attribute of an agent with the shared parts of its last request."""
PROMPT_FORMAT = 1
"""The number of the form of blocks about handoffs in instructions. See
`ekiden.runtime.model_call.prompt_block`."""


class _Run(Protocol):
    """The part of a run that versions need."""

    agent: Agent[Any]
    config: RunConfig
    cursor: Cursor
    store: Store
    user_id: str | None
    visible: list[Item]

    @property
    def session_id(self) -> str: ...
    @property
    def next_seq(self) -> int: ...
    @property
    def side_writes(self) -> SideWrites: ...
    def remember(self, key: str, result: Any) -> None: ...


class _Shared:
    """The shared parts of an agent's requests."""

    __slots__ = ("key", "made_by", "made_of", "text")

    def __init__(self, agent: Agent[Any], request: ModelRequest, made_of: tuple[Any, ...]) -> None:
        own = agent.instructions
        body = {
            "format": PROMPT_FORMAT,
            "agent": agent.name,
            "version": agent_version(agent),
            "model": name_of_model(made_of[0]),
            "instructions": own if isinstance(own, str) else None,
            "tools": to_json(request.tools),
            "settings": to_json(agent.model_settings),
            "output": to_json(request.output),
        }
        self.made_of = made_of
        self.text = dumps(_as_json(body))
        """JSON in the order in which the model got it."""
        self.key = key_of(self.text)
        self.made_by = f"{body['version'][:SHORT]}/{self.key}"


def name_of_model(wanted: Any) -> str | None:
    """The name of the model that a run or an agent wants; `None` for an object without a name."""
    if wanted is None:
        wanted = os.environ.get("EKIDEN_MODEL")
    name = wanted if isinstance(wanted, str) else getattr(wanted, "name", None)
    return name if isinstance(name, str) else None


class Versions:
    """The versions that a run recorded, in one process."""

    __slots__ = ("_computed", "made_by", "sent")

    def __init__(self) -> None:
        self.sent: ModelRequest | None = None
        """The request of the model call that is not recorded yet. `None` in a run that hides its
        content."""
        self.made_by: dict[str, object] = {}
        """The last recorded version of each agent: the shared parts of its last model call, or the
        version itself."""
        self._computed: tuple[Any, str] | None = None
        """The last stored step with computed parts, and its key."""

    def forget(self) -> None:
        """Forget everything, because records were dropped."""
        self.sent = self._computed = None
        self.made_by.clear()

    def note(
        self, run: _Run, type: EventType, details: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """The details of the next event, which is a model call or the first event of its agent that
        names a version, with this version and what was sent to the model."""
        if type == "llm_call" and self.sent is not None:
            added = self._request_details(run, self.sent)
            self.sent = None
        else:
            made_by = self.made_by[run.agent.name] = agent_version(run.agent)[:SHORT]
            added = {MADE_BY: made_by}
        return {**(details or {}), **added} if added else details

    def _request_details(self, run: _Run, request: ModelRequest) -> dict[str, Any]:
        agent = run.agent
        model = run.config.model or agent.model
        added = self._computed_parts(run, request)
        made_of = (model, request.tools, agent.instructions, agent.model_settings, request.output)
        shared: _Shared | None = agent.__dict__.get(_CACHE)
        if shared is None or shared.made_of != made_of:
            shared = _Shared(agent, request, made_of)
            setattr(agent, _CACHE, shared)
        if self.made_by.get(agent.name) is not shared:
            self.made_by[agent.name] = shared
            added[MADE_BY] = shared.made_by
            begin_use(run, shared.key, shared.text)
        return added

    def _computed_parts(self, run: _Run, request: ModelRequest) -> dict[str, Any]:
        """Store the parts of the request that neither events nor documents contain; returns the
        details of the event about them."""
        agent, view = run.agent, run.cursor.view
        # Not `dict[str, Any]()`, which costs more than the rest of this function.
        added: dict[str, Any] = {}
        parts: dict[str, Any] = {}
        if request.settings is not agent.model_settings:
            parts.update(_changed_settings(agent, request))
        if (
            callable(agent.instructions)
            or agent.plan is not None
            or run.config.call_model_input_filter is not None
        ):
            parts.update(_computed_instructions(agent, request.instructions))
        if not (type(request.input) is ItemView and request.input.shows(run.visible)):
            ranges = compared_with(run.visible, request.input)
            if ranges != [[0, len(run.visible)]]:
                parts["input"] = ranges
        if view.base is not None or view.after:
            added[VIEW] = [view.base, view.after]
        if parts:
            if self._computed is None or self._computed[0] != parts:
                progress = run.cursor.progress
                key = f"{progress.run}.{progress.turn + 1}.sent.{run.next_seq}"
                run.remember(key, parts)
                self._computed = (parts, key)
            added[SENT] = self._computed[1]
        return added


def _changed_settings(agent: Agent[Any], request: ModelRequest) -> dict[str, Any]:
    """The settings that the run or a budget changed. They are not shared, because a program may
    pass data of a person in them."""
    if request.settings == agent.model_settings:
        return {}
    own = to_json(agent.model_settings)
    changed = {
        name: value for name, value in to_json(request.settings).items() if value != own[name]
    }
    return {"settings": _as_json(changed)}


def _as_json(value: Any) -> Any:
    """The value with the names of classes in place of objects that are not JSON. Settings may have
    such objects for a provider."""
    try:
        return copy_json(value)
    except (TypeError, ValueError, RecursionError):
        if isinstance(value, Mapping):
            return {str(key): _as_json(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [_as_json(each) for each in value]
        return {"not_json": type(value).__qualname__}


def _computed_instructions(agent: Agent[Any], text: str | None) -> dict[str, Any]:
    """The text, or only its end if it begins with the instructions of the agent."""
    own = agent.instructions
    if isinstance(own, str) and text is not None and text.startswith(own):
        return {"ending": text[len(own) :]}
    return {"instructions": text}


def compared_with(visible: Sequence[Item], items: Iterable[Item]) -> list[Any]:
    """The items as ranges of `visible`, such as ``[0, 5]``, and other items.

    Input filters keep most items, and long conversations must not be stored again in every turn.
    """
    places = {id(item): place for place, item in enumerate(visible)}
    found: list[Any] = []
    for item in items:
        place = places.get(id(item))
        if place is None:
            found.append(_as_json(item))
        elif found and type(found[-1]) is list and found[-1][1] == place:
            found[-1][1] += 1
        else:
            found.append([place, place + 1])
    return found
