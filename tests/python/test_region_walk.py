"""Whatever leads from a callable to what it reads: another one is seen, or refused."""

from __future__ import annotations

import abc
import array
import collections
import ctypes
import dataclasses
import enum
import functools
import importlib
import operator
import queue
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple
from typing import Any, ClassVar, NamedTuple

import pytest
import reprise
import torch
import torch.nn.functional as F
from reprise import _region_looks
from reprise._region_looks import Looks
from reprise.guards import reading
from reprise.guards.compared import Compared
from torch import nn
from watching import assert_same_bits, counted

CALLS = 8  # the fourth is replayed


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Case(NamedTuple):
    """A callable, its arguments beside the first, and what makes it another, in turn."""

    fn: Callable[..., Any]
    changes: tuple[Callable[[], Any], ...]
    given: tuple[Any, ...] = ()


def check(case: Case) -> None:
    """Calls are replayed before each change and behind it, and give eager's bits."""
    fast: Any = reprise.region(case.fn)
    x = torch.rand(4, 4)
    for change in (None, *case.changes):
        if change is not None:
            old = case.fn(x, *case.given)
            change()
            assert not torch.equal(case.fn(x, *case.given), old), "it changes nothing"
        before = fast.explain().replayed
        for _ in range(CALLS):
            assert_same_bits(fast(x, *case.given), case.fn(x, *case.given))
        assert fast.explain().replayed > before, str(fast.explain())


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def module() -> Iterator[Any]:
    """One of the program's own, which another one imports."""
    made: Any = types.ModuleType("walked_module")
    sys.modules["walked_module"] = made
    source = """
import torch
class Config:
    scale = 2.0
FACTOR, CONFIG = 2.0, Config()
MODEL = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).eval()
TABLES = [{"a": ({"b": 2.0},)}]
def scaled(x): return x * FACTOR
def configured(x): return x * CONFIG.scale
def from_table(x): return x * TABLES[0]["a"][0]["b"]
"""
    exec(compile(source, "walked_module.py", "exec"), made.__dict__)
    yield made
    del sys.modules["walked_module"]


# --- Behind an imported module ---


def behind_a_function(of: Any) -> Case:
    return Case(lambda x: of.scaled(x), (lambda: setattr(of, "FACTOR", 3.0),))


def behind_a_function_of_an_object(of: Any) -> Case:
    def change() -> None:
        of.CONFIG.scale = 3.0

    return Case(lambda x: of.configured(x), (change,))


def an_object_of_it(of: Any) -> Case:
    def replace() -> None:
        of.CONFIG = Holder(scale=4.0)

    return Case(
        lambda x: x * of.CONFIG.scale, (lambda: setattr(of.CONFIG, "scale", 3), replace)
    )


def a_container_of_it(of: Any) -> Case:
    def change() -> None:
        of.TABLES[0]["a"][0]["b"] = 3.0

    return Case(lambda x: of.from_table(x), (change,))


def a_model_of_it(of: Any) -> Case:
    def train() -> None:
        of.MODEL.train()
        of.MODEL[1].p = 1.0

    def replace() -> None:
        of.MODEL[0] = nn.Linear(4, 4)

    return Case(lambda x: of.MODEL(x), (replace, train))


def a_function_of_it(of: Any) -> Case:
    def change() -> None:
        of.scaled = lambda x: x * 5

    return Case(lambda x: of.scaled(x), (change,))


def an_import_inside(of: Any) -> Case:
    def fn(x: torch.Tensor) -> torch.Tensor:
        import walked_module as inside

        return x * inside.FACTOR  # type: ignore[no-any-return]

    return Case(fn, (lambda: setattr(of, "FACTOR", 3.0),))


def an_import_of_a_name_inside(of: Any) -> Case:
    def fn(x: torch.Tensor) -> torch.Tensor:
        from walked_module import FACTOR

        return x * FACTOR  # type: ignore[no-any-return]

    return Case(fn, (lambda: setattr(of, "FACTOR", 3.0),))


def another_module_of_its_name(of: Any) -> Case:
    def fn(x: torch.Tensor) -> torch.Tensor:
        import walked_module as inside

        return x * inside.FACTOR  # type: ignore[no-any-return]

    def change() -> None:
        other: Any = types.ModuleType("walked_module")
        other.FACTOR = 7.0
        sys.modules["walked_module"] = other

    return Case(fn, (change,))


