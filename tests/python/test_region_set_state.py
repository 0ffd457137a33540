"""State that a region's calls set: variables, globals, items, attributes of objects."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import functools
import gc
import itertools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS, Pair, Program, assert_same, batch, eagerly, linear, ones
from torch import nn
from watching import assert_same_bits, in_threads

WITHOUT_REPLAYS = 4  # calls that learn which places are set, and are recorded


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


# --- What is replayed ---


def variables(device: str) -> Program:
    u, v = ones(device), ones(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal u, v
        u = u + 0.1 * v
        v = v - 0.1 * u + x
        return u.sum()

    return step, lambda: [u, v]


def truncated(device: str) -> Program:
    """A training step that keeps what is detached."""
    net, h = linear(device), torch.zeros(8).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal h
        with torch.enable_grad():
            optimizer.zero_grad()
            y = torch.tanh(net(x) + h)
            y.square().sum().backward()
            optimizer.step()
        h = y.detach()
        return y.detach() * 2

    return step, lambda: [h, *(each.detach() for each in net.parameters())]


_SOURCE = """
def step(x):
    global u, v
    u, v = u + 0.1 * v, v - 0.1 * u + x
    return u.sum()

def reads(x):
    return x * u
"""
_modules = iter(range(1 << 20))


def module_of(device: str, source: str = _SOURCE) -> Any:
    module: Any = types.ModuleType(f"set_state_{next(_modules)}")
    module.__file__ = __file__
    sys.modules[module.__name__] = module
    module.u, module.v = ones(device), ones(device)
    exec(compile(source, __file__, "exec"), vars(module))
    return module


def globals_of(device: str) -> Program:
    module = module_of(device)
    return module.step, lambda: [module.u, module.v]


def items(device: str) -> Program:
    state: dict[Any, Any] = {"h": ones(device), 3: None, ("a", 1): ones(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        h = state["h"] * 0.5 + x
        state["h"] = h
        state[3] = h.norm()
        state["a", 1] = state["a", 1] + state["h"]
        return h.sin()

    return step, lambda: state


def elements(device: str) -> Program:
    hidden = [ones(device) for _ in range(3)]
    constant = [2.0]

    def step(x: torch.Tensor) -> torch.Tensor:
        for index in range(3):
            x = torch.tanh(x + hidden[index])
            hidden[index] = x
        return x * constant[0]

    return step, lambda: hidden


def ordered(device: str) -> Program:
    state = collections.OrderedDict(a=ones(device), b=ones(device))
    default = collections.defaultdict(lambda: torch.zeros(8).to(device))

    def step(x: torch.Tensor) -> torch.Tensor:
        state["a"] = state["b"] + x
        default["h"] = default["h"] + x
        return state["a"] * default["h"]

    return step, lambda: [state, dict(default)]


def average(device: str) -> Program:
    net = linear(device)
    ema = {name: each.detach().clone() for name, each in net.named_parameters()}

    def step(x: torch.Tensor) -> torch.Tensor:
        for name, each in net.named_parameters():
            each.add_(0.01 * x.mean())
            ema[name] = ema[name] * 0.9 + each * 0.1
        return net(x)

    return step, lambda: ema


class Simulation:
    """An object that sets attributes in the ordinary way."""

    speed: Any = None  # until a call sets one

    def __init__(self, device: str) -> None:
        self.u = ones(device)

    @property
    def doubled(self) -> torch.Tensor:
        return self.u * 2

    @doubled.setter
    def doubled(self, value: torch.Tensor) -> None:
        self.u = value / 2

    def step(self, x: torch.Tensor) -> torch.Tensor:
        if self.speed is None:
            self.speed = torch.zeros_like(x)
        self.speed = self.speed * 0.5 + x
        self.doubled = self.doubled + self.speed
        return self.u.sum()


def an_object(device: str) -> Program:
    made = Simulation(device)
    return made.step, lambda: vars(made)


def a_namespace(device: str) -> Program:
    made = types.SimpleNamespace(u=ones(device), by=2.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        made.u = made.u * 0.5 + x * made.by
        return made.u.cos()

    return step, lambda: vars(made)


def of_a_function(device: str) -> Program:
    def step(x: torch.Tensor) -> torch.Tensor:
        step.h = step.h * 0.5 + x
        return step.h.cos()

    step.h = ones(device)
    return step, lambda: vars(step)


def tuples(device: str) -> Program:
    """As an LSTM keeps its state, and returns it."""
    hc: Any = None

    def step(x: torch.Tensor) -> Any:
        nonlocal hc
        h, c = hc or (torch.zeros_like(x), torch.zeros_like(x))
        c = c * 0.5 + x
        hc = torch.tanh(c + h), c
        return hc[0] * 2, hc

    return step, lambda: hc


class Keeping(nn.Module):
    """A module with lists and dictionaries of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.states = [torch.zeros(8), torch.zeros(8)]
        self.cache: dict[str, Any] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.states[0] = self.states[0].to(x.device) + x
        self.states[1] = self.states[0] * 0.5
        self.cache["last"] = x * 2
        return self.states[1].cos()


def a_module(device: str) -> Program:
    made = Keeping().to(device)
    return made.forward, lambda: [made.states, made.cache]


def an_optimizer(device: str) -> Program:
    """Written by hand: its state is put in place of the one before."""
    net = linear(device)
    states = {
        name: {"m": torch.zeros_like(each)} for name, each in net.named_parameters()
    }

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            loss = net(x).square().sum()
            grads = torch.autograd.grad(loss, list(net.parameters()))
        for (name, each), grad in zip(net.named_parameters(), grads, strict=True):
            state = states[name]
            state["m"] = 0.9 * state["m"] + grad
            each.sub_(0.01 * state["m"])
        return loss.detach()

    return step, lambda: states


@dataclasses.dataclass
class Seen:
    h: Any
    shape: Any = None
    called: bool = False


