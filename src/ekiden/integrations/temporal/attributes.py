"""Search attributes: sessions are found in Temporal by agent, status, outcome and store."""

from __future__ import annotations

import logging

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from ekiden.integrations.temporal.payloads import SessionJob

_log = logging.getLogger("ekiden.temporal")

AGENT = SearchAttributeKey.for_keyword("EkidenAgent")
STATUS = SearchAttributeKey.for_keyword("EkidenStatus")
OUTCOME = SearchAttributeKey.for_keyword("EkidenOutcome")
STORE = SearchAttributeKey.for_keyword("EkidenStore")
KEYS = (AGENT, STATUS, OUTCOME, STORE)

_MOST = 200


def keyword(text: str) -> str:
    """The text as a keyword: not too long for any cluster, and always UTF-8."""
    return text[:_MOST].encode("utf-8", "replace").decode("utf-8")


def first_attributes(job: SessionJob) -> TypedSearchAttributes:
    """Those that a workflow starts with; none if the namespace does not know them."""
    if not job.indexed:
        return TypedSearchAttributes.empty
    return TypedSearchAttributes(
        [
            SearchAttributePair(AGENT, keyword(job.agent)),
            SearchAttributePair(STATUS, "ready"),
            SearchAttributePair(STORE, keyword(job.store)),
        ]
    )


async def register(client: Client) -> bool:
    """Make the attributes known to the namespace, if they are not; whether they are then.

    Who may not do that is told in the log how it is done, and goes on without them.
    """
    names = [key.name for key in KEYS]
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = [name for name in names if name not in known.custom_attributes]
        if missing:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(
                    namespace=client.namespace,
                    search_attributes=dict.fromkeys(
                        missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
                    ),
                )
            )
    except RPCError as exc:
        if exc.status == RPCStatusCode.ALREADY_EXISTS:
            return True  # Another worker was faster.
        options = " ".join(f"--name {name} --type Keyword" for name in names)
        _log.warning(
            "sessions cannot be searched for in Temporal, because the search attributes are not "
            "there and cannot be made from here (%s); make them with: "
            "temporal operator search-attribute create --namespace %s %s",
            exc.message,
            client.namespace,
            options,
        )
        return False
    return True
