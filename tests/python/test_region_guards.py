"""What a callable looks at, and gives to no operator: another one is seen."""

from __future__ import annotations

import builtins
import collections
import functools
import importlib.util
import itertools
import math
import pathlib
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy
import pytest
import reprise
import torch
from reprise._region_looks import Looks
from reprise.guards.tokens import bits_of
from torch import nn
from watching import assert_same_bits, counted

CALLS = 8  # the fourth is replayed


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def check_changes(
    fn: Callable[..., Any], arguments: tuple[Any, ...], *changes: Callable[[], Any]
) -> None:
    """Calls are replayed before each change and behind the last, and give eager's bits."""
    fast: Any = reprise.region(fn)
    for change in (*changes, None):
        before = fast.explain().replayed
        for _ in range(CALLS):
            assert_same_bits(fast(*arguments), fn(*arguments))
        assert fast.explain().replayed > before, str(fast.explain())
        if change is not None:
            old = fn(*arguments)
            change()
            assert not torch.equal(fn(*arguments), old), "the change changes nothing"


class TwoAnswers(nn.Module):
    """In training it returns what no region does."""

    def forward(self, x: torch.Tensor) -> Any:
        return Holder(y=x * 2, net=self) if self.training else x * 3 + 1


def test_what_was_refused_is_another_structure_now(device: str) -> None:
    """Nothing is run of it, and still what it reads is looked at."""
    net = TwoAnswers()
    fast: Any = reprise.region(net)
    x = seen().to(device)
    for _ in range(2):
        net.train()
        replayed = fast.explain().replayed
        for _ in range(CALLS):
            assert_same_bits(fast(x).y, x * 2)
        assert fast.explain().replayed == replayed
        net.eval()
        for _ in range(CALLS):
            assert_same_bits(fast(x), x * 3 + 1)
        assert fast.explain().replayed > replayed, str(fast.explain())


def test_what_is_refused_is_seldom_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = TwoAnswers()
    fast: Any = reprise.region(net)
    for _ in range(CALLS):
        fast(seen())
    looks = counted(monkeypatch, Looks, "look")
    for call in range(64):
        net.unread = call
        fast(seen())
    assert len(looks) <= 8
    net.eval()
    for _ in range(300):
        assert_same_bits(fast(seen()), seen() * 3 + 1)
    assert fast.explain().replayed > 0, str(fast.explain())


TWO_OF_A_MODULE = """
factor = 2.0
unread = 0
def first(x): return x * factor + 1
def second(x): return x * factor + 2
"""


