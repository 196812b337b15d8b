"""A complete language model of a few hundred kilobytes with random weights, as a GGUF file.

It says nothing sensible, but everything around it is real: the file format, the chat template, the
tokenizer, the network and the sampling. Under a grammar even its answers are valid.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_WORDS = ("▁the", "▁a", "▁to", "▁and", "▁is", "▁you", "tool", "arguments", "reason", '":', '▁"')
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_WIDTH, _HEADS, _LAYERS, _FEED = 32, 2, 2, 64

Value = str | int | float | bool | list[str] | list[int] | list[float]


def vocabulary() -> list[tuple[str, float, int]]:
    """Token, score and type: control tokens, all bytes, printable characters and some words."""
    tokens = [("<unk>", 0.0, _UNKNOWN), ("<s>", 0.0, _CONTROL), ("</s>", 0.0, _CONTROL)]
    tokens += [("<|im_start|>", 0.0, _CONTROL), ("<|im_end|>", 0.0, _CONTROL)]
    tokens += [(f"<0x{byte:02X}>", 0.0, _BYTE) for byte in range(256)]
    tokens += [(chr(code), -20.0, _NORMAL) for code in range(0x21, 0x7F)]
    tokens += [("▁", -21.0, _NORMAL)]
    return tokens + [(word, -float(10 + i), _NORMAL) for i, word in enumerate(_WORDS)]


def metadata(**changes: Value | None) -> dict[str, Value]:
    """The entries of the header; `changes` (``__`` for a dot) replace some, `None` drops one."""
    tokens = vocabulary()
    found: dict[str, Value] = {
        "general.architecture": "llama",
        "general.name": "Tiny Random",
        "general.file_type": 0,
        "llama.block_count": _LAYERS,
        "llama.context_length": 2048,
        "llama.embedding_length": _WIDTH,
        "llama.feed_forward_length": _FEED,
        "llama.attention.head_count": _HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": _WIDTH // _HEADS,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [token for token, _, _ in tokens],
        "tokenizer.ggml.scores": [score for _, score, _ in tokens],
        "tokenizer.ggml.token_type": [kind for _, _, kind in tokens],
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 4,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    for key, value in changes.items():
        dotted = key.replace("__", ".")
        if value is None:
            found.pop(dotted)
        else:
            found[dotted] = value
    return found


def shapes() -> dict[str, tuple[int, ...]]:
    """The tensors, fastest side first."""
    words = len(vocabulary())
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (_WIDTH, words),
        "output_norm.weight": (_WIDTH,),
        "output.weight": (_WIDTH, words),
    }
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found[f"{block}.{name}.weight"] = (_WIDTH, _WIDTH)
        found[f"{block}.attn_norm.weight"] = found[f"{block}.ffn_norm.weight"] = (_WIDTH,)
        found[f"{block}.ffn_gate.weight"] = found[f"{block}.ffn_up.weight"] = (_WIDTH, _FEED)
        found[f"{block}.ffn_down.weight"] = (_FEED, _WIDTH)
    return found


def header(entries: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]]) -> bytes:
    """Everything before the weights."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)))
    for key, value in entries.items():
        out += _text(key) + _value(value)
    offset = 0
    for name, shape in tensors.items():
        out += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", 0, offset)
        offset += _padded(_count(shape) * 4)
    return bytes(out) + b"\0" * (-len(out) % 32)


def write_tiny_gguf(path: Path, *, seed: int = 7, **changes: Value | None) -> Path:
    """Write the model to `path`; the same `seed` gives the same weights."""
    tensors = shapes()
    draw = random.Random(seed)
    with path.open("wb") as file:
        file.write(header(metadata(**changes), tensors))
        for shape in tensors.values():
            is_norm = len(shape) == 1
            numbers = (1.0 if is_norm else draw.gauss(0, 0.3) for _ in range(_count(shape)))
            file.write(array("f", numbers).tobytes())
            file.write(b"\0" * (-_count(shape) * 4 % 32))
    return path


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


def _padded(length: int) -> int:
    return -(-length // 32) * 32


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case [str(), *_]:
            head = struct.pack("<IIQ", 9, 8, len(value))
            return head + b"".join(map(_text, value))
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
        case _:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
