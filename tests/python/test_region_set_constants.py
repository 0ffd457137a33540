"""Attributes, items and variables that a region's calls set to constants."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import math
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS, Pair, Program, assert_same, batch, eagerly, ones
from torch import nn
from watching import assert_same_bits, in_threads

# Calls that learn what is set, in each of some variants, and are recorded.
LEARNING = 2
RECORDED = 3


pytestmark = pytest.mark.usefixtures("replaying")


# --- train() and eval() ---


class Net(nn.Module):
    """Whose training is read by name, by torch's modules, and by a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.25), nn.Linear(8, 4)]
        )
        self.rate = 0.5

    def train(self, mode: bool = True) -> Net:
        super().train(mode)
        self.rate = 0.5 if mode else 0.0
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(x, self.rate, self.training)
        for layer in self.layers:
            x = layer(x)
        return x


class Learner:
    """A model that is trained and evaluated in turn, by two callables."""

    def __init__(self, device: str) -> None:
        self.device = device
        torch.manual_seed(2)
        self.model = Net().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.x = torch.randn(6, 8).to(device)
        self.t = torch.randint(4, (6,)).to(device)

    def train(self) -> torch.Tensor:
        self.model.train()
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.x), self.t)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self) -> torch.Tensor:
        self.model.eval()
        return self.model(self.x).softmax(-1)

    def state(self) -> list[Any]:
        """Return all that calls change."""
        of_torch = self.optimizer.state_dict()["state"]
        return [
            [(each.training, list(each.__dict__)) for each in self.model.modules()],
            self.model.rate,
            list(self.model.state_dict().values()),
            [each.grad for each in self.model.parameters()],
            [each["momentum_buffer"] for each in of_torch.values()],
        ]


def drawing(of: Learner, fn: Callable[..., Any], *args: Any) -> Any:
    """Return the result, and the state of a generator that is the learner's own."""
    if of.device == "cuda":
        torch.cuda.manual_seed(0)
    torch.set_rng_state(_random.get(of, torch.Generator().manual_seed(5).get_state()))
    result = fn(*args)
    _random[of] = torch.get_rng_state()
    return result, _random[of]


_random: weakref.WeakKeyDictionary[Learner, torch.Tensor] = weakref.WeakKeyDictionary()


class Learners:
    """One by regions, and its twin by eager alone."""

    def __init__(self, device: str, *regions: str) -> None:
        """`regions`: of which methods."""
        self.device = device
        self.of, self.twin = Learner(device), Learner(device)
        self.fast: dict[str, Any] = {
            each: reprise.region(getattr(self.of, each)) for each in regions
        }

    def call(self, name: str) -> None:
        """Call a method of both, and compare results and all state."""
        fast = self.fast.get(name, getattr(self.of, name))
        plain = getattr(self.twin, name)
        mine = drawing(self.of, fast)
        other = eagerly(self.device, drawing, self.twin, plain)
        assert_same(mine, other)
        assert_same(self.of.state(), self.twin.state())

    def replayed(self, name: str) -> int:
        found: int = self.fast[name].explain().replayed
        return found

    def assert_replays(self, *names: str) -> None:
        """Check that the last calls are replayed, of each region."""
        for name in names:
            before = self.replayed(name)
            self.call(name)
            assert self.replayed(name) == before + 1, self.fast[name].explain()


def test_a_model_that_is_trained_and_evaluated_in_turn(device: str) -> None:
    both = Learners(device, "train", "evaluate")
    for _ in range(CALLS):
        both.call("train")
        both.call("evaluate")
    for _ in range(3):
        both.assert_replays("train", "evaluate")


def test_rows_of_calls(device: str) -> None:
    """Each has two variants: behind itself, where nothing is set, and behind the other."""
    both = Learners(device, "train", "evaluate")
    for _ in range(LEARNING + 2 + RECORDED):
        for name in ("train", "evaluate"):
            for _ in range(4):
                both.call(name)
    both.assert_replays(
        *("train", "train", "evaluate", "evaluate", "evaluate", "train", "evaluate")
    )