def a_name_that_is_made(of: Any) -> Case:
    return Case(
        lambda x: x * getattr(of, "FACTOR"),  # noqa: B009
        (lambda: setattr(of, "FACTOR", 3.0),),
    )


def a_module_that_makes_its_attributes(of: Any) -> Case:
    exec("def __getattr__(name): return FACTOR if name == 'MADE' else None", vars(of))
    return Case(lambda x: x * of.MADE, (lambda: setattr(of, "FACTOR", 3.0),))


def a_module_by_its_name(of: Any) -> Case:
    return Case(
        lambda x: x * importlib.import_module("walked_module").FACTOR,
        (lambda: setattr(of, "FACTOR", 3.0),),
    )


@pytest.mark.parametrize(
    "make",
    [
        behind_a_function,
        behind_a_function_of_an_object,
        an_object_of_it,
        a_container_of_it,
        a_model_of_it,
        a_function_of_it,
        an_import_inside,
        an_import_of_a_name_inside,
        a_name_that_is_made,
        another_module_of_its_name,
        a_module_that_makes_its_attributes,
        a_module_by_its_name,
    ],
)
def test_behind_an_imported_module(module: Any, make: Callable[[Any], Case]) -> None:
    check(make(module))


# --- Containers, objects and classes ---


def containers_in_containers() -> Case:
    held: Any = {"layers": [{"scale": 2.0}], "more": ({"q": [1.0]},)}

    def fn(x: torch.Tensor) -> Any:
        return x * held["layers"][0]["scale"] + held["more"][0]["q"][0]

    return Case(
        fn,
        (
            lambda: held["layers"][0].update(scale=5.0),
            lambda: held["more"][0]["q"].__setitem__(0, 7.0),
            lambda: held.update(layers=[{"scale": 9.0}]),
        ),
    )


def containers_of_a_module() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [{"s": 2.0}]
            self.options = ({"t": 1.0},)

        def forward(self, x: torch.Tensor) -> Any:
            return x * self.layers[0]["s"] + self.options[0]["t"]

    net = Net()
    return Case(
        net,
        (
            lambda: net.layers[0].update(s=5.0),
            lambda: net.options[0].update(t=7.0),
        ),
    )


def the_end_of_a_long_list() -> Case:
    held = [1.0] * 1000
    return Case(lambda x: x * held[900], (lambda: held.__setitem__(900, 3.0),))


def objects_deep_in_objects() -> Case:
    held = inner = Holder()
    for _ in range(12):
        inner.next = Holder(scale=2.0)
        inner = inner.next

    def fn(x: torch.Tensor) -> Any:
        of = held
        while hasattr(of.next, "next"):
            of = of.next
        return x * of.next.scale

    return Case(fn, (lambda: setattr(inner, "scale", 3.0),))


def objects_in_containers() -> Case:
    held = {"list": [Holder(s=2.0), Holder(s=3.0)]}

    def fn(x: torch.Tensor) -> torch.Tensor:
        for each in held["list"]:
            x = x * each.s
        return x

    return Case(
        fn,
        (
            lambda: setattr(held["list"][1], "s", 5.0),
            lambda: held["list"].append(Holder(s=2.0)),
            lambda: held["list"].__setitem__(0, Holder(s=9.0)),
        ),
    )


class WithDefault:
    mode = "a"


def an_attribute_over_the_classs() -> Case:
    held = WithDefault()
    return Case(
        lambda x: x if held.mode == "a" else x * 3,
        (lambda: setattr(held, "mode", "b"), lambda: delattr(held, "mode")),
    )


def an_attribute_that_appears() -> Case:
    held = WithDefault()
    return Case(
        lambda x: x * 2 if hasattr(held, "extra") else x,
        (lambda: setattr(held, "extra", 1),),
    )


def an_attribute_by_a_default() -> Case:
    held: Any = WithDefault()
    return Case(
        lambda x: x * getattr(held, "extra", 2),
        (lambda: setattr(held, "extra", 3), lambda: setattr(held, "extra", 4)),
    )


class Slotted:
    __slots__ = ("__weakref__", "inner", "scale")

    def __init__(self) -> None:
        self.scale = 2.0
        self.inner: Any = [2.0]