@pytest.fixture
def of_a_module(tmp_path: pathlib.Path) -> Any:
    """A module of the program's, two functions of which read one of its globals."""
    path = tmp_path / "of_a_module.py"
    path.write_text(TWO_OF_A_MODULE)
    spec = importlib.util.spec_from_file_location("of_a_module", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_globals_that_one_region_compares_another_one_watches(
    of_a_module: Any,
) -> None:
    """The first one has found that they are written all the time, and the second has not."""
    first: Any = reprise.region(of_a_module.first)
    second: Any = reprise.region(of_a_module.second)
    for _ in range(CALLS):
        first(seen()), second(seen())
    for call in range(64):
        of_a_module.unread = call
        first(seen())
    for _ in range(CALLS):
        second(seen())
    before = first.explain().replayed, second.explain().replayed
    for factor in (3.0, 4.0, 3.0):
        of_a_module.factor = factor
        for _ in range(CALLS):
            assert_same_bits(second(seen()), seen() * factor + 2)
            assert_same_bits(first(seen()), seen() * factor + 1)
    assert first.explain().replayed > before[0], str(first.explain())
    assert second.explain().replayed > before[1], str(second.explain())


def test_globals_that_are_put_back_are_seldom_looked_at(
    monkeypatch: pytest.MonkeyPatch, of_a_module: Any
) -> None:
    """Between any two looks nothing has changed but their version."""
    fast: Any = reprise.region(of_a_module.first)
    for _ in range(CALLS):
        fast(seen())
    looks = counted(monkeypatch, Looks, "look")
    for _ in range(64):
        of_a_module.unread = 1
        of_a_module.unread = 0
        assert_same_bits(fast(seen()), seen() * 2 + 1)
    assert len(looks) <= 8


def test_what_comes_where_others_are_written_all_the_time() -> None:
    """As many are there as before, and the last one is the same."""
    of: Any = Holder(unread=0, last=0)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * (of.extra if hasattr(of, "extra") else 2.0)

    fast: Any = reprise.region(fn)
    for call in range(64):
        of.last = call
        assert_same_bits(fast(seen()), seen() * 2)
    assert fast.explain().replayed > 0, str(fast.explain())
    of.extra = 3.0
    del of.unread, of.last
    of.last = 64
    assert_same_bits(fast(seen()), seen() * 3)


def test_an_order_where_others_are_written_all_the_time() -> None:
    of: Any = types.SimpleNamespace(first=2.0, second=3.0, last=0)
    fast: Any = reprise.region(lambda x: x * next(iter(vars(of).values())))
    for _ in range(64):
        of.last = 1
        of.last = 0
        assert_same_bits(fast(seen()), seen() * 2)
    assert fast.explain().replayed > 0, str(fast.explain())
    del of.first, of.last
    of.first, of.last = 2.0, 0
    assert_same_bits(fast(seen()), seen() * 3)


def test_what_another_region_reads_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """It is written between all calls, and each time the other one looks."""
    of: Any = types.SimpleNamespace(factor=1.0)
    theirs: Any = reprise.region(lambda x: x * of.factor)
    fast: Any = reprise.region(lambda x: x + 1)
    x = seen().to(device)
    for call in range(CALLS):
        of.factor = float(call)
        theirs(x), fast(x)
    looks = counted(monkeypatch, Looks, "look")
    for call in range(64):
        of.factor = float(call)
        assert_same_bits(fast(x), x + 1)
    assert not looks


def set_data(data: torch.Tensor) -> Callable[[torch.Tensor], Any]:
    def change(seen: torch.Tensor) -> None:
        seen.data = data

    return change


def set_gradient(gradient: torch.Tensor | None) -> Callable[[torch.Tensor], Any]:
    def change(seen: torch.Tensor) -> None:
        seen.grad = gradient

    return change


def seen() -> torch.Tensor:
    return torch.ones(2, 3)


# What Python looks at, and what makes that another.
LOOKS: dict[
    str, tuple[Callable[[torch.Tensor], Any], Callable[[torch.Tensor], Any]]
] = {
    "shape": (lambda seen: seen.shape == (2, 3), set_data(torch.ones(4))),
    "resize": (lambda seen: seen.numel() == 6, lambda seen: seen.resize_(4)),
    "strides": (lambda seen: seen.is_contiguous(), set_data(torch.ones(3, 2).t())),
    "dtype": (
        lambda seen: seen.dtype is torch.float32,
        set_data(torch.ones(2, 3, dtype=torch.float64)),
    ),
    "requires_grad": (
        lambda seen: seen.requires_grad,
        lambda seen: seen.requires_grad_(),
    ),
    "gradient": (lambda seen: seen.grad is None, set_gradient(torch.ones(2, 3))),
}


def _of_closure(held: Any, find: Callable[[Any], Any]) -> tuple[Any, int]:
    return lambda of: find(held), 0


# How the callable leads to the tensor.
WAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "attribute": lambda seen: (lambda of: of.held, Holder(held=seen)),
    "list": lambda seen: (lambda of: of.held[0], Holder(held=[seen])),
    "dict": lambda seen: (lambda of: of.held["a"], Holder(held={"a": seen})),
    "closure": lambda seen: (lambda of: seen, 0),
    "a list in a list": lambda seen: _of_closure([[seen]], lambda held: held[0][0]),
    "a dict in a dict": lambda seen: _of_closure(
        {"a": {"b": seen}}, lambda held: held["a"]["b"]
    ),
    "partial": lambda seen: (functools.partial(lambda seen, of: seen, seen), 0),
    "partial, by name": lambda seen: (
        functools.partial(lambda of, seen: seen, seen=seen),
        0,
    ),
    "argument": lambda seen: (lambda of: of, seen),
}


@torch.no_grad()
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("look", LOOKS)
def test_tensor_that_is_looked_at(look: str, way: str) -> None:
    looks, change = LOOKS[look]
    tensor = seen()
    find, of = WAYS[way](tensor)

    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * 2 if looks(find(of)) else x * 3

    check_changes(fn, (torch.rand(2), of), lambda: change(tensor))