@pytest.mark.parametrize("name", ["train", "evaluate"])
def test_the_other_one_is_no_region(device: str, name: str) -> None:
    both = Learners(device, name)
    other = "evaluate" if name == "train" else "train"
    for _ in range(CALLS):
        both.call(name)
        both.call(other)
    both.assert_replays(name)
    both.call(other)
    both.assert_replays(name)


def test_a_module_that_is_put_into_another_mode_between_calls(device: str) -> None:
    """Of one layer alone: that is another variant, and is set as the others are."""
    both = Learners(device, "evaluate")
    for _ in range(CALLS):
        both.call("train")
        both.call("evaluate")
    for index in (1, 2, 1, 2, 1, 2, 1, 2, 1, 2):
        for each in (both.of, both.twin):
            each.model.eval()
            each.model.layers[index].train()
        both.call("evaluate")
    for each in (both.of, both.twin):
        each.model.layers[1].train()
    both.assert_replays("evaluate")
    assert not any(each.training for each in both.of.model.modules())


def test_another_region_reads_them(device: str) -> None:
    """A region of the module sees what replays of the others have set."""
    both = Learners(device, "train", "evaluate")
    fast: Any = reprise.region(both.of.model)
    for _ in range(2 * CALLS):
        for name in ("train", "evaluate"):
            both.call(name)
            with torch.no_grad():
                mine = drawing(both.of, fast, both.of.x)
                other = eagerly(
                    device, drawing, both.twin, both.twin.model, both.twin.x
                )
            assert_same(mine, other)
            assert_same(both.of.state(), both.twin.state())
    assert fast.explain().replayed > CALLS
    both.assert_replays("train", "evaluate")


def test_a_copy_of_the_model(device: str) -> None:
    """It is in the mode that a replay has left it in, and none of the regions sets it."""
    both = Learners(device, "train", "evaluate")
    for _ in range(CALLS):
        both.call("train")
        both.call("evaluate")
    made = copy.deepcopy(both.of.model)
    assert not any(each.training for each in made.modules())
    both.assert_replays("train", "evaluate", "train")
    assert not any(each.training for each in made.modules())


def test_one_callable_for_both(device: str) -> None:
    """The mode is an argument, and so is the module."""

    def step(model: nn.Module, x: torch.Tensor, training: bool) -> torch.Tensor:
        model.train(training)
        return model(x)

    fast: Any = reprise.region(step)
    of, twin = Learner(device), Learner(device)
    order = [True, False, False, True, True, False]
    for call in range(6 * CALLS):
        mode = order[call % len(order)]
        with torch.no_grad():
            mine = drawing(of, fast, of.model, of.x, mode)
            other = eagerly(device, drawing, twin, step, twin.model, twin.x, mode)
        assert_same(mine, other)
        assert_same(of.state(), twin.state())
    assert fast.explain().replayed > 4 * CALLS, fast.explain()


def test_an_error_in_a_call(device: str) -> None:
    """The callable handles nothing, and has written nothing: it runs, and sets the mode."""
    model, table = nn.Dropout(), torch.ones(4, 2).to(device)

    def evaluate(index: torch.Tensor) -> torch.Tensor:
        model.eval()
        return model(nn.functional.embedding(index, table))

    fast: Any = reprise.region(evaluate)
    with torch.no_grad():
        for _ in range(CALLS):
            model.train()
            assert_same_bits(fast(torch.tensor([1]).to(device)), table[:1])
            assert not model.training
        assert fast.explain().replayed > 0, fast.explain()
        if device == "cuda":  # the kernel ends the context
            return
        model.train()
        with pytest.raises(IndexError):
            fast(torch.tensor([9]))
        assert not model.training


def test_results_with_a_history(device: str) -> None:
    """Its backward pass is outside, and runs in another mode."""
    of, twin = Learner(device), Learner(device)

    def forward(self: Learner) -> torch.Tensor:
        self.model.train()
        return self.model(self.x).square().mean()

    fast: Any = reprise.region(lambda: forward(of))
    for _ in range(2 * CALLS):
        for each, fn in ((of, fast), (twin, lambda: eagerly(device, forward, twin))):
            each.model.eval()
            loss, _ = drawing(each, fn)
            each.model.eval()
            loss.backward()
        assert_same(of.state(), twin.state())
    assert fast.explain().replayed > CALLS, fast.explain()


