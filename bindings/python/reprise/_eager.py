"""Functions that regions run in each call, between the parts that are replayed."""

from __future__ import annotations

import copy
import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch.library import Library

from reprise import _dynamo, _native
from reprise._functions_of_c import version_of
from reprise._recording import thread, unwatched
from reprise._results import are_held_elsewhere
from reprise._words import check_callable
from reprise.guards import classes, making, tree

P = ParamSpec("P")
R = TypeVar("R")

_MOST_ENTRIES = 4096
_NOBODY = "-"  # pause_region: nobody records here


class Changed(RuntimeError):
    """A function has returned another form than when it was recorded."""


class _Cannot(Exception):
    """Why a function cannot run by itself in each call."""


class _Result(NamedTuple):
    """What a function has returned: its structure, and of each tensor the form.

    Of one that is an argument, which one.
    """

    form: tree.Form
    tensors: tuple[Any, ...]


class _Key(NamedTuple):
    """What two calls have in common that are one call of a tape."""

    owner: int
    form: tree.Form  # of the arguments
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
        self._form = key.form
        self._arguments = making.builder(key.form)

    def __call__(
        self, read: list[torch.Tensor], written: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Of the arguments those that it only reads, and others: what is new."""
        parts = {False: iter(read), True: iter(written)}
        tensors = [next(parts[each]) for each in self._written]
        args, kwargs = self._arguments(iter(tensors), tree.Parts())
        box = [self._function(*args, **kwargs)]
        what = None
        try:
            found, new = _taken_apart(box, tensors)
            if found != self._result:
                what = f"{found} where it was {self._result}"
            elif not _holds((args, kwargs), self._form, tensors):
                what = "it changes its arguments"
        except _Cannot as cannot:
            what = str(cannot)
        if what is not None:
            raise Changed(
                f"reprise: {self._name}, which regions run in each call, does something "
                f"else than when one was recorded: {what}. For arguments of one form let "
                "it return new tensors of one form, or leave it to the callable"
            )
        return new


def _holds(arguments: Any, form: tree.Form, tensors: Sequence[torch.Tensor]) -> bool:
    """They are of that form still, with these tensors."""
    parts = tree.Parts(known=tree.Parts())
    try:
        same: bool = tree.flatten(arguments, parts) == form
    except (TypeError, RecursionError):
        return False
    return same and list(map(id, parts.tensors)) == list(map(id, tensors))


def _containers(value: Any, found: list[Any]) -> None:
    """Those that hold something, outer ones first."""
    if id(type(value)) in classes.CONTAINERS and value:
        found.append(value)
        for each in value.values() if type(value) is dict else value:
            _containers(each, found)


def _taken_apart(
    box: list[Any], arguments: Sequence[torch.Tensor]
) -> tuple[_Result, list[torch.Tensor]]:
    """What is in the box, and what of it is no argument. Raises _Cannot."""
    parts = tree.Parts(known=tree.Parts())
    try:
        form = tree.flatten(box[0], parts)
        hash(form)
    except (TypeError, RecursionError) as unknown:
        raise _Cannot(f"it returns {unknown}") from None
    containers: list[Any] = []
    _containers(box[0], containers)
    forms: list[Any] = []
    new: list[torch.Tensor] = []
    while parts.tensors:
        which = [
            index for index, given in enumerate(arguments) if given is parts.tensors[0]
        ]
        if which:
            forms.append(which[0])
            del parts.tensors[0]
        else:
            new.append(parts.tensors.pop(0))
            forms.append(_form_of(new[-1]))
    if len(set(map(id, new))) < len(new):
        raise _Cannot("it returns one tensor twice")
    if are_held_elsewhere(new) or are_held_elsewhere(containers):
        raise _Cannot("it keeps what it returns: let it return a copy")
    if not _native._ops().are_whole(new):
        raise _Cannot("it returns a part of a tensor, or one with a history")
    return _Result(form, tuple(forms)), new


def _form_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise _Cannot("it returns a tensor that is no ordinary one")
    return tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride()


class Eager:
    """A function that regions run in each call; see `eager`."""

    _reprise_is_region = True  # to those that look at what a callable leads to

    def __init__(self, fn: Callable[..., Any]) -> None:
        check_callable("eager", fn)
        self._reprise_eager = fn
        self._name = getattr(fn, "__qualname__", type(fn).__qualname__)
        functools.update_wrapper(self, fn, updated=())
        self._entries: dict[_Key, _Entry] = {}

    @_dynamo.head
    def __get__(self, owner: Any, _: type | None = None) -> Any:
        if owner is not None and torch.compiler.is_compiling():
            return functools.partial(self._reprise_eager, owner)
        return self if owner is None else _Method(self, owner)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        fn = copy.deepcopy(self._reprise_eager, memo)  # a function is its own copy
        return self if fn is self._reprise_eager else Eager(fn)

    def __reduce__(self) -> str:
        return str(vars(self)["__qualname__"])  # as functions are

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not thread.recording:
            return self._reprise_eager(*args, **kwargs)
        return self._called(None, args, kwargs)

    def _called(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """While a region is being recorded."""
        function = self._reprise_eager
        if owner is not None:
            function = functools.partial(function, owner)
        ops = _native._ops()
        reason: str = ops.pause_region()
        if reason == _NOBODY:  # or within another one
            return function(*args, **kwargs)
        function = unwatched(function)
        number = 0
        read: list[torch.Tensor] = []
        written: list[torch.Tensor] = []
        new: list[torch.Tensor] = []
        try:
            if reason:
                return function(*args, **kwargs)
            reason = "it raised an error"
            try:
                form, tensors = _given(owner, args, kwargs)
                versions = _versions(tensors)
            except _Cannot as cannot:
                reason = str(cannot)
                return function(*args, **kwargs)
            box = [function(*args, **kwargs)]
            try:
                result, new = _taken_apart(box, tensors)
                if not _holds((args, kwargs), form, tensors):
                    raise _Cannot("it changes its arguments")
                writes = tuple(
                    [
                        before is None or before != now
                        for before, now in zip(
                            versions, _versions(tensors), strict=True
                        )
                    ]
                )
                number = self._entry(owner, form, writes, result)
                for each, writes_it in zip(tensors, writes, strict=True):
                    (written if writes_it else read).append(each)
                reason = ""
            except _Cannot as cannot:
                reason = str(cannot)
            return box[0]
        finally:
            if reason:
                reason = f"{self._name} cannot run in each call: {reason}"
                number, read, written, new = 0, [], [], []
            ops.resume_region(number, read, written, new, reason)

    def _entry(
        self, owner: Any, form: tree.Form, written: tuple[bool, ...], result: _Result
    ) -> int:
        key = _Key(id(owner), form, written, result)
        entry = self._entries.get(key)
        if entry is None:
            _library()
            function = self._reprise_eager
            if owner is not None:
                function = _of(owner, self._entries, key, function)
            while len(self._entries) >= _MOST_ENTRIES:  # the oldest goes
                del self._entries[next(iter(self._entries))]
            entry = _Entry(function, self._name, key)
            self._entries[key] = _ENTRIES[entry.number] = entry
        return entry.number


def _given(
    owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tree.Form, list[torch.Tensor]]:
    """The form of arguments, and the tensors among them. Raises _Cannot."""
    if torch._C._len_torch_function_stack():
        raise _Cannot("a mode of torch's is on (set_default_device, say)")
    if owner is not None and thread.objects:
        raise _Cannot("it is a method, and objects are among the region's arguments")
    if owner is not None and not type(owner).__weakrefoffset__:
        raise _Cannot("it is a method of an object with __slots__")
    parts = tree.Parts(known=tree.Parts())
    try:
        form = tree.flatten((args, kwargs), parts)
        hash(form)
    except (TypeError, RecursionError) as unknown:
        raise _Cannot(f"it takes {unknown}") from None
    if not _native.are_ordinary(parts.tensors) or any(
        each.requires_grad for each in parts.tensors
    ):
        raise _Cannot("it takes a tensor that is no ordinary one, or has gradients")
    return form, parts.tensors


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
    return [None if each.is_inference() else version_of(each) for each in tensors]


class _Method:
    """One of an object's."""

    __slots__ = ("__func__", "__self__", "__weakref__")
    _reprise_is_region = True

    def __init__(self, of: Eager, owner: Any) -> None:
        self.__func__ = of
        self.__self__ = owner

    @property
    def _reprise_eager(self) -> Callable[..., Any]:
        return self.__func__._reprise_eager

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Method)
            and self.__func__ is other.__func__
            and self.__self__ is other.__self__
        )

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not thread.recording:
            return self.__func__._reprise_eager(self.__self__, *args, **kwargs)
        return self.__func__._called(self.__self__, args, kwargs)