@torch.no_grad()
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("held_as", ["parameter", "buffer", "attribute", "config"])
def test_module_that_is_looked_at(look: str, held_as: str) -> None:
    looks, change = LOOKS[look]

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if held_as == "buffer":
                self.register_buffer("held", seen())
            elif held_as == "parameter":
                self.held = nn.Parameter(seen(), requires_grad=False)
            elif held_as == "attribute":
                self.held = seen()
            else:
                self.config = Holder(parts=[Holder(held=(seen(), 1))])

        def find(self) -> Any:
            return self.held if held_as != "config" else self.config.parts[0].held[0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if looks(self.find()) else x * 3

    net = Looking()
    check_changes(net, (torch.rand(2),), lambda: change(net.find()))


@torch.no_grad()
def test_gradients_that_come_and_go() -> None:
    """Of tensors that operators take, too: as gradient clipping looks for them."""
    net = nn.Linear(2, 2)
    net.weight.grad = torch.rand(2, 2)

    def fn(x: torch.Tensor) -> torch.Tensor:
        total = net(x).sum()
        for parameter in net.parameters():
            if parameter.grad is not None:
                total = total + parameter.grad.norm()
        return total

    check_changes(
        fn,
        (torch.rand(3, 2),),
        lambda: set_gradient(torch.rand(2))(net.bias),
        lambda: set_gradient(None)(net.weight),
        lambda: set_gradient(torch.rand(2, 2))(net.weight),
    )


@torch.no_grad()
def test_data_that_nobody_looks_at_may_change() -> None:
    held = Holder(seen=seen())

    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * of.seen.numel()

    fast: Any = reprise.region(fn)
    for call in range(CALLS):
        held.seen.add_(1)
        held.seen.data = torch.rand(2, 3)
        assert_same_bits(fast(torch.ones(call + 1)[:1], held), torch.full((1,), 6.0))
    assert fast.explain().replayed == CALLS - 2
    assert fast.explain().variants == 1


def test_gradients_summed_over_batches(device: str) -> None:
    """Every other call finds no gradients: a variant of its own, then both are replayed."""

    def made() -> tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = net(x).square().mean()
            loss.backward()
            return loss.detach()

        return net, step

    ours, fast = made()
    fast = reprise.region(fast)
    plain, step = made()
    for call in range(4 * CALLS):
        x = torch.randn(3, 4, device=device)
        assert_same_bits(fast(x), step(x))
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            assert_same_bits(a.grad, b.grad)
            if call % 2:
                a.grad = b.grad = None
    assert fast.explain().replayed > 2 * CALLS, str(fast.explain())


def test_step_that_drops_its_gradients(device: str) -> None:
    def made() -> tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
        torch.manual_seed(0)
        net = nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, step

    ours, fast = made()
    fast = reprise.region(fast)
    plain, step = made()
    for _ in range(2 * CALLS):
        x = torch.randn(3, 4, device=device)
        assert_same_bits(fast(x), step(x))
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            assert_same_bits([a.data, a.grad], [b.data, b.grad])
    assert fast.explain().replayed > CALLS, str(fast.explain())


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise AssertionError("torch is asked for nothing")


UNUSUAL: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": lambda: torch.ones(2, 3).to_sparse(),
    "of no data": lambda: torch.empty(2, 3, device="meta"),
    "of no shape": nn.parameter.UninitializedParameter,
    "of a type of the program's": lambda: torch.ones(2).as_subclass(Subclass),
}


@torch.no_grad()
@pytest.mark.parametrize("kind", UNUSUAL)
def test_tensor_that_is_no_ordinary_one(kind: str) -> None:
    """It is looked at as far as it can be."""
    held = Holder(seen=UNUSUAL[kind]())

    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * 2 if of.seen is None else x * 3

    check_changes(fn, (torch.rand(2), held))


# --- What is no tensor ---

# A callable, its arguments beside the first, and what makes it another.
Case = tuple[Callable[..., Any], tuple[Any, ...], Callable[[], Any]]


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def a_default() -> Case:
    def act(x: torch.Tensor, by: int = 2) -> torch.Tensor:
        return x * by

    def change() -> None:
        act.__defaults__ = (3,)

    return lambda x, of: of.act(x), (Holder(act=act),), change


def a_default_by_name() -> Case:
    def fn(x: torch.Tensor, *, by: int = 2) -> torch.Tensor:
        return x * by

    def change() -> None:
        fn.__kwdefaults__["by"] = 3

    return fn, (), change


def defaults_by_name() -> Case:
    def fn(x: torch.Tensor, *, by: int = 2) -> torch.Tensor:
        return x * by

    def change() -> None:
        fn.__kwdefaults__ = {"by": 3}

    return fn, (), change


def what_a_default_holds() -> Case:
    table = {"a": {"b": [2]}}

    def act(x: torch.Tensor, by: Any = table) -> torch.Tensor:
        return x * by["a"]["b"][0]

    def change() -> None:
        table["a"]["b"][0] = 3

    return lambda x, of: of.act(x), (Holder(act=act),), change


def what_a_closure_holds() -> Case:
    table = {"a": [2]}

    def change() -> None:
        table["a"][0] = 3

    return lambda x: x * table["a"][0], (), change


def a_variable() -> Case:
    by = 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * by

    def change() -> None:
        nonlocal by
        by = 3

    return fn, (), change


