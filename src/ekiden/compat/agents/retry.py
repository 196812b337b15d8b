"""When a failed call of a model is made again: settings, policies, and the loop that obeys them."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

T = TypeVar("T")


@checked_dataclass
class ModelRetryBackoffSettings:
    """The delays before retries, in seconds."""

    initial_delay: float | None = Field(default=None, ge=0)
    max_delay: float | None = Field(default=None, ge=0)
    multiplier: float | None = Field(default=None, ge=0)
    jitter: bool | None = None

    def to_json_dict(self) -> dict[str, Any]:
        """The settings as JSON."""
        return dataclasses.asdict(self)

    def delay(self, attempt: int) -> float:
        """The delay after this attempt; the first attempt is 1."""
        first = 0.25 if self.initial_delay is None else self.initial_delay
        most = 2.0 if self.max_delay is None else self.max_delay
        factor = 2.0 if self.multiplier is None else self.multiplier
        wait = min(first * factor ** (attempt - 1), most)
        return wait if self.jitter is False else min(wait * random.uniform(0.875, 1.125), most)


ModelRetryBackoffInput: TypeAlias = ModelRetryBackoffSettings | dict[str, Any]


@dataclass
class ModelRetryNormalizedError:
    """Facts about a failure, in one form for all providers."""

    status_code: int | None = None
    error_code: str | None = None
    message: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    is_abort: bool = False
    is_network_error: bool = False
    is_timeout: bool = False


@dataclass
class ModelRetryAdvice:
    """The model's advice about retrying a call."""

    suggested: bool | None = None
    retry_after: float | None = None
    replay_safety: str | None = None
    """``safe`` or ``unsafe``; `None` if unknown."""
    reason: str | None = None
    normalized: ModelRetryNormalizedError | None = None
    response_started: bool = False


@dataclass
class ModelRetryAdviceRequest:
    """The failure for which a model gives advice."""

    error: Exception
    attempt: int
    stream: bool
    previous_response_id: str | None = None
    conversation_id: str | None = None


@dataclass
class RetryDecision:
    """The decision of a policy."""

    retry: bool
    delay: float | None = None
    reason: str | None = None
    approve_unsafe_replay: bool = False
    vetoes: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether the decision overrides all other policies."""
    can_be_overruled: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether a policy with `approve_unsafe_replay` overrides the decision."""


@dataclass
class RetryPolicyContext:
    """The failed call that a policy decides about."""

    error: Exception
    attempt: int
    max_retries: int
    stream: bool
    normalized: ModelRetryNormalizedError
    provider_advice: ModelRetryAdvice | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None

    @property
    def response_started(self) -> bool:
        """Whether a part of the answer had arrived."""
        return self.provider_advice is not None and self.provider_advice.response_started

    @property
    def replay_safety(self) -> str:
        """``safe``, ``unsafe`` or ``unknown``."""
        said = self.provider_advice.replay_safety if self.provider_advice else None
        return said if said in ("safe", "unsafe") else "unknown"

    @property
    def stateful_request(self) -> bool:
        """Whether the request belongs to a conversation that the provider stores."""
        return bool(self.previous_response_id or self.conversation_id)


RetryPolicy: TypeAlias = Callable[[RetryPolicyContext], Any]
"""Gives a truth value or a `RetryDecision`; may be async."""


@checked_dataclass
class ModelRetrySettings:
    """The number of retries, their delays, and the failures that are retried."""

    max_retries: int | None = None
    backoff: ModelRetryBackoffInput | None = None
    policy: Callable[..., Any] | None = Field(default=None, exclude=True, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.backoff, dict):
            self.backoff = ModelRetryBackoffSettings(**self.backoff)

    def to_json_dict(self) -> dict[str, Any]:
        """The settings as JSON, without the policy, which is code."""
        backoff: Any = self.backoff
        waits = None if backoff is None else backoff.to_json_dict()
        return {"max_retries": self.max_retries, "backoff": waits}


def _marked(policy: RetryPolicy, *, transport: bool, transient: bool = False) -> RetryPolicy:
    policy.retries_safe_transport_errors = transport  # type: ignore[attr-defined]
    policy.retries_all_transient_errors = transient  # type: ignore[attr-defined]
    return policy


def retry_policy_retries_safe_transport_errors(policy: RetryPolicy | None) -> bool:
    """Whether the policy repeats calls that never reached the provider."""
    return bool(getattr(policy, "retries_safe_transport_errors", False))


def retry_policy_retries_all_transient_errors(policy: RetryPolicy | None) -> bool:
    """Whether the policy repeats calls after every failure that may pass."""
    return bool(getattr(policy, "retries_all_transient_errors", False))


async def _decided(policy: RetryPolicy, context: RetryPolicyContext) -> RetryDecision:
    value = policy(context)
    if isawaitable(value):
        value = await value
    return value if isinstance(value, RetryDecision) else RetryDecision(retry=bool(value))


def _joined(decisions: list[RetryDecision]) -> RetryDecision:
    """One decision to retry out of several: the last delay and reason that were given."""
    joined = RetryDecision(retry=True)
    for each in decisions:
        joined.delay = joined.delay if each.delay is None else each.delay
        joined.reason = joined.reason if each.reason is None else each.reason
        joined.approve_unsafe_replay |= each.approve_unsafe_replay
    return joined


def _overruled(veto: RetryDecision | None, decision: RetryDecision) -> RetryDecision:
    if veto is None:
        return decision
    if decision.retry and decision.approve_unsafe_replay:
        return dataclasses.replace(decision, reason=decision.reason or veto.reason)
    return veto