def test_each_call_is_compared(device: str) -> None:
    """`check="always"`: a sample sets the same, and a call that sets something else is found."""
    odd = [False]
    model = nn.Dropout(0.5)

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        model.eval()
        if odd.count(True):
            model.train()
        return x * 2

    fast: Any = reprise.region(evaluate, check="always")
    for _ in range(CALLS):
        model.train()
        fast(ones(device))
        assert not model.training
    assert fast.explain().samples > 0
    odd[0] = True
    model.train()
    fast(ones(device))
    assert model.training


def test_a_region_inside_a_region(device: str) -> None:
    of, twin = Learner(device), Learner(device)
    inner: Any = reprise.region(of.evaluate)

    def both(self: Learner, evaluate: Callable[[], torch.Tensor]) -> torch.Tensor:
        found = evaluate()
        self.model.layers[2].train()
        return found * 2

    outer: Any = reprise.region(lambda: both(of, inner))
    for call in range(3 * CALLS):
        if call % 3 == 2:
            assert_same(
                drawing(of, inner), eagerly(device, drawing, twin, twin.evaluate)
            )
        mine = drawing(of, outer)
        other = eagerly(device, drawing, twin, both, twin, twin.evaluate)
        assert_same(mine, other)
        assert_same(of.state()[0], twin.state()[0])
    assert outer.explain().replayed > CALLS, outer.explain()


def test_threads(device: str) -> None:
    """Each has a model of its own, and a third one looks on."""
    learners = [Learner(device) for _ in range(3)]
    expected = eagerly(device, learners[0].evaluate)
    regions: list[Any] = [reprise.region(each.evaluate) for each in learners]

    def work(index: int) -> None:
        of, fast = learners[index], regions[index]
        for _ in range(4 * CALLS):
            of.model.train()
            assert_same_bits(fast(), expected)
            assert not any(each.training for each in of.model.modules())

    in_threads(work, len(learners))
    assert sum(each.explain().replayed for each in regions) > CALLS


def test_with_nothing_enabled(device: str) -> None:
    with reprise.session(device, enabled=False):
        pass
    of, twin = Learner(device), Learner(device)
    train: Any = reprise.region(of.train)
    evaluate: Any = reprise.region(of.evaluate)
    for _ in range(CALLS):
        assert_same(drawing(of, train), drawing(twin, twin.train))
        assert_same(of.state(), twin.state())
        assert_same(drawing(of, evaluate), drawing(twin, twin.evaluate))
        assert_same(of.state(), twin.state())
    assert train.explain().replayed > 0 and evaluate.explain().replayed > 0


def test_watches_stay_quiet(device: str) -> None:
    """Two regions in turn change the dictionaries of all modules, and neither looks again."""
    both = Learners(device, "train", "evaluate")
    for _ in range(CALLS):
        both.call("train")
        both.call("evaluate")
    looked = []
    for each in both.fast.values():
        reads = each._reads
        reads.look = lambda look=reads.look: (looked.append(1), look())[1]
    for _ in range(CALLS):
        for name, fast in both.fast.items():
            drawing(both.of, fast)
            assert both.replayed(name) > 0
    alone = threading.active_count() == 1
    assert len(looked) <= (1 if alone else CALLS)


def test_another_region_reads_an_item_of_what_a_place_holds(device: str) -> None:
    """It leads to that very dictionary, which is no place of its own."""
    of: Any = types.SimpleNamespace(state=None)
    mine = types.SimpleNamespace(on=False)

    def sets(x: torch.Tensor) -> torch.Tensor:
        if of.state is None:
            of.state = {"h": x * 1, "phase": "a"}
        of.state["phase"] = "bb" if of.state["phase"] == "a" else "a"
        return x + len(of.state["phase"])

    first: Any = reprise.region(sets)
    with torch.no_grad():
        for _ in range(2 * CALLS):
            first(ones(device))
        held = of.state

        def reads(x: torch.Tensor) -> torch.Tensor:
            mine.on = not mine.on
            return x * len(held["phase"]) if mine.on else x - len(held["phase"])

        second: Any = reprise.region(reads)
        for call in range(6 * CALLS):
            x = batch(device)
            if call % 3 < 2:
                expected = 1 if held["phase"] == "bb" else 2
                assert_same_bits(first(x), x + expected)
                assert len(of.state["phase"]) == expected
            on, by = mine.on, len(held["phase"])
            assert_same_bits(second(x), x - by if on else x * by)
    assert of.state is held
    assert first.explain().replayed > CALLS, first.explain()
    assert second.explain().replayed > CALLS, second.explain()


