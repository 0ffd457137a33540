"""Arguments of regions as in real code: modules, optimizers, functions, constants.

A module, an optimizer or a function counts as one in the closure does. A constant counts
by all that it is.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import io
import math
import pickle
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import reprise
import torch
from reprise._region import Region
from torch import nn
from torch.nn import functional as F
from watching import assert_same_bits

np = pytest.importorskip("numpy")

CALLS = 12


pytestmark = pytest.mark.usefixtures("replaying")


def make_net(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to(device)


def train(
    net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, t: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), t)
    loss.backward()
    optimizer.step()
    return loss.detach()


Steps = Callable[[Any], Iterator[Any]]


def run_both(steps: Steps, fn: Callable[..., Any]) -> reprise.RegionReport:
    """Runs steps with the callable and with its region. All that they yield has the same bits."""
    fast: Any = reprise.region(fn)
    found = []
    for called in (fn, fast):
        torch.manual_seed(3)
        found.append([_copied(each) for each in steps(called)])
    for mine, other in zip(found[1], found[0], strict=True):
        assert_same_bits(mine, other)
    report: reprise.RegionReport = fast.explain()
    return report


def _copied(value: Any) -> Any:
    if torch.is_tensor(value):
        return value.detach().clone()
    return [_copied(each) for each in value]


def batch(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4).to(device), torch.randint(0, 3, (5,)).to(device)


# --- Modules and optimizers ---


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("nets", [1, 2])
def test_a_step_with_its_module_and_optimizer(
    device: str, kind: str, nets: int
) -> None:
    def steps(step: Any) -> Iterator[Any]:
        made = [make_net(device) for _ in range(nets)]
        optimizers = [getattr(torch.optim, kind)(each.parameters()) for each in made]
        for index in range(CALLS * nets):
            which = index % nets
            yield step(made[which], optimizers[which], *batch(device))
        yield [list(each.parameters()) for each in made]

    report = run_both(steps, train)
    assert report.replayed >= (CALLS - 4) * nets, str(report)


def test_what_changes_of_a_module_between_calls(device: str) -> None:
    """It is looked at in each call, as one in the closure is."""

    def doubled(_: Any, __: Any, found: torch.Tensor) -> torch.Tensor:
        return found * 2

    def steps(run: Any) -> Iterator[Any]:
        net: Any = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4))
        net.to(device)
        other = nn.Linear(4, 4).to(device)

        def calls() -> Iterator[Any]:
            with torch.no_grad():
                for _ in range(6):
                    yield run(net, torch.randn(5, 4).to(device))

        yield from calls()
        hook = net[0].register_forward_hook(doubled)
        yield from calls()
        hook.remove()
        yield from calls()
        net[0] = other
        yield from calls()
        net[0].weight = nn.Parameter(torch.randn(4, 4).to(device))
        yield from calls()
        net[2].forward = lambda x: x + 1
        yield from calls()
        net.eval()
        net[1].p = 0.5
        yield from calls()

    report = run_both(steps, lambda net, x: net(x))
    assert report.replayed >= 20, str(report)


def test_numbers_of_an_optimizer_that_is_an_argument(device: str) -> None:
    def steps(step: Any) -> Iterator[Any]:
        net = make_net(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for index in range(2 * CALLS):
            optimizer.param_groups[0]["lr"] = 0.1 / (index + 1)
            yield step(net, optimizer, *batch(device))
        optimizer.param_groups[0]["params"].pop()
        for _ in range(CALLS):
            yield step(net, optimizer, *batch(device))
        yield list(net.parameters())

    report = run_both(steps, train)
    assert report.replayed >= 2 * CALLS, str(report)


def test_one_module_in_two_places(device: str) -> None:
    def asks(first: nn.Module, second: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return first(x) if first is second else first(x) + second(x)

    def steps(run: Any) -> Iterator[Any]:
        a, b = nn.Linear(4, 4).to(device), nn.Linear(4, 4).to(device)
        with torch.no_grad():
            for pair in [(a, a)] * 6 + [(a, b)] * 6 + [(b, a)] * 6 + [(a, a)] * 6:
                yield run(*pair, torch.randn(5, 4).to(device))

    report = run_both(steps, asks)
    assert report.replayed >= 16, str(report)


def test_a_module_that_the_closure_holds_too(device: str) -> None:
    known = nn.Linear(4, 4).to(device)

    def asks(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x) * 2 if net is known else net(x)

    def steps(run: Any) -> Iterator[Any]:
        nonlocal known
        first, other = known, nn.Linear(4, 4).to(device)
        with torch.no_grad():
            for net in [first] * 6 + [other] * 6:
                yield run(net, torch.randn(5, 4).to(device))
            known = other
            for net in [first] * 6 + [other] * 6:
                yield run(net, torch.randn(5, 4).to(device))
        known = first

    report = run_both(steps, asks)
    assert report.replayed >= 12, str(report)


def test_a_cache_beside_a_module(device: str) -> None:
    """Another cache that holds the same is as good, for the same module."""

    class Cache:
        def __init__(self) -> None:
            self.keys = [torch.zeros(8, 4).to(device)]

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(
            self, x: torch.Tensor, cache: Any, at: torch.Tensor
        ) -> torch.Tensor:
            cache.keys[0].index_copy_(0, at, self.inner(x))
            return x + cache.keys[0].sum(0)

    def steps(run: Any) -> Iterator[Any]:
        net = Layer().to(device)
        with torch.no_grad():
            for _ in range(4):
                cache = Cache()
                for index in range(6):
                    at = torch.tensor([index]).to(device)
                    yield run(net, torch.randn(1, 4).to(device), cache, at)
                yield cache.keys

    report = run_both(steps, lambda net, x, cache, at: net(x, cache, at))
    assert report.replayed >= 21, str(report)


def test_modules_are_not_kept(device: str) -> None:
    fast: Any = reprise.region(train)
    for _ in range(2):
        net = make_net(device)
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(CALLS):
            fast(net, optimizer, *batch(device))
        gone = weakref.ref(net), weakref.ref(optimizer), weakref.ref(net[0].weight)  # type: ignore[index]
        del net, optimizer
        gc.collect()
        assert [each() for each in gone] == [None] * 3
        assert len(fast._objects) == 0
    assert fast.explain().replayed >= 2 * (CALLS - 4), str(fast.explain())


def test_a_module_for_each_call(device: str) -> None:
    """Such calls run the callable, which the report says with what helps."""

    def run(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x)

    def steps(called: Any) -> Iterator[Any]:
        for _ in range(40):
            yield called(nn.Linear(4, 4).to(device), torch.randn(5, 4).to(device))

    report = run_both(steps, run)
    assert report.replayed == 0 and report.recorded < 30
    assert any("another Linear in each call (make it once" in r for r in report.reasons)


def test_modules_and_optimizers_that_are_returned(device: str) -> None:
    def run(net: nn.Module, x: torch.Tensor) -> Any:
        return net(x), {"net": net}

    fast: Any = reprise.region(run)
    with torch.no_grad():
        for net in [make_net(device)] * CALLS + [make_net(device)] * CALLS:
            x = torch.randn(5, 4).to(device)
            found, held = fast(net, x)
            assert held["net"] is net
            assert_same_bits(found, net(x))
    assert fast.explain().replayed == 2 * (CALLS - 2), str(fast.explain())


# --- Functions ---


class Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def own(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@pytest.mark.parametrize(
    "made",
    [
        lambda _: own,
        lambda _: F.gelu,
        lambda _: F.silu,
        lambda _: torch.relu,
        lambda _: torch.Tensor.cos,
        lambda _: torch.ops.aten.relu.default,
        lambda _: Scaled.of_class,
        lambda _: functools.partial(F.leaky_relu, negative_slope=0.2),
        lambda device: functools.partial(torch.add, torch.ones(4, device=device)),
        lambda _: functools.partial(functools.partial(own)),
    ],
)
def test_a_function_that_is_an_argument(
    device: str, made: Callable[[str], Callable[..., Any]]
) -> None:
    """Methods and partials are made anew for each call."""

    def steps(run: Any) -> Iterator[Any]:
        for _ in range(CALLS):
            yield run(made(device), torch.randn(5, 4).to(device))

    report = run_both(steps, lambda function, x: function(x) + 1)
    assert report.replayed == CALLS - 2, str(report)


def test_methods_of_objects(device: str) -> None:
    def steps(run: Any) -> Iterator[Any]:
        objects = [Scaled(2.0), Scaled(5.0)]
        for index in range(3 * CALLS):
            each = objects[index % 2]
            yield run(each.method, torch.randn(5, 4).to(device))
            if index == 2 * CALLS:
                objects[0].by = 7.0

    report = run_both(steps, lambda function, x: function(x) + 1)
    assert report.replayed >= 2 * CALLS, str(report)


def test_what_a_function_leads_to(device: str) -> None:
    """Its closure, defaults, code and attributes, and what its code names."""
    by = 2.0

    def scaled(x: torch.Tensor, more: float = 1.0) -> torch.Tensor:
        return x * by + more + getattr(scaled, "extra", 0.0)

    def other(x: torch.Tensor, more: float = 1.0) -> torch.Tensor:
        return x - by + more + getattr(scaled, "extra", 0.0)

    before = scaled.__code__

    def steps(run: Any) -> Iterator[Any]:
        nonlocal by

        def calls() -> Iterator[Any]:
            for _ in range(6):
                yield run(scaled, torch.randn(5, 4).to(device))

        yield from calls()
        by = 3.0
        yield from calls()
        scaled.__defaults__ = (5.0,)
        yield from calls()
        vars(scaled)["extra"] = 4.0
        yield from calls()
        scaled.__code__ = other.__code__
        yield from calls()
        by, scaled.__defaults__, scaled.__code__ = 2.0, (1.0,), before
        del vars(scaled)["extra"]

    report = run_both(steps, lambda function, x: function(x))
    assert report.replayed >= 15, str(report)


def test_what_a_partial_holds(device: str) -> None:
    scales = [2.0]

    def scaled(values: list[float], x: torch.Tensor, more: float) -> torch.Tensor:
        return x * values[0] + more

    def steps(run: Any) -> Iterator[Any]:
        part = functools.partial(scaled, scales, more=1.0)
        for index in range(4 * CALLS):
            if index == CALLS:
                scales[0] = 3.0
            elif index == 2 * CALLS:
                part.keywords["more"] = 4.0
            elif index == 3 * CALLS:
                part.__setstate__((own, (), {}, {}))  # type: ignore[attr-defined]
            yield run(part, torch.randn(5, 4).to(device))
        scales[0] = 2.0

    report = run_both(steps, lambda function, x: function(x))
    assert report.replayed >= 3 * CALLS, str(report)


def test_a_class_that_is_an_argument(device: str) -> None:
    class Config:
        by = 2.0

    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0, 2.0):
            Config.by = by
            for _ in range(CALLS):
                yield run(Config, torch.randn(5, 4).to(device))

    report = run_both(steps, lambda config, x: x * config.by)
    assert report.replayed >= 2 * CALLS, str(report)


# --- Constants ---


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Alike(enum.Enum):
    """Its members claim to be equal."""

    ONE = 1
    TWO = 2

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize(
    "values",
    [
        (np.float64(0.5), np.float64(-0.0), np.float64(0.0)),
        (np.float32(0.5), np.float64(0.5)),
        (np.int64(2), np.int32(2), np.uint8(2), 2, True),
        (np.bool_(True), np.bool_(False)),
        (Color.RED, Color.BLUE),
        (Alike.ONE, Alike.TWO),
        (Level.LOW, Level.LOW | Level.HIGH),
        (range(3), range(0, 3, 2), range(1)),
        ({1, 2}, {1}, {True, 2}),
        (frozenset({"a"}), frozenset({"a", "b"})),
        ([slice(0, 2)], [slice(None)], [slice(0, None, 2)]),
        ({(0, 1): 1}, {(0, 1): 2}, {(0, 2): 1}),
        ({None: 1, Color.RED: 2}, {Color.RED: 2, None: 1}),
        ({1.0: 1}, {1: 1}, {True: 1}),
    ],
)
def test_constants(device: str, values: tuple[Any, ...]) -> None:
    """Each is another variant, to which later calls come back."""

    def code_of(value: Any) -> int:
        return sum(map(ord, f"{type(value)} {value!r}"))

    def steps(run: Any) -> Iterator[Any]:
        for value in values * CALLS:
            yield run(torch.ones(3).to(device), value)

    report = run_both(steps, lambda x, value: x * code_of(value))
    assert report.replayed == len(values) * (CALLS - 2), str(report)


def test_a_set_in_another_order(device: str) -> None:
    def weighed(x: torch.Tensor, names: Any) -> torch.Tensor:
        for index, each in enumerate(names):
            x = x * (index + 1) + each
        return x

    first, second = {0, 8}, {8}
    second.add(0)
    assert first == second and [*first] != [*second]

    def steps(run: Any) -> Iterator[Any]:
        for names in (first, second) * CALLS:
            yield run(torch.ones(3).to(device), names)

    assert run_both(steps, weighed).replayed == 2 * (CALLS - 2)


def test_a_set_that_the_call_changes(device: str) -> None:
    def adds(x: torch.Tensor, seen: set[int]) -> torch.Tensor:
        seen.add(3)
        return x + len(seen)

    fast: Any = reprise.region(adds)
    for _ in range(CALLS):
        ours = {1}
        assert_same_bits(
            fast(torch.ones(3).to(device), ours), torch.full((3,), 3.0).to(device)
        )
        assert ours == {1, 3}
    assert fast.explain().replayed == 0


@dataclasses.dataclass
class Config:
    by: float
    names: Any = None


class Slotted:
    __slots__ = ("__private", "by", "unset")

    def __init__(self, by: float, private: torch.Tensor) -> None:
        self.by = by
        self.__private = private

    def value(self) -> torch.Tensor:
        return self.__private * self.by


@pytest.mark.parametrize(
    "made",
    [
        lambda by: argparse.Namespace(by=by),
        lambda by: types.SimpleNamespace(by=by),
        lambda by: types.SimpleNamespace(by=by, more=[torch.ones(2)]),
        lambda by: Config(by, {1, 2}),
    ],
)
def test_namespaces(device: str, made: Callable[[float], Any]) -> None:
    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0) * CALLS:
            yield run(torch.randn(3).to(device), made(by))

    report = run_both(steps, lambda x, config: x * config.by)
    assert report.replayed >= 2 * (CALLS - 2), str(report)


class Referred(Slotted):
    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("kind", [Slotted, Referred])
def test_objects_with_slots(device: str, kind: type[Slotted]) -> None:
    def run(x: torch.Tensor, held: Slotted) -> torch.Tensor:
        return held.value() + x * hasattr(held, "unset")

    def steps(called: Any) -> Iterator[Any]:
        for index in range(3 * CALLS):
            held = kind(2.0, torch.randn(3).to(device))
            if index >= 2 * CALLS:
                held.unset = 1
            yield called(torch.randn(3).to(device), held)

    report = run_both(steps, run)
    assert report.replayed == 3 * CALLS - 4, str(report)


def test_what_the_call_changes_of_a_namespace(device: str) -> None:
    def counts(x: torch.Tensor, state: Any) -> torch.Tensor:
        state.steps += 1
        return x + state.steps

    fast: Any = reprise.region(counts)
    for made in (types.SimpleNamespace, argparse.Namespace):
        state = made(steps=0)
        for index in range(CALLS):
            found = fast(torch.zeros(3).to(device), state)
            assert_same_bits(found, torch.full((3,), index + 1.0).to(device))
            assert state.steps == index + 1


# --- What is declined ---


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: iter([1]), "list_iterator (give a list of what it yields)"),
        (
            lambda: {1: 2}.values(),
            "a builtins.dict_values (give a list of what it yields)",
        ),
        (
            lambda: np.ones(3),
            "a numpy.ndarray (give it as a tensor, by torch.from_numpy)",
        ),
        (
            lambda: bytearray(3),
            "a builtins.bytearray (give it as a tensor, by torch.frombuffer)",
        ),
        (lambda: [].append, "of an object (give the object, and name the method"),
        (torch.Generator, "a torch._C.Generator (let the callable's closure hold it)"),
        (ValueError, "ValueError (give what is taken of it, as tensors, numbers and t"),
        (lambda: {math.nan: 1}, "a dict with a key that is a builtins.float (take"),
        (lambda: {Config: 1}, "a dict with a key that is a builtins.type (take texts"),
        (lambda: {(1, own): 1}, "a dict with a key that is a builtins.tuple (take"),
    ],
)
def test_what_nobody_can_look_into(
    device: str, made: Callable[[], Any], sentence: str
) -> None:
    fast: Any = reprise.region(lambda x, _: x + 1)
    for _ in range(3):
        assert_same_bits(
            fast(torch.zeros(3).to(device), made()), torch.ones(3).to(device)
        )
    (reason,) = fast.explain().reasons
    assert reason.startswith("an argument holds a ")
    assert sentence in reason


def test_an_object_that_says_it_is_a_member(device: str) -> None:
    """It is of another class, and counts by what it holds."""

    class Says:
        def __init__(self, by: float) -> None:
            self.by = by

        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return Color

    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0) * CALLS:
            yield run(torch.ones(3).to(device), Says(by))

    run_both(steps, lambda x, of: x * of.by)


def test_a_number_that_is_returned(device: str) -> None:
    """The reason says what helps."""
    fast: Any = reprise.region(lambda x: (x * 2, x.sum().item()))
    for _ in range(2 * CALLS):
        x = torch.randn(3).to(device)
        assert fast(x)[1] == x.sum().item()
    reasons = fast.explain().reasons
    assert any("read it behind the call" in why for why in reasons), str(reasons)


def test_scalars_that_are_others_in_each_call(device: str) -> None:
    """Python's floats may be, NumPy's are constants."""
    for kind, replayed in ((np.float64, False), (float, True)):
        fast: Any = reprise.region(lambda x, by: x * by)
        for index in range(300):
            x, by = torch.randn(3).to(device), kind(index + 0.5)
            assert_same_bits(fast(x, by), x * by)
        report = fast.explain()
        assert bool(report.replayed) == replayed, str(report)
        assert replayed or "NumPy's as Python's own" in str(report.reasons)


def test_code_that_nobody_walks_from(device: str) -> None:
    """Of a graph that Dynamo guards, no code is read: what its arguments lead to is unknown."""
    net = make_net(device)
    fast: Any = Region(lambda called, x: called(x), guarded=True)
    with torch.no_grad():
        for index in range(CALLS):
            x = torch.randn(5, 4).to(device)
            if index == CALLS // 2:
                net[0] = nn.Linear(4, 8).to(device)  # type: ignore[index]
            assert_same_bits(fast(net, x), net(x))
    report = fast.explain()
    assert report.replayed == 0 and "let it lead to that" in str(report)


def test_an_attribute_that_torch_alone_reads(device: str) -> None:
    """All that an object holds counts, also where it holds a function."""

    class Base:
        has_rsample = True

        def __init__(self) -> None:
            self.batch_shape = torch.Size([3])
            self.event_shape = torch.Size([])
            self.function = own

    def use(base: Any, x: torch.Tensor) -> torch.Tensor:
        made = torch.distributions.Independent(base, 1, validate_args=False)
        return x * (len(made._event_shape) + made._event_shape.numel())

    def steps(run: Any) -> Iterator[Any]:
        base = Base()
        for shape in ([], [2]):
            base.event_shape = torch.Size(shape)
            for _ in range(CALLS):
                yield run(base, torch.randn(3).to(device))

    assert run_both(steps, use).replayed >= CALLS


@pytest.mark.parametrize("kind", ["function", "class"])
def test_attributes_of_code_that_torch_alone_reads(device: str, kind: str) -> None:
    """Of a function or a class among the arguments all attributes count."""

    class Base:
        pass

    def function(x: torch.Tensor) -> torch.Tensor:
        return x

    def use(base: Any, x: torch.Tensor) -> torch.Tensor:
        made = torch.distributions.Independent(base, 1, validate_args=False)
        return x * (len(made._event_shape) + made._event_shape.numel())

    def steps(run: Any) -> Iterator[Any]:
        base: Any = Base if kind == "class" else function
        base.has_rsample, base.batch_shape = True, torch.Size([3])
        for shape in ([], [2]):
            base.event_shape = torch.Size(shape)
            for _ in range(CALLS):
                yield run(base, torch.randn(3).to(device))

    assert run_both(steps, use).replayed >= CALLS


def test_attributes_that_are_read_by_their_state(device: str) -> None:
    class Config:
        by = 1.0

    config = Config()

    def by_state(x: torch.Tensor) -> torch.Tensor:
        return x * config.__reduce_ex__(2)[2]["b" + "y"]

    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0):
            config.by = by
            for _ in range(CALLS):
                yield run(torch.randn(3).to(device))

    assert run_both(steps, by_state).replayed >= CALLS


class Settings:
    def __init__(self) -> None:
        self.by = 2.0


HIDDEN = types.SimpleNamespace(copied=copy.copy)


def copied_by_an_import(settings: Settings, x: torch.Tensor) -> Any:
    import copy as inner

    return x * 2, inner.copy(settings)


def copied_by_a_name_that_is_imported(settings: Settings, x: torch.Tensor) -> Any:
    from copy import copy as inner

    return x * 2, inner(settings)


def pickled(settings: Settings, x: torch.Tensor) -> Any:
    into = io.BytesIO()
    pickle.Pickler(into).dump(settings)
    return x * 2, pickle.loads(into.getvalue())


@pytest.mark.parametrize(
    "fn",
    [
        pickled,
        lambda settings, x: (x * 2, copy.copy(settings)),
        lambda settings, x: (x * 2, copy.deepcopy(settings)),
        lambda settings, x: x * dict(inspect.getmembers(settings))["b" + "y"],
        lambda settings, x: x * dict(inspect.getmembers_static(settings))["b" + "y"],
        lambda settings, x: (x * 2, *map(copy.copy, [settings])),
        lambda settings, x: (x * 2, HIDDEN.copied(settings)),
        copied_by_an_import,
        copied_by_a_name_that_is_imported,
    ],
)
def test_attributes_that_nobody_names(device: str, fn: Callable[..., Any]) -> None:
    settings = Settings()

    def use(x: torch.Tensor) -> Any:
        return fn(settings, x)

    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0):
            settings.by = by
            for _ in range(CALLS):
                got = run(torch.randn(3).to(device))
                tensor, *made = got if isinstance(got, tuple) else (got,)
                yield tensor, [torch.tensor(each.by) for each in made]

    assert run_both(steps, use).replayed >= CALLS


class First(NamedTuple):
    """It says that it holds its first field alone."""

    of: Any
    by: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.of

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, 0)

    def __len__(self) -> int:
        return 1


def test_fields_that_a_class_hides(device: str) -> None:
    def use(pair: First, x: torch.Tensor) -> Any:
        return pair.of * pair.by[0], First(x * 2, [x]), pair.by

    fast: Any = reprise.region(use)
    for by in (2, 3):
        for _ in range(CALLS):
            pair = First(torch.randn(3).to(device), [by])
            x = torch.randn(3).to(device)
            scaled, made, given = fast(pair, x)
            assert_same_bits([scaled, made.of, *made.by], [pair.of * by, x * 2, x])
            assert given is pair.by
    assert fast.explain().replayed >= 2 * CALLS - 4, str(fast.explain())


HOLDING = (tuple, frozenset)


@pytest.mark.parametrize(
    "make",
    [
        lambda member, x: {member: x},
        lambda member, x: {(1, member): x},
        lambda member, x: types.SimpleNamespace(of={member: x}),
        lambda member, x: {member},
        lambda member, x: (frozenset({(member, 2)}), x),
    ],
)
def test_members_in_keys_and_sets(
    device: str, make: Callable[[enum.Enum, torch.Tensor], Any]
) -> None:
    """What code reads of a member is an attribute of its class's."""

    class Mode(enum.Enum):
        FAST = "fast"

        def __init__(self, _: str) -> None:
            self.by = 2.0

    def member_in(given: Any) -> Any:
        while not isinstance(given, enum.Enum):
            if isinstance(given, types.SimpleNamespace):
                given = given.of
            found = (each for each in given if isinstance(each, (*HOLDING, enum.Enum)))
            given = next(found)
        return given

    def use(given: Any, x: torch.Tensor) -> torch.Tensor:
        return x * member_in(given).by

    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0):
            Mode.FAST.by = by
            for _ in range(CALLS):
                x = torch.randn(3).to(device)
                yield run(make(Mode.FAST, x), x)

    assert run_both(steps, use).replayed >= CALLS


