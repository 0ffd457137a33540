"""What a recorded call returns, and whether replays can return the same.

Replays make containers anew, and return tensors that operators made. If a result is
something else (an argument itself, a Parameter, something that others hold too), the same
object is returned again, or the callable runs.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

import torch

from reprise.guards import classes, kinds, tree
from reprise.guards.contents import Contents
from reprise.guards.places import is_constant
from reprise.guards.settings import Unlike, are_items
from reprise.guards.ways import GivenBack, Shared

_Step = tuple[bool, Any]
_Way = tuple[_Step, ...]
_PLAIN = classes.ids_of(tuple, list, dict, OrderedDict)
_DICTS = classes.ids_of(dict, OrderedDict, defaultdict)
RETURNS_OR_PUTS = "returns, or puts into an argument,"
_NO_MORE: Mapping[int, int] = {}


def containers_in(
    value: Any, known: Container[int] = (), way: _Way | None = ()
) -> Iterator[tuple[Any, _Way | None]]:
    """Yield containers that are not empty tuples, outer ones first, and the way to each.

    None of those whose ids are `known`. Some have no way.
    """
    kind = type(value)
    if id(value) in known:
        return
    inside: Iterable[tuple[_Step | None, Any]]
    if _has_attributes(value):
        inside = [(None, each) for each in (*value.values(), *vars(value).values())]
    elif id(kind) in _DICTS:
        inside = [((False, key), each) for key, each in value.items()]
    elif kind is list or (
        issubclass(kind, tuple) and (kind is tuple or hasattr(kind, "_fields"))
    ):
        # A class with fields may say that it holds something else.
        base: Any = tuple if issubclass(kind, tuple) else list
        items = base.__iter__(value)
        inside = [((False, index), each) for index, each in enumerate(items)]
    elif not kinds.is_node(kind) and (names := kinds.fields_of(value)):
        inside = [((True, name), getattr(value, name)) for name in names]
    elif (found := kinds.laid_out(value)) is not None:
        inside = [(None, each) for each in found[1]]
    elif kind is set or kinds.is_node(kind):
        inside = ()  # its children may be made as they are asked for
    else:
        return
    if not issubclass(kind, tuple) or tuple.__len__(value):
        yield value, way
    has_attributes = id(kind) not in _PLAIN or _has_attributes(value)
    if has_attributes and (attributes := classes.attributes_of(value)) is not None:
        yield attributes, None
    for step, each in inside:
        further = None if way is None or step is None else (*way, step)
        yield from containers_in(each, known, further)


def _has_attributes(value: Any) -> bool:
    """An OrderedDict that is more than its entries."""
    return type(value) is OrderedDict and bool(value.__dict__)


def objects_of(parts: tree.Parts) -> set[int]:
    """Return the ids of objects among the arguments, which are the same in a result."""
    return set(map(id, (*parts.objects, *parts.leading)))


def held_elsewhere(
    box: list[Any], parts: tree.Parts, contents: Contents | None = None
) -> str | None:
    """Return why a replay may not make the result in the box. None: it may.

    Nor what was put into `contents`. Nobody else may refer to the result itself. `parts`: of
    the arguments.
    """
    known = objects_of(parts)
    given: Iterable[Any] = (parts.args, parts.kwargs)
    does = "returns"
    put: Callable[[], Iterable[Any]] = tuple
    if contents is not None:
        known.update(contents.containers.known())
        given, put = contents.before(), contents.new
        does = RETURNS_OR_PUTS
    try:
        there = {id(each) for of in given for each, _ in containers_in(of, known)}
        made = [
            each
            for of in itertools.chain(box, put())
            for each, _ in containers_in(of, known)
            if id(each) not in there
        ]
    except RecursionError:
        return f"it {does} what is too deep, or holds itself"
    except Unlike as unlike:
        return f"it changes {unlike}"
    if len(set(map(id, made))) < len(made):
        return f"it {does} one container in two places"
    # Nobody can tell one tuple from another that holds the same.
    made = [each for each in made if not isinstance(each, tuple)]
    if are_held_elsewhere(made, _held_twice(made)):
        return (
            f"it {does} a container that something else holds, too (let it be a copy)"
        )
    return None


def is_kept_elsewhere(read: Callable[[], Any]) -> bool:
    """Return whether something else refers to lists or dictionaries in what a place holds.

    `read`: it gives that; nobody else has it at hand.
    """
    made = [each for each, _ in containers_in(read()) if not isinstance(each, tuple)]
    return are_held_elsewhere(made)


def are_held_elsewhere(values: list[Any], more: Mapping[int, int] = _NO_MORE) -> bool:
    """Return whether something refers to one of these besides one container and the list.

    `more`: by id, how many times more that one container refers to it.
    """
    counts = zip(map(id, values), _references(values), strict=True)
    return any(count > _HELD_BY_ONE + more.get(of, 0) for of, count in counts)


def _held_twice(made: list[Any]) -> Mapping[int, int]:
    """Return what objects hold in several places, as an entry and as an attribute.

    By id, in how many besides the first. Of a replay's object it is one, too.
    """
    more: Counter[int] = Counter()
    for each in made:
        if id(type(each)) in _PLAIN or (found := kinds.laid_out(each)) is None:
            continue
        layout, values = found
        more.update(id(values[index]) for index in layout.places)
        more.subtract(map(id, values))
    return more


def _references(values: list[Any]) -> list[int]:
    return [sys.getrefcount(each) for each in values]


def _by_one() -> int:
    """What `_references` gives for what one container holds, and nobody else."""
    box = [[None]]
    return _references([box[0]])[0]


_HELD_BY_ONE = _by_one()


def with_arguments(result: Any, parts: tree.Parts, contents: Contents | None) -> Any:
    """Return the result, with `GivenBack` in place of containers of the arguments.

    Not of those that are followed. Raises Foreign if one is in something that cannot be made
    anew, or is among the arguments twice: of another call's, these may be two.
    """
    known = objects_of(parts)
    if contents is not None:
        known.update(contents.containers.known())
    ways: dict[int, _Way | None] = {}
    twice = set()
    for each, way in containers_in((parts.args, parts.kwargs), known):
        if way is None or len(way) > 1:  # the arguments are made for each call
            if id(each) in ways:
                twice.add(id(each))
            ways[id(each)] = way
    if not any(id(each) in ways for each, _ in containers_in(result, known)):
        return result

    def replaced(value: Any) -> Any:
        if id(value) in twice:
            raise tree.Foreign("a container that is among the arguments twice")
        if id(value) in ways:
            if (way := ways[id(value)]) is None:
                raise tree.Foreign("a part of an object among the arguments")
            return GivenBack(way)
        if id(value) in known:
            return value
        kind = type(value)
        if kind is tuple or kind is list:
            return kind(map(replaced, value))
        if id(kind) in _PLAIN and not _has_attributes(value):
            return kind((key, replaced(each)) for key, each in value.items())
        if any(id(each) in ways for each, _ in containers_in(value, known)):
            raise tree.Foreign(
                f"a {kind.__qualname__} that holds a part of an argument"
            )
        return value

    return replaced(result)


_RESULT, _BEFORE = (False, 0), (False, 1)  # see `Shared`


def with_shared(
    result: Any, before: tuple[Any, ...], values: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """Return what a call sets, with `Shared` where that is one tuple with others.

    They are parts of the result, and what places held before. None: one is shared in
    another way.
    """
    ways: dict[int, _Way | None] = {}

    def note(root: _Way, value: Any) -> None:
        for each, way in _told_apart(value):
            ways[id(each)] = None if way is None else (*root, *way)

    note((_RESULT,), result)
    pairs = zip(before, values, strict=True)
    for index, (old, new) in enumerate(pairs):
        root = _BEFORE, (False, index)
        if are_items(new):  # what is in it is what the call has set
            ways[id(old)] = root
        else:
            note(root, old)
    found: list[Any] = []
    made: list[int] = []
    for each in values:
        if id(each) not in ways:
            found.append(each)
            made += [id(inner) for inner, _ in _told_apart(each)]
        elif (steps := ways[id(each)]) is not None:
            found.append(Shared(steps))
        else:
            return None
    if len(set(made)) < len(made) or not ways.keys().isdisjoint(made):
        return None
    return tuple(found)


def _told_apart(value: Any) -> Iterator[tuple[Any, _Way | None]]:
    """Yield containers but tuples of constants: nobody can tell one from an equal one."""
    for each, way in containers_in(value):
        if not is_constant(each):
            yield each, way


def attributes_of(tensors: Iterable[torch.Tensor]) -> list[tuple[Any, dict[str, Any]]]:
    """Return attributes that the program has set on them, as they are now."""
    return [(each, dict(each.__dict__)) for each in tensors]


def hooks_of(tensors: Iterable[torch.Tensor]) -> list[Any]:
    """Return hooks that Python has set on them, in order: the library counts them as one."""
    found: list[Any] = []
    with torch._C.DisableTorchFunctionSubclass():
        for each in tensors:
            for hooks in (each._backward_hooks, each._post_accumulate_grad_hooks):
                found += [hooks, *(hooks.values() if hooks else ())]
    return found


def why_not_made(
    outputs: Iterable[torch.Tensor],
    there: Iterable[torch.Tensor],
    before: list[tuple[Any, dict[str, Any]]],
) -> str | None:
    """Return why replays cannot give these outputs. None: they can.

    `there`: tensors that existed before the call. `before`: attributes of arguments.
    """
    known = set(map(id, there))
    for tensor, attributes in before:
        known.add(id(tensor))
        now = tensor.__dict__
        same = now.keys() == attributes.keys() and all(
            value is attributes[key] for key, value in now.items()
        )
        if not same:
            return "it sets attributes of a tensor among the arguments"
    for each in outputs:
        if id(each) in known:
            continue
        if type(each) is not torch.Tensor:
            return (
                f"it returns a {type(each).__name__} that it makes (return a plain "
                "tensor, or make it outside)"
            )
        if each.__dict__:
            return "it sets attributes of a tensor that it returns"
    return None
