"""What torch's optimizers compute with numbers, as nodes that can be computed again.

A float in C hands its value to whoever asks, and no subclass of it is told. So numbers are
followed where all code is known that has them: in the modules of `torch.optim` that are named
here, which add, subtract, multiply, divide, raise to powers and compare.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim import optimizer as _optimizer

from reprise import _native
from reprise._enums import NumberOp
from reprise._frames import Owner, is_torchs, owner_of

# Functions of an optimizer's that have computed nothing, and call hooks and closures.
_CALL_THE_PROGRAM = frozenset({"step", "wrapper", "zero_grad"})
# Those that hand out groups, or what they hold.
_SHOW_GROUPS = frozenset({"state_dict", "__getstate__", "__repr__"})
EXACT = 1 << 53  # integers below are floats, too
_GET_VALUE = _optimizer._get_value
FOLDER = os.path.dirname(torch.optim.__file__) + os.sep
# Modules whose code was read: arithmetic and comparisons alone.
_MODULES = frozenset(
    f"torch.optim.{name}"
    for name in (
        *("optimizer", "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd"),
        *("nadam", "radam", "rmsprop", "rprop", "sgd", "_muon"),
    )
)
# Of their functions, those that give `math` nothing but sizes.
_OF_SIZES = frozenset({("torch.optim._muon", "_adjust_lr")})
# Modules in C whose functions give a number to nobody but torch's operators.
_KNOWN = frozenset(
    {"builtins", "torch", "typing", "_typing", "collections", "operator"}
)


def is_followed(frame: types.FrameType) -> bool:
    """Return whether what its code does with numbers is known: it is torch's optimizers'."""
    if not frame.f_code.co_filename.startswith(FOLDER):
        return False
    name = frame.f_globals.get("__name__")
    module = sys.modules.get(name) if name in _MODULES else None
    return module is not None and vars(module) is frame.f_globals


def _gives_sizes(frame: types.FrameType) -> bool:
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) in _OF_SIZES


class Arithmetic:
    """The numbers of one recorded call, and what torch's optimizers compute with them.

    A number is a node, named by its index; operands are earlier ones. The first nodes are the
    numbers that the call is given. Single-thread.
    """

    def __init__(self, given: list[float]) -> None:
        """`given`: the numbers of the call."""
        # By node: a `NumberOp`, its two operands, and whether Python went by it.
        self.nodes: list[int] = []
        self.values: list[float] = []
        # Who may have been given what was read or computed; "": nobody.
        self.escape = ""
        self.shows_groups = False  # code of torch's has handed out what groups hold
        self._constants: dict[str, int] = {}
        for index, value in enumerate(given):
            self.add(NumberOp.GIVEN, index, 0, value)

    def add(self, op: int, left: int, right: int, value: float) -> int:
        """Add a node. Returns its name."""
        self.nodes += op, left, right, 0
        self.values.append(value)
        return len(self.values) - 1

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

    def saw_call(self, frame: types.FrameType, function: Any) -> None:
        """See the call of a function in C, which may be given what an optimizer computed."""
        if self.escape or not is_followed(frame):
            return
        module = getattr(function, "__module__", None)
        if module == "math" and _gives_sizes(frame):
            return
        if module is not None and module.partition(".")[0] not in _KNOWN:
            self.escape = f"{module}.{function.__name__}"

    def saw_function(self, frame: types.FrameType) -> None:
        """See a function of Python's, which an optimizer or one of torch's functions calls."""
        code = frame.f_code
        self.shows_groups |= code.co_name in _SHOW_GROUPS and is_followed(frame)
        caller = frame.f_back
        if self.escape or caller is None or not is_followed(caller):
            return
        file = code.co_filename
        known = is_torchs(file) or owner_of(file) in (Owner.REPRISE, Owner.LIBRARY)
        if not known and caller.f_code.co_name not in _CALL_THE_PROGRAM:
            self.escape = code.co_name


def take_read() -> int:
    """Return which read of a tensor of the host the last call was; negative: none."""
    read: int = _native._ops().take_read()
    return read


def are_torchs(optimizers: Iterable[torch.optim.Optimizer]) -> bool:
    """Return whether the code of all of them is known (`is_followed`)."""
    known = [module for name in _MODULES if (module := sys.modules.get(name))]
    return all(
        any(vars(module).get(type(each).__name__) is type(each) for module in known)
        for each in optimizers
    )


def is_numpys(kind: type) -> bool:
    """Return whether its objects are NumPy's numbers that are floats of Python's, too."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and kind is numpy.float64


def may_follow(optimizers: Iterable[torch.optim.Optimizer], *, hidden: bool) -> bool:
    """Return whether all numbers of theirs are plain floats, which give way to others.

    `hidden`: only torch's optimizers look at them, for which NumPy's are as good.
    """

    def is_plain(value: Any) -> bool:
        if isinstance(value, (tuple, list)):
            return all(map(is_plain, value))
        return not isinstance(value, (float, complex)) or type(value) is float

    return all(
        is_plain(value) or (hidden and is_numpys(type(value)))
        for optimizer in optimizers
        for group in optimizer.param_groups
        for key, value in group.items()
        if key != "params"
    )


@contextlib.contextmanager
def reading(read: Callable[[float], float]) -> Iterator[None]:
    """Have torch's optimizers, on this thread, hand what they read to `read`."""
    plain, thread = _optimizer._get_value, threading.get_ident()
    if plain is not _GET_VALUE or torch.Tensor.item is not torch._C.TensorBase.item:
        yield  # the program's own are in their places
        return

    def get_value(x: Any) -> Any:
        value = plain(x)
        follows = (
            type(x) is torch.Tensor
            and threading.get_ident() == thread
            and is_followed(sys._getframe(1))
        )
        return read(value) if follows else value

    changed = [
        vars(module)
        for name in _MODULES
        if (module := sys.modules.get(name)) is not None
        and vars(module).get("_get_value") is plain
    ]
    try:
        for names in changed:
            names["_get_value"] = get_value
            _EXCHANGED.append(names)
        yield
    finally:
        _EXCHANGED.clear()
        for names in changed:
            names["_get_value"] = plain


# Names of torch's modules in which `reading` has put its own function. One call is recorded
# at a time.
_EXCHANGED: list[dict[str, Any]] = []


@contextlib.contextmanager
def not_reading() -> Iterator[None]:
    """Have torch's modules as they are otherwise, to look at what the callable has set."""
    exchanged = [(names, names["_get_value"]) for names in _EXCHANGED]
    try:
        for names, _ in exchanged:
            names["_get_value"] = _GET_VALUE
        yield
    finally:
        for names, function in exchanged:
            names["_get_value"] = function
