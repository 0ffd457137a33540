"""What regions return is what eager returns, in all that Python can tell; or eager's."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from watching import assert_same_bits

CALLS = 6

Fn = Callable[..., Any]


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Output:
    value: Any
    more: Any = None


def call(fn: Fn, *args: Any, **kwargs: Any) -> tuple[list[Any], reprise.RegionReport]:
    fast: Any = reprise.region(fn)
    with torch.no_grad():
        return [fast(*args, **kwargs) for _ in range(CALLS)], fast.explain()


# --- Identity ---


@pytest.mark.parametrize(
    "given",
    [
        lambda x: [x, x + 1],
        lambda x: (x,),
        lambda x: {"x": x},
        lambda x: Pair(x, [x]),
        lambda x: Output(x),
        lambda x: collections.OrderedDict(a=x),
    ],
)
def test_an_argument_that_is_returned(device: str, given: Fn) -> None:
    held = given(torch.ones(3, device=device))
    found, report = call(lambda a: a, held)
    assert all(each is held for each in found)
    assert report.replayed == CALLS - 2, str(report)


def test_a_part_of_an_argument(device: str) -> None:
    x = torch.ones(3, device=device)
    inner = {"x": [x]}
    found, report = call(
        lambda a, *, b: {"y": a.first[1]["x"], "z": (b.value, a.second + 1)},
        Pair([1, inner], x),
        b=Output([2]),
    )
    assert all(each["y"] is inner["x"] for each in found)
    assert all(each["z"][0] is found[0]["z"][0] for each in found)
    assert_same_bits([found[-1]["z"][1]], [x + 1])
    assert report.replayed == CALLS - 2, str(report)


def test_each_call_gives_its_own_arguments(device: str) -> None:
    fast: Any = reprise.region(lambda a: (a, a[0] * 2))
    for n in range(CALLS):
        given = [torch.full((3,), float(n), device=device)]
        found, twice = fast(given)
        assert found is given
        assert_same_bits([twice], [given[0] * 2])
    assert fast.explain().replayed == CALLS - 2, str(fast.explain())


def test_a_container_that_is_given_twice(device: str) -> None:
    """Of another call's arguments it may be two."""
    fast: Any = reprise.region(lambda a, b: (a, a[0] + b[0]))
    for n in range(2 * CALLS):
        given = [torch.full((3,), float(n), device=device)]
        other = given if n < CALLS else [given[0] * 2]
        assert fast(given, other)[0] is given
    assert "container that is among the arguments twice" in str(fast.explain())


def test_tensors_that_are_returned_twice(device: str) -> None:
    x = torch.ones(3, device=device)

    def fn(x: torch.Tensor) -> Any:
        y = x * 2
        return y, {"y": y, "x": x}

    found, report = call(fn, x)
    assert all(a is b["y"] and b["x"] is x for a, b in found)
    assert report.replayed == CALLS - 2, str(report)


def twice(x: torch.Tensor) -> Any:
    made = [x * 2]
    return made, made


def in_two_places(x: torch.Tensor) -> Any:
    made = (x * 2,)
    return {"a": made, "b": [made]}


@pytest.mark.parametrize("fn", [twice, in_two_places])
def test_containers_that_are_returned_twice(device: str, fn: Fn) -> None:
    found, report = call(fn, torch.ones(3, device=device))
    for each in found:
        assert each[0] is each[1] if fn is twice else each["a"] is each["b"][0]
    assert "one container in two places" in str(report)


class Keeps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = [torch.ones(3)]
        self.inside = {"kept": Output([2])}

    def forward(self, x: torch.Tensor, which: str) -> Any:
        if which == "list":
            return self.kept
        if which == "inner":
            return x + 1, self.inside["kept"].value
        return self.inside["kept"]


@pytest.mark.parametrize("which", ["list", "inner", "dataclass"])
def test_a_container_that_the_module_keeps(device: str, which: str) -> None:
    net = Keeps().to(device)
    found, report = call(net, torch.ones(3, device=device), which)
    for each in found:
        kept = each[1] if which == "inner" else each
        assert any(
            kept is own
            for own in (net.kept, net.inside["kept"], net.inside["kept"].value)
        )
    assert "something else holds" in str(report)


