"""Records of the op topic: what is no op at all, and ops whose elements are right and wrong."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from resolver.protocol import Headers

from .spec import is_op

TAG: Headers = [("TAGS", b"d")]
#: Elements that are refused alone: offset and transaction id. "DEEP" is replaced by deep nesting.
BROKEN: list[tuple[Any, Any]] = [
    (-1, "id"),
    (2**63, "id"),
    (2**64, "id"),
    (1.5, "id"),
    ("5", "id"),
    (None, "id"),
    (True, "id"),
    ({"a": 1}, "id"),
    ("DEEP", "id"),
    (1, ""),
    (1, None),
    (1, 7),
    (1, "x" * 129),
    (1, "DEEP"),
]
_NO_TEXT: list[Any] = [1, 1.5, [], {}, "DEEP", True, {"a": "DEEP"}]
#: No value of a field.
_ODD: dict[str, list[Any]] = {
    "state": [*_NO_TEXT, None, "COMMIT", "commit_message", "", "\ud800"],
    "group": [*_NO_TEXT, None, "", "a/b", "x" * 201, "\ud800", "é"],
    "offsets": [None, 1, "7", {}, True, [], [1, 2]],
    "transaction_ids": [None, 1, "id", {}, True, [], ["a", "b"]],
    "from_check": [None, 0, 1, "true", [], "DEEP"],
    "remark": _NO_TEXT,
    "actor": [*_NO_TEXT, ""],
}
_DEPTHS = [3, 500, 1_000, 1_020, 5_000]


def written(body: dict[str, Any], random: Random) -> bytes:
    """Write a body as JSON, with "DEEP" replaced, blanks and unknown fields around it."""
    if random.random() < 0.2:
        body = {"unknown": random.choice([None, "DEEP", 2**64, [1] * 50, "\u0000"]), **body}
    indent = random.choice([None, None, 1])
    text = json.dumps(body, indent=indent, ensure_ascii=random.random() < 0.5)
    # An op with a right element has to stay one: what is read at most is about a thousand.
    return text.replace('"DEEP"', nested(random.choice(_DEPTHS[:4]))).encode("utf-8", "replace")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def body(state: Any, group: Any, elements: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the body of an op."""
    return {
        "state": state,
        "group": group,
        "offsets": [offset for offset, _ in elements],
        "transaction_ids": [transaction_id for _, transaction_id in elements],
    }


def no_op(random: Random) -> tuple[bytes | None, Headers]:
    """Return value and headers of what must be refused as a whole."""
    made: tuple[bytes | None, Headers] = random.choice(_NO_OPS)(random)
    return made


def _random_bytes(random: Random) -> tuple[bytes | None, Headers]:
    first = random.choice([b"", b"{", b"\xff"])
    return random.choice([None, b"", first + random.randbytes(random.randrange(200))]), TAG


def _changed_bytes(random: Random) -> tuple[bytes | None, Headers]:
    """Change bytes until by the spec it is no op any more."""
    good = bytearray(json.dumps(body("COMMIT_MESSAGE", "a", [(7, "id")])).encode())
    while is_op(bytes(good)):
        good[random.randrange(len(good))] = random.randrange(256)
    return bytes(good), TAG


def _odd_json(random: Random) -> tuple[bytes | None, Headers]:
    texts = [
        "null", "1e999", "NaN", "[" * 100_000, nested(5_000), '"\\ud800"', "\ufeff{}", "{}{}",
        '{"state":"COMMIT_MESSAGE"' * 50, "{" + '"a":' * 3_000, "-", "1" * 100_000,
    ]  # fmt: skip
    return random.choice(texts).encode(), TAG


def _odd_field(random: Random) -> tuple[bytes | None, Headers]:
    made = body("COMMIT_MESSAGE", "a", [(7, "id")])
    name = random.choice([*_ODD])
    if random.random() < 0.1 and name in made:
        del made[name]
    else:
        made[name] = random.choice(_ODD[name])
    return written(made, random), TAG


def _odd_lengths(random: Random) -> tuple[bytes | None, Headers]:
    made = body("ROLLBACK_MESSAGE", "a", [(7, "id")] * random.choice([0, 1, 3]))
    made["offsets"] = list(range(random.choice([0, 2, 5, 10_000])))
    return written(made, random), TAG


def _too_many(random: Random) -> tuple[bytes | None, Headers]:
    count = random.choice([1_025, 10_000]) if random.random() < 0.1 else 1_025
    return written(body("COMMIT_MESSAGE", "a", [(7, "id")] * count), random), TAG


def _odd_tags(random: Random) -> tuple[bytes | None, Headers]:
    tags: list[Headers] = [
        [],
        TAG * 2,
        TAG * 300,
        [("TAGS", None)],
        [("TAGS", b"fence")],
        [("TAGS", b"D")],
        [("TAGS", random.randbytes(3_000))],
        [("tags", b"d")] * 100,
        [("TAGS", b"fence"), ("REASON", b"x")],
    ]
    value = written(body("COMMIT_MESSAGE", "a", [(7, "id")]), random)
    return random.choice([value, value, b"x"]), random.choice(tags)


def _plain_odd_json(random: Random) -> tuple[bytes | None, Headers]:
    return (_odd_json if random.random() < 0.05 else _odd_field)(random)


_NO_OPS: list[Any] = [
    _random_bytes,
    _changed_bytes,
    _plain_odd_json,
    _odd_field,
    _odd_lengths,
    _odd_tags,
    lambda random: (_too_many if random.random() < 0.05 else _odd_tags)(random),
]