class _RetryPolicies:
    """Policies to choose from and to combine."""

    def never(self) -> RetryPolicy:
        """No call is made again."""
        return _marked(lambda context: False, transport=False)

    def provider_suggested(self) -> RetryPolicy:
        """As the model advises."""

        def policy(context: RetryPolicyContext) -> bool | RetryDecision:
            advice = context.provider_advice
            if advice is None or advice.suggested is None:
                return False
            if advice.suggested:
                return RetryDecision(retry=True, delay=advice.retry_after, reason=advice.reason)
            refusal = RetryDecision(retry=False, reason=advice.reason)
            refusal.vetoes = True
            refusal.can_be_overruled = context.replay_safety == "unsafe"
            return refusal

        return _marked(policy, transport=True)

    def network_error(self) -> RetryPolicy:
        """After failures of the network, time-outs included."""

        def policy(context: RetryPolicyContext) -> bool:
            return context.normalized.is_network_error or context.normalized.is_timeout

        return _marked(policy, transport=True)

    def retry_after(self) -> RetryPolicy:
        """When the provider said when to come back."""

        def policy(context: RetryPolicyContext) -> bool | RetryDecision:
            delay = context.normalized.retry_after
            if delay is None and context.provider_advice is not None:
                delay = context.provider_advice.retry_after
            return False if delay is None else RetryDecision(retry=True, delay=delay)

        return _marked(policy, transport=False)

    def http_status(self, statuses: Iterable[int]) -> RetryPolicy:
        """After answers with one of these statuses."""
        allowed = frozenset(statuses)
        return _marked(lambda context: context.normalized.status_code in allowed, transport=False)

    def all(self, *policies: RetryPolicy) -> RetryPolicy:
        """When every policy wants it."""
        if not policies:
            return self.never()

        async def policy(context: RetryPolicyContext) -> RetryDecision:
            veto: RetryDecision | None = None
            agreed = []
            for each in policies:
                decision = await _decided(each, context)
                if decision.can_be_overruled:
                    veto = veto or decision
                elif not decision.retry:
                    return decision
                else:
                    agreed.append(decision)
            return _overruled(veto, _joined(agreed))

        return _combined(policy, policies, all)

    def any(self, *policies: RetryPolicy) -> RetryPolicy:
        """When one of the policies wants it and none forbids it."""
        if not policies:
            return self.never()

        async def policy(context: RetryPolicyContext) -> RetryDecision:
            veto: RetryDecision | None = None
            wanted, refusal = [], RetryDecision(retry=False)
            for each in policies:
                decision = await _decided(each, context)
                if decision.can_be_overruled:
                    veto = veto or decision
                elif decision.vetoes:
                    return decision
                elif decision.retry:
                    wanted.append(decision)
                else:
                    refusal = decision
            return _overruled(veto, _joined(wanted) if wanted else refusal)

        return _combined(policy, policies, any)


def _combined(
    policy: RetryPolicy, parts: tuple[RetryPolicy, ...], how: Callable[[Iterable[bool]], bool]
) -> RetryPolicy:
    return _marked(
        policy,
        transport=how(retry_policy_retries_safe_transport_errors(each) for each in parts),
        transient=how(retry_policy_retries_all_transient_errors(each) for each in parts),
    )


retry_policies = _RetryPolicies()


def normalized(error: Exception) -> ModelRetryNormalizedError:
    """The facts of an error of the `openai` package, or of any other."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    after = headers.get("retry-after")
    names = {each.__name__ for each in type(error).__mro__}
    return ModelRetryNormalizedError(
        status_code=getattr(error, "status_code", None),
        error_code=getattr(error, "code", None),
        message=str(error),
        request_id=getattr(error, "request_id", None),
        retry_after=float(after) if after and after.replace(".", "", 1).isdigit() else None,
        is_abort=isinstance(error, asyncio.CancelledError),
        is_network_error=bool(names & {"APIConnectionError", "ConnectionError", "TransportError"}),
        is_timeout=bool(names & {"APITimeoutError", "TimeoutError", "TimeoutException"}),
    )


async def with_retries(
    call: Callable[[], Awaitable[T]],
    settings: ModelRetrySettings | None,
    *,
    model: Any = None,
    stream: bool = False,
    previous_response_id: str | None = None,
    conversation_id: str | None = None,
    has_begun: Callable[[], bool] = lambda: False,
) -> T:
    """Call, and call again as the settings say; the last error is raised.

    Nothing is repeated without a policy, and no answer is that has begun.
    """
    most = (settings.max_retries or 0) if settings is not None and settings.policy else 0
    attempt = 1
    while True:
        try:
            return await call()
        except Exception as error:
            if settings is None or settings.policy is None or attempt > most or has_begun():
                raise
            where: dict[str, Any] = {
                "previous_response_id": previous_response_id,
                "conversation_id": conversation_id,
            }
            asked = ModelRetryAdviceRequest(error=error, attempt=attempt, stream=stream, **where)
            advice = None if model is None else model.get_retry_advice(asked)
            facts = advice.normalized if advice and advice.normalized else normalized(error)
            context = RetryPolicyContext(
                error=error,
                attempt=attempt,
                max_retries=most,
                stream=stream,
                normalized=facts,
                provider_advice=advice,
                **where,
            )
            decision = await _decided(settings.policy, context)
            if not decision.retry:
                raise
            backoff: Any = settings.backoff or ModelRetryBackoffSettings()
            await asyncio.sleep(
                backoff.delay(attempt) if decision.delay is None else decision.delay
            )
            attempt += 1