def slots() -> Case:
    held = Slotted()
    return Case(
        lambda x: x * held.scale + held.inner[0],
        (
            lambda: setattr(held, "scale", 3.0),
            lambda: held.inner.__setitem__(0, 5.0),
            lambda: setattr(held, "inner", (7.0,)),
        ),
    )


def slots_of_an_argument() -> Case:
    held = Holder(inner=Slotted())
    return Case(
        lambda x, of: x * of.inner.scale,
        (lambda: setattr(held.inner, "scale", 3.0),),
        (held,),
    )


class AttributeDict(dict[str, Any]):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__  # type: ignore[assignment]


def items_as_attributes() -> Case:
    held: Any = AttributeDict(scale=2.0, inner=AttributeDict(k=1.0))
    return Case(
        lambda x: x * held.scale + held.inner.k,
        (lambda: setattr(held, "scale", 5.0), lambda: held.inner.update(k=7.0)),
    )


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    shift: float = 1.0


def applied(x: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
    return x * scale + shift


def all_fields_by_name() -> Case:
    held = Config()
    return Case(
        lambda x: applied(x, **asdict(held)), (lambda: setattr(held, "scale", 5.0),)
    )


def all_fields_in_order() -> Case:
    held = Config()
    return Case(
        lambda x: applied(x, *astuple(held)), (lambda: setattr(held, "shift", 5.0),)
    )


def another_with_a_field_replaced() -> Case:
    held = Config()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return applied(x, *dataclasses.astuple(dataclasses.replace(held, shift=0.5)))

    return Case(fn, (lambda: setattr(held, "scale", 5.0),))


def a_pattern_by_name() -> Case:
    held = Config()

    def fn(x: torch.Tensor) -> Any:
        match held:
            case Config(scale=found):
                return x * found

    return Case(fn, (lambda: setattr(held, "scale", 5.0),))


def a_pattern_in_order() -> Case:
    held = Config()

    def fn(x: torch.Tensor) -> Any:
        match held:
            case Config(_, found):
                return x * found

    return Case(fn, (lambda: setattr(held, "shift", 5.0),))


def a_getter() -> Case:
    held = Holder(inner=Config())
    get = operator.attrgetter("inner.scale")
    return Case(lambda x: x * get(held), (lambda: setattr(held.inner, "scale", 5.0),))


def an_attribute_of_a_function() -> Case:
    def inner(x: torch.Tensor) -> Any:
        return x * inner.scale  # type: ignore[attr-defined]

    inner.scale = 2.0  # type: ignore[attr-defined]
    return Case(lambda x: inner(x), (lambda: setattr(inner, "scale", 5.0),))


def an_attribute_of_a_metaclass() -> Case:
    class Meta(type):
        value = 2.0

        @property
        def scale(cls) -> float:
            return cls.value

    class Of(metaclass=Meta):
        pass

    return Case(
        lambda x: x * Of.scale,
        (lambda: setattr(Meta, "value", 5.0), lambda: setattr(Of, "value", 7.0)),
    )


def the_class_of_an_object() -> Case:
    class Doubles:
        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    class Triples(Doubles):
        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    held = {"a": [Doubles()]}
    change = lambda: setattr(held["a"][0], "__class__", Triples)  # noqa: E731
    return Case(lambda x: held["a"][0].act(x), (change,))


def all_attributes_of_an_object() -> Case:
    held = [Holder(scale=2.0)]
    change = lambda: setattr(held[0], "__dict__", {"scale": 3.0})  # noqa: E731
    return Case(lambda x: x * held[0].scale, (change,))


def behind_a_weak_reference() -> Case:
    held = Holder(scale=2.0)
    ref = weakref.ref(held)
    return Case(lambda x: x * ref().scale, (lambda: setattr(held, "scale", 5.0),))


def behind_a_view_of_a_dict() -> Case:
    held = {"scale": 2.0}
    view = types.MappingProxyType(held)
    return Case(lambda x: x * view["scale"], (lambda: held.update(scale=5.0),))


def a_method_of_a_dict() -> Case:
    held = {"scale": 2.0}
    read = held.get
    return Case(lambda x: x * read("scale"), (lambda: held.update(scale=5.0),))


def an_array() -> Case:
    held = array.array("d", [2.0, 3.0])
    return Case(lambda x: x * held[1], (lambda: held.__setitem__(1, 5.0),))


def an_object_of_a_package() -> Case:
    held = torch.distributions.Normal(0.0, 1.0, validate_args=False)
    return Case(
        lambda x: held.log_prob(x),
        (lambda: setattr(held, "loc", torch.ones(4)),),
    )


def a_subclass_of_torchs_module() -> Case:
    class Leaky(nn.LeakyReLU):
        pass

    net = Leaky(0.1)
    return Case(lambda x: net(-x), (lambda: setattr(net, "negative_slope", 0.9),))


def a_subclass_that_calls_torchs() -> Case:
    class Norm(nn.LayerNorm):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.float())

    net = Norm(4)
    return Case(net, (lambda: setattr(net, "eps", 0.9),))


