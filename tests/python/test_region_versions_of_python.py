"""What newer versions of Python do in another way than older ones: it is seen there, too."""

from __future__ import annotations

import builtins
import ctypes
import dis
import functools
import importlib.util
import math
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import reprise
import torch
from reprise.guards import code, watch
from torch.utils import _pytree as pytree
from watching import assert_same_bits

CALLS = 6  # the fourth is replayed


class Held:
    """An object of the program's."""

    def __init__(self, of: Any) -> None:
        self.of = of


def seen() -> torch.Tensor:
    return torch.arange(4.0)


def check_changes(
    fn: Callable[[torch.Tensor], torch.Tensor], *changes: Callable[[], object]
) -> None:
    """Calls are replayed before each change and behind the last, and give eager's bits."""
    fast: Any = reprise.region(fn)
    for change in (*changes, None):
        before = fast.explain().replayed
        for _ in range(CALLS):
            assert_same_bits(fast(seen()), fn(seen()))
        assert fast.explain().replayed > before, str(fast.explain())
        if change is not None:
            old = fn(seen())
            change()
            assert not torch.equal(fn(seen()), old), "the change changes nothing"


# --- Slices, which have a hash from 3.12 on; and ranges ---


@pytest.mark.parametrize("ends", [(2, 2.0), (2.0, 2), (True, 1), (1, 1.0)])
def test_slices_in_arguments_are_told_by_the_types_of_their_ends(
    ends: tuple[Any, Any],
) -> None:
    def fn(x: torch.Tensor, held: Held) -> tuple[torch.Tensor, bool]:
        return x * held.of.start, held.of.start is True

    fast: Any = reprise.region(fn)
    x = torch.arange(4)
    for _ in range(2):
        for end in ends:
            for _ in range(CALLS):
                result = fast(x, Held(slice(end, None)))
                expected = fn(x, Held(slice(end, None)))
                assert result[0].dtype == expected[0].dtype
                assert torch.equal(result[0], expected[0])
                assert result[1] is expected[1]
    assert fast.explain().replayed > 0, str(fast.explain())


def test_what_a_slice_holds_is_looked_at() -> None:
    held, items = Held(2.0), [3.0]
    window = slice(held, items, torch.tensor(2.0))

    def fn(x: torch.Tensor) -> torch.Tensor:
        start: Any = window.start
        return x * start.of * window.stop[0] + window.step

    check_changes(
        fn,
        lambda: setattr(held, "of", 5.0),
        lambda: items.__setitem__(0, 7.0),
        lambda: window.step.add_(1),
    )


def test_ranges_of_the_same_numbers_may_end_elsewhere() -> None:
    held = Held(range(0, 3, 2))
    check_changes(
        lambda x: x * held.of.stop,
        lambda: setattr(held, "of", range(0, 4, 2)),
        lambda: setattr(held, "of", range(0, 3, 2)),
    )
    fast: Any = reprise.region(lambda x, of: x * of.of.stop)
    for stop in (3, 4, 3):
        for _ in range(CALLS):
            assert_same_bits(fast(seen(), Held(range(0, stop, 2))), seen() * stop)
    assert fast.explain().replayed > 0, str(fast.explain())


# --- Floats, which `sum` adds more precisely from 3.12 on ---

