"""Functions that run as they are, between the pieces of a region."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

from reprise import _tree
from reprise._region import recorded_state

P = ParamSpec("P")
R = TypeVar("R")

_OPERATOR = "reprise_between"


class _Inside(threading.local):
    now = False


_inside = _Inside()


class _Call:
    """Calls of one function with arguments of one form, from one place of a tape."""

    def __init__(
        self,
        fn: Callable[..., Any],
        form: _tree.Form,
        objects: list[Any],
        gone: Callable[[Any], object],
    ) -> None:
        """`gone` is called once one of the objects is; they are not kept."""
        self.fn = fn
        self.build = _tree.builder(form)
        self.objects = [weakref.ref(each, gone) for each in objects]
        self.gives: tuple[Any, ...] | None = None
        self.result: _tree.Builder | None = None

    def run(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """Its result's tensors, of the same structure and forms each time."""
        objects = [each() for each in self.objects]
        args, kwargs = self.build(iter(given), objects)
        state = recorded_state()
        before = set() if state is None else state.differing()
        _inside.now = True
        try:
            result = self.fn(*args, **kwargs)
        finally:
            _inside.now = False
        if state is not None:
            state.theirs |= state.differing() - before
        parts = _tree.Parts(known=objects)
        try:
            form = _tree.flatten(result, parts)
        except _tree.Foreign as unknown:
            raise TypeError(
                f"reprise: {_name(self.fn)} runs between pieces of a region and returns "
                f"a {unknown}: give tensors, in tuples, lists, dicts or dataclasses"
            ) from None
        gives = form, *map(_form_of_tensor, parts.tensors)
        if self.gives is None:
            self.gives, self.result = gives, _tree.builder(form)
        elif gives != self.gives:
            raise RuntimeError(
                f"reprise: {_name(self.fn)} runs between pieces of a region and gave "
                "something of another structure, shape or dtype than for the same "
                "arguments before: take it out of the region"
            )
        return parts.tensors


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__qualname__", fn))


def _form_of_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


# Of a function, by its number, with arguments of one form on these objects.
_calls: dict[int, _Call] = {}
_known: dict[Any, int] = {}
_numbers = itertools.count()


def _which(key: Any, fn: Callable[..., Any], form: _tree.Form, objects: Any) -> int:
    if key not in _known:
        which = next(_numbers)

        def gone(_: Any) -> None:  # with the tapes that name it
            _calls.pop(which, None)
            _known.pop(key, None)

        _calls[which] = _Call(fn, form, objects, gone)
        _known[key] = which
    return _known[key]


@functools.cache
def _operator() -> Any:
    """What stands for such calls in a tape; made once a process."""
    library = torch.library.Library(_OPERATOR, "DEF")
    library.define("call(int which, Tensor[] given) -> Tensor[]")
    library.impl("call", _run, "CompositeExplicitAutograd")
    return library, torch.ops.reprise_between.call.default


def _run(which: int, given: list[torch.Tensor]) -> list[torch.Tensor]:
    return _calls[which].run(given)


def between(fn: Callable[P, R]) -> Callable[P, R]:
    """Let `fn` run as it is wherever a region calls it.

        @reprise.between
        def attend(q, k, v, cache): ...

        fast = reprise.region(model)     # its layers call attend

    A region that calls it is replayed up to there, `fn` runs its Python on the tensors
    that it would be given, and what is behind is replayed on what it returns. So `fn`
    may read numbers, branch on data and change its own state, as a region may not; what
    it changes, the region's other code must not go by. For
    arguments of the same structure and forms it must give tensors of the same structure
    and forms: a RuntimeError says where it does not.

    Called elsewhere, or where gradients are to flow through it, it is just called. Floats
    among its arguments are taken for constants of the region's. Threads: as `fn`.
    """
    if not callable(fn):
        raise TypeError(f"reprise: between does not accept {fn!r}: give a callable")

    number = next(_numbers)

    @functools.wraps(fn)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling() or recorded_state() is None or _inside.now:
            return fn(*args, **kwargs)
        parts = _tree.Parts(floats=False)
        try:
            form = _tree.flatten((args, kwargs), parts)
        except _tree.Foreign:
            return fn(*args, **kwargs)
        tensors = parts.tensors
        tracked = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        if not tensors or tracked:
            return fn(*args, **kwargs)
        forms = tuple(map(_form_of_tensor, tensors))
        key = number, form, forms, tuple(map(id, parts.objects))
        which = _which(key, fn, form, parts.objects)
        call = _calls[which]
        _, operator = _operator()
        given = operator(which, tensors)
        assert call.result is not None
        result: R = call.result(iter(given), parts.objects)
        return result

    called._reprise_between = True  # type: ignore[attr-defined]
    return called