def a_list_of_hooks() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.post_hooks: list[Any] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for each in self.post_hooks:
                x = each(x)
            return x * 2

    net = Net()
    return Case(net, (lambda: net.post_hooks.append(lambda x: x + 1),))


class Table:
    rows: ClassVar[list[list[float]]] = [[2.0]]


def a_container_of_a_class() -> Case:
    Table.rows = [[2.0]]
    return Case(
        lambda x: x * Table.rows[0][0], (lambda: Table.rows[0].__setitem__(0, 3.0),)
    )


def a_dictionary_of_the_library() -> Case:
    held = collections.UserDict(scale=2.0)
    return Case(lambda x: x * held["scale"], (lambda: held.update(scale=5.0),))


def an_attribute_of_an_enum() -> Case:
    class Kind(enum.Enum):
        FIRST = 1

    kind: Any = Kind.FIRST
    kind.scale = 2.0
    return Case(
        lambda x: x * Kind.FIRST.scale,  # type: ignore[attr-defined]
        (lambda: setattr(kind, "scale", 5.0),),
    )


FACTOR = 2.0


def a_global_by_text() -> Case:
    def change(value: float) -> Callable[[], None]:
        return lambda: globals().update(FACTOR=value)

    change(2.0)()
    return Case(lambda x: x * globals()["FACTOR"], (change(3.0), change(4.0)))


def a_module_by_text() -> Case:
    def change(value: float) -> Callable[[], None]:
        return lambda: globals().update(FACTOR=value)

    change(2.0)()
    return Case(lambda x: x * sys.modules[__name__].FACTOR, (change(3.0), change(4.0)))


def a_reader_by_another_name() -> Case:
    held, read = Holder(scale=2.0), getattr
    name = "sca" + "le"
    return Case(lambda x: x * read(held, name), (lambda: setattr(held, "scale", 5.0),))


def a_partial_method() -> Case:
    held = [2.0]

    def act(_: Any, x: torch.Tensor, by: float) -> torch.Tensor:
        return x * held[0] + by

    class Of:
        acts = functools.partialmethod(act, by=1.0)

    of = Of()
    return Case(lambda x: of.acts(x), (lambda: held.__setitem__(0, 5.0),))


