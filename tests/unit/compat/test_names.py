"""Every public name of the OpenAI Agents SDK imports; the page says which ones work."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ekiden.compat.agents import NotSupported
from ekiden.compat.agents.not_supported import Placeholder, placeholders

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def names() -> ModuleType:
    path = _ROOT / "tests" / "conformance" / "names.py"
    spec = importlib.util.spec_from_file_location("conformance_names", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_name_needed_for_a_run_is_a_placeholder(names: ModuleType) -> None:
    states = names.states()
    for module in ("agents", "agents.agent", "agents.handoffs", "agents.guardrail", "agents.mcp"):
        assert set(states[module][1]) <= {"sandbox"}
    for module in ("agents.memory", "agents.tracing", "agents.stream_events", "agents.decorators"):
        assert states[module][1] == []


def test_an_unsupported_name_raises_with_the_reason_on_use() -> None:
    File = importlib.import_module("ekiden.compat.agents.sandbox.entries").File
    assert isinstance(File, Placeholder)
    with pytest.raises(NotSupported, match="does not run sandboxes; run commands with"):
        File(content=b"")
    with pytest.raises(NotSupported, match="agents.sandbox.entries.File"):
        type("Own", (File,), {})


def test_each_unsupported_name_has_its_own_reason() -> None:
    sandbox = placeholders("ekiden.compat.agents")("sandbox")
    with pytest.raises(NotSupported, match="Ekiden does not run sandboxes"):
        sandbox()
    transport = placeholders("ekiden.compat.agents.mcp.server")("StreamableHTTPTransport")
    with pytest.raises(NotSupported, match="import it from `mcp.client.streamable_http`"):
        transport("http://host")


def test_an_unknown_name_is_no_placeholder() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        placeholders("ekiden.compat.agents")("Nothing")
