"""A server on loopback that is an index of Pinecone: its data plane, and looking the index up."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ekiden.testing.servers.loopback import HttpRequest
from tests.support.vendor import Refused, Trouble, VendorServer

_VERSION = re.compile(r"20\d\d-\d\d")
_MAX_BYTES = 2_000_000


class PineconeServer(VendorServer):
    """One index, with the metric cosine; it looks at everything that it is sent."""

    def __init__(
        self,
        *,
        dimensions: int = 4,
        key: str = "pc-test",
        index: str = "desk",
        troubles: Sequence[Trouble] = (),
    ) -> None:
        super().__init__(troubles)
        self._dimensions, self._key, self._index = dimensions, key, index
        self.namespaces: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        """Vectors by namespace and id."""

    def error(self, code: int, message: str) -> Any:
        return {"code": code, "message": message, "details": []}

    async def answer(self, request: HttpRequest) -> Any:
        assert _VERSION.fullmatch(request.headers["x-pinecone-api-version"])
        assert request.headers["user-agent"].startswith("python-client-")
        if request.headers.get("api-key") != self._key:
            raise Refused(401, "Invalid API Key")
        if request.method == "GET":
            return self._described(request)
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/json"
        assert len(request.body) <= _MAX_BYTES
        body = request.json()
        match request.path:
            case "/vectors/upsert":
                return self._upsert(body)
            case "/vectors/delete":
                return self._delete(body)
            case "/query":
                return self._query(body)
        raise AssertionError("no such path")

    def _described(self, request: HttpRequest) -> Any:
        if request.path != f"/indexes/{self._index}":
            raise Refused(404, "no such index")
        vector = {"type": "dense_vector", "dimension": self._dimensions, "metric": "cosine"}
        return {
            "name": self._index,
            "host": self.origin,
            "status": {"ready": True, "state": "Ready"},
            "schema": {"fields": {"_values": vector}},
            "deployment": {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"},
            "deletion_protection": "disabled",
            "tags": None,
        }

    def _upsert(self, body: Any) -> Any:
        assert set(body) == {"vectors", "namespace"}
        assert body["namespace"]
        assert 1 <= len(body["vectors"]) <= 1000
        for vector in body["vectors"]:
            assert set(vector) == {"id", "values", "metadata"}
            assert re.fullmatch(r"[\x01-\x7f]{1,512}", vector["id"])
            for value in vector["metadata"].values():
                assert isinstance(value, str | int | float | bool)
            if len(vector["values"]) != self._dimensions:
                raise Refused(400, "Vector dimension does not match the dimension of the index")
        kept = {vector["id"]: vector for vector in body["vectors"]}
        self.namespaces[body["namespace"]].update(kept)
        return {"upsertedCount": len(body["vectors"])}

    def _delete(self, body: Any) -> Any:
        assert set(body) in ({"ids", "namespace"}, {"deleteAll", "namespace"})
        namespace = body["namespace"]
        if namespace not in self.namespaces:
            raise Refused(404, "Namespace not found")
        if "ids" in body:
            assert 1 <= len(body["ids"]) <= 1000
            for each in body["ids"]:
                self.namespaces[namespace].pop(each, None)
        else:
            assert body["deleteAll"] is True
            del self.namespaces[namespace]
        return {}

    def _query(self, body: Any) -> Any:
        assert {"topK", "vector", "namespace", "includeMetadata", "includeValues"} <= set(body)
        assert set(body) - {"filter", "topK", "vector", "namespace"} <= {
            "includeMetadata",
            "includeValues",
        }
        assert 1 <= body["topK"] <= 10_000
        if len(body["vector"]) != self._dimensions:
            raise Refused(400, "Query vector dimension does not match")
        wanted = {name: test["$eq"] for name, test in body.get("filter", {}).items()}
        found = [
            {
                "id": each["id"],
                "score": _cosine(each["values"], body["vector"]),
                "values": [],
                **({"metadata": each["metadata"]} if body["includeMetadata"] else {}),
            }
            for each in self.namespaces.get(body["namespace"], {}).values()
            if wanted.items() <= each["metadata"].items()
        ]
        found.sort(key=lambda match: -match["score"])
        return {
            "results": [],
            "matches": found[: body["topK"]],
            "namespace": body["namespace"],
            "usage": {"readUnits": 1},
        }


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)