def equal_constants(device: str) -> Program:
    """Set again to what they are: no change."""
    seen = Seen(ones(device))

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.h = seen.h * 0.5 + x
        seen.shape = x.shape
        seen.called = True
        return seen.h.sin()

    return step, lambda: vars(seen)


def twice(device: str) -> Program:
    """One tensor in two places, an argument in one, and a view in another."""
    state: dict[str, Any] = {"a": None, "b": None, "x": None, "part": None}

    def step(x: torch.Tensor) -> torch.Tensor:
        state["a"] = state["b"] = x + 1
        state["x"] = x
        state["part"] = (x * 3)[:4]
        assert state["a"] is state["b"]
        return x * 2

    def found() -> Any:
        assert state["a"] is state["b"]
        return state

    return step, found


def to_none(device: str) -> Program:
    """Given up by the end of each call."""
    state: dict[str, Any] = {"h": ones(device), "g": None}

    def step(x: torch.Tensor) -> torch.Tensor:
        if state["h"] is None:
            state["h"], state["g"] = x * 2, None
        else:
            state["h"], state["g"] = None, x * 3
        return x + 1

    return step, lambda: state


def cached(device: str) -> Program:
    class Lazy:
        @functools.cached_property
        def table(self) -> torch.Tensor:
            return torch.arange(8.0).to(device) * 3

    lazy = Lazy()
    return (lambda x: x * lazy.table), lambda: vars(lazy)