@pytest.mark.parametrize("has_it_as_key", [False, True])
def test_members_that_objects_hold(device: str, has_it_as_key: bool) -> None:
    class Mode(enum.Enum):
        FAST = "fast"

        def __init__(self, _: str) -> None:
            self.by = 2.0

    class Job:
        def __init__(self) -> None:
            self.of: Any = {Mode.FAST: 1} if has_it_as_key else (Mode.FAST,)

    def use(job: Job, x: torch.Tensor) -> torch.Tensor:
        return x * next(iter(job.of)).by

    def steps(run: Any) -> Iterator[Any]:
        job = Job()
        for by in (2.0, 3.0):
            Mode.FAST.by = by
            for _ in range(CALLS):
                yield run(job, torch.randn(3).to(device))

    assert run_both(steps, use).replayed >= CALLS


def test_more_modules_in_turn_than_are_kept_apart(device: str) -> None:
    nets = [make_net(device) for _ in range(20)]
    fast: Any = reprise.region(lambda net, x: net(x))
    for _ in range(4):
        for net in nets:
            x = torch.randn(3, 4).to(device)
            assert_same_bits(fast(net, x), net(x))
    reasons = fast.explain().reasons
    assert any("more than 16 sets of objects (Sequential)" in each for each in reasons)
    assert not any("in each call" in each for each in reasons)


