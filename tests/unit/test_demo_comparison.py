"""The demo's comparison finds each kind of fault."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from resolver.demo.comparison import Comparison, compare, print_report
from resolver.demo.shop import Content

A = Content(b"k", b"a", (("source", b"shop"),))
B = Content(None, b"b", ())
PLACED = {"a": A, "b": B}


def test_each_order_once_and_no_other_holds() -> None:
    result = compare(PLACED, {"a": [A], "b": [B]}, discarded=["never placed"])
    assert result.holds
    assert (result.placed, result.right) == (2, 2)


def test_no_order_at_all_holds() -> None:
    assert compare({}, {}).holds


def test_a_lost_message_is_reported() -> None:
    result = compare(PLACED, {"a": [A]})
    assert not result.holds
    assert result.lost == ("b",)
    assert result.right == 1


def test_a_doubled_message_is_reported_once() -> None:
    result = compare(PLACED, {"a": [A, A], "b": [B]})
    assert not result.holds
    assert (result.doubled, result.lost, result.changed) == (("a",), (), ())
    assert result.right == 1


@pytest.mark.parametrize(
    "changed",
    [
        A._replace(body=b"A"),
        A._replace(body=None),
        A._replace(key=None),
        A._replace(headers=()),
        A._replace(headers=(("source", None),)),
        A._replace(headers=(("source", b"shop"), ("source", b"shop"))),
    ],
)
def test_a_changed_message_is_reported(changed: Content) -> None:
    result = compare(PLACED, {"a": [changed], "b": [B]})
    assert not result.holds
    assert result.changed == ("a",)


def test_null_and_empty_bytes_differ() -> None:
    empty = Content(b"", b"", ())
    null = Content(None, None, ())
    assert compare({"a": empty}, {"a": [null]}).changed == ("a",)


def test_a_ghost_is_reported() -> None:
    result = compare(PLACED, {"a": [A], "b": [B], "c": [A]})
    assert not result.holds
    assert result.ghosts == ("c",)


def test_a_committed_order_that_was_discarded_is_reported() -> None:
    result = compare(PLACED, {"a": [A]}, discarded=["b"])
    assert not result.holds
    assert (result.given_up, result.lost) == (("b",), ("b",))


def test_what_has_no_outcome_is_reported() -> None:
    result = compare(PLACED, {"a": [A], "b": [B]}, pending=1)
    assert not result.holds


def printed(result: Comparison) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_report(console, result, Path("shop/orders.db"), Path("/home"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_report_names_what_is_wrong() -> None:
    text = printed(compare(PLACED, {"a": [A, A], "c": [B]}, pending=3))
    assert "DOES NOT HOLD: 1 lost, 1 doubled, 1 ghosts, 3 without an outcome" in text
    assert "/home/tables" in text


def test_the_report_says_that_it_holds() -> None:
    text = printed(compare(PLACED, {"a": [A], "b": [B]}))
    assert "The comparison holds: each of the 2 committed orders" in text