def test_what_holds_itself(device: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        made: list[Any] = [x]
        made.append(made)
        return made

    found, _ = call(fn, torch.ones(3, device=device))
    assert all(each[1] is each for each in found)


# --- Types and attributes ---


@pytest.mark.parametrize(
    "make",
    [
        lambda x: nn.Parameter(x * 2, requires_grad=False),
        lambda x: nn.Buffer(x * 2),
        lambda x: [{"a": nn.Parameter(x * 2)}],
    ],
)
def test_parameters_that_are_made(device: str, make: Fn) -> None:
    x = torch.ones(3, device=device)
    found, report = call(make, x)

    def of(value: Any) -> torch.Tensor:
        tensor = value[0]["a"] if isinstance(value, list) else value
        assert isinstance(tensor, torch.Tensor)
        return tensor

    expected = of(make(x))
    for each in found:
        assert type(of(each)) is type(expected)
        assert of(each).__dict__.keys() == expected.__dict__.keys()
        assert isinstance(of(each), nn.Parameter) == isinstance(expected, nn.Parameter)
        assert isinstance(of(each), nn.Buffer) == isinstance(expected, nn.Buffer)
    assert report.replayed == 0, str(report)


def test_parameters_that_were_there(device: str) -> None:
    net = nn.Linear(3, 3).to(device)
    given = nn.Parameter(torch.ones(3, device=device))
    found, report = call(lambda p: (p, net.weight, net(p)), given)
    assert all(p is given and w is net.weight for p, w, _ in found)
    assert report.replayed >= CALLS - 3, str(report)


def marked(x: torch.Tensor) -> torch.Tensor:
    made: Any = x * 2
    made.mark = 1
    return made  # type: ignore[no-any-return]


def test_attributes_of_results(device: str) -> None:
    found, report = call(marked, torch.ones(3, device=device))
    assert all(each.mark == 1 for each in found)
    assert "sets attributes of a tensor that it returns" in str(report)


def test_attributes_of_arguments(device: str) -> None:
    def mark(x: Any) -> torch.Tensor:
        x.mark = getattr(x, "mark", 0) + 1
        return x * 2

    x: Any = torch.ones(3, device=device)
    _, report = call(mark, x)
    assert x.mark == CALLS
    assert "sets attributes of a tensor among the arguments" in str(report)


# --- Numbers ---


def by_type(x: torch.Tensor, t: float) -> torch.Tensor:
    return x * t if type(t) is float else x * 100


def by_class(x: torch.Tensor, t: float) -> torch.Tensor:
    return x * t if t.__class__ is float else x * 100


KINDS = (float, int)


def is_number(value: Any) -> bool:
    return type(value) in KINDS


def by_helper(x: torch.Tensor, t: float) -> torch.Tensor:
    return x * t if is_number(t) else x * 100


def by_container(x: torch.Tensor, t: float) -> torch.Tensor:
    return x * t if is_float((t,)) else x * 100


def is_float(values: tuple[Any, ...]) -> bool:
    return type(values[0]) is float


def by_table(x: torch.Tensor, t: float) -> torch.Tensor:
    return {float: torch.mul}[type(t)](x, t)  # type: ignore[index]


@pytest.mark.parametrize("fn", [by_type, by_class, by_helper, by_container, by_table])
@pytest.mark.parametrize("again", [True, False])
def test_floats_that_are_told_apart(device: str, fn: Fn, again: bool) -> None:
    """Recorded calls are given ordinary floats, and each value is a variant."""
    fast: Any = reprise.region(fn)
    x = torch.ones(3, device=device)
    for n in range(12):
        t = 0.5 if again else 0.5 + n
        assert_same_bits([fast(x, t)], [fn(x, t)])
    assert (fast.explain().replayed > 0) == again, str(fast.explain())


def test_floats_that_are_not(device: str) -> None:
    """One of the two first recordings tells whether Python computes with a number."""

    def fn(x: torch.Tensor, t: float, u: float) -> torch.Tensor:
        return x * t if u > 0 else x + t

    fast: Any = reprise.region(fn)
    x = torch.ones(3, device=device)
    for n in range(12):
        assert_same_bits([fast(x, 0.1 + n, 1.0)], [fn(x, 0.1 + n, 1.0)])
    assert fast.explain().replayed == 10, str(fast.explain())
    assert_same_bits([fast(x, 0.5, -1.0)], [fn(x, 0.5, -1.0)])
    for n in range(12):
        assert_same_bits([fast(x, 0.1, 1.0 + n)], [fn(x, 0.1, 1.0 + n)])


def resized(x: torch.Tensor, t: float) -> torch.Tensor:
    return functional.interpolate(x[None], scale_factor=t)


def resized_both_ways(x: torch.Tensor, t: float) -> torch.Tensor:
    return functional.interpolate(x[None, None], scale_factor=(t, 2.0), mode="bilinear")


def attended(x: torch.Tensor, t: float) -> torch.Tensor:
    """By the square root of its scale, which may be the scale itself."""
    return functional.scaled_dot_product_attention(x[None], x[None], x[None], scale=t)


def alike(x: torch.Tensor, t: float) -> torch.Tensor:
    return functional.cosine_similarity(x, x + 1, eps=t)


@pytest.mark.parametrize(
    ("fn", "same", "others"),
    [
        (resized, (0.5, 0.6), (0.3, 1.0, 0.5)),
        (resized_both_ways, (0.5, 0.6), (0.3, 1.0, 0.5)),
        (attended, (1.0, 0.0), (0.25, 2.0)),
        (alike, (0.5, 0.6), (0.7, -1.0, 0.5)),
    ],
)
def test_floats_by_which_operators_decide(
    device: str, fn: Fn, same: tuple[float, ...], others: tuple[float, ...]
) -> None:
    """An operator that is made of others goes by them: sizes, other numbers, errors."""

    def result(by: Any, t: float) -> Any:
        try:
            return by(x, t)
        except RuntimeError as error:
            return str(error)

    fast: Any = reprise.region(fn)
    x = torch.randn(4, 4, device=device)
    with torch.no_grad():
        for t in [*(t for t in same for _ in range(4)), *others, same[0]]:
            found, expected = result(fast, t), result(fn, t)
            if isinstance(expected, str):
                assert found == expected
            else:
                assert_same_bits([found], [expected])
    assert fast.explain().replayed > 0, str(fast.explain())


def test_floats_that_operators_hand_on(device: str) -> None:
    def fn(x: torch.Tensor, t: float) -> torch.Tensor:
        return torch.where(x > 0, x.clip(max=t), t)

    fast: Any = reprise.region(fn)
    x = torch.randn(4, 4, device=device)
    for n in range(12):
        assert_same_bits([fast(x, 0.1 * n)], [fn(x, 0.1 * n)])
    assert fast.explain().replayed >= 8, str(fast.explain())


@pytest.mark.parametrize(
    "make", [Output, lambda t: Pair(t, [t]), lambda t: {"t": (t,)}]
)
def test_floats_that_are_returned_are_ordinary(device: str, make: Fn) -> None:
    found, _ = call(lambda x, t: (x * t, make(t)), torch.ones(3, device=device), 0.5)
    for _, each in found:
        assert each == make(0.5)
        held = torch.utils._pytree.tree_leaves(
            each.value if isinstance(each, Output) else each
        )
        assert all(type(number) is float for number in held)


class Slot:
    __slots__ = ("t",)


class Holder:
    def __init__(self) -> None:
        self.t = 0.5
        self.list = [0.5]
        self.dict = {"t": 0.5}
        self.slot = Slot()
        self.slot.t = 0.5

    def held(self) -> list[Any]:
        return [self.t, self.list[0], self.dict["t"], self.slot.t]


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("negative", [True, False])
def test_floats_that_are_stored(device: str, which: int, negative: bool) -> None:
    """Elsewhere, too, they are ordinary; and no other value is replayed."""
    holder = Holder()
    in_closure = 0.5

    def fn(x: torch.Tensor, t: float) -> torch.Tensor:
        nonlocal in_closure
        kept = -t if negative else t
        if which == 0:
            holder.t = kept
        elif which == 1:
            holder.list[0] = kept
        elif which == 2:
            holder.dict["t"] = kept
        elif which == 3:
            holder.slot.t = kept
        else:
            in_closure = kept
        return x * t

    fast: Any = reprise.region(fn)
    x = torch.ones(3, device=device)
    for n in range(2 * CALLS):
        t = 0.5 if n < CALLS else 0.5 + n
        assert_same_bits([fast(x, t)], [x * t])
        found = [*holder.held(), in_closure][which]
        assert type(found) is float and found == (-t if negative else t)