def eager(fn: Callable[P, R]) -> Callable[P, R]:
    """Have regions run `fn` in each call, between the parts that they replay.

        @reprise.eager
        def attend(q, k, v):             # reads which requests wait: others each time
            return kernel(q, k, v, scheduler.metadata())

    A region runs no Python, and assumes that values which its Python reads, besides the
    arguments, are unchanged. If it reads a tensor's value (`.item()`), it may not be
    replayed. Put code that depends on such things into a function of its own. That
    function runs in each call, with the tensors of this call. Its operators are ops
    like those of any program.

    `fn` takes tensors without gradients, and constants, in tuples, lists, dicts and the
    like. It returns arguments and new tensors, in such containers. It does not keep
    the new tensors. For arguments of one form its results have one form (shape, strides,
    dtype, device). Gradient mode is off in `fn`; torch's other modes are those around
    the region's call. If one of these does not hold when a region is recorded, the
    region's callable runs, and `explain()` says why. Outside of regions, `fn` is an
    ordinary function.

    Args:
        fn: a function or method. A method belongs to the object of the recorded call.

    Raises:
        TypeError: `fn` cannot be called.
        RuntimeError: in a call of a region, `fn` has returned another form than before.
            From the next call on, the callable runs.
    """
    return Eager(fn)


_ENTRIES: weakref.WeakValueDictionary[int, _Entry] = weakref.WeakValueDictionary()


def _call(
    function: int, read: list[torch.Tensor], written: list[torch.Tensor]
) -> list[torch.Tensor]:
    entry = _ENTRIES.get(function)
    if entry is None:
        raise Changed(
            "reprise: a function that a region runs in each call is of an object that "
            "has gone: keep the object, or leave the function to the callable"
        )
    return entry(list(read), list(written))


@functools.cache
def _library() -> Library:
    library = Library("reprise", "IMPL")
    library.impl("call_python", _call, "CompositeImplicitAutograd")
    return library