# --- Constants of all kinds ---


class Phase(enum.Enum):
    WARM = "warm"
    HOT = "hot"


class Flags(enum.Flag):
    ONE = 1
    TWO = 2


# What a place holds in turn: no two neighbours are equal to Python's `==` alone.
TURNS = {
    "bools": (False, True),
    "texts": ("a", "bb", ""),
    "integers": (0, 1, 2, -(2**70)),
    "floats": (0.0, -0.0, math.nan, math.inf),
    "kinds": (1, True, 1.0, None, "1", b"1", 1 + 0j, complex(1, -0.0)),
    "members": (Phase.WARM, Phase.HOT),
    "flags": (Flags.ONE, Flags.ONE | Flags.TWO),
    "dtypes": (torch.float32, torch.float64),
    "shapes": (torch.Size([2]), (2,), ()),
    "tuples": ((1, (True, "a")), (True, (1, "a"))),
    "items": ((1, 2), ("items", [1][0])),
}


def _turning(turns: tuple[Any, ...], device: str) -> Program:
    of = types.SimpleNamespace(now=turns[0], before=None, h=ones(device))

    def step(x: torch.Tensor) -> torch.Tensor:
        texts = [repr(each) for each in turns]
        index = texts.index(repr(of.now))
        of.before, of.now = of.now, turns[(index + 1) % len(turns)]
        of.h = of.h * 0.5 + x * (index + 1)
        return of.h + index

    return step, lambda: [repr(of.now), repr(of.before), list(vars(of)), of.h]


@pytest.mark.parametrize("name", TURNS)
def test_constants_in_turn(device: str, name: str) -> None:
    turns = TURNS[name]
    pair = Pair(device, lambda device: _turning(turns, device))
    with torch.no_grad():
        pair.calls(LEARNING + 2 + RECORDED * len(turns))
        assert pair.calls(CALLS) == CALLS, pair.reasons()
    assert pair.fast.explain().variants == len(turns)


def variable(device: str) -> Program:
    phase = "a"

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal phase
        x = x * len(phase)
        phase = "bb" if phase == "a" else "a"
        return x

    return step, lambda: phase


def in_globals(device: str) -> Program:
    source = """
def step(x):
    global phase
    x = x * len(phase)
    phase = "bb" if phase == "a" else "a"
    return x
"""
    of: dict[str, Any] = {"phase": "a", "__name__": "somewhere"}
    exec(source, of)
    return of["step"], lambda: of["phase"]


def of_a_function(device: str) -> Program:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if scaled.on else x + 1  # type: ignore[attr-defined]

    scaled.on = False  # type: ignore[attr-defined]

    def step(x: torch.Tensor) -> torch.Tensor:
        x = scaled(x)
        scaled.on = not scaled.on  # type: ignore[attr-defined]
        return x

    return step, lambda: vars(scaled)


def items(device: str) -> Program:
    state: dict[Any, Any] = {"on": False, 3: "a", ("k", 1): 0}

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x * 2 if state["on"] else x + len(state[3])
        state["on"] = not state["on"]
        state[3] = "bb" if state["on"] else "a"
        state["k", 1] = (state["k", 1] + 1) % 2
        return x

    return step, lambda: state


def elements(device: str) -> Program:
    flags = [False, True]

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x * 2 if flags[0] else x + 1
        flags[0], flags[1] = flags[1], flags[0]
        return x

    return step, lambda: flags


def beside_tensors(device: str) -> Program:
    """In the containers that a place holds."""
    of = types.SimpleNamespace(state={"h": ones(device), "phase": "a", "sizes": (1, 2)})

    def step(x: torch.Tensor) -> torch.Tensor:
        h, phase = of.state["h"], of.state["phase"]
        following = "bb" if phase == "a" else "a"
        of.state = {"h": h * 0.5 + x, "phase": following, "sizes": (1, 2)}
        return h * len(phase)

    return step, lambda: of.state