def code() -> Case:
    def act(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def change() -> None:
        act.__code__ = triple.__code__

    return lambda x: act(x), (), change


def an_attribute_of_a_function() -> Case:
    def act(x: torch.Tensor) -> torch.Tensor:
        return x

    act.by = 2

    def fn(x: torch.Tensor, of: Any) -> Any:
        return x * of.act.by

    def change() -> None:
        act.by = 3

    return fn, (Holder(act=act),), change


def an_attribute_that_a_function_gets() -> Case:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 3 if hasattr(double, "slow") else x * 2

    def change() -> None:
        double.slow = True

    if hasattr(double, "slow"):
        del double.slow
    return fn, (), change


def an_attribute_of_a_tensor() -> Case:
    seen = torch.ones(2)
    seen.by = 2

    def change() -> None:
        seen.by = 3

    return lambda x, of: x * of.seen.by, (Holder(seen=seen),), change


def an_attribute_of_a_parameter() -> Case:
    net = nn.Linear(2, 2)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * (3 if hasattr(net.weight, "frozen") else 2)

    def change() -> None:
        net.weight.frozen = True

    return fn, (), change


def an_attribute_that_a_module_loses() -> Case:
    class Net(nn.Module):
        by = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    net = Net()
    net.by = 3
    return net, (), lambda: delattr(net, "by")


def an_attribute_that_a_module_gets() -> Case:
    class Net(nn.Module):
        by = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    net = Net()
    return net, (), lambda: setattr(net, "by", 3)


def an_attribute_of_a_class() -> Case:
    class Config:
        by = 2

    def change() -> None:
        Config.by = 3

    return lambda x: x * Config.by, (), change


def an_attribute_of_a_base_class() -> Case:
    class Base(nn.Module):
        by = 2

    class Net(Base):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    def change() -> None:
        Base.by = 3

    return Net(), (), change


def a_method() -> Case:
    class Net(nn.Module):
        def act(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(x)

    def change() -> None:
        Net.act = lambda _, x: triple(x)

    return Net(), (), change


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Layer(), Layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def forward_of_an_object() -> Case:
    net = Layers()
    net.second.by = 3

    def change() -> None:
        net.first.forward = net.second.forward

    return net, (), change


def forward_of_the_module() -> Case:
    net = Layers()

    def change() -> None:
        net.forward = lambda x: x * 5

    return net, (), change


def forward_of_a_class() -> Case:
    class Other(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    net = Layers()
    net.first = Other()

    def change() -> None:
        Other.forward = Layer.forward  # type: ignore[method-assign]

    return net, (), change


def a_call_that_is_compiled() -> Case:
    net = Layers()

    def change() -> None:
        net.first._compiled_call_impl = lambda x: x * 7  # as Module.compile does

    return net, (), change


def what_an_attribute_of_a_class_holds() -> Case:
    class Config:
        table: ClassVar[dict[str, list[int]]] = {"a": [2]}

    def change() -> None:
        Config.table["a"][0] = 3

    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * of.config.table["a"][0]

    return fn, (Holder(config=Config()),), change


def a_factory() -> Case:
    table: Any = collections.defaultdict(int)

    def change() -> None:
        table.default_factory = float

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if table.default_factory is int else x * 3

    return fn, (), change


def a_factory_of_an_object() -> Case:
    table: Any = collections.defaultdict(int)

    def change() -> None:
        table.default_factory = float

    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * 2 if of.table.default_factory is int else x * 3

    return fn, (Holder(table=table),), change


def an_object_in_a_list_of_an_object_of_a_module() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = Holder(parts=[Holder(by=2)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.config.parts[0].by

    net = Net()

    def change() -> None:
        net.config.parts[0].by = 3

    return lambda x, of: of.net(x), (Holder(net=net),), change


def state_of_an_optimizer() -> Case:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9)
    weight.grad = torch.ones(2)
    optimizer.step()

    def fn(x: torch.Tensor) -> torch.Tensor:
        momentum = optimizer.state[weight]["momentum_buffer"]
        return x * 2 if momentum.dtype is torch.float32 else x * 3

    def change() -> None:
        optimizer.state[weight]["momentum_buffer"].data = torch.ones(2).double()

    return fn, (), change


@torch.no_grad()
@pytest.mark.parametrize(
    "made",
    [
        a_default,
        a_default_by_name,
        defaults_by_name,
        what_a_default_holds,
        what_a_closure_holds,
        a_variable,
        code,
        an_attribute_of_a_function,
        an_attribute_that_a_function_gets,
        an_attribute_of_a_tensor,
        an_attribute_of_a_parameter,
        an_attribute_that_a_module_loses,
        an_attribute_that_a_module_gets,
        an_attribute_of_a_class,
        an_attribute_of_a_base_class,
        a_method,
        forward_of_an_object,
        forward_of_the_module,
        forward_of_a_class,
        a_call_that_is_compiled,
        what_an_attribute_of_a_class_holds,
        a_factory,
        a_factory_of_an_object,
        an_object_in_a_list_of_an_object_of_a_module,
        state_of_an_optimizer,
    ],
)
def test_another_is_seen(made: Callable[[], Case]) -> None:
    fn, arguments, change = made()
    check_changes(fn, (torch.rand(2), *arguments), change)


class Pair(NamedTuple):
    x: torch.Tensor
    by: int


class PairOfMore(Pair):
    """Has a dictionary, as any class without `__slots__`."""


@torch.no_grad()
def test_named_tuple_with_attributes() -> None:
    """They are part of no form: the callable runs."""

    def fn(x: torch.Tensor, of: Any) -> Any:
        made = PairOfMore(x * getattr(of, "times", of.by), of.by)
        if hasattr(of, "times"):
            made.times = of.times
        return made

    fast: Any = reprise.region(fn)
    of: Any = PairOfMore(torch.ones(2), 2)
    x = torch.rand(2)
    for _ in range(CALLS):
        assert_same_bits(fast(x, of).x, fn(x, of).x)
    assert fast.explain().replayed > 0, str(fast.explain())
    for times in range(3, 3 + CALLS):
        of.times = times
        found = fast(x, of)
        assert_same_bits(found.x, x * times)
        assert found.times == times
    assert "PairOfMore with attributes" in str(fast.explain())


def test_parameters_that_another_thread_replaces(device: str) -> None:
    """Equal ones, one after the other, while calls are under way."""
    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)))
    net.to(device).eval()
    fast: Any = reprise.region(net)
    x = torch.randn(4, 8, device=device)
    over = threading.Event()

    def replace() -> None:
        for layer in itertools.cycle(net):
            if over.is_set():
                break
            layer.weight = nn.Parameter(layer.weight.detach().clone())
            time.sleep(0.0001)

    with torch.no_grad(), reprise.session(device, policy="always") as session:
        expected = net(x)
        for _ in range(40):
            fast(x)
            session.wait(60)
        other = threading.Thread(target=replace)
        other.start()
        try:
            for call in range(2000):
                assert_same_bits([fast(x)], [expected], f"call {call}")
        finally:
            over.set()
            other.join()
    assert fast.explain().replayed > 0


class Other(nn.Module):
    """Has another name for the memory of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), 3.0))
        self.other = self.weight.data
        self.known = torch.ones(2)

    def forward(self, x: torch.Tensor) -> Any:
        if x is self.known:
            return x + 1, self.other
        return x + self.weight, self.other


@torch.no_grad()
def test_the_very_tensor_that_is_returned() -> None:
    net = Other()
    fast = reprise.region(net)
    for _ in range(CALLS):
        x = torch.rand(2)
        y, other = fast(x)
        assert other is net.other
        assert_same_bits(y, x + net.weight)


@torch.no_grad()
def test_an_argument_that_python_knows() -> None:
    net = Other()
    fast = reprise.region(lambda x: net(x)[0])
    for _ in range(CALLS):
        fast(torch.rand(2))
    assert fast.explain().replayed > 0, str(fast.explain())
    for _ in range(CALLS):
        assert_same_bits(fast(net.known), net.known + 1)


# --- What nobody names ---

Modules = Callable[..., Any]


@pytest.fixture
def modules() -> Iterator[Modules]:
    """What makes modules of texts: the program's own, and those of packages."""
    made: list[str] = []

    def make(name: str, source: str, folder: str = "/program") -> Any:
        module: Any = types.ModuleType(name)
        module.__file__ = f"{folder}/{name}.py"
        sys.modules[name] = module
        made.append(name)
        exec(compile(source, module.__file__, "exec"), module.__dict__)
        return module

    yield make
    for name in made:
        sys.modules.pop(name, None)
    vars(builtins).pop("WALKED", None)


def of_package(modules: Modules, source: str) -> Any:
    """An installed one."""
    return modules("installed", source, "/nowhere/site-packages")


_BY_PROGRAM = {
    "a closure of forward": (
        "values = array.array('d', [2.0])\n"
        "def made():\n"
        "    held = values\n"
        "    class Net(torch.nn.Module):\n"
        "        def forward(self, x): return x * held[0]\n"
        "    return Net()\n"
        "fn = made()",
        "values[0] = 3.0",
    ),
    "a module that forward closes over": (
        "settings = types.SimpleNamespace(scale=2.0)\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x, of=settings): return x * of.scale\n"
        "fn = Net()",
        "settings.scale = 3.0",
    ),
    "a closure of a hook": (
        "values = array.array('d', [2.0])\n"
        "fn = torch.nn.Identity()\n"
        "def hook(held): return lambda module, given, out: out * held[0]\n"
        "fn.register_forward_hook(hook(values))",
        "values[0] = 3.0",
    ),
    "a result that a cache keeps": (
        "@functools.lru_cache\n"
        "def settings(): return {'scale': 2.0}\n"
        "def fn(x): return x * settings()['scale']",
        "settings()['scale'] = 3.0",
    ),
    "a cache that is cleared": (
        "SCALE = 2.0\n"
        "@functools.cache\n"
        "def scale(): return SCALE\n"
        "def fn(x): return x * scale()",
        "SCALE = 3.0; scale.cache_clear()",
    ),
    "an expression": (
        "SCALE = 2.0\ndef fn(x): return x * eval('SCALE * 1.0')",
        "SCALE = 3.0",
    ),
    "an expression that nobody says": (
        "SCALE, TEXT = 2.0, 'SCALE'\ndef fn(x): return x * eval(TEXT)",
        "SCALE = 3.0",
    ),
    "a variable of a module by its name": (
        "import settings\nKEY = 'SCALE'\ndef fn(x): return x * getattr(settings, KEY)",
        "settings.SCALE = 3.0",
    ),
    "variables of a module": (
        "import settings\nKEY = 'SCALE'\ndef fn(x): return x * vars(settings)[KEY]",
        "settings.SCALE = 3.0",
    ),
    "another class of a module": (
        "import settings\n"
        "class Fixed(types.ModuleType):\n"
        "    SCALE = property(lambda self: 3.0)\n"
        "def fn(x): return x * settings.SCALE",
        "settings.__class__ = Fixed",
    ),
    "names of an object": (
        "class Held: pass\nheld = Held()\ndef fn(x): return x * len(dir(held))",
        "held.more = 1",
    ),
    "a format": (
        "class Held: pass\n"
        "held = Held()\n"
        "held.scale, TEXT = 2.0, '{0.scale}'\n"
        "def fn(x): return x * float(TEXT.format(held))",
        "held.scale = 3.0",
    ),
    "equal namespaces": (
        "one, other = (types.SimpleNamespace(scale=2.0) for _ in range(2))\n"
        "def fn(x): return x * 2 if one == other else x * 3",
        "one.scale = 3.0",
    ),
    "a constructor": (
        "class Held:\n"
        "    def __init__(self): self.scale = 2.0\n"
        "def fn(x): return x * Held().scale",
        "Held.__init__ = lambda self: setattr(self, 'scale', 3.0)",
    ),
    "a default of a constructor": (
        "class Held:\n"
        "    def __init__(self, scale=2.0): self.scale = scale\n"
        "def fn(x): return x * Held().scale",
        "Held.__init__.__defaults__ = (3.0,)",
    ),
    "an attribute of a member": (
        "class Kind(enum.Enum):\n"
        "    A = 1\n"
        "Kind.A.factor, KEY = 2.0, 'A'\n"
        "def fn(x): return x * Kind[KEY].factor",
        "Kind.A.factor = 3.0",
    ),
    "a member that goes": (
        "class Kind(enum.Enum):\n"
        "    A, B = 1, 2\n"
        "def fn(x): return x * len(list(Kind))",
        "Kind._member_names_.pop()",
    ),
    "an element of a list of torch's": (
        "class Held(torch.nn.ParameterList): pass\n"
        "held = Held([2.0])\n"
        "def fn(x): return x * held[0]",
        "held[0] = 3.0",
    ),
    "an object among the builtins": (
        "import builtins\n"
        "class Held: scale = 2.0\n"
        "builtins.WALKED = Held()\n"
        "def fn(x): return x * WALKED.scale",
        "builtins.WALKED.scale = 3.0",
    ),
    "memory": (
        "values = array.array('d', [2.0])\n"
        "view = memoryview(values)\n"
        "def fn(x): return x * view[0]",
        "values[0] = 3.0",
    ),
    "a view of a dictionary": (
        "table = {'scale': 2.0}\n"
        "view = table.values()\n"
        "def fn(x): return x * list(view)[0]",
        "table['scale'] = 3.0",
    ),
    "a variable of a closure": (
        "cell = types.CellType(2.0)\ndef fn(x): return x * cell.cell_contents",
        "cell.cell_contents = 3.0",
    ),
    "an event": (
        "event = threading.Event()\n"
        "def fn(x): return x * 3 if event.is_set() else x * 2",
        "event.set()",
    ),
    "the sign of no number": (
        "SCALE = math.nan\ndef fn(x): return x * math.copysign(1.0, SCALE)",
        "SCALE = -math.nan",
    ),
}
_IMPORTS = "import array, enum, functools, math, threading, types\nimport torch\n"


@torch.no_grad()
@pytest.mark.parametrize("case", _BY_PROGRAM)
def test_what_the_program_reads_unnamed(case: str, modules: Modules) -> None:
    source, change = _BY_PROGRAM[case]
    modules("settings", "SCALE = 2.0")
    program = modules("program", _IMPORTS + source)
    check_changes(program.fn, (torch.rand(4),), lambda: exec(change, vars(program)))


_BY_PACKAGE = {
    "a table": (
        "_TABLE = {'scale': [2.0]}\ndef scaled(x): return x * _TABLE['scale'][0]",
        "def fn(x): return installed.scaled(x)",
        "installed._TABLE['scale'][0] = 3.0",
    ),
    "an object": (
        "class Policy:\n"
        "    scale = 2.0\n"
        "    def get(self): return self.scale\n"
        "_default = Policy()\n"
        "def default(): return _default",
        "def fn(x): return x * installed.default().get()",
        "installed._default.scale = 3.0",
    ),
    "an object of the program's": (
        "_REGISTRY = {}\ndef run(name, x): return _REGISTRY[name](x)",
        "class Scaled:\n"
        "    scale = 2.0\n"
        "    def __call__(self, x): return x * self.scale\n"
        "made = Scaled()\n"
        "installed._REGISTRY['made'] = made\n"
        "def fn(x): return installed.run('made', x)",
        "made.scale = 3.0",
    ),
    "a model that it registers": (
        "_REGISTRY = {}\ndef run(name, x): return _REGISTRY[name](x)",
        "net = torch.nn.Linear(4, 4)\n"
        "installed._REGISTRY['net'] = net\n"
        "def fn(x): return installed.run('net', x)",
        "net.register_forward_hook(lambda module, given, out: out * 5)",
    ),
    "a configuration": (
        "class Config:\n"
        "    names = {'hidden': 'n_embd'}\n"
        "    def __init__(self, **given): self.__dict__.update(given)\n"
        "    def __getattribute__(self, name):\n"
        "        of = object.__getattribute__\n"
        "        return of(self, of(self, 'names').get(name, name))",
        "config = installed.Config(n_embd=2.0)\ndef fn(x): return x * config.hidden",
        "config.hidden = 3.0; config.n_embd = 3.0",
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("case", _BY_PACKAGE)
def test_what_packages_read(case: str, modules: Modules) -> None:
    """Of their own, in a recorded call."""
    package, source, change = _BY_PACKAGE[case]
    of_package(modules, package)
    program = modules("program", _IMPORTS + "import installed\n" + source)
    check_changes(program.fn, (torch.rand(4),), lambda: exec(change, vars(program)))


@torch.no_grad()
def test_a_module_that_comes(modules: Modules) -> None:
    source = """
def fn(x):
    try:
        import that_comes
    except ImportError:
        return x * 2
    return x * that_comes.SCALE
"""
    program = modules("program", source)
    change = functools.partial(modules, "that_comes", "SCALE = 3.0")
    check_changes(program.fn, (torch.rand(4),), change)


@torch.no_grad()
@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ("iter([2.0] * 5 + [3.0] * 50)", "an iterator"),
        ("Own()", "each thread has its own"),
        ("collections.deque([2.0])", "a deque"),
    ],
)
def test_what_forward_closes_over_is_refused(
    held: str, reason: str, modules: Modules
) -> None:
    """As what any other function of the program's does."""
    source = f"""
import collections, threading, torch
class Own(threading.local): scale = 2.0
def made(held):
    class Net(torch.nn.Module):
        def forward(self, x): return (x * 2, held)[0]
    return Net()
fn = made({held})
"""
    program = modules("program", source)
    fast: Any = reprise.region(program.fn)
    x = torch.rand(4)
    for _ in range(CALLS):
        assert_same_bits(fast(x), x * 2)
    assert fast.explain().replayed == 0
    assert reason in str(fast.explain())


@torch.no_grad()
def test_what_a_package_and_the_program_lead_to(modules: Modules) -> None:
    """Of what each thread has of its own, whoever comes first."""
    source = """
import threading, torch
class Own(threading.local): scale = 2.0
held = Own()
net = torch.nn.Sequential(torch.nn.Identity())
net.extra = held
def deep(): return held.scale
def inner(): return deep()
def fn(x): return net(x) * inner()
"""
    program = modules("program", source)
    fast: Any = reprise.region(program.fn)
    x = torch.rand(4)
    for call in range(2 * CALLS):
        program.held.scale = 2.0 if call < CALLS else 3.0
        assert_same_bits(fast(x), x * program.held.scale)
    assert "each thread has its own" in str(fast.explain())


OF_A_THREAD = """
import threading, torch
held = threading.local()
other = {"on": True}
def begin(scale): held.scale, held.flags = scale, {"on": True, "kinds": [1, 2]}
def fn(x):
    y = x * held.scale if held.flags["on"] else x - len(held.flags["kinds"])
    return y + 1 if held.flags is other else y
def returns(x): return x * 2, held.flags
def counts(x):
    held.calls = getattr(held, "calls", 0) + 1
    return x * held.calls
"""


@torch.no_grad()
def test_what_each_thread_has_of_its_own(modules: Modules) -> None:
    program = modules("program", OF_A_THREAD)
    fast: Any = reprise.region(program.fn)
    x = torch.rand(4)
    found: list[int] = []

    def work(scale: float) -> None:
        program.begin(scale)
        changes = [
            lambda: None,
            lambda: setattr(program.held, "scale", scale + 1),
            lambda: program.held.flags["kinds"].append(3),
            lambda: program.held.flags.update(on=False),
            lambda: program.held.flags["kinds"].append(3),
            lambda: setattr(
                program.held, "flags", program.other
            ),  # an equal one, or not
            lambda: setattr(program.held, "flags", dict(program.other)),
        ]
        for change in changes:
            change()
            before = fast.explain().replayed
            for _ in range(CALLS):
                assert_same_bits(fast(x), program.fn(x))
            found.append(fast.explain().replayed - before)

    work(2.0)
    threads = [threading.Thread(target=work, args=(scale,)) for scale in (2.0, 5.0)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len(found) == 21 and min(found) > 0, str(fast.explain())
    work(2.0)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("returns", "it returns a container that something else holds"),
        ("counts", "held, of which each thread has its own"),
    ],
)
def test_what_is_done_with_it_is_refused(
    name: str, reason: str, modules: Modules
) -> None:
    program, twin = modules("program", OF_A_THREAD), modules("twin", OF_A_THREAD)
    fast: Any = reprise.region(getattr(program, name))
    x = torch.rand(4)
    for each in (program, twin):
        each.begin(2.0)
    for _ in range(CALLS):
        results = fast(x), getattr(twin, name)(x)
        if name == "returns":
            assert results[0][1] is program.held.flags
            results = results[0][0], results[1][0]
        assert_same_bits(*results)
    assert fast.explain().replayed == 0
    assert reason in str(fast.explain())


