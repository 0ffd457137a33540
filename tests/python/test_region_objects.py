"""Objects among the arguments of regions: what they hold is taken like arguments."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from reprise._region_recorder import Recorder
from watching import assert_same_bits, counted

CALLS = 12


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


class Layer:
    scale = 2.0

    def __init__(self, device: str, by: float = 1.0) -> None:
        self.sums = torch.rand(4, device=device)
        self.by = by


class Cache:
    def __init__(self, device: str, layers: int = 2) -> None:
        self.layers = [Layer(device) for _ in range(layers)]
        self.names = {"first": 0}


def accumulate(x: torch.Tensor, cache: Any) -> torch.Tensor:
    for layer in cache.layers:
        layer.sums.add_(x, alpha=layer.by)
        x = x + layer.sums * layer.scale
    return x + cache.names["first"]


def twin(cache: Any) -> Any:
    """Another one that holds the same."""
    other = Cache("cpu", 0)
    other.names = dict(cache.names)
    copies: dict[int, torch.Tensor] = {}
    for layer in cache.layers:
        made = Layer("cpu", layer.by)
        made.sums = copies.setdefault(id(layer.sums), layer.sums.clone())
        other.layers.append(made)
    return other


def check(
    fast: Any, make: Callable[[], Any], device: str, calls: int = CALLS
) -> tuple[int, int]:
    """Each call is with an object of its own. Calls that were replayed and recorded."""
    before = fast.explain()
    for _ in range(calls):
        ours = make()
        theirs = twin(ours)
        x = torch.rand(4, device=device)
        assert_same_bits(fast(x, ours), accumulate(x, theirs))
        for mine, other in zip(ours.layers, theirs.layers, strict=True):
            assert_same_bits(mine.sums, other.sums)
    now = fast.explain()
    return now.replayed - before.replayed, now.recorded - before.recorded


def test_objects_that_never_come_again(device: str) -> None:
    """They are of one form: what was learned with one is good for others."""
    fast: Any = reprise.region(accumulate)
    replayed, recorded = check(fast, lambda: Cache(device), device, 100)
    assert replayed >= 96 and recorded <= 4, str(fast.explain())
    assert len(fast._objects) <= 16
    made = Cache(device)
    fast(torch.rand(4, device=device), made)
    gone = weakref.ref(made), weakref.ref(made.layers[0].sums)
    del made
    gc.collect()
    assert gone[0]() is None and gone[1]() is None and not fast._objects


def test_objects_that_are_made_in_their_first_call(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text's cache: that call is the program's, and soon no recording, either."""
    weight = torch.rand(4, device=device)

    class Lazy:
        sums: torch.Tensor | None = None

    def step(x: torch.Tensor, cache: Any) -> torch.Tensor:
        if cache.sums is None:
            cache.sums = torch.zeros_like(x)
        cache.sums.add_(x * weight)
        return cache.sums.cos() + x

    recordings = counted(monkeypatch, Recorder, "record")
    fast: Any = reprise.region(step)
    texts, tokens = 12, 6
    for text in range(texts):
        ours, theirs = Lazy(), Lazy()
        before, replayed = len(recordings), fast.explain().replayed
        for _ in range(tokens):
            x = torch.rand(4, device=device)
            assert_same_bits(fast(x, ours), step(x, theirs))
            assert_same_bits(ours.sums, theirs.sums)
        if text >= 6:
            assert len(recordings) == before
            assert fast.explain().replayed == replayed + tokens - 1
    reasons = fast.explain().reasons
    assert sum(n for why, (n, _) in reasons.items() if "it changes" in why) == texts