def a_dispatched_function() -> Case:
    held = [2.0]

    @functools.singledispatch
    def act(by: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @act.register
    def _(by: int, x: torch.Tensor) -> torch.Tensor:
        return x * held[0]

    def register() -> None:
        act.register(int, lambda by, x: x * 7)

    return Case(lambda x: act(1, x), (lambda: held.__setitem__(0, 5.0), register))


def a_descriptor() -> Case:
    held = {"scale": 2.0}

    class Read:
        def __get__(self, *_: Any) -> float:
            return held["scale"]

    class Of:
        scale = Read()

    of = Of()
    return Case(lambda x: x * of.scale, (lambda: held.update(scale=5.0),))


def a_function_that_nobody_finds() -> Case:
    """But its code has run."""
    by = 2.0

    def act(x: torch.Tensor) -> torch.Tensor:
        return x * by

    def change() -> None:
        nonlocal by
        by = 5.0

    box = ctypes.py_object(act)
    return Case(lambda x: box.value(x), (change,))


def a_weak_reference_that_dies() -> Case:
    held = [Holder()]
    ref = weakref.ref(held[0])
    return Case(lambda x: x * 2 if ref() is None else x, (held.clear,))


def a_dictionary_of_weak_references() -> Case:
    held = Holder()
    table: Any = weakref.WeakKeyDictionary({held: 2.0})

    def fn(x: torch.Tensor) -> Any:
        return x * table[held]

    return Case(fn, (lambda: table.__setitem__(held, 5.0),))


def an_operator_that_comes() -> Case:
    class Of:
        pass

    of = Of()
    change = lambda: setattr(Of, "__bool__", lambda _: False)  # noqa: E731
    return Case(lambda x: x if of else x * 2, (change,))


def another_base() -> Case:
    class First:
        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    class Second:
        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    class Of(First):
        pass

    of = Of()
    return Case(lambda x: of.act(x), (lambda: setattr(Of, "__bases__", (Second,)),))


def what_a_base_class_reads() -> Case:
    class Base(abc.ABC):
        @abc.abstractmethod
        def factor(self) -> float: ...

        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor()

    class Of(Base):
        value = 2.0

        def factor(self) -> float:
            return self.value

    of = Of()
    return Case(
        lambda x: of.act(x),
        (
            lambda: setattr(of, "value", 3.0),
            lambda: setattr(Of, "factor", lambda _: 4.0),
            lambda: setattr(Base, "act", lambda _, x: x * 5),
        ),
    )


@pytest.mark.parametrize(
    "make",
    [
        a_dictionary_of_the_library,
        an_attribute_of_an_enum,
        a_global_by_text,
        a_module_by_text,
        a_reader_by_another_name,
        a_partial_method,
        a_dispatched_function,
        a_descriptor,
        a_function_that_nobody_finds,
        a_weak_reference_that_dies,
        a_dictionary_of_weak_references,
        an_operator_that_comes,
        another_base,
        what_a_base_class_reads,
        containers_in_containers,
        containers_of_a_module,
        the_end_of_a_long_list,
        objects_deep_in_objects,
        objects_in_containers,
        an_attribute_over_the_classs,
        an_attribute_that_appears,
        an_attribute_by_a_default,
        slots,
        slots_of_an_argument,
        items_as_attributes,
        all_fields_by_name,
        all_fields_in_order,
        another_with_a_field_replaced,
        a_pattern_by_name,
        a_pattern_in_order,
        a_getter,
        an_attribute_of_a_function,
        an_attribute_of_a_metaclass,
        the_class_of_an_object,
        all_attributes_of_an_object,
        behind_a_weak_reference,
        behind_a_view_of_a_dict,
        a_method_of_a_dict,
        an_array,
        an_object_of_a_package,
        a_subclass_of_torchs_module,
        a_subclass_that_calls_torchs,
        a_list_of_hooks,
        a_container_of_a_class,
    ],
)
def test_another_is_seen(make: Callable[[], Case]) -> None:
    check(make())


class Pair(NamedTuple):
    x: torch.Tensor

    def factor(self) -> float:
        return 2.0


@dataclasses.dataclass
class Output:
    x: torch.Tensor

    def factor(self) -> float:
        return 2.0


class Mode(enum.Enum):
    FIRST = 1

    def factor(self) -> float:
        return 2.0


@pytest.mark.parametrize("of", [Pair(torch.ones(2)), Output(torch.ones(2)), Mode.FIRST])
def test_methods_of_arguments(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of classes that are taken apart."""
    change = lambda: monkeypatch.setattr(type(of), "factor", lambda _: 3.0)  # noqa: E731
    check(Case(lambda x, of: x * of.factor(), (change, monkeypatch.undo), (of,)))


# --- Functions that are put in another's place ---


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Own(nn.Module):
    """Its own code names what is replaced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = x[None]
        found = F.scaled_dot_product_attention(inner, inner, inner)[0]
        return helper(F.softmax(x, -1)) + found


class Layer(nn.Module):
    """Torch's code does."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.Softmax(-1)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.act(self.linear(x))
        return result


@pytest.mark.parametrize(
    ("make", "where", "name"),
    [
        (Own, F, "softmax"),
        (Own, F, "scaled_dot_product_attention"),
        (Own, sys.modules[__name__], "helper"),
        (Layer, F, "softmax"),
        (Layer, nn.Softmax, "forward"),
        (Layer, nn.Linear, "forward"),
        (Layer, nn.Module, "__call__"),
        (Layer, torch.Tensor, "softmax"),
        (Layer, Layer, "forward"),
    ],
)
def test_a_function_in_anothers_place(
    make: Callable[[], nn.Module], where: Any, name: str, monkeypatch: Any
) -> None:
    old = getattr(where, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        return old(*args, **kwargs) * 3

    def change() -> None:
        monkeypatch.setattr(where, name, patched)

    check(Case(make().eval(), (change, monkeypatch.undo)))


def test_a_builtin_in_anothers_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a global of its name."""
    held = [1.0, 2.0]

    def change() -> None:
        monkeypatch.setitem(globals(), "len", lambda of: 7)

    check(Case(lambda x: x * len(held), (change, monkeypatch.undo)))


# --- What is not looked at ---


class OfAThread(threading.local):
    """Of the program's class, which may run code where a thread begins to look."""

    scale = 2.0


def test_what_each_thread_has_of_its_own_is_refused() -> None:
    held = OfAThread()
    fast: Any = reprise.region(lambda x: x * held.scale)
    x = torch.ones(3)
    for call in range(CALLS):
        held.scale = float(call)
        assert_same_bits(fast(x), x * call)
    assert fast.explain().replayed == 0
    assert "held, of which each thread has its own" in str(fast.explain())


def test_a_queue_is_refused() -> None:
    held: queue.Queue[int] = queue.Queue()
    for call in range(CALLS):
        held.put(call)
    fast: Any = reprise.region(lambda x: x * held.get())
    for call in range(CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), float(call)))
    assert "held, a queue.Queue" in str(fast.explain())