@torch.no_grad()
def test_objects_that_a_thread_has_are_refused(modules: Modules) -> None:
    program = modules("program", OF_A_THREAD)
    program.begin(torch.tensor(2.0))
    fast: Any = reprise.region(program.fn)
    x = torch.rand(4)
    for call in range(CALLS):
        program.held.scale.fill_(float(call))
        assert_same_bits(fast(x), program.fn(x))
    assert fast.explain().replayed == 0
    assert "which holds more than constants" in str(fast.explain())


@torch.no_grad()
def test_an_array_of_objects_is_refused() -> None:
    """Whoever changes one of them changes none of its bytes."""
    held = numpy.array([[2.0], None], dtype=object)
    fast: Any = reprise.region(lambda x: x * held[0][0])
    x = torch.rand(4)
    for call in range(2 * CALLS):
        held[0][0] = 2.0 if call < CALLS else 3.0
        assert_same_bits(fast(x), x * held[0][0])
    assert fast.explain().replayed == 0
    assert "cannot be compared as bytes" in str(fast.explain())


@torch.no_grad()
@pytest.mark.parametrize("value", [-math.nan, math.nan, complex(-0.0, -math.nan)])
def test_no_number_that_is_returned(value: complex) -> None:
    """With its sign, which no text says."""
    fast: Any = reprise.region(lambda x: (x * 2, value))
    x = torch.rand(4)
    for _ in range(CALLS):
        _, found = fast(x)
        assert type(found) is type(value)
        assert bits_of(found) == bits_of(value)
    assert fast.explain().replayed > 0, str(fast.explain())