def held_items(device: str) -> Program:
    """Items of a list that another place holds, too."""
    made: list[Any] = [ones(device), "a", False]
    of = types.SimpleNamespace(one=made, two=made)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.one[0] = of.two[0] * 0.5 + x
        of.two[1] = "bb" if of.one[1] == "a" else "a"
        of.one[2] = not of.one[2]
        return of.one[0] * len(made[1])

    return step, lambda: [of.one, of.one is of.two, of.one is made]


def shared_tuples(device: str) -> Program:
    """A constant of the code stands in two places, and in the result."""
    of: Any = types.SimpleNamespace(one=(1, 2), two=(1, 2))

    def step(x: torch.Tensor) -> Any:
        of.one = of.two = (3, 4) if of.one == (1, 2) else (1, 2)
        return x * sum(of.one), of.one

    return step, lambda: (of.one, of.two)


def or_a_tensor(device: str) -> Program:
    of: Any = types.SimpleNamespace(h=None)

    def step(x: torch.Tensor) -> torch.Tensor:
        if of.h is None:
            of.h = x * 2
        else:
            of.h = "done" if torch.is_tensor(of.h) else None
        return x + 1

    return step, lambda: of.h


def turning_on(of: Any) -> Program:
    """Sets `on` to what it was not, and goes by that."""

    def step(x: torch.Tensor) -> torch.Tensor:
        of.on = not of.on
        return x * 2 if of.on else x + 1

    return step, lambda: vars(of)


def by_a_setter(device: str) -> Program:
    """The property's code runs in recorded calls alone; what it leaves is set."""

    class Odd:
        def __init__(self) -> None:
            self._on = False

        @property
        def on(self) -> bool:
            return self._on

        @on.setter
        def on(self, value: bool) -> None:
            self._on = bool(value)

    return turning_on(Odd())


def hides_a_default(device: str) -> Program:
    class Odd:
        on = False

    return turning_on(Odd())


def keys_that_come(device: str) -> Program:
    """They come at first, in an order of their own, and stay."""
    state: dict[str, Any] = {"last": "a"}

    def step(x: torch.Tensor) -> torch.Tensor:
        state["two"] = state.get("one", "a")
        state["one"] = "bb" if state["two"] == "a" else "a"
        return x * len(state["one"])

    return step, lambda: [list(state), state]


def patience(device: str) -> Program:
    """It counts, and begins anew: no counter, but of few values."""
    of = types.SimpleNamespace(bad=0)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.bad = 0 if of.bad == 3 else of.bad + 1
        return x * of.bad

    return step, lambda: vars(of)


def read_by_an_alias(device: str) -> Program:
    of = types.SimpleNamespace(on=False)
    attributes, other = vars(of), of

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x * 2 if attributes["on"] else x + 1
        other.on = not of.on
        return x * 3 if attributes["on"] else x

    return step, lambda: attributes


REPLAYED = [
    *(variable, in_globals, of_a_function, items, elements, beside_tensors),
    *(held_items, shared_tuples, or_a_tensor, by_a_setter, hides_a_default),
    *(keys_that_come, patience, read_by_an_alias),
]


@pytest.mark.parametrize("make", REPLAYED)
def test_replays_set_them(device: str, make: Any) -> None:
    pair = Pair(device, make)
    with torch.no_grad():
        pair.calls(2 * CALLS)
        assert pair.calls(CALLS) == CALLS, pair.reasons()


def test_what_an_enum_leads_to(device: str) -> None:
    """Members that come later lead to their class, of which the callable's code reads."""

    class Kind(enum.Enum):
        ONE = 1
        TWO = 2

    scale = {"by": 2.0}
    Kind.ONE.scale = Kind.TWO.scale = scale  # type: ignore[attr-defined]
    of: Any = types.SimpleNamespace(kind=None)
    queue = [None]

    def step(x: torch.Tensor) -> torch.Tensor:
        now = of.kind
        of.kind = None
        return x + 1 if now is None else x * now.scale["by"]

    fast: Any = reprise.region(step)
    for _ in range(CALLS):
        for value in ("one", "two", None):
            of.kind = value and getattr(Kind, value.upper())
            x = batch(device)
            expected = x + 1 if value is None else x * scale["by"]
            assert_same_bits(fast(x), expected)
            assert of.kind is None
    assert fast.explain().replayed > CALLS, fast.explain()
    assert queue == [None]
    scale["by"] = 3.0
    for value in ("ONE", "TWO"):
        of.kind = Kind[value]
        x = batch(device)
        assert_same_bits(fast(x), x * 3.0)


