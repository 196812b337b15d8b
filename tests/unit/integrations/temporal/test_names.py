"""How stores, sessions and places are called in Temporal."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from ekiden.core.errors import UserError
from ekiden.integrations.temporal import TemporalAddress, TemporalTls, WorkerVersion
from ekiden.integrations.temporal.connection import connect, make_current
from ekiden.integrations.temporal.names import (
    SessionJob,
    first_attributes,
    keyword,
    labelled_queue,
    register,
    served_queues,
    store_name,
    workflow_id,
)
from ekiden.integrations.temporal.workflows import priority_of
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore


async def test_a_store_has_one_unique_permanent_name() -> None:
    store = MemoryStore()
    name = await store_name(store)
    assert await store_name(store) == name
    assert await store_name(MemoryStore()) != name


async def test_a_copied_store_gets_a_name_of_its_own(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "a.db") as store:
        name = await store_name(store)
    shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
    (tmp_path / "a.db").rename(tmp_path / "moved.db")
    async with (
        SqliteStore(tmp_path / "moved.db") as moved,
        SqliteStore(tmp_path / "copy.db") as copy,
    ):
        assert await store_name(moved) == name
        other = await store_name(copy)
        assert other != name
        assert await store_name(copy) == other


@pytest.mark.parametrize(
    ("place", "is_same"),
    [("7/5/9", True), ("?/5/9", True), ("8/5/9", False), ("?/5/10", False), ("9", False)],
)
async def test_missing_database_permissions_do_not_change_the_name(
    place: str, is_same: bool
) -> None:
    store = Placed("7/5/9")
    name = await store_name(store)
    store.told = place
    assert (await store_name(store) == name) is is_same


class Placed(MemoryStore):
    """Tells where it is."""

    def __init__(self, told: str) -> None:
        super().__init__()
        self.told = told

    async def place(self) -> str:
        return self.told


@pytest.mark.parametrize("session_id", ["客户-42 🏃", "a/b\\c?d=e&f", "x" * 2000, "\ud800", "a b"])
def test_every_session_id_gives_a_short_unique_workflow_id(session_id: str) -> None:
    found = workflow_id("desk", session_id)
    assert found.isascii()
    assert len(found) < 250
    assert found != workflow_id("desk", session_id + "!")


def test_plain_session_ids_are_kept_in_workflow_ids() -> None:
    assert workflow_id("desk", "ses_1.a:b@c") == "ekiden/desk/ses_1.a:b@c"


def test_agents_with_the_same_labels_share_a_queue() -> None:
    needed: dict[str, list[str]] = {"a": [], "b": ["gpu", "eu"], "c": ["eu", "gpu"]}
    assert served_queues("q", needed) == {"q": ["a"], "q+eu+gpu": ["b", "c"]}
    assert labelled_queue("q", {"gpu"}) == "q+gpu"


def test_keywords_are_truncated_and_encodable() -> None:
    assert keyword("\ud800" + "x" * 500).encode("utf-8").startswith(b"?x")
    assert len(keyword("x" * 500)) == 200


def test_priorities_are_mapped_to_those_of_temporal() -> None:
    found = [
        priority_of(SessionJob(session="s", queue="q", agent="a", priority=each)).priority_key
        for each in (4, 3, 2, 1, 99, -1)
    ]
    assert found == [1, 2, 3, 4, 1, 4]


def test_a_worker_version_has_a_deployment_config() -> None:
    config = WorkerVersion(build_id="b1").deployment_config("q")
    assert config is not None
    assert (config.version.deployment_name, config.version.build_id) == ("q", "b1")
    assert config.use_worker_versioning
    assert WorkerVersion().build_id


def test_invalid_deployment_names_are_replaced_or_refused() -> None:
    config = WorkerVersion(build_id="1.2:3").deployment_config("team.a:b")
    assert config is not None
    assert (config.version.deployment_name, config.version.build_id) == ("team-a-b", "1.2:3")
    for refused in ("", "__x", "x" * 300):
        with pytest.raises(UserError, match="build id"):
            WorkerVersion(build_id=refused)
    with pytest.raises(UserError, match="leave"):
        WorkerVersion(build_id="1", deployment="a.b")


async def test_a_version_refused_by_the_cluster_is_an_error() -> None:
    client: Any = Refusing(RPCStatusCode.INVALID_ARGUMENT)
    with pytest.raises(UserError, match="not for you"):
        await make_current(client, "q", WorkerVersion(build_id="1"))


class Refusing:
    """A client whose cluster refuses everything."""

    namespace = "desk"

    def __init__(self, status: RPCStatusCode) -> None:
        self._status = status

    @property
    def operator_service(self) -> Refusing:
        return self

    @property
    def workflow_service(self) -> Refusing:
        return self

    async def describe_worker_deployment(self, request: object) -> None:
        raise RPCError("not for you", self._status, b"")

    async def list_search_attributes(self, request: object) -> None:
        raise RPCError("not for you", self._status, b"")


async def test_a_missing_permission_for_search_attributes_is_reported_with_advice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert not await register(Refusing(RPCStatusCode.PERMISSION_DENIED))
    assert "temporal operator search-attribute create --namespace desk" in caplog.text
    assert "--name EkidenAgent --type Keyword" in caplog.text
    job = SessionJob(session="s", queue="q", agent="a", indexed=False)
    assert len(list(first_attributes(job))) == 0


async def test_search_attributes_that_already_exist_are_accepted() -> None:
    assert await register(Refusing(RPCStatusCode.ALREADY_EXISTS))


@pytest.mark.parametrize("address", ["localhost", "http://localhost:7233", ""])
async def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="host:port"):
        await connect(TemporalAddress(address))


async def test_invalid_keys_and_certificates_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    with pytest.raises(UserError, match="NO_KEY"):
        await connect(TemporalAddress("localhost:1", api_key_env="NO_KEY"))
    with pytest.raises(UserError, match="both a certificate and its key"):
        await connect(TemporalAddress("localhost:1", tls=TemporalTls(cert=tmp_path / "c.pem")))
    with pytest.raises(UserError, match="cannot be read"):
        await connect(TemporalAddress("localhost:1", tls=TemporalTls(ca=tmp_path / "ca.pem")))
