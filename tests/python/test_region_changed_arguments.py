"""Arguments that a region's calls change: lists, dictionaries and objects, and what is in them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import re
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from pairs import Told, eagerly
from torch import nn
from watching import assert_same_bits

CALLS = 12
WITHOUT_REPLAYS = 3  # the first call, and two that are recorded

Step = Callable[..., Any]
Make = Callable[[str], tuple[Any, ...]]  # arguments beside the first one


pytestmark = pytest.mark.usefixtures("replaying")


def picture(value: Any) -> tuple[list[Any], list[torch.Tensor]]:
    """All that can be told of a value: types, order, what is one and the same; and tensors."""
    seen: dict[int, int] = {}
    tensors: list[torch.Tensor] = []

    def of(value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str, torch.dtype, torch.device):
            return kind, value
        if kind is float:
            return kind, value.hex()
        if kind is tuple:  # nobody tells two that hold the same from each other
            return kind, [of(each) for each in value]
        if id(value) in seen:
            return "again", seen[id(value)]
        seen[id(value)] = len(seen)
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return kind, value.requires_grad, value.dtype, value.stride()
        found: list[Any] = [kind]
        if isinstance(value, dict):
            found.append([(of(key), of(each)) for key, each in value.items()])
        elif isinstance(value, (list, tuple, collections.deque)):
            found.append([of(each) for each in value])
        elif isinstance(value, set):
            found.append(sorted(value))
        if hasattr(value, "__dict__"):
            found.append([(key, of(each)) for key, each in vars(value).items()])
        found += [
            of(getattr(value, each, None)) for each in getattr(kind, "__slots__", ())
        ]
        return found

    return of(value), tensors


def assert_alike(mine: Any, other: Any) -> None:
    """One value is a picture of the other one."""
    (form, tensors), (others_form, others) = picture(mine), picture(other)
    assert form == others_form
    for one, two in zip(tensors, others, strict=True):
        assert_same_bits(one, two)


class Pair(Told):
    """A region and its twin that runs its Python, each with arguments of its own."""

    def __init__(self, device: str, step: Step) -> None:
        self.device = device
        self.step = step
        self.fast = reprise.region(step)
        self.calls = 0

    def call(self, *given: tuple[Any, Any]) -> Any:
        """Both, with one tensor; `given`: arguments of each. Compares results, and these."""
        x = torch.randn(2, 4).to(self.device)
        ours, theirs = [each[0] for each in given], [each[1] for each in given]
        torch.manual_seed(self.calls)
        mine = self.fast(x, *ours)
        torch.manual_seed(self.calls)
        self.calls += 1
        other = eagerly(self.device, self.step, x.clone(), *theirs)
        assert_alike([mine, *ours], [other, *theirs])
        return mine

    def texts(self, make: Make, texts: int = 8, tokens: int = 3) -> int:
        """Each text has arguments of its own. Returns how many calls were replayed."""
        before = self.replayed()
        for _ in range(texts):
            torch.manual_seed(7)
            ours = make(self.device)
            torch.manual_seed(7)
            theirs = make(self.device)
            for _ in range(tokens):
                self.call(*zip(ours, theirs, strict=True))
        return self.replayed() - before


# --- What is followed ---


def extends(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
    for index, each in enumerate(cache):
        k = x * (index + 2)
        cache[index] = k if each is None else torch.cat([each, k])
    return torch.cat(cache).sum()


def pairs(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
    k, v = x + 1, x.sin()
    if cache[0] is not None:
        k, v = torch.cat([cache[0][0], k]), torch.cat([cache[0][1], v])
    cache[0] = k, v
    return (k * v).sum()


def appends(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    seen.append(x * 2)
    if len(seen) > 2:
        seen.pop(0)
    seen.insert(0, None)
    seen.reverse()
    return seen[0] + 1


def adds_keys(x: torch.Tensor, features: dict[str, Any]) -> torch.Tensor:
    features["tokens"] = x * 2
    features.setdefault("first", x)
    return features["tokens"].sum()


def orders_keys(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    h = state.pop("h")
    state["c"] = x + h
    state["h"] = h * 2
    state.update({"new": x, "c": x - h})
    state.pop("new")
    return h.sum()


def moves_to_the_end(x: torch.Tensor, state: Any) -> torch.Tensor:
    state.move_to_end(next(iter(state)))
    state["a"] = x
    return state["a"] * 2


def nested(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    for layer in state["layers"]:
        layer["k"] = x + layer["k"]
        layer["all"].append(layer["k"])
        layer["all"][:] = layer["all"][-2:]
    state["count"] += 1
    return state["layers"][0]["all"][0] * 2


def exchanges(x: torch.Tensor, a: list[Any], b: list[Any]) -> torch.Tensor:
    a[0], b[0] = b[0], a[0]
    a[1], a[2] = a[2], a[1]
    b[1] = x
    return a[0] + x


def exchanges_lists(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    state["a"], state["b"] = state["b"], state["a"]
    state["a"].append(x)
    del state["b"][0]
    state["a"].append(x + 1)
    del state["b"][0]
    return state["a"][0] * 2


def returns_it(x: torch.Tensor, cache: list[Any]) -> Any:
    cache[0] = x * 2
    return {"cache": cache, "first": cache[0], "pair": (cache, x)}


class Layer:
    """As caches of transformers have them."""

    kind = "layer"

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.is_set = False

    def update(self, k: torch.Tensor) -> torch.Tensor:
        if not self.is_set:
            self.keys = k[:0]
            self.is_set, self.dtype = True, k.dtype
        assert self.keys is not None
        self.keys = torch.cat([self.keys, k])
        return self.keys


class Cache:
    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.length = 0
        self.updated: dict[int, bool] = {}

    def update(self, k: torch.Tensor, index: int) -> torch.Tensor:
        while len(self.layers) <= index:
            self.layers.append(Layer())
        self.updated[index] = True
        return self.layers[index].update(k)


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    cache: Cache


def decodes(x: torch.Tensor, cache: Cache) -> Output:
    cache.length += x.shape[0]
    total = cache.update(x, 0).sum() + cache.update(x * 2, 1).sum()
    return Output(total * cache.length, cache)


class Deletes:
    def __init__(self, x: torch.Tensor) -> None:
        self.h = x
        self.scratch: Any = None


def deletes(x: torch.Tensor, state: Deletes) -> torch.Tensor:
    del state.scratch
    state.h = state.h + x
    state.scratch = [x * 2]
    return state.h


@dataclasses.dataclass
class Hidden:
    h: torch.Tensor
    steps: int = 0


def recurs(x: torch.Tensor, hidden: Hidden) -> torch.Tensor:
    hidden.h = torch.tanh(hidden.h + x)
    hidden.steps += 1
    return hidden.h.sum()


class Lazy:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    @functools.cached_property
    def doubled(self) -> torch.Tensor:
        return self.x * 2


def reads_lazily(x: torch.Tensor, lazy: Lazy) -> torch.Tensor:
    lazy.x = lazy.x + x
    vars(lazy).pop("doubled", None)
    return lazy.doubled + x


def namespaces(x: torch.Tensor, space: Any) -> torch.Tensor:
    space.h = space.h + x
    space.count -= 1
    return space.h * 2


def in_itself(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    state["me"] = state
    state["me"]["h"] = x + state["h"]
    return state["h"]


def writes_in_place(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    state["buffer"].add_(x)
    state["h"] = state["buffer"] * 2
    state["again"] = state["buffer"]
    return state["h"].sum()


def keeps_constants(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    state["shape"] = tuple(x.shape)
    state["dtype"] = x.dtype
    state["nothing"] = None
    state["half"] = state["half"] / 2 if state["half"] > 0.2 else 1.0
    return x * state["half"]


def draws(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    state["mask"] = torch.rand_like(x) > 0.5
    return x * state["mask"]


class Slotted:
    __slots__ = ("__weakref__", "h")

    def __init__(self, h: torch.Tensor) -> None:
        self.h = h


def moves_sets(x: torch.Tensor, state: dict[str, Any]) -> Any:
    state["a"], state["b"] = state["b"], state["a"]
    state["c"] = (state["d"], state["e"])
    state["queue"] = state["all"][0]
    return state["a"], x * 2, state["queue"]


def one(device: str) -> torch.Tensor:
    return torch.randn(2, 4).to(device)


FOLLOWED: list[tuple[Step, Make]] = [
    (extends, lambda _: ([None, None],)),
    (pairs, lambda _: ([None],)),
    (appends, lambda _: ([],)),
    (adds_keys, lambda device: ({"ids": one(device)},)),
    (orders_keys, lambda device: ({"c": one(device), "h": one(device)},)),
    (
        moves_to_the_end,
        lambda device: (collections.OrderedDict(a=one(device), b=one(device)),),
    ),
    (
        nested,
        lambda device: (
            {"layers": [{"k": one(device), "all": []} for _ in "ab"], "count": 0},
        ),
    ),
    (
        exchanges,
        lambda device: ([one(device), None, one(device)], [one(device), one(device)]),
    ),
    (
        exchanges_lists,
        lambda device: (
            {"a": [one(device), one(device)], "b": [one(device), one(device)]},
        ),
    ),
    (returns_it, lambda device: ([None, one(device)],)),
    (decodes, lambda _: (Cache(),)),
    (deletes, lambda device: (Deletes(one(device)),)),
    (recurs, lambda device: (Hidden(one(device)),)),
    (reads_lazily, lambda device: (Lazy(one(device)),)),
    (
        namespaces,
        lambda device: (types.SimpleNamespace(h=one(device), count=9),),
    ),
    (in_itself, lambda device: ({"h": one(device)},)),
    (writes_in_place, lambda device: ({"buffer": one(device)},)),
    (keeps_constants, lambda _: ({"half": 1.0},)),
    (
        moves_sets,
        lambda device: (
            {
                "a": {1},
                "b": {2, 3},
                "d": {4},
                "e": Slotted(one(device)),
                "all": [collections.deque([one(device)])],
            },
        ),
    ),
    (draws, lambda _: (collections.defaultdict(list),)),
]


@pytest.mark.parametrize(
    ("step", "make"), FOLLOWED, ids=[step.__name__ for step, _ in FOLLOWED]
)
@torch.no_grad()
def test_what_is_followed(device: str, step: Step, make: Make) -> None:
    """The second text is recorded again, and later ones are replayed."""
    pair = Pair(device, step)
    pair.texts(make, texts=4)
    assert pair.texts(make, texts=4) == 12, str(pair.fast.explain())


# --- What is one and the same ---


def shares(x: torch.Tensor, a: list[Any], b: list[Any]) -> torch.Tensor:
    a[0] = x + a[0]
    b[0] = b[0] * 2
    return a[0] + b[0]


@torch.no_grad()
def test_one_list_twice_is_not_two_lists(device: str) -> None:
    pair = Pair(device, shares)
    h = one(device)
    for _ in range(CALLS):
        pair.call(([h], [h]), ([h], [h]))
        mine, other = [h], [h]
        pair.call((mine, other), (mine, other))
        both, theirs = [h], [h]
        pair.call((both, theirs), (both, theirs))
        pair.call((both, theirs), ([h.clone()], [h.clone()]))


def shared_calls(step: Step, device: str, h: torch.Tensor) -> list[Any]:
    """Two lists of one tensor, one list twice, two lists of two tensors."""
    found = []
    for given in (
        lambda: ([h], [h]),
        lambda: 2 * ([h],),
        lambda: ([h], [h.clone()]),
    ):
        arguments = given()
        found.append([step(h * 3, *arguments), arguments])
    return found


@torch.no_grad()
def test_forms_of_shared_lists_in_turn(device: str) -> None:
    fast: Any = reprise.region(shares)
    for _ in range(CALLS):
        h = one(device)
        assert_alike(
            shared_calls(fast, device, h),
            eagerly(device, shared_calls, shares, device, h),
        )
    assert fast.explain().replayed >= 3 * (CALLS - WITHOUT_REPLAYS), str(fast.explain())


class Node:
    def __init__(self, h: torch.Tensor) -> None:
        self.h = h
        self.other: Any = None


def passes_on(x: torch.Tensor, node: Node) -> torch.Tensor:
    node.other.h = node.other.h + x
    return node.h * 2


@torch.no_grad()
def test_objects_in_circles(device: str) -> None:
    """An object that is its own neighbour is no other one than two that are each other's."""

    def circle(length: int) -> Callable[[str], tuple[Node]]:
        def make(device: str) -> tuple[Node]:
            nodes = [Node(one(device)) for _ in range(length)]
            for index, each in enumerate(nodes):
                each.other = nodes[index - 1]
            return (nodes[0],)

        return make

    pair = Pair(device, passes_on)
    for length in (1, 2, 3):
        pair.texts(circle(length))
    assert sum(pair.texts(circle(length)) for length in (1, 2, 3)) == 3 * 24