def test_a_constant_that_the_program_puts_there(device: str) -> None:
    pair = Pair(device, items)
    states = pair.state(), pair.twins_state()
    with torch.no_grad():
        pair.calls(2 * CALLS)
        for value in ("ccc", 7.5, None, "ccc"):
            for state in states:
                state[3] = "ccc" if value is None else value
                if not isinstance(state[3], str):
                    state[3] = str(state[3])
            pair.call()
        assert pair.calls(CALLS) == CALLS, pair.reasons()


def test_a_flag_of_the_first_call(device: str) -> None:
    """It is set once: that is no place, and the region's calls are as they were."""

    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()
            self.is_ready = False
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.is_ready:
                with self.lock:
                    self.is_ready = True
            return self.layer(x)

    model = Lazy().to(device)
    fast: Any = reprise.region(model)
    for _ in range(CALLS):
        x = batch(device)
        found, expected = fast(x), model(x)
        assert_same_bits(found, expected)
        found.sum().backward()
    report = fast.explain()
    assert report.replayed > 0, report
    assert report.backward > 0, report


# --- What is refused ---


class Slotted:
    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


@dataclasses.dataclass(frozen=True)
class Frozen:
    on: bool = False


class Telling:
    def __init__(self) -> None:
        self.__dict__.update(on=False, told=0)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["told"] += 1
        self.__dict__[name] = value


class TellingModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.on = False

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setattr__("told", getattr(self, "told", 0) + 1)


class Described:
    class Descriptor:
        def __get__(self, owner: Any, _: Any = None) -> Any:
            return owner.__dict__["on"]

        def __set__(self, owner: Any, value: Any) -> None:
            owner.__dict__["on"] = value

    on = Descriptor()

    def __init__(self) -> None:
        self.__dict__["on"] = False


class Read:
    """Whose attributes are read by code of its own."""

    def __init__(self) -> None:
        self.on = False

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Dict(dict[str, Any]):
    pass


def flipping(make: Callable[[], Any]) -> Callable[[str], Program]:
    def made(device: str) -> Program:
        of = make()

        def step(x: torch.Tensor) -> torch.Tensor:
            if isinstance(of, dict):
                on = of["on"] = not of["on"]
            elif isinstance(of, Frozen):
                on = not of.on
                object.__setattr__(of, "on", on)
            else:
                on = of.on = not of.on
            return x * 2 if on else x + 1

        def state() -> Any:
            if isinstance(of, dict):
                return list(of.items())
            return of.on, getattr(of, "told", 0)

        return step, state

    return made


def of_a_class(device: str) -> Program:
    return flipping(lambda: type("Made", (), {"on": False}))(device)


def counter(device: str) -> Program:
    of = types.SimpleNamespace(n=0)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.n = of.n + 1
        return x * of.n

    return step, lambda: of.n


def average(device: str) -> Program:
    state = {"mean": 1.0}

    def step(x: torch.Tensor) -> torch.Tensor:
        state["mean"] = state["mean"] * 0.9 + 0.2
        return x * state["mean"]

    return step, lambda: state


def text(device: str) -> Program:
    log = ""

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal log
        log += "x"
        return x * 2

    return step, lambda: log


def in_a_container(device: str) -> Program:
    of = types.SimpleNamespace(state=(ones(device), 0))

    def step(x: torch.Tensor) -> torch.Tensor:
        of.state = of.state[0] * 0.5 + x, of.state[1] + 1
        return of.state[0] * of.state[1]

    return step, lambda: of.state


