"""Whatever a schema and an answer are: the one is refused or checks, the other never crashes it."""

from __future__ import annotations

import asyncio
import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.core.context import RunContextWrapper
from ekiden.guardrails import SchemaUnusable, schema_guardrail
from tests.support.examples import examples

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)
SCALARS = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "array", "object", "x"])}),
    st.fixed_dictionaries({"pattern": st.text(alphabet="ab(){}[]*+?|\\^$.1-<!=:", max_size=12)}),
    st.fixed_dictionaries({"format": st.sampled_from(["date", "email", "regex", "uri", "none"])}),
    st.fixed_dictionaries({"minimum": st.floats() | st.integers()}),
    st.fixed_dictionaries({"multipleOf": st.floats() | st.integers()}),
    st.fixed_dictionaries({"$ref": st.sampled_from(["#", "#/$defs/a", "x", "http://a.test/", ""])}),
    st.fixed_dictionaries({"const": ANYTHING}),
    st.booleans(),
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inside: st.one_of(
        st.fixed_dictionaries({"items": inside}),
        st.fixed_dictionaries({"anyOf": st.lists(inside, max_size=3)}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.text(), inside, max_size=3)}),
        st.fixed_dictionaries({"not": inside, "$defs": st.fixed_dictionaries({"a": inside})}),
        st.fixed_dictionaries({"propertyNames": inside, "unevaluatedProperties": inside}),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(schema=SCHEMAS, answer=ANYTHING | st.text() | ANYTHING.map(json.dumps))
def test_arbitrary_schemas_raise_no_other_exception(schema: Any, answer: Any) -> None:
    try:
        guardrail = schema_guardrail(schema)
    except SchemaUnusable:
        return
    found = asyncio.run(guardrail.run(RunContextWrapper(None), None, answer)).output
    assert found.tripwire_triggered is bool(found.violations)
    assert all(each.message and len(each.message) < 1000 for each in found.violations)


def test_a_mapping_that_is_no_dict_is_refused() -> None:
    with pytest.raises(SchemaUnusable, match="it is not JSON"):
        schema_guardrail({"items": MappingProxyType({"type": "string"})})
