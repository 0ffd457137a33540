"""Objects that a region's call makes and returns: replays make such objects anew."""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch.utils import _pytree
from watching import assert_same_bits

CALLS = 10


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


class Output(collections.OrderedDict[str, Any]):
    """As those of transformers: its entries are attributes, too."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


@dataclasses.dataclass
class LanguageOutput(Output):
    logits: Any = None
    states: Any = None
    loss: Any = None


class Result:
    made = 0

    def __init__(self, value: Any, more: Any = None) -> None:
        self.value = value
        self.more = more


class Guarded:
    """Sets its attributes by code of its own, and shows others than it has."""

    def __init__(self, value: Any) -> None:
        self.__dict__["_value"] = value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)

    @property
    def value(self) -> Any:
        return self._value * 2

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Slotted:
    __slots__ = ("__private", "unset", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.__private = [value + 1]

    def private(self) -> Any:
        return self.__private


class Below(Slotted):
    """Slots, attributes, and a slot that hides one of its base."""

    __slots__ = ("__dict__", "value")

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        Slotted.value.__set__(self, value * 3)  # type: ignore[attr-defined]
        self.more = value * 4


class Named(dict[str, Any]):
    def __setitem__(self, *_: Any) -> None:
        raise TypeError


class Rows(list[Any]):
    def append(self, *_: Any) -> None:
        raise TypeError


class Pair(tuple[Any, ...]):
    def __new__(cls, *values: Any) -> Pair:
        made = super().__new__(cls, values)
        made.first = values[0]
        return made

    first: Any


def shown(value: Any, seen: dict[int, int] | None = None) -> Any:
    """All that is in it, read past its class; what is in two places is told."""
    seen = {} if seen is None else seen
    if torch.is_tensor(value):
        return value
    if id(value) in seen and not isinstance(value, (str, int, float, type(None))):
        return f"again {seen[id(value)]}"
    seen[id(value)] = len(seen)
    kind = type(value)
    found: list[Any] = [kind.__qualname__]
    if issubclass(kind, dict):
        for key in [*kind.__iter__(value)]:
            found += [repr(key), shown(dict.__getitem__(value, key), seen)]
    elif issubclass(kind, (list, tuple, set)):
        base: Any = next(b for b in (list, tuple, set) if issubclass(kind, b))
        found += [shown(each, seen) for each in base.__iter__(value)]
    elif not hasattr(value, "__dict__") and not hasattr(kind, "__slots__"):
        found.append(repr(value))
    for base in kind.__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, types.MemberDescriptorType) and name != "__dict__":
                try:
                    found += [name, shown(slot.__get__(value), seen)]
                except AttributeError:
                    found += [name, "nothing"]
    if kind.__module__ != "builtins" and hasattr(value, "__dict__"):
        for name, each in vars(value).items():
            found += [name, shown(each, seen)]
    return found


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from flat(each)
    else:
        yield value


def run(fn: Callable[[torch.Tensor], Any], device: str) -> reprise.RegionReport:
    fast: Any = reprise.region(fn)
    results = []
    for _ in range(CALLS):
        x = torch.randn(3).to(device)
        mine, other = fast(x), fn(x)
        results.append(mine)
        ours, theirs = [*flat(shown(mine))], [*flat(shown(other))]
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            if torch.is_tensor(b):
                assert_same_bits(a, b)
            else:
                assert a == b
    assert len(set(map(id, results))) == CALLS
    report: reprise.RegionReport = fast.explain()
    return report


def with_more(x: torch.Tensor) -> Any:
    made = LanguageOutput(logits=x * 2)
    made.extra = 7  # type: ignore[attr-defined]
    object.__setattr__(made, "logits", x * 3)  # another one than its entry
    return made


def moved(x: torch.Tensor) -> Any:
    made = LanguageOutput(logits=x, states=x + 1)
    del made["states"]
    return made


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: LanguageOutput(logits=x * 2, states=(x + 1, [x + 2])),
        lambda x: {"out": LanguageOutput(loss=x.sum()), "n": 3},
        with_more,
        moved,
        lambda x: Result(x * 2, [x + 1, 3.5, "text", None]),
        lambda x: Result(Result(x * 2), {"a": Result(x + 1)}),
        lambda x: Guarded(x + 1),
        lambda x: Slotted(x * 2),
        lambda x: Below(x * 2),
        lambda x: Named(a=x * 2, b=[x]),
        lambda x: Rows([x * 2, x + 1]),
        lambda x: [Pair(x * 2, x + 1), Pair(x, 1)],
        lambda x: types.SimpleNamespace(b=x * 2, a=3),
        lambda x: torch.distributions.Normal(x, x.exp(), validate_args=False),
        lambda x: [x + 1, {1, 2}, {"a"}, range(3), slice(1, None), frozenset({2})],
        lambda x: {(0, 1): x * 2, None: x + 1, 2.5: x},
    ],
)
def test_objects_that_are_made_anew(device: str, fn: Callable[..., Any]) -> None:
    report = run(fn, device)
    assert report.replayed == CALLS - 2, str(report)


def test_entries_are_the_attributes(device: str) -> None:
    def made(x: torch.Tensor) -> Any:
        return LanguageOutput(logits=x * 2, states=(x + 1, [x + 2]))

    fast: Any = reprise.region(made)
    for _ in range(CALLS):
        found = fast(torch.randn(3).to(device))
        assert found[0] is found.logits is found["logits"]
        assert found.states is found["states"]
        assert found.to_tuple()[1] is found.states
        found.states[1].append(3)  # nobody else has it
    assert fast.explain().replayed == CALLS - 2, str(fast.explain())


def test_gradients_of_what_objects_hold(device: str) -> None:
    net = torch.nn.Linear(3, 3).to(device)

    def made(x: torch.Tensor) -> Any:
        return LanguageOutput(logits=net(x), loss=net(x).sum())

    fast: Any = reprise.region(made)
    with torch.enable_grad():
        for _ in range(CALLS):
            x = torch.randn(2, 3).to(device)
            found = []
            for called in (made, fast):
                net.zero_grad()
                out = called(x)
                (out.loss + out.logits.square().sum()).backward()
                found.append([each.grad for each in net.parameters()])
            for mine, other in zip(found[1], found[0], strict=True):
                assert_same_bits(mine, other)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


# --- Objects that others know ---

KEPT: list[Any] = []
KNOWN: weakref.WeakSet[Any] = weakref.WeakSet()


class Last:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __del__(self) -> None:
        pass


def returned_twice(x: torch.Tensor) -> Any:
    made = Result(x + 1)
    return made, made


def shares_attributes(x: torch.Tensor) -> Any:
    made, other = Result(x + 1), Result(x)
    other.__dict__ = made.__dict__
    return made, other


def holds_itself(x: torch.Tensor) -> Any:
    made = Result(x + 1)
    made.more = [made]
    return made


def finalized(x: torch.Tensor) -> Any:
    made = Result(x + 1)
    weakref.finalize(made, int)
    return made


def referred_to(x: torch.Tensor) -> Any:
    made = Result(x + 1)
    made.more = weakref.ref(made)
    return made


def of_a_set(x: torch.Tensor) -> Any:
    made = {0, 8, 16, 24}
    made -= {0, 16}
    made |= set(range(100, 140))
    made -= set(range(100, 140))
    return x + 1, made


@pytest.mark.parametrize(
    "fn",
    [
        returned_twice,
        shares_attributes,
        holds_itself,
        finalized,
        referred_to,
        of_a_set,
        lambda x: Last(x + 1),
        lambda x: Result(x + 1, Result),
        lambda x: Result(x + 1, len),
        lambda x: Result(x + 1, iter(())),
        lambda x: ValueError(x + 1),
        lambda x: torch.nn.ReLU(),
    ],
)
def test_objects_that_are_not_made_anew(device: str, fn: Callable[..., Any]) -> None:
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(3).to(device)
        mine, other = fast(x), fn(x)
        assert type(mine) is type(other)
    report = fast.explain()
    assert report.replayed == 0 and report.reasons, str(report)
    assert all(why.startswith(("it returns", "it changes")) for why in report.reasons)


HELD = Result(0, {1, 2})


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: HELD,
        lambda x: (x + 1, HELD.more),
        lambda x: (x + 1, HELD.__dict__),
        lambda x: [x + 1, [HELD]],
    ],
)
def test_objects_that_the_callable_leads_to(
    device: str, fn: Callable[..., Any]
) -> None:
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        found = fast(torch.randn(3).to(device))
        last = found if isinstance(found, Result) else found[-1]
        last = last[0] if isinstance(last, list) else last
        assert last is HELD or last is HELD.more or last is HELD.__dict__
    assert fast.explain().replayed == 0, str(fast.explain())


def test_constructors_that_count(device: str) -> None:
    class Counted:
        made = 0

        def __init__(self, value: Any) -> None:
            Counted.made += 1
            self.value = value

    fast: Any = reprise.region(lambda x: Counted(x + 1))
    for count in range(1, CALLS):
        fast(torch.randn(3).to(device))
        assert Counted.made == count


def test_objects_among_the_arguments_that_are_returned(device: str) -> None:
    """They are the same objects, as they were given."""

    class Slots:
        __slots__ = ("value",)

    def first(given: list[Any], x: torch.Tensor) -> Any:
        return given[0], x + 1

    def inner(given: list[Any], x: torch.Tensor) -> Any:
        return given[0].value, x + 1

    def attributes(given: list[Any], x: torch.Tensor) -> Any:
        return vars(given[0]), x + 1

    for fn, replayed in ((first, True), (inner, False), (attributes, False)):
        for kind in (types.SimpleNamespace, Slots, lambda: Result(1)):
            if fn is attributes and kind is Slots:
                continue
            fast: Any = reprise.region(fn)
            for _ in range(CALLS):
                given = kind()
                given.value = [1]
                found, _ = fast([given], torch.randn(3).to(device))
                if fn is first:
                    assert found is given
                else:
                    assert found is (given.value if fn is inner else vars(given))
            assert bool(fast.explain().replayed) == replayed, str(fast.explain())


@pytest.mark.parametrize(
    ("made", "number"),
    [
        (lambda t: {t: 1}, lambda found: next(iter(found))),
        (lambda t: {(t, 1): 1}, lambda found: next(iter(found))[0]),
        (lambda t: {t}, lambda found: next(iter(found))),
        (lambda t: frozenset({t}), lambda found: next(iter(found))),
        (lambda t: slice(t), lambda found: found.stop),
        (lambda t: Result(t), lambda found: found.value),
        (lambda t: types.SimpleNamespace(t=t), lambda found: found.t),
        (lambda t: Slotted(t), lambda found: found.value),
    ],
)
def test_floats_in_what_is_made(
    device: str, made: Callable[[float], Any], number: Callable[[Any], Any]
) -> None:
    """They are ordinary ones, and those of the call."""
    fast: Any = reprise.region(lambda x, t: (x * t, made(t)))
    for t in (0.5, 0.5, 0.5, 0.5, 2.5, 2.5, 2.5, 2.5, 3.5, 0.5):
        x = torch.randn(3).to(device)
        value, found = fast(x, t)
        assert_same_bits(value, x * t)
        assert type(number(found)) is float and number(found) == t


# --- Classes that pytree knows ---


@dataclasses.dataclass
class Registered(Output):
    logits: Any = None
    loss: Any = None


_pytree.register_pytree_node(
    Registered,
    lambda of: ([*of.values()], [*of.keys()]),
    lambda values, keys: Registered(**dict(zip(keys, values, strict=True))),
)


def with_another_logits(x: torch.Tensor) -> Any:
    made = Registered(logits=x * 2)
    object.__setattr__(made, "logits", x * 3)
    return made


def with_steps(x: torch.Tensor) -> Any:
    made = Registered(logits=x * 2, loss=x.sum())
    made.steps = 7  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("fn", [with_another_logits, with_steps])
def test_what_a_known_class_holds_beside_its_children(
    device: str, fn: Callable[..., Any]
) -> None:
    report = run(fn, device)
    assert report.replayed == CALLS - 2, str(report)


def test_a_known_class_among_the_arguments(device: str) -> None:
    """What its children do not show counts, too."""

    def scaled(given: Any) -> torch.Tensor:
        return given.logits * given.by + given["logits"]

    fast: Any = reprise.region(scaled)
    for by, other in ((2, False), (3, False), (3, True), (2, False)):
        before = fast.explain().replayed
        for _ in range(CALLS):
            given = Registered(logits=torch.randn(3).to(device))
            given.by = by  # type: ignore[attr-defined]
            if other:
                object.__setattr__(given, "logits", torch.randn(3).to(device))
            assert_same_bits(fast(given), scaled(given))
        assert fast.explain().replayed >= before + CALLS - 2, str(fast.explain())


def test_a_container_that_a_known_class_shares(device: str) -> None:
    shared = [3]

    def made(x: torch.Tensor) -> Any:
        return Registered(logits=x * 2, loss=shared)

    fast: Any = reprise.region(made)
    for _ in range(CALLS):
        assert fast(torch.randn(3).to(device)).loss is shared
    assert fast.explain().replayed == 0, str(fast.explain())


# --- Dictionaries of Python's own that hold more ---


def with_attributes(x: torch.Tensor) -> Any:
    made: Any = collections.OrderedDict(of=x * 2)
    made.by, made.inner = 3, collections.OrderedDict(of={"version": 2})
    made.again = made["of"]
    return made


def test_attributes_of_an_ordered_dict(device: str) -> None:
    fast: Any = reprise.region(with_attributes)
    for _ in range(CALLS):
        x = torch.randn(3).to(device)
        made = fast(x)
        assert_same_bits(made["of"], x * 2)
        assert made.again is made["of"]
        assert (made.by, made.inner) == (3, {"of": {"version": 2}})
        made.inner["of"]["version"] = 5  # nobody else's
    assert fast.explain().replayed == CALLS - 2, str(fast.explain())


def test_the_state_of_a_module(device: str) -> None:
    module = torch.nn.BatchNorm1d(4).to(device).eval()

    def step(x: torch.Tensor) -> Any:
        return module(x), module.state_dict()

    fast: Any = reprise.region(step)
    for _ in range(CALLS):
        x = torch.randn(3, 4).to(device)
        (got, state), (expected, wanted) = fast(x), step(x)
        assert_same_bits([got, *state.values()], [expected, *wanted.values()])
        assert state._metadata == wanted._metadata
    assert fast.explain().replayed >= CALLS - 3, str(fast.explain())


def test_attributes_of_an_ordered_dict_that_is_given(device: str) -> None:
    held: Any = collections.OrderedDict(of=1)
    module: Any = torch.nn.Identity()
    module.settings = collections.OrderedDict(of=1)

    def scaled(given: Any, module: Any, x: torch.Tensor) -> torch.Tensor:
        by = given.by * getattr(held, "by", 1) * getattr(module.settings, "by", 1)
        return x * by

    fast: Any = reprise.region(scaled)
    for own, outer, inner in ((2, 0, 0), (3, 0, 0), (3, 5, 0), (3, 5, 7), (2, 5, 7)):
        given: Any = collections.OrderedDict(of=torch.randn(3).to(device))
        given.by = own
        if outer:
            held.by = outer
        if inner:
            module.settings.by = inner
        before = fast.explain().replayed
        for _ in range(CALLS):
            x = torch.randn(3).to(device)
            assert_same_bits(fast(given, module, x), scaled(given, module, x))
        assert fast.explain().replayed >= before + CALLS - 3, str(fast.explain())


class Text(str):
    """A key that holds more than its characters."""

    by = 1


def test_keys_of_a_defaultdict(device: str) -> None:
    def scaled(table: Any, x: torch.Tensor) -> torch.Tensor:
        return x * next(iter(table)).by

    fast: Any = reprise.region(scaled)
    for by in (2, 3):
        for _ in range(CALLS):
            key = Text("a")
            key.by = by
            x = torch.randn(3).to(device)
            table = collections.defaultdict(int, {key: x})
            assert_same_bits(fast(table, x), x * by)
    assert any("a key that is a" in each for each in fast.explain().reasons)


def test_members_of_an_enum_in_a_defaultdict(device: str) -> None:
    class Mode(enum.Enum):
        FAST = "fast"

        def __init__(self, _: str) -> None:
            self.by = 2.0

    def scaled(table: Any, x: torch.Tensor) -> Any:
        return collections.defaultdict(list, of=x * next(iter(table)).by)

    fast: Any = reprise.region(scaled)
    for by in (2.0, 3.0):
        Mode.FAST.by = by
        for _ in range(CALLS):
            x = torch.randn(3).to(device)
            made = fast(collections.defaultdict(int, {Mode.FAST: x}), x)
            assert_same_bits(made["of"], x * by)
            assert type(made) is collections.defaultdict
            assert made["none"] == []
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_functions_that_a_defaultdict_calls(device: str) -> None:
    def made(x: torch.Tensor) -> Any:
        return collections.defaultdict(lambda: x, of=x * 2)

    fast: Any = reprise.region(made)
    for _ in range(CALLS):
        x = torch.randn(3).to(device)
        got = fast(x)
        assert_same_bits([got["of"], got["none"]], [x * 2, x])
    assert any("default_factory" in each for each in fast.explain().reasons)
