"""Folders of encoders with random weights, small enough to be written by a test."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] book a flight to os ##lo pay the bill ##s ##ing fly ! ? , . "
    "un ##aff ##able caf ##e cafe é 天 气 m ##y i ' t don cat Cat привет"
).split()
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "layer_norm_eps": 1e-12,
    "vocab_size": len(PIECES),
}


def tensors(seed: int = 1) -> dict[str, NDArray[np.float32]]:
    draw = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(PIECES), 8),
        "embeddings.position_embeddings.weight": (32, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        **_norm("embeddings.LayerNorm"),
    }
    for number in range(2):
        start = f"encoder.layer.{number}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _dense(f"{start}attention.{part}", 8, 8)
        shapes |= _norm(f"{start}attention.output.LayerNorm")
        shapes |= _dense(f"{start}intermediate.dense", 16, 8)
        shapes |= _dense(f"{start}output.dense", 8, 16)
        shapes |= _norm(f"{start}output.LayerNorm")
    return {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _dense(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (8,), f"{name}.bias": (8,)}


def safetensors(found: Mapping[str, NDArray[Any]], kind: str = "F32") -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in found.items():
        raw = tensor.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": offsets}
        data += raw
    return with_header(header, data)


def with_header(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(folder: Path, *, config: Mapping[str, object] | None = None, seed: int = 1) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", "utf-8")
    (folder / "model.safetensors").write_bytes(safetensors(tensors(seed)))
    return folder
