"""Attributes in which code counts: it adds a number to them, and does nothing else."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Sequence
from typing import NamedTuple

from reprise.guards.code import named_by, texts_named

_LEFT_OUT = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOP", "RESUME"})
_NUMBERS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_SIGNS = frozenset({"+", "-", "+=", "-="})
_OLD_SIGNS = frozenset(
    {"BINARY_ADD", "BINARY_SUBTRACT", "INPLACE_ADD", "INPLACE_SUBTRACT"}
)


class Counted(NamedTuple):
    """Names of attributes."""

    counted: frozenset[str]  # an integer is added to it, or taken from it
    otherwise: frozenset[str]  # that are read or set in another way, too


@functools.lru_cache(maxsize=8192)
def counted_by(code: types.CodeType) -> Counted:
    """What of the attributes that code names it counts in; functions inside it, too.

    It is shown by the instructions: an attribute is read, an integer that stands in the code
    is added, and the sum is set as the same attribute of the same object, with nothing in
    between. So what is behind a call is what was before it, and a number that depends on
    the call alone.
    """
    steps = [
        each for each in dis.get_instructions(code) if each.opname not in _LEFT_OUT
    ]
    counted: set[str] = set()
    otherwise = set(texts_named(code))
    own: set[str] = set()
    index = 0
    while index < len(steps):
        if length := _adds(steps, index):
            counted.add(steps[index + 1].argval)
            index += length
            continue
        if "ATTR" in steps[index].opname or steps[index].opname == "LOAD_METHOD":
            own.add(str(steps[index].argval))
        index += 1
    named, inner = named_by(code), code.co_consts
    known = {*own, *counted}
    for each in inner:
        if isinstance(each, types.CodeType):
            found = counted_by(each)
            counted |= found.counted
            otherwise |= found.otherwise
            known |= found.counted | found.otherwise
    otherwise |= own
    otherwise |= {str(each.argval) for each in steps if each.opname == "IMPORT_FROM"}
    otherwise |= {*named.read, *named.written} - known
    return Counted(frozenset(counted), frozenset(otherwise))


def _adds(steps: Sequence[dis.Instruction], index: int) -> int:
    """Return how many steps from there on add to an attribute. 0: they do not."""
    some = steps[index : index + 6]
    if len(some) < 6 or not _is_sum(some[2], some[3]):
        return 0
    if any(each.is_jump_target for each in some[1:]):  # what is added is a choice
        return 0
    first, read, _, _, last, put = some
    if (
        read.opname != "LOAD_ATTR"
        or put.opname != "STORE_ATTR"
        or read.argval != put.argval
        or read.argrepr.startswith("NULL")
    ):
        return 0
    # The object is there twice: `o.a += 1` copies it, `o.a = o.a + 1` names it again.
    copies = (first.opname, first.arg) == ("COPY", 1) or first.opname == "DUP_TOP"
    swaps = (last.opname, last.arg) == ("SWAP", 2) or last.opname == "ROT_TWO"
    names = (
        first.opname.startswith("LOAD_FAST")
        and first.opname == last.opname
        and isinstance(first.argval, str)
        and first.argval == last.argval
    )
    return 6 if (copies and swaps) or names else 0


def _is_sum(number: dis.Instruction, adds: dis.Instruction) -> bool:
    is_sign = adds.opname in _OLD_SIGNS or (
        adds.opname == "BINARY_OP" and adds.argrepr in _SIGNS
    )
    return is_sign and number.opname in _NUMBERS and type(number.argval) is int