def test_a_large_array_is_refused() -> None:
    held = bytearray(100_000)
    fast: Any = reprise.region(lambda x: x * held[0])
    for _ in range(CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.zeros(3))
    assert fast.explain().replayed == 0
    assert "held, a builtins.bytearray, which is too large" in str(fast.explain())


def test_many_objects_are_refused() -> None:
    """However deep they lie."""
    held = [
        [[float(i * j * k) for k in range(41)] for j in range(41)] for i in range(41)
    ]
    fast: Any = reprise.region(lambda x: x * held[0][0][1])
    for _ in range(CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.zeros(3))
    assert fast.explain().recorded == 0
    assert "more than 65536 objects" in str(fast.explain())


def test_a_long_chain_of_objects_is_refused() -> None:
    held: Any = None
    chain = []
    for _ in range(70_000):
        held = Holder(next=held)
        chain.append(held)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if held.next is None else x * 3

    fast: Any = reprise.region(fn)
    for _ in range(4):
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), 3.0))
    assert "more than 65536 objects, the last ones in Holder.next" in str(
        fast.explain()
    )
    for each in chain:  # else Python's stack overflows as they go
        each.next = None


def test_a_model_of_many_modules_is_a_region() -> None:
    """However many there are: modules and tensors are no part of that budget."""
    net = nn.ModuleList(nn.Linear(1, 1) for _ in range(4_000))
    fast: Any = reprise.region(lambda x: net[7](x))
    x = torch.ones(3, 1)
    for _ in range(4):
        assert_same_bits(fast(x), net[7](x))
    assert fast.explain().replayed > 0, str(fast.explain())


def test_what_nobody_reads_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside what is read, in the same dictionary: it is looked at no more."""
    held: Any = Holder(scale=2.0, steps=0)
    fast: Any = reprise.region(lambda x: x * held.scale)
    looks = counted(monkeypatch, Looks, "look")
    x = torch.ones(3)
    for call in range(100):
        held.steps += 1
        monkeypatch.setitem(globals(), "_nobodys", call)
        assert_same_bits(fast(x), x * 2)
    assert fast.explain().replayed >= 96, str(fast.explain())
    assert len(looks) <= 16
    for scale in (3.0, 4.0):
        held.scale = scale
        for _ in range(CALLS):
            assert_same_bits(fast(x), x * scale)
    del held.scale
    held.scale = 5.0
    assert_same_bits(fast(x), x * 5)


def test_equal_numbers_in_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that sets them anew before each call has them compared, not looked at."""
    held = [2.0, 3.0]
    fast: Any = reprise.region(lambda x: x * held[0])
    x = torch.ones(3)
    for call in range(100):
        held[0] = float(str(2.0 if call < 50 else 4.0))
        assert_same_bits(fast(x), x * held[0])
    report = fast.explain()
    assert report.replayed >= 94, str(report)