@torch.no_grad()
@pytest.mark.parametrize("base", ["object", "str", "tuple"])
def test_an_argument_of_a_class_of_no_module(base: str) -> None:
    """It is looked at, or refused by its name."""
    kind = eval(f"type('Nameless', ({base},), {{}})", {})
    assert not hasattr(kind, "__module__")
    of = kind()
    of.scale = 2.0
    fast: Any = reprise.region(lambda x, of: x * of.scale)
    x = torch.rand(4)
    for call in range(2 * CALLS):
        of.scale = 2.0 if call < CALLS else 3.0
        assert_same_bits(fast(x, of), x * of.scale)
    assert fast.explain().replayed > 0 or "Nameless" in str(fast.explain())


def test_a_guard_names_what_has_changed_since_the_call_before(device: str) -> None:
    """And not what has changed since an older one."""

    class Held:
        first = 1.0
        other = 1.0

    held = Held()
    held.first = held.other = 1.0
    fast: Any = reprise.region(lambda x: x * held.first + held.other)
    x = torch.randn(3, device=device)
    for call in range(8):
        if call == 2:
            held.first = 2.0
        if call > 3:
            held.other = float(call)
        assert_same_bits(fast(x), x * held.first + held.other)
    guards = fast.explain().guards
    named = {name.rpartition(".")[2]: count for name, count in guards.items()}
    assert named == {"first": 1, "other": 4}, str(fast.explain())


def scaled(_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("name", ["attribute", "method", "property", "base"])
def test_classes_of_tensors(device: str, name: str) -> None:
    """What the class of a tensor from outside has, which the callable asks the tensor for."""

    class Base(torch.Tensor):
        of_base = 1.5

    class Scaled(Base):
        attribute = 2.0
        method = scaled
        of_property = property(lambda _: 3.0)

    of: Any = torch.ones(4, device=device).as_subclass(Scaled)
    parts: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[], None]]] = {
        "attribute": (lambda x: x * of.attribute, lambda: setattr(Scaled, name, 4.0)),
        "method": (
            lambda x: of.method(x),
            lambda: setattr(Scaled, name, lambda _, x: x * 5),
        ),
        "property": (
            lambda x: x * of.of_property,
            lambda: setattr(Scaled, "of_property", property(lambda _: 6.0)),
        ),
        "base": (lambda x: x * of.of_base, lambda: setattr(Base, "of_base", 7.0)),
    }
    fn, change = parts[name]
    check_changes(fn, (torch.randn(4, device=device),), change)
