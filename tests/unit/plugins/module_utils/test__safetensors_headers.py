# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No header crashes the parser, and its two ways agree with each other and with the safetensors package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _safetensors
from ansible_collections.inferops.dynamo.plugins.module_utils._safetensors import Bad, check_header

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

QUICK = hypothesis.settings(max_examples=150, deadline=None, database=None)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES
SNIPPETS = st.binary(max_size=2) | st.sampled_from([b'"', b"0", b","])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4))
TENSORS = st.lists(
    st.tuples(NAMES, st.sampled_from(sorted(_safetensors.BITS)), st.lists(st.integers(0, 9), max_size=3)),
    max_size=5,
    unique_by=lambda item: item[0],
)


def end_of(raw: bytes, data: int) -> str:
    try:
        check_header(raw, data)
    except Bad as bad:
        return str(bad.args[0])
    return ""


def sound(tensors: list[tuple[str, str, list[int]]]) -> tuple[dict[str, Any], int]:
    """A header of these tensors, one after the other; what does not fill whole bytes is left out."""
    header: dict[str, Any] = {}
    at = 0
    for name, dtype, shape in tensors:
        bits = _safetensors.prod(shape) * _safetensors.BITS[dtype]
        if bits % 8 == 0 and name != "__metadata__":
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + bits // 8]}
            at += bits // 8
    return header, at


@QUICK
@hypothesis.given(st.binary(max_size=200), st.integers(0, 1 << 62))
def test_bytes(raw: bytes, data: int) -> None:
    end_of(raw, data)


@QUICK
@hypothesis.given(JSON, st.integers(0, 1 << 62))
def test_any_json(value: Any, data: int) -> None:
    end_of(json.dumps(value).encode(), data)


ODD = {"dtype": st.sampled_from(["U8", "F4", "F32", "X"]) | JSON, "shape": JSON, "data_offsets": JSON}


@QUICK
@hypothesis.given(st.dictionaries(NAMES, st.fixed_dictionaries(ODD)), st.booleans())
def test_almost_a_header(header: dict[str, Any], compact: bool) -> None:
    end_of(json.dumps(header, separators=(",", ":") if compact else None).encode(), 8)


@QUICK
@hypothesis.given(TENSORS, st.booleans())
def test_a_sound_header_is_accepted_in_any_form(tensors: list[tuple[str, str, list[int]]], ascii_only: bool) -> None:
    header, size = sound(tensors)
    for separators in ((",", ":"), (", ", ": ")):
        raw = json.dumps(header, separators=separators, ensure_ascii=ascii_only).encode()
        assert end_of(raw, size) == ""
        assert end_of(raw, size + 1) == "trailing_bytes"


@QUICK
@hypothesis.given(TENSORS, st.data())
def test_columns_accept_only_what_the_slow_way_accepts(tensors: list[tuple[str, str, list[int]]], draw: Any) -> None:
    header, size = sound(tensors)
    raw = bytearray(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode())
    for _change in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(raw) - 1))
        raw[at : at + draw.draw(st.integers(0, 2))] = draw.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"0", b","])
        )
        if not raw:
            return
    names = _safetensors._columns(bytes(raw), size)
    if names is not None:
        assert names == set(_safetensors._parse(bytes(raw))[0])