@pytest.mark.parametrize(("seconds", "dear"), [(1.0, True), (40e-6, False)])
def test_what_is_dear_to_look_at_is_refused(
    seconds: float, dear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [float(each) for each in range(100)]
    monkeypatch.setattr(Compared, "seconds", lambda _: seconds)
    fast: Any = reprise.region(lambda x: x * held[2])
    for _ in range(4 * CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), 2.0))
    report = fast.explain()
    assert (report.replayed > CALLS) == (not dear), str(report)
    assert any("held (100 values)" in each for each in report.reasons) == dear


def test_looks_that_are_dear_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program writes what is read before each call, and a look takes long."""
    held: Any = Holder(table=[2.0])
    fast: Any = reprise.region(lambda x: x * held.table[0])
    x = torch.ones(3)
    for _ in range(CALLS):
        fast(x)
    now = iter(range(1_000_000))
    monkeypatch.setattr(_region_looks, "_clock", lambda: float(next(now)))
    for _ in range(100):
        held.table = [2.0]
        assert_same_bits(fast(x), x * 2)
    report = fast.explain()
    assert any("is written between calls" in each for each in report.reasons)
    assert report.replayed < 80


def test_code_that_is_made_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, up to a bound."""
    monkeypatch.setattr(reading, "MOST_CODE", 20)

    # In a module of its own: where code names `exec`, all that its module holds counts.
    module: dict[str, Any] = {}
    exec(
        "def fn(x):\n"
        "    made = {}\n"
        "    exec('def made(x): return x * 2', made)\n"
        "    return made['made'](x)\n",
        module,
    )
    fast: Any = reprise.region(module["fn"], check="always")
    for _ in range(5 * CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), 2.0))
    report = fast.explain()
    assert 4 < report.recorded < 4 * CALLS, str(report)
    assert "it runs other code in each call" in str(report)


def test_counters_of_packages_are_no_matter() -> None:
    """A package's own state, which its code changes in each call."""

    class Hooked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autograd.profiler.record_function("named"):
                return x * 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        handle = net.register_forward_hook(lambda *_: None)  # takes the next number
        handle.remove()
        return x * 3

    net = Hooked()
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), 3.0))
    report = fast.explain()
    assert not any("next_id" in each for each in report.reasons), str(report)


class Counted(dict[str, int]):
    """Counts how often it is asked."""

    asked = 0

    def __len__(self) -> int:
        Counted.asked += 1
        return super().__len__()

    def __iter__(self) -> Iterator[str]:
        Counted.asked += 1
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        Counted.asked += 1
        return self is other

    __hash__ = None  # type: ignore[assignment]


def test_nothing_of_the_programs_is_called() -> None:
    held = {"a": Counted(x=2), "queue": collections.UserDict(x=3)}
    fast: Any = reprise.region(lambda x: x * held["a"]["x"])
    Counted.asked = 0
    x = torch.ones(3)
    for scale in (2, 3):
        held["a"]["x"] = scale
        before = fast.explain().replayed
        for _ in range(CALLS):
            assert_same_bits(fast(x), x * scale)
        assert fast.explain().replayed > before
    assert Counted.asked == 0


class Key:
    """One that is no key any longer, once it is told so."""

    refuses = False

    def __hash__(self) -> int:
        if Key.refuses:
            raise RuntimeError("not to be hashed")
        return 1


def test_keys_that_refuse_to_be_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an order can be had from them alone: the callable runs."""
    monkeypatch.setattr(Key, "refuses", False)
    held = collections.OrderedDict([(Key(), 2.0), (Key(), 3.0)])
    other = {Key(): 2.0}

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * len(held) * len(other)

    fast: Any = reprise.region(fn)
    for call in range(3 * CALLS):
        Key.refuses = call >= CALLS
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), 2.0))
    assert fast.explain().replayed > 0, str(fast.explain())


def test_what_nobody_looks_into_is_found_by_a_sample() -> None:
    """Memory of a library's, say."""
    held = ctypes.c_double(2.0)
    fast: Any = reprise.region(lambda x: x * held.value)
    for call in range(400):
        held.value = 2.0 if call < 40 else 3.0
        fast(torch.ones(3))
    assert "withdrawn" in str(fast.explain()), str(fast.explain())
