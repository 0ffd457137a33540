"""Functions that regions run in each call, between pieces that are replayed."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch.library import Library

from reprise import _native, _tree
from reprise._recording import thread

P = ParamSpec("P")
R = TypeVar("R")


class _Result(NamedTuple):
    """What a function has returned: its structure, and of each tensor the form.

    Of one that is an argument, which one.
    """

    form: _tree.Form
    tensors: tuple[Any, ...]


class _Key(NamedTuple):
    """What two calls have in common that are one call of a tape."""

    owner: int
    form: _tree.Form  # of the arguments
    written: tuple[bool, ...]
    result: _Result


class _Entry:
    """A call as it was recorded. Its arguments are given as tensors alone."""

    numbers = itertools.count(1)

    def __init__(self, function: Callable[..., Any], name: str, key: _Key) -> None:
        self.number = next(self.numbers)
        self._function = function
        self._name = name
        self._written = key.written
        self._result = key.result
        self._arguments = _tree.builder(key.form)

    def __call__(
        self, read: list[torch.Tensor], written: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Of the arguments those that it only reads, and others: what is new."""
        parts = {False: iter(read), True: iter(written)}
        tensors = [next(parts[each]) for each in self._written]
        args, kwargs = self._arguments(iter(tensors), ())
        returned = _taken_apart(self._function(*args, **kwargs), tensors)
        if returned is None or returned[0] != self._result:
            raise RuntimeError(
                f"reprise: {self._name} returns something else than when a region "
                "that calls it was recorded: let it return tensors of one form (shape, "
                "strides, dtype, device) for arguments of one form, or leave it to "
                "the region"
            )
        return returned[1]


def _taken_apart(
    result: Any, arguments: Sequence[torch.Tensor]
) -> tuple[_Result, list[torch.Tensor]] | None:
    """And what in it is no argument. None: it holds something else than tensors."""
    parts = _tree.Parts(known=())
    try:
        form = _tree.flatten(result, parts)
        hash(form)
    except (TypeError, RecursionError):
        return None
    forms: list[Any] = []
    new = []
    for each in parts.tensors:
        which = [index for index, given in enumerate(arguments) if given is each]
        if which:
            forms.append(which[0])
        elif each.layout is not torch.strided:
            return None
        else:
            forms.append((each.dtype, each.device, each.shape, each.stride()))
            new.append(each)
    return _Result(form, tuple(forms)), new