def keeps_one(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
    k = x * 2
    cache[0], cache[1], cache[2] = k, k, cache[0]
    return k


@torch.no_grad()
def test_one_tensor_in_several_places(device: str) -> None:
    pair = Pair(device, keeps_one)
    make = lambda device: ([one(device), None, one(device)],)  # noqa: E731
    pair.texts(make)
    assert pair.texts(make) == 24


@torch.no_grad()
def test_sets_that_are_equal_and_not_the_same(device: str) -> None:
    """What is set again to the same set is no change; to an equal one it is."""

    def step(x: torch.Tensor, state: dict[str, Any], known: Any) -> torch.Tensor:
        state["known"] = known
        state["h"] = x
        return x * 2

    pair = Pair(device, step)
    for call in range(4 * CALLS):
        sets: list[Any] = [
            {1, 2} if call % 8 < 4 else collections.deque([1]) for _ in "ab"
        ]
        states: list[Any] = [{"known": each, "h": None} for each in sets]
        if call % 4 == 3:
            states = [{"known": copy.copy(each), "h": None} for each in sets]
        pair.call((states[0], states[1]), (sets[0], sets[1]))
    assert pair.replayed() > 2 * CALLS, str(pair.fast.explain())


# --- Sizes ---


@torch.no_grad()
def test_lengths_come_again(device: str) -> None:
    """Each length is a tape of its own: a second text records them, and a third replays."""
    pair = Pair(device, pairs)
    tokens = 24
    for _ in range(3):
        pair.texts(lambda _: ([None],), texts=1, tokens=tokens)
    assert pair.texts(lambda _: ([None],), texts=1, tokens=tokens) == tokens
    assert pair.texts(lambda _: ([None],), texts=1, tokens=tokens + 2) == tokens


# --- Gradients ---


def recurrent(net: nn.Module) -> Step:
    def step(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
        h = torch.tanh(net(x) + state["h"])
        state["h"] = h
        state["all"].append(h)
        return (h * h).sum()

    return step


def test_histories_go_on_through_what_is_kept(device: str) -> None:
    nets = []
    for _ in "ab":
        torch.manual_seed(0)
        nets.append(nn.Linear(4, 4).to(device))
    fast: Any = reprise.region(recurrent(nets[0]))
    plain = recurrent(nets[1])
    for text in range(8):
        states = [{"h": torch.zeros(2, 4).to(device), "all": []} for _ in nets]
        losses: list[Any] = [0, 0]
        for token in range(3):
            torch.manual_seed(10 * text + token)
            x = one(device)
            for index, step in enumerate((fast, plain)):
                losses[index] = losses[index] + step(x, states[index])
        for net, loss in zip(nets, losses, strict=True):
            net.zero_grad()
            loss.backward()
        assert_alike(states[0], states[1])
        assert_same_bits(*losses)
        for one_, two in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            assert_same_bits(one_.grad, two.grad)
    assert fast.explain().replayed > 8, str(fast.explain())


def test_with_gradients_and_without_in_turn(device: str) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 4).to(device)
    step = recurrent(net)
    fast: Any = reprise.region(step)
    for call in range(2 * CALLS):
        x = one(device)
        states = [{"h": x * 2, "all": []} for _ in "ab"]
        with torch.set_grad_enabled(call % 2 == 0):
            found = fast(x, states[0]), step(x, states[1])
        assert_same_bits(*found)
        assert_alike(states[0], states[1])
        assert found[0].requires_grad is found[1].requires_grad
        mine, other = states[0]["h"], states[1]["h"]
        assert (mine.grad_fn is None) is (other.grad_fn is None)
        if found[0].requires_grad:
            grads = [
                torch.autograd.grad(sum(f.sum() for f in each), net.parameters())
                for each in ((found[0], mine), (found[1], other))
            ]
            assert_alike(*grads)
    assert fast.explain().replayed > CALLS, str(fast.explain())


# --- What is not replayed ---


class Items(dict):  # type: ignore[type-arg]
    pass


class Setter:
    def __init__(self, h: torch.Tensor) -> None:
        self.h = h

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class Property:
    def __init__(self, h: torch.Tensor) -> None:
        vars(self)["h"] = h

    @property
    def h(self) -> torch.Tensor:
        found: torch.Tensor = vars(self)["h"]
        return found

    @h.setter
    def h(self, value: torch.Tensor) -> None:
        vars(self)["h"] = value


class Another:
    def __init__(self, h: torch.Tensor) -> None:
        self.h = h


def item(x: torch.Tensor, of: Any) -> torch.Tensor:
    of["h"] = of["h"] + x
    return x * 2


def attribute(x: torch.Tensor, of: Any) -> torch.Tensor:
    of.h = of.h + x
    return x * 2


def adds_to_a_set(x: torch.Tensor, of: Any) -> torch.Tensor:
    of[0].add(len(of[0]))
    return x * 2


def appends_to_a_deque(x: torch.Tensor, of: Any) -> torch.Tensor:
    of.append(x)
    return x * 2


def two_places(x: torch.Tensor, of: Any) -> torch.Tensor:
    of["a"] = of["b"] = [x * 2]
    return x * 2


def puts_a_function(x: torch.Tensor, of: Any) -> torch.Tensor:
    of["f"] = lambda: x
    return x * 2


def of_another_class(x: torch.Tensor, of: Any) -> torch.Tensor:
    of.__class__ = Another if type(of) is Deletes else Deletes
    return of.h + x


def keeps_a_view_of_its_attributes(x: torch.Tensor, of: Any) -> torch.Tensor:
    of.h = of.h + x
    of.mine = vars(of)
    return x * 2


def keeps_anothers_attributes(x: torch.Tensor, of: Any, table: Any) -> torch.Tensor:
    of.h = of.h + x
    table["h"] = vars(of)
    return x * 2


REFUSED: list[tuple[Step, Make, str]] = [
    (item, lambda device: (Items(h=one(device)),), "items of a Items"),
    (attribute, lambda device: (Setter(one(device)),), "attributes of a Setter"),
    (attribute, lambda device: (Property(one(device)),), "attributes of a Property"),
    (attribute, lambda device: (Slotted(one(device)),), "changes a Slotted"),
    (adds_to_a_set, lambda _: ([set()],), "what is in a set"),
    (
        appends_to_a_deque,
        lambda _: (collections.deque(),),
        "what is in a set, a tuple or the",
    ),
    (puts_a_function, lambda _: ({},), "puts into an argument, a builtins.function"),
    (two_places, lambda _: ({},), "one container in two places"),
    (of_another_class, lambda device: (Deletes(one(device)),), "Deletes"),
    (
        keeps_a_view_of_its_attributes,
        lambda device: (Another(one(device)),),
        "holds itself",
    ),
    (
        keeps_anothers_attributes,
        lambda device: (Another(one(device)), {}),
        "something else holds",
    ),
]


@pytest.mark.parametrize(
    ("step", "make", "why"), REFUSED, ids=[f"{s.__name__}-{w}" for s, _, w in REFUSED]
)
@torch.no_grad()
def test_what_is_refused(device: str, step: Step, make: Make, why: str) -> None:
    pair = Pair(device, step)
    assert pair.texts(make) == 0, str(pair.fast.explain())
    assert why in pair.reasons(), str(pair.fast.explain())


def test_what_something_else_holds_too(device: str) -> None:
    kept: list[Any] = []

    def keeps(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        made = [x * 2]
        registry.append(made)
        cache[0] = made
        return x + 1

    registry = kept
    fast: Any = reprise.region(keeps)
    for _ in range(CALLS):
        cache: list[Any] = [None]
        fast(one(device), cache)
        assert kept[-1] is cache[0]
    assert fast.explain().replayed == 0


@pytest.mark.parametrize("where", ["closure", "object", "module"])
@torch.no_grad()
def test_what_it_leads_to_from_outside_too(device: str, where: str) -> None:
    """The list that is given now and then is the one that the callable reads by itself."""
    own = [one(device)]
    holder = types.SimpleNamespace(cache=own)
    net = nn.Linear(4, 4).to(device)
    net.cache = own  # type: ignore[assignment]

    def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        cache[0] = cache[0] + x
        if where == "closure":
            return own[0] * 2
        if where == "object":
            return holder.cache[0] * 2
        return net.cache[0] * 2  # type: ignore[index, operator]

    fast: Any = reprise.region(step)
    for call in range(3 * CALLS):
        x, given = one(device), own if call % 3 == 2 else [one(device)]
        were = own[0], given[0]
        found = fast(x, given)
        assert_same_bits(given[0], were[1] + x)
        assert_same_bits(found, own[0] * 2)
        assert given is own or own[0] is were[0]
    report = fast.explain()
    assert any("leads to from outside, too" in why for why in report.reasons), str(
        report
    )


def test_code_that_runs_each_time_would_read_it(device: str) -> None:
    @reprise.eager
    def reads(x: torch.Tensor) -> torch.Tensor:
        return x + len(shown[0])

    shown: list[Any] = [None]

    def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        cache.append(x * 2)
        return reads(x) * 2

    fast: Any = reprise.region(step)
    with torch.no_grad():
        for _ in range(CALLS):
            cache: list[Any] = []
            shown[0] = cache
            for token in range(3):
                x = one(device)
                assert_same_bits(fast(x, cache), (x + (token + 1)) * 2)
    assert fast.explain().replayed == 0
    assert any("others may read" in why for why in fast.explain().reasons)


def test_a_lock_is_taken(device: str) -> None:
    lock = threading.Lock()

    def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        with lock:
            cache[0] = x * 2
        return x + 1

    pair = Pair(device, step)
    assert pair.texts(lambda _: ([None],)) == 0
    assert "a lock" in pair.reasons()


@torch.no_grad()
def test_attributes_that_are_given_as_a_dictionary(device: str) -> None:
    """They are the object's own, or a copy of them."""

    def step(x: torch.Tensor, of: Any, table: dict[str, Any]) -> torch.Tensor:
        of.h = of.h + x
        return table["h"] * 2

    pair = Pair(device, step)
    for call in range(3 * CALLS):
        h = one(device)
        ours, theirs = Another(h), Another(h.clone())
        tables = [vars(ours), vars(theirs)]
        if call % 3:
            tables = [{"h": h}, {"h": theirs.h}]
        pair.call((ours, theirs), (tables[0], tables[1]))
    assert pair.replayed() > 0, str(pair.fast.explain())


# --- Errors, threads, copies ---


@torch.no_grad()
def test_an_error_leaves_what_eager_leaves() -> None:
    """Before a write the callable runs, and sets what it sets until then.

    On the host only: no operator of a GPU raises such an error.
    """

    def step(x: torch.Tensor, cache: list[Any], index: torch.Tensor) -> torch.Tensor:
        cache[0] = x * 2
        cache[1] = x[index]
        return cache[1]

    fast: Any = reprise.region(step)
    for call in range(2 * CALLS):
        x, index = one("cpu"), torch.tensor([7 if call % 4 == 3 else call % 2])
        found = []
        for each in (fast, step):
            cache: list[Any] = [None, None]
            try:
                each(x, cache, index)
            except IndexError as error:
                cache.append(str(error))
            found.append(cache)
        assert_alike(*found)
    assert fast.explain().replayed > CALLS


@torch.no_grad()
def test_in_threads(device: str) -> None:
    fast: Any = reprise.region(decodes)
    fast(one(device), Cache())

    def work(number: int) -> None:
        with torch.no_grad():
            for _ in range(6):
                ours, theirs = Cache(), Cache()
                for _ in range(3):
                    x = torch.rand(2, 4, generator=generators[number]).to(device)
                    mine, other = fast(x, ours), decodes(x, theirs)
                    assert_same_bits(mine.logits, other.logits)
                    assert mine.cache is ours
                    assert_alike(ours, theirs)

    generators = [torch.Generator().manual_seed(number) for number in range(4)]
    from watching import in_threads

    in_threads(work, 4)


@torch.no_grad()
def test_copies_and_changes_between_calls(device: str) -> None:
    """The program copies a cache, cuts it, and puts other things into it."""
    pair = Pair(device, decodes)
    for text in range(10):
        ours, theirs = Cache(), Cache()
        for token in range(4):
            pair.call((ours, theirs))
            ours, theirs = copy.deepcopy(ours), copy.deepcopy(theirs)
            if token == 1:
                for each in (ours, theirs):
                    for layer in each.layers:
                        layer.keys = layer.keys[1:]  # type: ignore[index]
            if token == 2 and text % 2:
                for each in (ours, theirs):
                    each.layers.reverse()
                    each.extra = text % 3  # type: ignore[attr-defined]
    assert pair.replayed() > 12, str(pair.fast.explain())


@torch.no_grad()
def test_views_of_what_is_kept(device: str) -> None:
    """Two tensors of a cache lie in one memory, and the program writes one of them."""

    def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        both = torch.cat([x, x * 2])
        cache[0], cache[1] = both.chunk(2)
        return both.sum()

    pair = Pair(device, step)
    for _ in range(CALLS):
        ours: list[Any] = [None, None]
        theirs: list[Any] = [None, None]
        pair.call((ours, theirs))
        for cache in (ours, theirs):
            cache[0].add_(1)
            assert cache[0]._base is cache[1]._base
        pair.call((ours, theirs))
    assert pair.replayed() >= CALLS


@torch.no_grad()
def test_nested_regions(device: str) -> None:
    inner: Any = reprise.region(pairs)

    def outer(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        return fn[0](x + 1, cache) * 2

    fn: tuple[Any] = (inner,)
    fast: Any = reprise.region(outer)
    for _ in range(8):
        ours: list[Any] = [None]
        theirs: list[Any] = [None]
        for _ in range(3):
            x = one(device)
            assert_same_bits(fast(x, ours), pairs(x + 1, theirs) * 2)
            assert_alike(ours, theirs)
    assert fast.explain().replayed >= 9, str(fast.explain())


@torch.no_grad()
def test_places_and_arguments_are_set(device: str) -> None:
    def make(device: str) -> Step:
        hidden = torch.zeros(2, 4).to(device)

        def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
            nonlocal hidden
            hidden = hidden + x
            cache.append(hidden)
            return hidden * len(cache)

        return step

    fast: Any = reprise.region(make(device))
    plain = make(device)
    for _ in range(8):
        ours: list[Any] = []
        theirs: list[Any] = []
        for _ in range(3):
            x = one(device)
            assert_same_bits(fast(x, ours), plain(x, theirs))
            assert_alike(ours, theirs)
    assert fast.explain().replayed >= 9, str(fast.explain())


@torch.no_grad()
def test_floats_among_the_arguments(device: str) -> None:
    def step(x: torch.Tensor, state: dict[str, Any], scale: float) -> torch.Tensor:
        state["h"] = x * scale
        state["used"] = scale
        state["pair"] = (scale, x)
        return x * state["rate"]

    fast: Any = reprise.region(step)
    for call in range(3 * CALLS):
        x, scale = one(device), 0.5 + call % 3
        states = [{"rate": 0.25 + call % 2} for _ in "ab"]
        assert_same_bits(fast(x, states[0], scale), step(x, states[1], scale))
        assert_alike(states[0], states[1])
        assert type(states[0]["used"]) is float


@torch.no_grad()
def test_always_checked(device: str) -> None:
    """Recorded calls show what is set, and a call that sets something else is found."""
    ways = [0]

    def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        cache[0] = x * 2
        return x + 1

    fast: Any = reprise.region(step, check="always")
    for _ in range(CALLS):
        cache: list[Any] = [None]
        fast(one(device), cache)
    assert fast.explain().samples > 0 and not fast.explain().replayed
    assert ways == [0]


@torch.no_grad()
def test_code_that_runs_each_time_changes_it(device: str) -> None:
    """What it puts there another call would not: it is no part of the recorded one."""
    counts = [0]

    @reprise.eager
    def notes(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        counts[0] += 1
        cache.append(counts[0])
        return x + 1

    def step(x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        y = notes(x, cache) * 2
        cache.append("noted")
        return y

    fast: Any = reprise.region(step)
    for call in range(CALLS):
        cache: list[Any] = []
        x = one(device)
        assert_same_bits(fast(x, cache), (x + 1) * 2)
        assert cache == [call + 1, "noted"]
    assert fast.explain().replayed == 0


def test_lists_that_stay_beside_others_that_change(device: str) -> None:
    """With gradients, and in an order of tensors that is not that of their lists."""
    torch.manual_seed(0)
    net = nn.Linear(4, 4).to(device)

    def step(x: torch.Tensor, given: list[Any], last: torch.Tensor) -> torch.Tensor:
        if given[0] is None:
            given[0] = x.detach() * 2
        return net(x + given[1][0]) * last + given[1][1]

    fast: Any = reprise.region(step)
    for call in range(3 * CALLS):
        x, a, b, last = [one(device) for _ in "abcd"]
        a.requires_grad_(call % 2 == 0)
        found = []
        for each in (fast, step):
            net.zero_grad()
            given = [None if call < 2 else b, [a, b]]
            y = each(x, given, last)
            y.square().sum().backward()
            grads = [torch.zeros_like(p) + p.grad for p in net.parameters()]
            found.append([y.detach(), a.grad, grads])
            a.grad = None
        assert_alike(*found)
    assert fast.explain().replayed > CALLS, str(fast.explain())


class Patterns:
    def __init__(self, device: str) -> None:
        self.pattern = re.compile("a")  # nobody looks into one
        self.scale = one(device)


@torch.no_grad()
def test_beside_an_object_that_is_not_followed(device: str) -> None:
    """Lists are followed, and the object counts by what it holds."""

    def step(x: torch.Tensor, cache: list[Any], given: Patterns) -> torch.Tensor:
        cache[0] = x * given.scale if cache[0] is None else cache[0] + x
        return cache[0].sum()

    pair = Pair(device, step)

    def make(device: str) -> tuple[Any, ...]:
        return [None], Patterns(device)

    pair.texts(make)
    torch.manual_seed(7)
    given = Patterns(device)
    before = pair.replayed()
    for call in range(8):
        if call == 4:
            given.scale = one(device)
        ours: list[Any] = [None]
        theirs: list[Any] = [None]
        for _ in range(3):
            pair.call((ours, theirs), (given, given))
    assert pair.replayed() - before >= 12, str(pair.fast.explain())