def many_flags(device: str) -> Program:
    """Each is true or false, and all of them are others in each call."""
    flags = dict.fromkeys(range(16), False)

    def step(x: torch.Tensor) -> torch.Tensor:
        number = sum(each << index for index, each in flags.items())
        number = (number * 5 + 3) % 2 ** len(flags)
        for index in flags:
            flags[index] = bool(number >> index & 1)
        return x * 2

    return step, lambda: flags


def functions(device: str) -> Program:
    of = types.SimpleNamespace(act=torch.sin)

    def step(x: torch.Tensor) -> torch.Tensor:
        x = of.act(x)
        of.act = torch.cos if of.act is torch.sin else torch.sin
        return x

    return step, lambda: of.act.__name__


def lists(device: str) -> Program:
    of = types.SimpleNamespace(sizes=[1, 2])

    def step(x: torch.Tensor) -> torch.Tensor:
        of.sizes = [*of.sizes[1:], of.sizes[0]]
        return x * of.sizes[0]

    return step, lambda: of.sizes


def deleted(device: str) -> Program:
    of = types.SimpleNamespace(on=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        if hasattr(of, "on"):
            del of.on
            return x * 2
        of.on = True
        return x + 1

    return step, lambda: list(vars(of))


REFUSED = [
    *((flipping(each), "in the ordinary way") for each in (Slotted, Frozen, Telling)),
    *((flipping(each), "in the ordinary way") for each in (TellingModule, Described)),
    *((flipping(each), "in the ordinary way") for each in (Read,)),
    *((each, "in the ordinary way") for each in (of_a_class,)),
    (flipping(lambda: Dict(on=False)), "in the ordinary way"),
    (flipping(lambda: collections.Counter(on=False)), "in the ordinary way"),
    *((each, "another constant again and again") for each in (counter, average, text)),
    (in_a_container, "another constant again and again"),
    (many_flags, "another constant again and again"),
    (functions, "or constants"),
    (lists, "or constants"),
    (deleted, "it changes SimpleNamespace.on"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_what_no_replay_would_do(device: str, make: Any, why: str) -> None:
    pair = Pair(device, make)
    with torch.no_grad():
        assert pair.calls(8 * CALLS) == 0, pair.reasons()
    assert why in pair.reasons()
    assert pair.fast.explain().variants <= 64


def test_a_place_that_holds_something_else(device: str) -> None:
    """A call that begins so runs its Python, and says why."""
    pair = Pair(device, variable_object)
    with torch.no_grad():
        assert pair.calls(2 * CALLS) > 0
        for state in (pair.state(), pair.twins_state()):
            state.on = print
        pair.call()
        assert "only plain tensors" in pair.reasons()
        assert pair.calls(CALLS) > 0


def variable_object(device: str) -> Program:
    of = types.SimpleNamespace(on=False)

    def step(x: torch.Tensor) -> torch.Tensor:
        of.on = of.on is False
        return x * 2 if of.on else x + 1

    return step, lambda: of


def test_a_function_that_runs_each_time_reads_one(device: str) -> None:
    """It would find what the last call has left: such a call is not replayed."""
    of = types.SimpleNamespace(on=False)
    found = []

    @reprise.eager
    def looks(x: torch.Tensor) -> torch.Tensor:
        found.append(of.on)
        return x * 1

    def step(x: torch.Tensor) -> torch.Tensor:
        of.on = True
        y = looks(x)
        of.on = False
        return y

    def leaves(x: torch.Tensor) -> torch.Tensor:
        of.on = not of.on
        return looks(x)

    with torch.no_grad():
        for fn in (step, leaves):
            fast: Any = reprise.region(fn)
            for _ in range(CALLS):
                was = of.on
                fast(ones(device))
                assert found[-1] == (True if fn is step else not was)
            assert fast.explain().replayed == 0


def test_an_optimizers_number(device: str) -> None:
    """A group's number is no place: it is an argument that a call has changed."""
    net = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    rates = [0.5, 0.25]

    def step(x: torch.Tensor) -> torch.Tensor:
        group = optimizer.param_groups[0]
        group["lr"] = rates[group["lr"] == rates[0]]
        return x * 2

    fast: Any = reprise.region(step)
    for call in range(CALLS):
        fast(ones(device))
        assert optimizer.param_groups[0]["lr"] == rates[(call + 1) % 2]
    assert fast.explain().replayed == 0