NUMBERS = 0.1, 1e16, -1e16
_sum = sum
SUMS: dict[str, Callable[..., Any]] = {
    "list": lambda *numbers: sum([*numbers]),
    "generator": lambda *numbers: sum(each for each in numbers),
    "start": lambda a, b, c: sum((a, b), start=c) + sum([b, c], a),
    "another name": lambda *numbers: _sum(numbers),
    "its object": lambda *numbers: functools.partial(builtins.sum, numbers)(),
    "in another": lambda *numbers: sum(sum([each, 0.1]) for each in numbers),
    "sumprod": lambda *numbers: (
        math.sumprod(numbers, [1 / 3, 0.1, 0.1])
        if sys.version_info >= (3, 12)
        else math.fsum(numbers)
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_numbers_are_as_precise_as_eagers(name: str) -> None:
    """In recorded calls, too, whose numbers are of a class of their own."""

    def fn(x: torch.Tensor, a: float, b: float, c: float) -> tuple[Any, float]:
        total = SUMS[name](a, b, c)
        return x * total, total

    fast: Any = reprise.region(fn)
    for scale in (1.0, 3.0):
        numbers = [each * scale for each in NUMBERS]
        before = fast.explain().replayed
        for _ in range(CALLS):
            result, expected = fast(seen(), *numbers), fn(seen(), *numbers)
            assert_same_bits(result[0], expected[0])
            assert result[1].hex() == expected[1].hex()
            assert type(result[1]) is float
        assert fast.explain().replayed > before, str(fast.explain())


def test_errors_of_sums_are_eagers() -> None:
    def fn(x: torch.Tensor, a: float, what: int) -> Any:
        given: Any = [(), (5,), ([a], a, a), (["a"],), ([a, "a"],)][what]
        try:
            return sum(*given)
        except TypeError as error:
            return x * a, str(error)

    for what in range(5):
        fast: Any = reprise.region(fn)
        for _ in range(CALLS):
            assert fast(seen(), 2.0, what)[1] == fn(seen(), 2.0, what)[1]
        assert sum([0.5, 1]) == 1.5 and sum.__self__ is builtins


# --- Watchers of dictionaries, of which there are eight from 3.12 on ---


def test_watchers_that_others_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the callable leads to is looked at in each call then."""

    def none_is_left(_: object) -> int:
        raise RuntimeError("no more dict watcher IDs available")

    held, given = Held(2.0), Held(3.0)
    with monkeypatch.context() as patch:
        patch.setattr(
            ctypes.pythonapi, "PyDict_AddWatcher", none_is_left, raising=False
        )
        watch._watcher.cache_clear()
        check_changes(
            lambda x: x * held.of,
            lambda: setattr(held, "of", 5.0),
            lambda: vars(held).update(of=7.0),
        )
        fast: Any = reprise.region(lambda x, of: x * of.of)
        for value in (3.0, 4.0):
            given.of = value
            for _ in range(CALLS):
                assert_same_bits(fast(seen(), given), seen() * value)
        assert fast.explain().replayed > 0, str(fast.explain())
    watch._watcher.cache_clear()


# --- What code names ---

IN_CLASSES = """
class Holder:
    def __init__(self, of):
        self.of = of

class Base:
    pass

def alias(x):
    class Local:
        type Alias = Holder(FACTOR)
    return x * Local.Alias.__value__.of

def bound(x):
    class Local:
        def method[T: Holder(FACTOR)](self): pass
    return x * Local.method.__type_params__[0].__bound__.of

def annotation(x):
    class Local:
        def method[T](self, x: FACTOR): pass
    return x * Local.method.__annotations__["x"]

def base(x):
    class Local:
        class Inner[T](type("Made", (), {"factor": FACTOR})): pass
    return x * Local.Inner.factor

def default(x):
    class Local:
        def method[T](self, factor=FACTOR): return factor
    return x * Local().method()

type Alias = Holder(2.0)

class Outer:
    type Alias = Holder(2.0)
    def method[T: Holder(2.0)](self): pass

def global_alias(x): return x * Alias.__value__.of
def alias_of_class(x): return x * Outer.Alias.__value__.of
def parameter(x): return x * Outer.method.__type_params__[0].__bound__.of
"""
NAMING = ("alias", "bound", "annotation", "base", "default")
HOLDING: dict[str, Callable[[Any], Any]] = {
    "global_alias": lambda module: module.Alias.__value__,
    "alias_of_class": lambda module: module.Outer.Alias.__value__,
    "parameter": lambda module: module.Outer.method.__type_params__[0].__bound__,
}
if sys.version_info < (3, 12):  # it has no such syntax
    IN_CLASSES = """
class Alias:
    of = 2.0
def default(x): return [x * FACTOR for _ in range(2)][1]
def global_alias(x): return x * Alias.of
"""
    NAMING, HOLDING = ("default",), {"global_alias": lambda module: module.Alias}


@pytest.fixture
def module(tmp_path: pathlib.Path) -> Any:
    path = tmp_path / "of_types.py"
    path.write_text(IN_CLASSES)
    spec = importlib.util.spec_from_file_location("of_types", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    module.FACTOR = 2.0
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMING)
def test_globals_that_types_name_in_classes(name: str, module: Any) -> None:
    check_changes(
        getattr(module, name),
        lambda: setattr(module, "FACTOR", 3.0),
        lambda: vars(module).update(FACTOR=5.0),
    )


@pytest.mark.parametrize("name", HOLDING)
def test_what_types_refer_to_is_looked_at(name: str, module: Any) -> None:
    """Also what they refer to only once a call has asked for it."""
    fn = getattr(module, name)
    check_changes(fn, lambda: setattr(HOLDING[name](module), "of", 3.0))


def test_each_instruction_with_a_name_is_known() -> None:
    """Names of globals, attributes and imports; the others are of a class's own body."""
    known = (*code._GLOBALS, *code._WRITES, "IMPORT_NAME", "IMPORT_FROM")
    own = {"STORE_NAME", "DELETE_NAME", "LOAD_NAME"}
    unknown = {
        name
        for name in (dis.opname[each] for each in dis.hasname if each < 256)
        if not name.startswith((*code._READS, "INSTRUMENTED_"))
        and name not in known
        and name not in own
    }
    assert not unknown


# --- Variables of comprehensions, which are those of the function from 3.12 on ---


def shadowing(x: torch.Tensor) -> Any:
    held = torch.ones(4)

    def inner() -> Any:
        return [(id(held) > 0) * held for held in (x,)], held

    return inner()


def in_a_class(x: torch.Tensor) -> Any:
    class Local:
        made: ClassVar[Any] = [(id(each) > 0) * each for each in (x, x + 1)]

    return Local.made


def in_an_expression(x: torch.Tensor) -> Any:
    return eval("[(id(each) > 0) * each for each in (x, x + 1)]", {"x": x})


def in_a_program(x: torch.Tensor) -> Any:
    names: dict[str, Any] = {"x": x}
    exec("made = {key: id(key) and x * key for key in (2, 3)}", names)
    return [*names["made"].values()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fn", [shadowing, in_a_class, in_an_expression, in_a_program])
def test_variables_stay_what_they_are_where_code_asks_for_ids(
    fn: Callable[[torch.Tensor], Any],
) -> None:
    """A hook that looks at variables by their names may set others of these names."""
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        flat, expected = (
            pytree.tree_leaves(fast(seen())),
            pytree.tree_leaves(fn(seen())),
        )
        assert_same_bits(flat, expected)


# --- Where things stand in objects ---


def test_a_function_whose_attributes_are_others() -> None:
    def held(x: torch.Tensor) -> torch.Tensor:
        return x * held.factor  # type: ignore[attr-defined]

    held.factor = 2.0  # type: ignore[attr-defined]
    check_changes(
        lambda x: held(x) + 1,
        lambda: setattr(held, "__dict__", {"factor": 3.0}),
        lambda: setattr(held, "factor", 5.0),
        lambda: setattr(held, "__dict__", {"factor": 2.0}),
    )


class OfPartial(functools.partial):  # type: ignore[type-arg]
    factor: float


def test_a_partial_that_calls_something_else() -> None:
    held: Any = functools.partial(torch.mul, other=2.0)
    check_changes(
        lambda x: held(x),
        lambda: held.__setstate__((torch.mul, (), {"other": 3.0}, None)),
        lambda: held.__setstate__((torch.add, (), {"other": 3.0}, None)),
        lambda: held.keywords.update(other=5.0),
    )
    own: Any = OfPartial(torch.mul)
    own.factor = 2.0
    check_changes(
        lambda x: own(x, own.factor),
        lambda: setattr(own, "__dict__", {"factor": 3.0}),
        lambda: setattr(own, "factor", 5.0),
    )


def test_a_partial_with_attributes_among_the_arguments() -> None:
    given: Any = OfPartial(torch.mul, other=2.0)
    given.factor = 2.0
    check_changes(
        functools.partial(lambda of, x: of(x) * of.factor, given),
        lambda: setattr(given, "__dict__", {"factor": 3.0}),
        lambda: setattr(given, "factor", 5.0),
        lambda: given.__setstate__((torch.add, (), {"other": 3.0}, {"factor": 5.0})),
    )
    fast: Any = reprise.region(lambda x, of: of(x) * of.factor)
    for factor in (2.0, 3.0, 2.0):
        given.__dict__ = {"factor": factor}
        for _ in range(CALLS):
            assert_same_bits(fast(seen(), given), given(seen()) * factor)
    replayed = fast.explain().replayed
    assert replayed > 0, str(fast.explain())
    given.__setstate__((torch.mul, (), {"other": 7.0}, {"factor": 2.0}))
    assert_same_bits(fast(seen(), given), seen() * 7 * 2)


class OfModule(types.ModuleType):
    factor = 2.0

    @property
    def twice(self) -> float:
        return 2 * self.factor


def test_the_class_of_a_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("of_its_own_class")
    module.__class__ = OfModule
    check_changes(
        lambda x: x * module.factor + module.twice,
        lambda: monkeypatch.setattr(OfModule, "factor", 3.0),
        lambda: monkeypatch.setattr(OfModule, "twice", 3.0),
        lambda: setattr(module, "factor", 5.0),
    )


class OfGenerator(torch.Generator):
    """It holds more than its attributes, in as few words as weak references take elsewhere."""


class OfStorage(torch.UntypedStorage):
    """Likewise."""


def test_objects_of_classes_of_c_are_told_apart() -> None:
    """Whatever the calls before were given."""
    fast: Any = reprise.region(lambda x, of: x * torch.rand(4, generator=of))
    for seed in range(3):
        given, twin = OfGenerator(), torch.Generator()
        given.manual_seed(seed), twin.manual_seed(seed)
        for _ in range(CALLS):
            assert_same_bits(
                fast(seen(), given), seen() * torch.rand(4, generator=twin)
            )
    stored: Any = reprise.region(lambda x, of: torch.empty(0).set_(of) + x)
    for value in range(3):
        storage: Any = OfStorage(16)
        torch.empty(0).set_(storage).fill_(value)
        for _ in range(CALLS):
            assert_same_bits(stored(seen(), storage), seen() + value)
