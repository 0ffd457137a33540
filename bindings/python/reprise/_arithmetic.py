"""What Python computes with the numbers of a recorded call, as nodes that can be computed again."""

from __future__ import annotations

import sys
import types
from typing import Any

from reprise import _native
from reprise._enums import NumberOp
from reprise._frames import is_torchs

EXACT = 1 << 53  # integers below are floats, too
# Modules in C that give a number to no one, or to torch's operators, which are written down.
_KNOWN = frozenset(
    {
        *("builtins", "torch", "operator", "_operator", "itertools", "functools"),
        *("_functools", "collections", "_collections", "_abc", "_weakref", "weakref"),
        *("_thread", "sys", "time", "gc", "_contextvars", "_warnings", "typing"),
        *("_typing", "types", "marshal", "_imp", "posix", "_io"),
    }
)
_GIVEN = (NumberOp.GIVEN, NumberOp.CONSTANT)
_MATH = frozenset({"numpy", "scipy", "cupy", "jax", "gmpy2", "mpmath"})


class Arithmetic:
    """The numbers of one recorded call, and what Python computes with them.

    A number is a node, named by its index; operands are earlier ones. The first nodes are the
    numbers that the call is given. Single-thread.
    """

    def __init__(self, given: list[float]) -> None:
        """`given`: the numbers of the call."""
        # By node: a `NumberOp`, its two operands, and whether Python went by it.
        self.nodes: list[int] = []
        self.values: list[float] = []
        self.reads = 0  # of tensors of the host
        # Who may have been given what was read or computed; "": nobody.
        self.escape = ""
        self._active = False  # something was read or computed
        self._constants: dict[str, int] = {}
        for index, value in enumerate(given):
            self.add(NumberOp.GIVEN, index, 0, value)

    def add(self, op: int, left: int, right: int, value: float) -> int:
        """Add a node. Returns its name."""
        if op not in _GIVEN and not self._active:
            self._active = True
            frame: types.FrameType | None = sys._getframe(1)
            while frame is not None:
                self.saw_frame(frame)
                frame = frame.f_back
        self.nodes += op, left, right, 0
        self.values.append(value)
        return len(self.values) - 1

    def operands(self) -> set[int]:
        """Return the nodes that something was computed from."""
        found = set()
        for op, left, right in zip(
            self.nodes[::4], self.nodes[1::4], self.nodes[2::4], strict=True
        ):
            if op > NumberOp.CONSTANT:
                found.add(left)
            if op > NumberOp.ABSOLUTE:
                found.add(right)
        return found

    def constant(self, value: float) -> int:
        """Return the node of a constant."""
        name = value.hex()
        node = self._constants.get(name)
        if node is None:
            node = self.add(NumberOp.CONSTANT, 0, 0, value)
            self._constants[name] = node
        return node

    def look_at(self, node: int) -> None:
        """Note that Python goes by a number."""
        self.nodes[4 * node + 3] = 1

    def saw_call(self, frame: types.FrameType, function: Any) -> None:
        """See the call of a function in C: it may be given what was computed."""
        if not self._active or self.escape:
            return
        module = getattr(function, "__module__", None)
        if module is None:
            owner = getattr(function, "__self__", None)
            # Without a module: a method, or a function of a library's.
            if type(owner).__name__ == "PyCapsule":
                module = "torch" if is_torchs(frame.f_code.co_filename) else "?"
            else:
                owner = owner if isinstance(owner, type) else type(owner)
                if owner is type(None):
                    owner = getattr(function, "__objclass__", type(None))
                module = owner.__module__
        if module.partition(".")[0] not in _KNOWN:
            self.escape = f"{module}.{function.__name__}"

    def saw_frame(self, frame: types.FrameType) -> None:
        """See a function of Python's: it may give what was computed to a library's arrays."""
        if not self._active or self.escape:
            return
        of = frame.f_globals
        for name in frame.f_code.co_names:
            value = of.get(name)
            if (
                type(value) is types.ModuleType
                and value.__name__.partition(".")[0] in _MATH
            ):
                self.escape = value.__name__
                return


def take_read() -> int:
    """Return which read of a tensor of the host the last call was; negative: none."""
    read: int = _native._ops().take_read()
    return read
