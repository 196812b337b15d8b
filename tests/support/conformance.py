"""How the server is compared with its OpenAPI document: which checks, and what a case becomes.

Schemathesis makes the requests. Where it cannot know what makes sense, because OpenAPI has no words
for it, the case is amended; where even that does not help, a check is left out for an operation.
Each time the reason stands here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.schemas import OpenApiSchema

from tests.support.api_world import ApiWorld

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "openapi.json"

NOT_ASKED: Final = {
    "runs_follow_session": "the stream has no end; test_run_streams.py reads it",
}
"""Operations that are left out, and why."""

NOT_CHECKED: Final = {
    ("sessions_fork", "positive_data_acceptance"): "only some numbers are those of an event",
    ("sessions_rewind", "positive_data_acceptance"): "only some numbers are those of an event",
    ("state_session", "positive_data_acceptance"): "only some numbers are those of an event",
    ("sessions_import", "positive_data_acceptance"): "only what an export wrote is taken",
    ("runs_resume_and_wait", "positive_data_acceptance"): "only a run that stopped can be resumed",
    ("inbox_snooze", "positive_data_acceptance"): "the time has to come, before the deadline",
    ("inbox_answer", "positive_data_acceptance"): "the tool says which arguments it takes",
}
"""Checks that are left out for an operation, and why."""

GOOD: Final = ["2xx", "401", "403", "404", "409", "412", "429"]
"""How a request that the document allows may be answered: 412 is for other versions."""

_OF_MEMORY: Final = frozenset(
    {
        "memory_list",
        "memory_store",
        "memory_clear",
        "memory_get",
        "memory_put",
        "memory_forget",
        "memory_search",
        "memory_export",
    }
)


def _whose_memory(case: Case[Any]) -> None:
    """OpenAPI cannot say that exactly one of two parameters is needed."""
    if "user" in case.query:
        case.query.pop("shared", None)
    else:
        case.query["shared"] = "true"


def _until_pause(case: Case[Any]) -> None:
    """A run that waits for people would be watched until they answer."""
    if case.query.get("until") == "outcome":
        case.query["until"] = "pause"


def _speaks_to_the_team(body: dict[str, Any]) -> None:
    """Otherwise hardly anybody would be spoken to."""
    if "model" in body:
        body["model"] = "ekiden"


def _says_something(case: Case[Any]) -> None:
    """The last message has to be the user's, and to say something; answers need a question."""
    if isinstance(case.body, dict):
        _speaks_to_the_team(case.body)
        case.body["messages"] = [{"role": "user", "content": "hello"}]
        case.body.pop("resume", None)


def _input_says_something(case: Case[Any]) -> None:
    """As with messages; only one of two fields may name what is gone on with."""
    if isinstance(case.body, dict):
        _speaks_to_the_team(case.body)
        case.body["input"] = [{"role": "user", "content": "hello"}]
        if case.body.get("conversation") is not None:
            case.body.pop("previous_response_id", None)


def _keeps_some(case: Case[Any]) -> None:
    """Without a rule in the settings the request needs one, and a date has to be in the past."""
    if not isinstance(case.body, dict):
        case.body, case.media_type = {}, "application/json"
    case.body["keep"] = 1000
    case.body.pop("older_than", None)


def _holds(case: Case[Any]) -> None:
    """A schema cannot say what a condition is."""
    if isinstance(case.body, dict) and case.body.get("condition"):
        case.body["condition"] = "depth >= 0"


def _expects_nothing(case: Case[Any]) -> None:
    """Only what is changed may be expected to have a version, and is set or deleted."""
    if isinstance(case.body, dict):
        case.body.pop("expected", None)
        if case.body.get("set"):
            case.body.pop("delete", None)


AMENDED: Final[dict[str, Callable[[Case[Any]], None]]] = {
    **dict.fromkeys(_OF_MEMORY, _whose_memory),
    "create_chat_completion": _says_something,
    "handoffs_initiate": _holds,
    "run_agui": _says_something,
    "create_response": _input_says_something,
    "sessions_prune": _keeps_some,
    "state_update_session": _expects_nothing,
    "state_update_user": _expects_nothing,
    "state_update_app": _expects_nothing,
}
"""What is changed in a case that is meant to be good."""