@pytest.mark.parametrize("kind", ["object", "tensors"])
@pytest.mark.parametrize("how", ["append", "insert", "replace", "instead"])
@pytest.mark.parametrize("calls", [1, 6])
def test_an_argument_that_an_optimizer_has_now(
    device: str, calls: int, how: str, kind: str
) -> None:
    """Its step is not that of another argument which comes in its place."""

    class Holder:
        def __init__(self, w: torch.Tensor, x: torch.Tensor) -> None:
            self.w = w
            self.x = x

    def program(as_region: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = lambda: torch.randn(4).to(device)  # noqa: E731
        own = [made().requires_grad_() for _ in range(3)]
        optimizer = torch.optim.SGD(own, lr=0.1)

        def step(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            loss = sum((each * x).sum() for each in own) + (w * w * x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        def of(holder: Any) -> torch.Tensor:
            return step(holder.w, holder.x)

        function: Any = of if kind == "object" else step
        fast = reprise.region(function) if as_region else function
        holders = [Holder(made().requires_grad_(), made()) for _ in range(10)]

        def call(holder: Holder) -> torch.Tensor:
            return fast(holder) if kind == "object" else fast(holder.w, holder.x)

        with torch.enable_grad():
            found = [call(holders[0]) for _ in range(calls)]
            for holder in holders:
                holder.w.grad = None
            group = optimizer.param_groups[0]
            if how == "append":
                group["params"].append(holders[5].w)
            elif how == "insert":
                group["params"].insert(1, holders[5].w)
            elif how == "replace":
                group["params"] = [*group["params"], holders[5].w]
            else:
                group["params"][1] = holders[5].w
            found += [call(holders[5]) for _ in range(5)]
            for holder in holders[6:]:
                found.append(call(holder))
        return [each.detach() for each in (*found, *own, *(h.w for h in holders))]

    ours = program(True)
    with reprise.session(device, enabled=False):
        theirs = program(False)
    for mine, other in zip(ours, theirs, strict=True):
        assert_same_bits(mine, other)


def test_an_argument_that_a_long_list_has_now(device: str) -> None:
    weights = [torch.rand(4, device=device) for _ in range(100)]

    def scaled(x: torch.Tensor, cache: Any) -> torch.Tensor:
        return cache.layers[0].sums * x + weights[80]

    fast: Any = reprise.region(scaled)
    caches = [Cache(device, 1) for _ in range(8)]
    x = torch.rand(4, device=device)
    for _ in range(2):
        assert_same_bits(fast(x, caches[0]), scaled(x, caches[0]))
    weights[80] = caches[1].layers[0].sums
    for cache in (*caches[1:2] * 5, *caches[2:]):
        assert_same_bits(fast(x, cache), scaled(x, cache))


def test_another_number_is_another_form(device: str) -> None:
    fast: Any = reprise.region(accumulate)

    def made(by: float, first: int) -> Cache:
        cache = Cache(device)
        cache.layers[1].by = by
        cache.names["first"] = first
        return cache

    for by, first in ((1.0, 0), (3.0, 0), (3.0, 1), (1.0, 0)):
        check(fast, functools.partial(made, by, first), device)
        replayed, _ = check(fast, functools.partial(made, by, first), device)
        assert replayed == CALLS, str(fast.explain())


def test_shared_tensors_are_another_form(device: str) -> None:
    fast: Any = reprise.region(accumulate)

    def made(shared: bool) -> Cache:
        cache = Cache(device)
        if shared:
            cache.layers[1].sums = cache.layers[0].sums
        return cache

    for shared in (False, True, False):
        check(fast, functools.partial(made, shared), device)
        replayed, _ = check(fast, functools.partial(made, shared), device)
        assert replayed == CALLS, str(fast.explain())


def test_tensor_that_is_another_in_each_call(device: str) -> None:
    fast: Any = reprise.region(accumulate)
    cache = Cache(device)

    def made() -> Cache:
        cache.layers[0].sums = torch.rand(4, device=device)
        return cache

    check(fast, made, device)
    replayed, _ = check(fast, made, device)
    assert replayed == CALLS, str(fast.explain())


def test_other_sizes_and_other_counts(device: str) -> None:
    fast: Any = reprise.region(accumulate)
    for layers in (1, 3, 2):
        check(fast, lambda layers=layers: Cache(device, layers), device)  # type: ignore[misc]
        replayed, _ = check(fast, lambda layers=layers: Cache(device, layers), device)  # type: ignore[misc]
        assert replayed == CALLS, str(fast.explain())


def test_attribute_of_their_class(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed between two objects: what was learned with the first one is not so."""
    fast: Any = reprise.region(accumulate)
    for scale in (2.0, 5.0, 2.0):
        monkeypatch.setattr(Layer, "scale", scale)
        check(fast, lambda: Cache(device), device)
        replayed, _ = check(fast, lambda: Cache(device), device)
        assert replayed == CALLS, str(fast.explain())


class Stepped(Layer):
    def step(self, x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR[0] + self.sums


FACTOR = [2.0]


def test_method_of_their_class(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The callable leads through it: what it names is looked at, too."""

    def through(x: torch.Tensor, layer: Stepped) -> torch.Tensor:
        return layer.step(x)

    fast: Any = reprise.region(through)
    for factor in (2.0, 7.0):
        monkeypatch.setitem(globals(), "FACTOR", [factor])
        for _ in range(2 * CALLS):
            x, layer = torch.rand(4, device=device), Stepped(device)
            before = fast.explain().replayed
            assert_same_bits(fast(x, layer), through(x, layer))
        assert fast.explain().replayed == before + 1, str(fast.explain())


def test_a_tensor_that_is_an_argument_too(device: str) -> None:
    fast: Any = reprise.region(accumulate)
    for _ in range(2):
        for _ in range(CALLS):
            ours = Cache(device)
            theirs = twin(ours)
            before = fast.explain().replayed
            expected = accumulate(theirs.layers[1].sums, theirs)
            assert_same_bits(fast(ours.layers[1].sums, ours), expected)
        assert fast.explain().replayed == before + 1, str(fast.explain())


def test_objects_that_do_more_than_hold(device: str) -> None:
    """Code that is found in them is of each one: such objects are learned one by one."""
    fast: Any = reprise.region(accumulate)

    def made() -> Cache:
        cache = Cache(device)
        cache.names["act"] = lambda x: x  # type: ignore[assignment]
        return cache

    replayed, recorded = check(fast, made, device, 100)
    assert replayed == 0 and recorded < 60
    assert "another Cache in each call" in str(fast.explain())
    one = made()
    check(fast, lambda: one, device)
    assert check(fast, lambda: one, device)[0] >= CALLS - 2, str(fast.explain())


class Pair:
    def __init__(self, first: list[int], second: list[int]) -> None:
        self.first, self.second = first, second


def test_an_equal_list_in_the_place_of_the_same(device: str) -> None:
    def asks(x: torch.Tensor, pair: Pair) -> torch.Tensor:
        return x * 2 if pair.first is pair.second else x * 3

    fast: Any = reprise.region(asks)
    same = [1]
    pair = Pair(same, same)
    for second in (same, [1], same):
        pair.second = second
        before = fast.explain().replayed
        for _ in range(CALLS):
            x = torch.rand(4, device=device)
            assert_same_bits(fast(x, pair), asks(x, pair))
        assert fast.explain().replayed > before, str(fast.explain())


def test_new_objects_that_nobody_can_look_into(device: str) -> None:
    """What they hold is the reason, however many there are."""

    class Batch:
        def __init__(self) -> None:
            self.x = torch.rand(4, device=device)
            self.rows = iter([1])

    fast: Any = reprise.region(lambda batch: batch.x * 2)
    for _ in range(40):
        batch = Batch()
        assert_same_bits(fast(batch), batch.x * 2)
    report = fast.explain()
    assert report.replayed == 0
    assert all("Batch.rows, a" in why for why in report.reasons), str(report)