def test_a_proxy_is_no_iterator(device: str) -> None:
    net = make_net(device)
    fast: Any = reprise.region(lambda given, x: given(x))
    for _ in range(CALLS):
        x = torch.randn(3, 4).to(device)
        assert_same_bits(fast(weakref.proxy(net), x), net(x))
    assert any("give what it stands for" in each for each in fast.explain().reasons)


@pytest.mark.parametrize("depth", [80, 120, 900])
def test_deep_containers(device: str, depth: int) -> None:
    """However deep the interpreter could follow them; deeper ones run the callable."""

    def nested(inner: Any) -> Any:
        for number in range(depth):
            inner = (inner,) if number % 3 else [inner]
        return inner

    def takes(given: Any, x: torch.Tensor) -> torch.Tensor:
        while not isinstance(given, torch.Tensor):
            (given,) = given
        return x + given

    def returns(_: Any, x: torch.Tensor) -> Any:
        return nested(x * 2)

    for fn in (takes, returns):
        fast: Any = reprise.region(fn)
        for _ in range(CALLS):
            x, given = torch.randn(3).to(device), torch.randn(3).to(device)
            found, wanted = fast(nested(given), x), fn(nested(given), x)
            for _ in range(depth if fn is returns else 0):
                assert type(found) is type(wanted)
                (found,), (wanted,) = found, wanted
            assert_same_bits(found, wanted)
        report = fast.explain()
        if depth < 100:
            assert report.replayed >= 2, str(report)
        else:
            assert report.replayed == 0, str(report)
            assert any("deep" in each for each in report.reasons), str(report)