def anew(device: str) -> Program:
    """Lists and dictionaries that each call makes anew."""
    hidden: Any = None
    weights = {"w": ones(device), "b": torch.zeros(8).to(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal hidden, weights
        if hidden is None:
            hidden = [torch.zeros_like(x) for _ in range(2)]
        hidden = [torch.tanh(each + x) for each in hidden]
        weights = {name: each - 0.1 * hidden[0] for name, each in weights.items()}
        return weights["w"] * x + weights["b"]

    return step, lambda: [hidden, weights]


def made_and_set(device: str) -> Program:
    """A list that the first call makes, and a dictionary: later ones set items."""
    made = types.SimpleNamespace(hidden=None, cache=None)

    def step(x: torch.Tensor) -> torch.Tensor:
        if made.hidden is None:
            made.hidden = [torch.zeros_like(x), torch.zeros_like(x)]
            made.cache = {"k": torch.zeros_like(x), "both": None}
        made.hidden[0] = made.hidden[0] * 0.5 + x
        made.cache["k"] = made.hidden[0] + made.hidden[1]
        made.cache["both"] = made.cache["k"] * 2, x
        return made.cache["k"].sin()

    return step, lambda: vars(made)


def window(device: str) -> Program:
    made: Any = types.SimpleNamespace(seen=[ones(device)] * 1)

    def step(x: torch.Tensor) -> torch.Tensor:
        made.seen = [*made.seen[-2:], x * 2]
        return torch.stack(made.seen).sum(0)

    return step, lambda: vars(made)


class Told:
    """Attributes that are set by the methods of others, and by names that no code says."""

    def __init__(self, device: str) -> None:
        self.h, self.last = ones(device), ones(device)
        self.names = ["o" + "ne", "t" + "wo"]

    def by_object(self, x: torch.Tensor) -> torch.Tensor:
        object.__setattr__(self, "h", x * 2)
        return x + 1

    def by_super(self, x: torch.Tensor) -> torch.Tensor:
        super().__setattr__("last", x * 2)
        return x + 1

    def by_itself(self, x: torch.Tensor) -> torch.Tensor:
        self.__setattr__("h", x * 2)
        return x + 1

    def by_any_name(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            object.__setattr__(self, name, x * len(name))
        return x + 1


def told(name: str) -> Callable[[str], Program]:
    def make(device: str) -> Program:
        of = Told(device)
        return getattr(of, name), lambda: vars(of)

    return make


def by_a_wrapper(device: str) -> Program:
    of: Any = types.SimpleNamespace(h=ones(device), last=ones(device))
    first = functools.partial(object.__setattr__, of)
    second = of.__setattr__

    def step(x: torch.Tensor) -> torch.Tensor:
        first("h", x * 2)
        second("last", x * 3)
        return x + 1

    return step, lambda: vars(of)


def by_a_module(device: str) -> Program:
    of, put = linear(device), nn.Module.__setattr__

    def step(x: torch.Tensor) -> torch.Tensor:
        put(of, "last", x * 2)
        return x + 1

    return step, lambda: of.__dict__.get("last")


def globals_by_any_name(device: str) -> Program:
    source = """
def step(x):
    globals().update({name: x * 2 for name in names})
    return x + 1
"""
    of: dict[str, Any] = {"names": ["u", "v"], "__name__": "somewhere"}
    exec(source, of)
    return of["step"], lambda: (of.get("u"), of.get("v"))


def swapped(device: str) -> Program:
    first, second = [ones(device)], [ones(device) * 2]
    of = types.SimpleNamespace(now=first, before=second, first=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.now, of.before = of.before, of.now
        return of.now[0] * x

    return step, lambda: (of.now, of.before, of.now is first, of.before is second)


REPLAYED = [
    swapped,
    *map(told, ("by_object", "by_super", "by_itself", "by_any_name")),
    *(by_a_wrapper, by_a_module, globals_by_any_name),
    *(variables, truncated, globals_of, items, elements, ordered, average, an_object),
    *(a_namespace, of_a_function, tuples, a_module, an_optimizer, equal_constants),
    *(twice, to_none, cached, anew, made_and_set, window),
]


@pytest.mark.parametrize("make", REPLAYED)
def test_replays_set_them(device: str, make: Any) -> None:
    pair = Pair(device, make)
    least = CALLS - WITHOUT_REPLAYS - 2 * (make in (to_none, equal_constants, window))
    assert pair.calls(2 * CALLS) >= least + CALLS, pair.reasons()


# --- What the program does with them between calls ---


def test_what_is_put_there_between_calls(device: str) -> None:
    """By another thread: another tensor, another shape, nothing."""
    pair = Pair(device, items)
    states = pair.state(), pair.twins_state()
    assert pair.calls() > 0, pair.reasons()
    new: list[Callable[[], Any]] = [
        lambda: torch.full((8,), 3.0).to(device),
        lambda: torch.full((1,), 3.0).to(device),
        lambda: torch.full((8,), 3.0, dtype=torch.double).to(device),
    ]
    for make in new:
        for state in states:
            thread = threading.Thread(target=state.__setitem__, args=("h", make()))
            thread.start()
            thread.join()
        assert pair.calls() > 0, pair.reasons()
    for state in states:
        state[3] = torch.zeros(2).to(device)
        state["new"] = 1
    assert pair.calls() > 0, pair.reasons()
    for state in states:
        del state["h"], state["new"]
    for call in (pair.fast, pair.twin):
        with pytest.raises(KeyError, match="h"):
            call(batch(device))


def remembering(device: str) -> Program:
    """Python asks what it is."""
    state: dict[str, Any] = {"last": None, "other": ones(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        last = state["last"]
        if last is None or last.shape != x.shape:
            last = torch.zeros_like(x)
        y = x + last if last is not state["other"] else x - last
        state["last"] = x * 2
        return y

    return step, lambda: state


def test_what_python_asks_of_it(device: str) -> None:
    pair = Pair(device, remembering)
    for call in range(8 * CALLS):
        for state in (pair.state(), pair.twins_state()):
            if call % 7 == 5:
                state["last"] = None
            if call % 7 == 3:
                state["last"] = torch.ones(1).to(device)
            if call % 5 == 4:
                state["last"] = state["other"]
        pair.call()
    assert pair.replayed() > 4 * CALLS, pair.reasons()


@pytest.mark.parametrize(
    "value",
    [
        lambda: torch.ones(8, requires_grad=True),
        lambda: nn.Parameter(torch.ones(8)),
        lambda: 2.0,
        lambda: (torch.ones(8), 2),
        lambda: ...,
    ],
)
def test_something_else_in_its_place(device: str, value: Callable[[], Any]) -> None:
    def make(device: str) -> Program:
        h: Any = torch.zeros(8).to(device)

        def step(x: torch.Tensor, put: Any = None) -> torch.Tensor:
            nonlocal h
            if isinstance(h, tuple):
                h = h[0]
            if h is ...:
                h = torch.zeros(8).to(device)
            h = (h * 0.5 + x).detach()
            return h.sin()

        def put() -> None:
            nonlocal h
            h = value()
            if isinstance(h, torch.Tensor):
                h = h.to(device)
            elif isinstance(h, tuple):
                h = h[0].to(device), 2

        step.put = put
        return step, lambda: h

    pair = Pair(device, make)
    for _ in range(3):
        assert pair.calls() > 0, pair.reasons()
        pair.fast._reprise_fn.put()
        pair.twin.put()


def test_a_list_that_takes_its_place(device: str) -> None:
    """As at the beginning of an epoch; the old one is the program's."""

    def make(device: str) -> Program:
        made = types.SimpleNamespace(hidden=[ones(device), ones(device)], old=[])

        def step(x: torch.Tensor) -> torch.Tensor:
            hidden = made.hidden
            hidden[0] = hidden[0] * 0.5 + x
            hidden[1] = hidden[1] + hidden[0]
            return hidden[1].sin()

        def anew() -> None:
            made.old = [*made.old, made.hidden]
            made.hidden = [torch.zeros(8).to(device) for _ in range(2)]

        step.anew = anew
        return step, lambda: [made.hidden, made.old]

    pair = Pair(device, make)
    for _ in range(4):
        assert pair.calls() > 0, pair.reasons()
        pair.fast._reprise_fn.anew()
        pair.twin.anew()


@pytest.mark.parametrize("of_python", [False, True])
def test_a_list_that_a_method_leads_to(device: str, of_python: bool) -> None:
    """It reads the old one, where an equal one takes its place."""

    def make(device: str) -> Program:
        hidden = [ones(device)]
        read: Any = hidden.__getitem__
        if of_python:
            read = types.MethodType(lambda of, index: of[index], hidden)

        def step(x: torch.Tensor) -> torch.Tensor:
            hidden[0] = hidden[0] * 0.5 + x
            return read(0) * 2

        def put() -> None:
            nonlocal hidden
            hidden = list(hidden)

        step.put = put
        return step, lambda: hidden

    pair = Pair(device, make)
    assert pair.calls(2 * CALLS) > 0, pair.reasons()
    for _ in range(3):
        pair.fast._reprise_fn.put()
        pair.twin.put()
        pair.calls()


def test_lists_that_are_one(device: str) -> None:
    """Python asks by `is`, of lists that hold the same tensors."""

    def make(device: str) -> Program:
        hidden = template = [ones(device), ones(device)]

        def step(x: torch.Tensor, mode: int) -> torch.Tensor:
            nonlocal hidden
            if mode == 0:
                hidden[0] = hidden[0] * 0.5 + x
                hidden[1] = hidden[1] + x
            if mode == 1:
                hidden = [each + x for each in hidden]
            if mode == 2:
                return x * 2 if hidden is template else x * 3
            return hidden[0].sin()

        def put(call: int) -> None:
            nonlocal hidden
            if call % 3 == 0:
                hidden = template
            if call % 3 == 1:
                hidden = list(template)

        step.put = put
        return step, lambda: [hidden, template, hidden is template]

    pair = Pair(device, make)
    for call in range(20 * CALLS):
        pair.fast._reprise_fn.put(call)
        pair.twin.put(call)
        pair.call([0, 0, 1, 2, 2][call // CALLS % 5])
    assert pair.replayed() > 10 * CALLS, pair.reasons()


class Box:
    def __init__(self, of: Any) -> None:
        self.of = of


@pytest.mark.parametrize("by", ["itself", "inside", "object", "value"])
def test_a_list_that_is_an_argument_too(device: str, by: str) -> None:
    """Behind what the call sets the argument holds it; a copy does not."""

    def make(device: str) -> Program:
        hidden = [ones(device)]
        box = Box(hidden)

        def step(x: torch.Tensor, given: Any, anew: bool) -> torch.Tensor:
            nonlocal hidden
            if anew:
                hidden = [each * 2 for each in hidden]
            else:
                hidden[0] = hidden[0] * 0.5 + x
            if isinstance(given, dict):
                given = given["in"][0]
            old = given.of[0] if isinstance(given, Box) else given[0]
            return old * 2

        def argument(call: int) -> Any:
            found = list(hidden) if call < 4 * CALLS or call % 2 else hidden
            if call < CALLS:
                found = [ones(device)]
            box.of = found
            return {"inside": {"in": (found,)}, "object": box}.get(by, found)

        step.argument = argument
        return step, lambda: hidden

    pair = Pair(device, make)
    replayed = 0
    for call in range(8 * CALLS):
        x, anew = batch(device), by == "value" and call < 6
        mine = pair.fast(x, pair.fast._reprise_fn.argument(call), anew)
        other = eagerly(device, pair.twin, x, pair.twin.argument(call), anew)
        assert_same(mine, other)
        assert_same(pair.state(), pair.twins_state())
        if call == 4 * CALLS:
            replayed = pair.replayed()
    assert replayed > CALLS, pair.reasons()
    assert "among the arguments" in pair.reasons()


@dataclasses.dataclass
class State:
    h: torch.Tensor


class Node:
    def __init__(self, h: torch.Tensor) -> None:
        self.h = h


torch.utils._pytree.register_pytree_node(
    Node, lambda node: ([node.h], None), lambda parts, _: Node(*parts)
)


@pytest.mark.parametrize("kind", [State, Node])
def test_an_object_that_is_an_argument_too(device: str, kind: Any) -> None:
    """One that is taken apart: behind what the call sets it holds it, and a copy does not."""

    def make(device: str) -> Program:
        state = kind(ones(device))

        def step(x: torch.Tensor, given: Any) -> torch.Tensor:
            state.h = state.h * 0.5 + x
            return given[0].h * 2

        step.state = state
        return step, lambda: state.h

    pair = Pair(device, make)
    for call in range(6 * CALLS):
        x, given = batch(device), []
        for state in (pair.fast._reprise_fn.state, pair.twin.state):
            copied = kind(ones(device) if call < CALLS else state.h)
            given.append([copied if call < 3 * CALLS else state])
        result = pair.fast(x, given[0])
        assert_same(result, eagerly(device, pair.twin, x, given[1]))
        assert_same(pair.state(), pair.twins_state())
        if call == 3 * CALLS - 1:
            assert pair.replayed() > CALLS, pair.reasons()
    assert "among the arguments" in pair.reasons()


@pytest.mark.parametrize("key", [1, "top"])
def test_a_container_that_holds_itself_between_calls(device: str, key: Any) -> None:
    """A call without a replay, and no error."""
    state: Any = {"top": ones(device)} if key == "top" else [ones(device), ones(device)]

    def step(x: torch.Tensor, sets: bool) -> torch.Tensor:
        if sets:
            state[key] = x * 3
        return x * 2

    fast: Any = reprise.region(step)
    x = ones(device)
    for _ in range(CALLS):
        fast(x, True)
    assert fast.explain().replayed > 0
    state[key] = state
    for _ in range(CALLS):
        assert_same_bits(fast(x, False), x * 2)
        assert state[key] is state
    fast(x, True)
    assert_same_bits(state[key], x * 3)


def test_a_list_that_is_given_up(device: str) -> None:
    """At the end of an epoch: another one, none, or one more item."""
    pair = Pair(device, made_and_set)
    for call in range(12 * CALLS):
        for made in (pair.state(), pair.twins_state()):
            if call % 10 == 9:
                made["hidden"] = None
            elif call % 20 == 15:
                made["hidden"] = [ones(device), ones(device)]
            elif call % 20 == 17:
                made["hidden"].append(ones(device))
        pair.call()
    assert pair.replayed() > 8 * CALLS, pair.reasons()


def test_another_region_sees_them(device: str) -> None:
    """One that reads a global that the other one sets, and one that sets it, too."""
    mine, twins = module_of(device), module_of(device)
    fast, reads = reprise.region(mine.step), reprise.region(mine.reads)
    also: Any = reprise.region(lambda x: mine.step(x) * 2)
    for _ in range(2 * CALLS):
        x = batch(device)
        assert_same(fast(x), eagerly(device, twins.step, x))
        assert_same(reads(x), eagerly(device, twins.reads, x))
        assert_same(also(x), eagerly(device, lambda x: twins.step(x) * 2, x))
        assert_same([mine.u, mine.v], [twins.u, twins.v])
    assert fast.explain().replayed > CALLS, str(fast.explain())
    assert also.explain().replayed > CALLS, str(also.explain())


def test_a_global_that_hides_a_builtin(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program takes it away, and then the other one."""
    name = "reprise_test_hidden"
    source = f"""
def step(x, keeps):
    global {name}
    y = x + {name}
    if keeps:
        {name} = y * 2
    return y
"""
    modules = [module_of(device, source) for _ in range(2)]
    for module in modules:
        setattr(module, name, ones(device))
    fast: Any = reprise.region(modules[0].step)
    for call in range(8 * CALLS):
        if call and call % CALLS == 0:
            other = torch.full((8,), float(call)).to(device)
            monkeypatch.setattr(builtins, name, other, raising=False)
            for module in modules:
                vars(module).pop(name, None)
        x, keeps = batch(device), call < CALLS
        assert_same(fast(x, keeps), eagerly(device, modules[1].step, x, keeps))
    assert fast.explain().replayed > CALLS, str(fast.explain())


def test_it_is_an_argument_too(device: str) -> None:
    pair = Pair(device, variables)
    assert pair.calls() > 0
    for _ in range(2 * CALLS):
        mine, twins = pair.state()[0], pair.twins_state()[0]
        assert_same(pair.fast(mine), eagerly(device, pair.twin, twins))
        assert_same(pair.state(), pair.twins_state())


# --- The order of keys ---


def call_in_both_orders(pair: Pair) -> None:
    """Of every two calls the second one finds its state empty."""
    for call in range(6 * CALLS):
        if call % 2:
            pair.state().clear()
            pair.twins_state().clear()
        pair.call(call // 2 % 3 == 0)
    assert pair.replayed() > CALLS, pair.reasons()


def test_keys_come_in_order(device: str) -> None:
    """Both orders, and a dictionary that is emptied between calls."""

    def make(device: str) -> Program:
        state: dict[str, Any] = {}

        def step(x: torch.Tensor, backwards: bool) -> torch.Tensor:
            for key in "cba" if backwards else "abc":
                state[key] = x * ord(key)
            return x + 1

        return step, lambda: state

    pair = Pair(device, make)
    call_in_both_orders(pair)


def test_attributes_come_in_order(device: str) -> None:
    class Made:
        pass

    def make(device: str) -> Program:
        made: Any = Made()

        def step(x: torch.Tensor, backwards: bool) -> torch.Tensor:
            if backwards:
                made.z = x * 2
                made.a = x * 3
            else:
                made.a = x * 3
                made.z = x * 2
            total = x * 0
            for index, each in enumerate(vars(made).values()):
                total = total + each * index
            return total

        return step, lambda: vars(made)

    pair = Pair(device, make)
    call_in_both_orders(pair)


def test_keys_that_are_put_in_another_order(device: str) -> None:
    """The callable takes one away and sets it again, so that it is the last one."""

    def make(device: str) -> Program:
        made = Simulation(device)
        made.speed = ones(device)

        def step(x: torch.Tensor) -> torch.Tensor:
            value = made.u
            del made.u
            made.u = value * 0.5 + x
            made.speed = x
            return made.u.sin()

        return step, lambda: vars(made)

    pair = Pair(device, make)
    for _ in range(2 * CALLS):
        pair.call()
        for made in (pair.state(), pair.twins_state()):
            made["speed"] = made.pop("speed")


def test_what_is_shared(device: str) -> None:
    """A tuple that is a part of the result, and moves from one place to another."""

    def make(device: str) -> Program:
        hc: Any = (ones(device), ones(device))
        before: Any = None

        def step(x: torch.Tensor) -> Any:
            nonlocal hc, before
            before = hc
            hc = x + hc[0], x * 2
            return {"state": hc, "y": x.sin()}

        return step, lambda: (hc, before)

    pair = Pair(device, make)
    for _ in range(2 * CALLS):
        old = pair.state()[0]
        x = batch(device)
        result = pair.fast(x)
        assert_same(result, eagerly(device, pair.twin, x))
        now, before = pair.state()
        assert result["state"] is now
        assert before is old
        assert_same(pair.state(), pair.twins_state())
    assert pair.replayed() > CALLS, pair.reasons()


# --- What is refused ---


class Counting(dict[str, Any]):
    sets = 0

    def __setitem__(self, key: str, value: Any) -> None:
        self.sets += 1
        super().__setitem__(key, value)


class List(list[Any]):
    pass


class Odd:
    """A key that is equal to a text, and counts how often it is asked."""

    asked = 0

    def __hash__(self) -> int:
        return hash("h")

    def __eq__(self, other: object) -> bool:
        Odd.asked += 1
        return isinstance(other, Odd)


class Slotted:
    __slots__ = ("h",)

    def __init__(self, device: str) -> None:
        self.h = ones(device)


class Telling:
    def __init__(self, device: str) -> None:
        self.__dict__.update(h=ones(device), told=0)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["told"] += 1
        self.__dict__[name] = value


class Described:
    """Whose attribute a descriptor sets and reads."""

    class Descriptor:
        def __get__(self, owner: Any, _: Any = None) -> Any:
            return owner.__dict__["h"] * 1

        def __set__(self, owner: Any, value: Any) -> None:
            owner.__dict__["h"] = value

    h = Descriptor()

    def __init__(self, device: str) -> None:
        self.__dict__["h"] = ones(device)


def of_class(device: str) -> tuple[Any, Callable[[], Any]]:
    made: Any = type("Made", (), {"h": ones(device)})
    return made, lambda: made.h


def with_attribute(make: Callable[[str], Any]) -> Callable[[str], Program]:
    def made(device: str) -> Program:
        found = make(device)
        of, state = found if isinstance(found, tuple) else (found, lambda: found.h)

        def step(x: torch.Tensor) -> torch.Tensor:
            of.h = of.h * 0.5 + x
            return of.h.sin()

        return step, lambda: [state(), getattr(of, "told", 0)]

    return made


def with_item(make: Callable[[str], Any], key: Any = "h") -> Callable[[str], Program]:
    def made(device: str) -> Program:
        of = make(device)

        def step(x: torch.Tensor) -> torch.Tensor:
            of[key] = of[key] * 0.5 + x
            return of[key].sin()

        return step, lambda: [of[key], getattr(of, "sets", 0)]

    return made


def counter(device: str) -> Program:
    state = {"n": 0, "sum": torch.zeros(8).to(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        state["n"] += 1
        state["sum"] = state["sum"] + x
        return state["sum"] / state["n"]

    return step, lambda: state


def appended(device: str) -> Program:
    seen: list[torch.Tensor] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.sum())
        return x * 2

    return step, lambda: seen


def queued(device: str) -> Program:
    seen = collections.deque([ones(device), ones(device)], maxlen=2)

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append(x * 2)
        return x + seen[0]

    return step, lambda: list(seen)


def growing(device: str) -> Program:
    seen: dict[int, torch.Tensor] = {}

    def step(x: torch.Tensor) -> torch.Tensor:
        seen[len(seen)] = x.sum()
        return x * 2

    return step, lambda: seen


def deleted(device: str) -> Program:
    state: dict[str, Any] = {"h": ones(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        y = state.pop("h", x) + x
        if y.shape == x.shape:
            state["other"] = y
        state.pop("other")
        state.setdefault("n", 0)
        state["n"] += 1
        return y

    return step, lambda: state


def unbound(device: str) -> Program:
    h: Any = ones(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal h
        try:
            y = x + h
            del h
        except NameError:
            y, h = x, x * 2  # noqa: F841
        return y

    def state() -> Any:
        try:
            return h
        except NameError:
            return "nothing"

    return step, state


def a_leaf(device: str) -> Program:
    net, h = linear(device), torch.zeros(8).to(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal h
        h = torch.tanh(net(x) + h.detach()).requires_grad_()
        return h.detach()

    return step, lambda: h.detach()


def view_of_the_old(device: str) -> Program:
    cache = torch.zeros(4, 8).to(device)
    taken = 0 * ones(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal cache, taken
        taken = cache[0]
        cache = torch.cat([cache[1:], x[None]])
        return cache.sum(0) + taken

    return step, lambda: [cache, taken]


def returned(device: str) -> Program:
    hidden = [ones(device)]

    def step(x: torch.Tensor) -> Any:
        nonlocal hidden
        hidden = [hidden[0] * 0.5 + x]
        return {"hidden": hidden}

    return step, lambda: hidden


def kept_by_others(device: str) -> Program:
    """By what no walk finds: its name is made while the program runs."""
    hidden, module = [ones(device)], module_of(device)
    name, module.kept = module.__name__, []

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal hidden
        hidden = [hidden[0] * 0.5 + x]
        sys.modules[name].kept.append(hidden)
        return hidden[0] * 2

    return step, lambda: [hidden, module.kept]


def changed_and_replaced(device: str) -> Program:
    made = types.SimpleNamespace(hidden=[ones(device), ones(device)])
    kept: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        made.hidden[0] = x * 2
        made.hidden = [made.hidden[0] * 0.5 + x, made.hidden[1] * 1]
        return made.hidden[0] * 2

    def state() -> Any:
        kept.append(made.hidden)
        return kept

    return step, state


def inside(device: str) -> Program:
    """Items of a list in a list that takes the place of another one."""
    made = types.SimpleNamespace(lists=[[ones(device)], [ones(device)]])

    def step(x: torch.Tensor) -> torch.Tensor:
        made.lists[0][0] = made.lists[0][0] * 0.5 + x
        made.lists = [[each[0] + x] for each in made.lists]
        return made.lists[0][0]

    return step, lambda: made.lists


def one_from_outside(device: str) -> Program:
    of = types.SimpleNamespace(h=ones(device), first=ones(device) * 2)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.h = of.first
        return x + of.h

    step.of = of
    return step, lambda: of.h


def views_of_one(device: str) -> Program:
    of = types.SimpleNamespace(q=None, k=None)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.q, of.k = (x * 2).chunk(2)
        return x + 1

    return step, lambda: (of.q, of.k)


def holding_itself(device: str) -> Program:
    hidden: list[Any] = [ones(device), None]

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal hidden
        hidden = [hidden[0] * 0.5 + x, None]
        hidden[1] = hidden
        return hidden[0] * 2

    return step, lambda: hidden[0]


def a_named_tuple(device: str) -> Program:
    kind = collections.namedtuple("kind", "h c")
    state = kind(ones(device), ones(device))

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal state
        state = kind(state.h * 0.5 + x, state.c)
        return state.h.sin()

    return step, lambda: tuple(state)


REFUSED = [
    (with_attribute(Slotted), "ordinary way"),
    (with_attribute(Telling), "ordinary way"),
    (with_attribute(Described), "ordinary way"),
    (with_attribute(of_class), "ordinary way"),
    (with_item(lambda device: Counting(h=ones(device))), ""),
    (with_item(lambda device: List([ones(device)]), 0), "ordinary way"),
    (with_item(lambda device: {"h": ones(device), Odd(): 1}), "ordinary way"),
    (with_item(lambda device: {True: ones(device)}, 1), "ordinary way"),
    (counter, "keep a number"),
    (appended, "whose length stays"),
    (queued, "deque"),
    (growing, "the same attributes and items"),
    (deleted, ""),
    (a_leaf, "detach"),
    (view_of_the_old, "what it sets is a view of another tensor"),
    (one_from_outside, "what it has set, is memory that it reads from outside"),
    (views_of_one, "hold views of one tensor"),
    (returned, "copy"),
    (kept_by_others, "copy"),
    (changed_and_replaced, "what is in"),
    (inside, "what is in"),
    (holding_itself, "plain tensors"),
    (a_named_tuple, "containers of these"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_what_no_replay_would_do(device: str, make: Any, why: str) -> None:
    pair = Pair(device, make)
    assert pair.calls(4 * CALLS) == 0, pair.reasons()
    assert why in pair.reasons()


def test_a_tensor_from_outside_that_is_taken_away(device: str) -> None:
    """It is set in each call to one that the callable reads, and is no view."""
    pair = Pair(device, one_from_outside)
    for _ in range(2 * CALLS):
        pair.call()
        for fn in (pair.fast._reprise_fn, pair.twin):
            fn.of.h = ones(device) * 3
    assert pair.replayed() == 0
    assert "to a tensor that it reads from outside" in pair.reasons()


def test_a_variable_that_is_deleted(device: str) -> None:
    pair = Pair(device, unbound)
    pair.calls(4 * CALLS)


def test_keys_are_asked_by_nobody(device: str) -> None:
    state: dict[Any, Any] = {Odd(): 1, "h": ones(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        for key, value in state.items():
            if type(key) is str:
                x = x * value
        return x

    fast: Any = reprise.region(step)
    asked = Odd.asked
    for _ in range(CALLS):
        x = batch(device)
        assert_same(fast(x), eagerly(device, step, x))
    assert Odd.asked == asked


def test_a_view_of_a_class(device: str) -> None:
    """Its attributes are set by the class alone, which has caches of them."""

    def make(device: str) -> Program:
        made: Any = type("Made", (), {"h": ones(device)})
        shown, instance = vars(made), made()

        def step(x: torch.Tensor) -> torch.Tensor:
            made.h = shown["h"] * 0.5 + x
            return instance.h.sin()

        return step, lambda: [instance.h, made.h, shown["h"]]

    pair = Pair(device, make)
    pair.calls(2 * CALLS)


def test_a_list_that_the_callable_puts_there(device: str) -> None:
    """The old one is kept by the program, and stays as it is."""

    def make(device: str) -> Program:
        hidden = [ones(device), ones(device)]
        kept: list[Any] = []

        def step(x: torch.Tensor, anew: bool) -> torch.Tensor:
            nonlocal hidden
            if anew:
                hidden = list(hidden)
            hidden[0] = hidden[0] * 0.5 + x
            return hidden[0] + hidden[1]

        def state() -> Any:
            kept.append(hidden)
            return kept

        return step, state

    pair = Pair(device, make)
    for call in range(4 * CALLS):
        pair.call(call % 4 == 3 or call > 2 * CALLS)
    assert pair.replayed() > 0, pair.reasons()


def test_an_error_behind_what_is_set(device: str) -> None:
    def make(device: str) -> Program:
        h = ones(device)

        def step(x: torch.Tensor, fails: bool) -> torch.Tensor:
            nonlocal h
            h = h * 0.5 + x
            if fails:
                raise ValueError("behind it")
            return h.sin()

        return step, lambda: h

    pair = Pair(device, make)
    for call in range(5 * CALLS):
        if call % 5 != 4:
            pair.call(False)
            continue
        x = batch(device)
        for each in (pair.fast, pair.twin):
            with pytest.raises(ValueError, match="behind it"):
                each(x, True)
        assert_same(pair.state(), pair.twins_state())
    assert pair.replayed() > CALLS, pair.reasons()


def test_an_operator_that_raises(device: str) -> None:
    def make(device: str) -> Program:
        h = ones(device)

        def step(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            nonlocal h
            h = h * 0.5 + x
            return h.cpu()[index]

        return step, lambda: h

    pair = Pair(device, make)
    for call in range(5 * CALLS):
        index = torch.tensor([20 if call % 5 == 4 else 3])
        if call % 5 != 4:
            pair.call(index)
            continue
        x = batch(device)
        for each in (pair.fast, pair.twin):
            with pytest.raises(IndexError):
                each(x, index)
        assert_same(pair.state(), pair.twins_state())


def test_a_region_inside_a_region(device: str) -> None:
    """And one that calls itself."""

    def make(device: str) -> Program:
        h = ones(device)

        def inner(x: torch.Tensor) -> torch.Tensor:
            nonlocal h
            h = h * 0.5 + x
            return h

        fast: Any = reprise.region(inner)

        def step(x: torch.Tensor, deep: int = 1) -> torch.Tensor:
            nonlocal h
            y = fast(x)
            h = y + 1
            return again(y, deep - 1) if deep else y * 2

        again: Any = reprise.region(step)

        def outer(x: torch.Tensor) -> torch.Tensor:
            return again(x) + fast(x)

        return outer, lambda: h

    pair = Pair(device, make)
    assert pair.calls(3 * CALLS) > CALLS, pair.reasons()


def test_a_function_that_runs_each_time_reads_one(device: str) -> None:
    def make(device: str) -> Program:
        state = {"mask": ones(device)}

        @reprise.eager
        def masked(x: torch.Tensor) -> torch.Tensor:
            return x * state["mask"]

        def step(x: torch.Tensor) -> torch.Tensor:
            state["mask"] = (x > 0).float()
            return masked(x) + 1

        return step, lambda: state

    pair = Pair(device, make)
    assert pair.calls(2 * CALLS) == 0
    assert "run each time" in pair.reasons()


class Context:
    def __init__(self, device: str) -> None:
        self.mask = ones(device)


def a_function_that_runs_each_time(read: Callable[[], torch.Tensor]) -> Any:
    @reprise.eager
    def masked(x: torch.Tensor) -> torch.Tensor:
        return x * read()

    return masked


def a_kernel_in_python(read: Callable[[], torch.Tensor]) -> Any:
    name = f"masked_{next(_NUMBERS)}"
    _LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    _LIBRARY.impl(name, lambda x: x * read(), "CompositeExplicitAutograd")
    return getattr(torch.ops.reprise_set_state, name)


_NUMBERS = itertools.count()
_LIBRARY = torch.library.Library("reprise_set_state", "FRAGMENT")


@pytest.mark.parametrize("reader", [a_function_that_runs_each_time, a_kernel_in_python])
@pytest.mark.parametrize("where", ["item", "attribute", "variable", "argument"])
def test_what_is_put_back_is_read_meanwhile(
    device: str, reader: Any, where: str
) -> None:
    """Code that runs within the call reads what is set for the length of the call."""

    def make(device: str) -> Program:
        state, context, variable = {"mask": ones(device)}, Context(device), ones(device)
        reads: dict[str, Callable[[], torch.Tensor]] = {
            "item": lambda: state["mask"],
            "variable": lambda: variable,
        }
        read = reader(reads.get(where, lambda: context.mask))

        def step(x: torch.Tensor, given: Any) -> torch.Tensor:
            nonlocal variable
            new = (x > 0).float()
            if where == "item":
                old, state["mask"] = state["mask"], new
            elif where == "variable":
                old, variable = variable, new
            else:
                of = given[0] if given else context
                old, of.mask = of.mask, new
            y = read(x * 1) + 1
            if where == "item":
                state["mask"] = old
            elif where == "variable":
                variable = old
            else:
                of.mask = old
            return y

        step.given = [context] if where == "argument" else []
        return step, lambda: [state, context.mask, variable]

    pair = Pair(device, make)
    for _ in range(2 * CALLS):
        x = batch(device)
        mine = pair.fast(x, pair.fast._reprise_fn.given)
        assert_same(mine, eagerly(device, pair.twin, x, pair.twin.given))
    assert pair.replayed() == 0
    assert "it sets what others may read" in pair.reasons()


def test_threads(device: str) -> None:
    """Each thread sets another place, and reads what it has set."""
    state = dict.fromkeys("abcd")

    def step(x: torch.Tensor, key: str) -> torch.Tensor:
        y: Any = x * 2 + ord(key)
        if key == "a":
            state["a"] = y
        elif key == "b":
            state["b"] = y
        elif key == "c":
            state["c"] = y
        return y

    fast: Any = reprise.region(step)

    @torch.no_grad()
    def work(number: int) -> None:
        key = "abcd"[number]
        for _ in range(10 * CALLS):
            x = batch(device)
            assert_same_bits(fast(x, key), x * 2 + ord(key))
            if key != "d":
                assert_same_bits(state[key], x * 2 + ord(key))

    in_threads(work, 4)


def test_what_was_held_goes(device: str) -> None:
    """Containers live no longer than the region that sets their items."""

    class Watched:
        pass

    def make() -> tuple[Any, Any]:
        watched = Watched()
        state = {"h": ones(device), "of": watched}

        def step(x: torch.Tensor) -> torch.Tensor:
            state["h"] = state["h"] * 0.5 + x
            return state["h"]

        return reprise.region(step), weakref.ref(watched)

    fast, gone = make()
    for _ in range(CALLS):
        fast(batch(device))
    assert fast.explain().replayed > 0
    assert gone() is not None
    del fast
    gc.collect()
    assert gone() is None


# --- Locks ---


def locked_item(device: str) -> tuple[Callable[..., Any], Any]:
    lock, state = threading.Lock(), {"h": ones(device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        with lock:
            state["h"] = state["h"] * 0.5 + x
        return x * 2

    return step, lambda: state


def locked_memory(device: str) -> tuple[Callable[..., Any], Any]:
    lock, buffer = threading.RLock(), ones(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        with lock:
            buffer.copy_(x)
            buffer.mul_(2.0)
            return buffer.clone()

    return step, lambda: buffer


class Guarded:
    def __init__(self, device: str, lock: Any) -> None:
        self.lock = lock
        self.h = ones(device)

    def update(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            self.h = self.h * 0.5 + x
            return self.h * 1

    def add(self, x: torch.Tensor) -> torch.Tensor:
        self.lock.acquire()
        self.h.add_(x)
        self.lock.release()
        return x + 1


def guarded(lock: Callable[[], Any], name: str) -> Callable[[str], Program]:
    def make(device: str) -> Program:
        of = Guarded(device, lock())
        return getattr(of, name), lambda: of.h

    return make


LOCKED = [
    locked_item,
    locked_memory,
    *(
        guarded(lock, name)
        for lock in (
            *(threading.Lock, threading.RLock, threading.Condition),
            *(threading.Semaphore, threading.BoundedSemaphore),
        )
        for name in ("update", "add")
    ),
]


@pytest.mark.parametrize("make", LOCKED)
def test_what_a_lock_guards(device: str, make: Any) -> None:
    """No replay takes it, and other threads see what is written."""
    pair = Pair(device, make)
    assert pair.calls(2 * CALLS) == 0
    assert "a lock, which no replay would take" in pair.reasons()


def test_threads_that_share_a_lock(device: str) -> None:
    """No update is lost."""
    lock, state = threading.Lock(), {"sum": torch.zeros(20000).to(device)}

    @reprise.region
    def step(x: torch.Tensor) -> torch.Tensor:
        with lock:
            state["sum"] = state["sum"] + x
        return x * 2

    @torch.no_grad()
    def work(_: int) -> None:
        for _ in range(10 * CALLS):
            step(torch.ones(20000).to(device))

    work(0)
    in_threads(work, 4)
    assert_same_bits(state["sum"], torch.full((20000,), 50.0 * CALLS).to(device))


def test_a_lock_among_the_arguments(device: str) -> None:
    of, twin = Guarded(device, threading.Lock()), Guarded(device, threading.Lock())

    def step(of: Guarded, x: torch.Tensor) -> torch.Tensor:
        with of.lock:
            of.h.mul_(0.5).add_(x)
            return of.h * 1

    fast: Any = reprise.region(step)
    for _ in range(2 * CALLS):
        x = batch(device)
        assert_same_bits(fast(of, x), eagerly(device, step, twin, x))
    assert fast.explain().replayed == 0
    assert "a lock" in "; ".join(fast.explain().reasons)


class Computed:
    """A property that is computed once has a lock of Python's own."""

    def __init__(self, device: str) -> None:
        self.scale = ones(device) / 2
        self.h = ones(device)

    @functools.cached_property
    def lock(self) -> torch.Tensor:
        return self.scale * 1

    def update(self, x: torch.Tensor) -> torch.Tensor:
        self.h = self.h * self.lock + x
        return self.h * 1


def test_locks_that_no_code_of_the_programs_takes(device: str) -> None:
    def keeping(device: str) -> Program:
        of = Computed(device)
        assert of.lock is not None
        return of.update, lambda: of.h

    def reading(device: str) -> Program:
        of = Guarded(device, threading.Lock())

        def step(x: torch.Tensor) -> torch.Tensor:
            with of.lock:
                return of.h * x

        return step, lambda: of.h

    for make in (keeping, reading):
        pair = Pair(device, make)
        assert pair.calls() >= CALLS - WITHOUT_REPLAYS, pair.reasons()