LONGEST_ADDRESS = 65_535
"""The parser of HTTP takes no longer one; no application sees it, whatever the operation."""
_TOO_LONG: Final = {400: "request.invalid", 431: "request.too_large"}
"""How it is refused: by the parser, or because the head has no end yet; that depends on the pieces
in which it arrives."""


def operation_ids() -> list[str]:
    """Every operation that is asked."""
    found = [
        each["operationId"] for item in _document()["paths"].values() for each in item.values()
    ]
    return [each for each in found if each not in NOT_ASKED]


@cache
def conformance_schema() -> OpenApiSchema:
    """The document with the checks that are to be made."""
    config = SchemathesisConfig.from_dict(
        {
            "request-timeout": 30,
            "checks": {"positive_data_acceptance": {"expected-statuses": GOOD}},
            "operations": [
                {"include-operation-id": operation, "checks": {check: {"enabled": False}}}
                for operation, check in NOT_CHECKED
            ],
        }
    )
    return schemathesis.openapi.from_dict(_document(), config=config)


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return found


def unhurried(examples: int) -> settings:
    """The same so many cases each time, each of which may take as long as it takes."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # To make a case smaller takes minutes.
        suppress_health_check=list(HealthCheck),
    )


@dataclass(slots=True, kw_only=True)
class Asking:
    """Asks a server what Schemathesis makes up, about things that are there."""

    world: ApiWorld
    asked: Counter[str] = field(default_factory=Counter)
    """How many cases there were, by operation."""
    _known: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def ask(self, operation_id: str, *, examples: int, bad_ones: bool = True) -> None:
        """Make up cases that the document allows, and others, and check each answer."""
        operation = conformance_schema().find_operation_by_id(operation_id)
        told = operation.definition.raw
        modes = [GenerationMode.POSITIVE]
        if bad_ones and (told.get("parameters") or "requestBody" in told):
            modes.append(GenerationMode.NEGATIVE)
        for mode in modes:
            cases = given(case=operation.as_strategy(generation_mode=mode))
            ask: Callable[[], None] = unhurried(examples)(cases(lambda case: self.check(case)))
            ask()

    def wander(self, *, walks: int, steps: int) -> None:
        """Go from operation to operation: what one gives is what the next one takes."""
        asking = self

        asked = conformance_schema().exclude(operation_id=list(NOT_ASKED))
        machine: Any = asked.as_state_machine()

        class Walk(machine):  # type: ignore[misc]  # Its kind is made of the document.
            def before_call(self, case: Case[Any]) -> None:
                asking.prepare(case)

            def validate_response(self, response: Any, case: Case[Any], **_: Any) -> None:
                asking.validate(response, case)

            def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:
                return {"base_url": asking.world.url, "headers": asking.world.headers}

        Walk.run(settings=settings(unhurried(walks), stateful_step_count=steps))

    def check(self, case: Case[Any]) -> None:
        """Send the case, about something that is there, and check the answer."""
        operation: str = case.operation.definition.raw["operationId"]
        self.asked[operation] += 1
        if _is_good(case, ParameterLocation.PATH) and self.asked[operation] % 4:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = self._value(operation, name)
        self.prepare(case)
        answer = case.call(base_url=self.world.url, headers=self.world.headers)
        self.validate(answer, case)

    def validate(self, answer: Any, case: Case[Any]) -> None:
        """Check an answer; of an address that is too long the application knows nothing."""
        is_too_long = len(answer.request.url) > LONGEST_ADDRESS
        if is_too_long and answer.status_code in _TOO_LONG:
            assert answer.json()["code"] == _TOO_LONG[answer.status_code]
        else:
            case.validate_response(answer, headers=self.world.headers)

    def prepare(self, case: Case[Any]) -> None:
        """Amend a case."""
        operation: str = case.operation.definition.raw["operationId"]
        if operation == "runs_follow":
            _until_pause(case)
        if case.meta is not None and case.meta.generation.mode.is_positive:
            case.query.pop("cursor", None)  # Only what a page gave is one.
            if operation in AMENDED:
                AMENDED[operation](case)

    def _value(self, operation: str, name: str) -> str:
        """Something that is there: fresh for each operation, which may use it up."""
        known = self._known.get((operation, name))
        if known is None:
            known = self._known[operation, name] = self.world.fresh(name)
        return known[self.asked[operation] % len(known)]


def _is_good(case: Case[Any], location: ParameterLocation) -> bool:
    component: Any = None if case.meta is None else case.meta.components.get(location)
    return component is None or component.mode.is_positive