class Eager:
    """A function that regions run in each call; see `eager`."""

    _reprise_is_region = True  # to those that look at what a callable leads to

    def __init__(self, fn: Callable[..., Any], owner: Any = None) -> None:
        if not callable(fn):
            raise TypeError(f"reprise: eager does not accept {fn!r}: give a callable")
        self._reprise_eager = fn
        self._name = getattr(fn, "__qualname__", type(fn).__qualname__)
        functools.update_wrapper(self, fn, updated=())
        self._entries: dict[_Key, _Entry] = {}

    def __get__(self, owner: Any, _: type | None = None) -> Any:
        return self if owner is None else _Method(self, owner)

    def __reduce__(self) -> str:
        return str(vars(self)["__qualname__"])  # as functions are

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not thread.recording:
            return self._reprise_eager(*args, **kwargs)
        return self._called(None, args, kwargs)

    def _called(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """While a region is being recorded."""
        function = self._reprise_eager
        if owner is not None:
            function = functools.partial(function, owner)
        parts = _tree.Parts(known=())
        try:
            form = _tree.flatten((args, kwargs), parts)
            hash(form)
        except (TypeError, RecursionError):
            return function(*args, **kwargs)
        tensors = parts.tensors
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            return function(*args, **kwargs)  # it has a history, as all others
        ops = _native._ops()
        if not ops.pause_region():
            return function(*args, **kwargs)
        read: list[torch.Tensor] = []
        written: list[torch.Tensor] = []
        new: list[torch.Tensor] = []
        number = 0
        reason = f"{self._name} raised an error"
        versions = _versions(tensors)
        try:
            result = function(*args, **kwargs)
            returned = _taken_apart(result, tensors)
            if returned is None:
                reason = f"{self._name} returns something else than tensors"
            elif any(torch._C._is_alias_of(a, b) for a in returned[1] for b in tensors):
                reason = f"{self._name} returns a view of an argument"
            else:
                reason = ""
                writes = tuple(
                    [
                        before is None or before != now
                        for before, now in zip(
                            versions, _versions(tensors), strict=True
                        )
                    ]
                )
                for each, writes_it in zip(tensors, writes, strict=True):
                    (written if writes_it else read).append(each)
                new = returned[1]
                number = self._entry(owner, form, writes, returned[0])
        finally:
            ops.resume_region(number, read, written, new, reason)
        return result

    def _entry(
        self, owner: Any, form: _tree.Form, written: tuple[bool, ...], result: _Result
    ) -> int:
        key = _Key(id(owner), form, written, result)
        entry = self._entries.get(key)
        if entry is None:
            _library()
            function = self._reprise_eager
            if owner is not None:
                function = _of(owner, self._entries, key, function)
            entry = _Entry(function, self._name, key)
            self._entries[key] = _ENTRIES[entry.number] = entry
        return entry.number


def _of(
    owner: Any,
    entries: dict[_Key, _Entry],
    key: _Key,
    function: Callable[..., Any],
) -> Callable[..., Any]:
    """A method of that object, which is not kept."""
    of = weakref.ref(owner, lambda _: entries.pop(key, None))

    def method(*args: Any, **kwargs: Any) -> Any:
        return function(of(), *args, **kwargs)

    return method


def _versions(tensors: Sequence[torch.Tensor]) -> list[int | None]:
    """Counts of writes; None: nobody counts them."""
    return [None if each.is_inference() else each._version for each in tensors]


class _Method:
    """One of an object's."""

    __slots__ = ("__func__", "__self__")
    _reprise_is_region = True

    def __init__(self, of: Eager, owner: Any) -> None:
        self.__func__ = of
        self.__self__ = owner

    @property
    def _reprise_eager(self) -> Callable[..., Any]:
        return self.__func__._reprise_eager

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not thread.recording:
            return self.__func__._reprise_eager(self.__self__, *args, **kwargs)
        return self.__func__._called(self.__self__, args, kwargs)


def eager(fn: Callable[P, R]) -> Callable[P, R]:
    """Have regions run `fn` in each call, between the pieces that they replay.

        @reprise.eager
        def attend(q, k, v):             # looks at what requests wait: others each time
            return kernel(q, k, v, scheduler.metadata())

    A region runs no Python: what it reads besides its arguments is what it was, and
    where it reads a tensor's value (`.item()`) it cannot be replayed. What depends on
    such things stands in a function of its own, which runs each time, as it would
    without a region, with the tensors of this call. Its operators are followed as any
    program's.

    Its arguments and what it returns are tensors, and constants, in tuples, lists,
    dicts and the like; no views of arguments. For arguments of one form it returns
    tensors of one form (shape, strides, dtype, device). Where it takes something else, or a
    tensor whose gradients are tracked, it is a part of the region as all other code, and
    elsewhere it is what it was.

    Args:
        fn: a function or method.

    Raises:
        TypeError: `fn` cannot be called.
        RuntimeError: in a region's call, it has returned tensors of another form.
    """
    return Eager(fn)


_ENTRIES: weakref.WeakValueDictionary[int, _Entry] = weakref.WeakValueDictionary()


def _call(
    function: int, read: list[torch.Tensor], written: list[torch.Tensor]
) -> list[torch.Tensor]:
    return _ENTRIES[function](list(read), list(written))


@functools.cache
def _library() -> Library:
    library = Library("reprise", "IMPL")
    library.impl("call_python", _call, "CompositeImplicitAutograd")
    return library
