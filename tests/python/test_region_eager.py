"""Functions that regions run in each call, between pieces that are replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from watching import assert_same_bits

WIDTH = 16
CALLS = 40


class Metadata:
    """What a server sets before each step: Python's, and another one each time."""

    length = 1
    calls = 0


META = Metadata()


@reprise.eager
def attend(q: torch.Tensor, k: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """Reads a number of the device's, and what Python holds."""
    META.calls += 1
    n = META.length
    if (q.sum() > 0).item():
        scale = -scale
    return (q[:, :n] @ k[:, :n].t()).softmax(-1).mul(scale)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(WIDTH, w) for w in (12, 20, 24, 28))
        self.between = nn.ModuleList(nn.Linear(w, WIDTH) for w in (12, 20, 24, 28))
        self.register_buffer("cache", torch.zeros(8, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for inner, outer in zip(self.before, self.between, strict=True):
            x = outer(functional.gelu(inner(x))) + x
            x = attend(x, self.cache, scale=0.5) @ self.cache + x.tanh()
        return x


def beside(
    plain: Callable[..., Any],
    fast: Any,
    device: str,
    session: reprise.Session,
    make: Callable[[int], tuple[Any, ...]],
    calls: int = CALLS,
) -> None:
    """Results and what Python counts are eager's."""
    for call in range(calls):
        META.length = 1 + call % 7
        arguments = make(call)
        before = META.calls
        with reprise.session(device, enabled=False):
            expected = plain(*arguments)
        times = META.calls - before
        found = fast(*arguments)
        assert META.calls - before == 2 * times, call
        assert_same_bits(found, expected, f"call {call}")
        session.wait(60)


def test_a_module_round_a_function(device: str) -> None:
    net = Layers().to(device).eval()
    net.cache.normal_()
    fast: Any = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside(
            net,
            fast,
            device,
            session,
            lambda _: (torch.randn(4, WIDTH, device=device),),
        )
        stats = session.stats()
    report = fast.explain()
    assert report.replayed > CALLS - 8, str(report)
    assert stats.unshown > 0, str(session.explain())


def test_other_forms_are_other_variants(device: str) -> None:
    net = Layers().to(device).eval()
    fast: Any = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        beside(
            net,
            fast,
            device,
            session,
            lambda call: (torch.randn(2 + call % 3, WIDTH, device=device),),
        )
    assert fast.explain().replayed > CALLS // 2
    assert fast.explain().variants == 3


def test_it_writes_arguments_and_gives_several(device: str) -> None:
    """A cache that is written where Python says, as serving engines do."""
    place = {"at": 0}

    @reprise.eager
    def store(cache: torch.Tensor, x: torch.Tensor) -> dict[str, Any]:
        cache[place["at"]].copy_(x[0])
        return {"all": cache, "new": [x * 2, None], "n": 3}

    def make() -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
        cache = torch.zeros(4, WIDTH, device=device)

        def step(x: torch.Tensor) -> Any:
            found = store(cache, x + 1)
            return found["all"].sum() + found["n"], found["new"][0] - 1

        return cache, step

    (ours, fn), (theirs, plain) = make(), make()
    fast: Any = reprise.region(fn)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        for call in range(CALLS):
            place["at"] = call % 4
            x = torch.randn(4, WIDTH, device=device)
            assert_same_bits(fast(x), plain(x), f"call {call}")
            assert_same_bits(ours, theirs)
            assert ours._version == theirs._version
            session.wait(60)
    assert fast.explain().replayed > CALLS - 8, str(fast.explain())


class Holder:
    """A method, which changes its object."""

    def __init__(self, device: str) -> None:
        self.weight = torch.randn(WIDTH, device=device)
        self.state = Metadata()

    @reprise.eager
    def count(self, x: torch.Tensor) -> torch.Tensor:
        self.state.calls += 1
        return x * self.state.calls

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.count(x + self.weight).relu() - self.weight


def test_methods(device: str) -> None:
    holders = [Holder(device) for _ in range(2)]
    for each in holders:
        each.weight.fill_(0.5)
    fast: Any = reprise.region(holders[0].step)
    with torch.no_grad():
        for call in range(CALLS):
            x = torch.randn(4, WIDTH, device=device)
            assert_same_bits(fast(x), holders[1].step(x), f"call {call}")
    assert holders[0].state.calls == CALLS
    assert fast.explain().replayed > CALLS - 8, str(fast.explain())


def test_errors_and_another_form(device: str) -> None:
    what: dict[str, Any] = {"rows": 4, "fails": False}

    @reprise.eager
    def piece(x: torch.Tensor) -> torch.Tensor:
        if what["fails"]:
            raise KeyError("the program's own")
        return x[: what["rows"]] * 2

    fast: Any = reprise.region(lambda x: piece(x + 1) - 1)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for _ in range(8):
            assert_same_bits(fast(x), (x + 1) * 2 - 1)
        assert fast.explain().replayed > 0
        what["fails"] = True
        with pytest.raises(KeyError, match="own"):
            fast(x)
        what["fails"] = False
        assert_same_bits(fast(x), (x + 1) * 2 - 1)
        what["rows"] = 3
        with pytest.raises(RuntimeError, match="piece returns something else"):
            fast(x)


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        (lambda x: x.view(-1), "a view of an argument"),
        (lambda x: [x * 2, iter(())], "something else than tensors"),
    ],
)
def test_what_it_may_not_return(device: str, gives: Any, reason: str) -> None:
    piece = reprise.eager(gives)

    def fn(x: torch.Tensor) -> torch.Tensor:
        found: Any = piece(x + 1)
        return (found if isinstance(found, torch.Tensor) else found[0]) - 1

    fast: Any = reprise.region(fn)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for _ in range(8):
            assert_same_bits(fast(x), fn(x))
    assert fast.explain().replayed == 0
    assert reason in str(fast.explain())


def test_gradients_go_through_it(device: str) -> None:
    """Then it is a part of the region."""
    twice = reprise.eager(lambda x: x * 2)
    layer = nn.Linear(WIDTH, WIDTH).to(device)
    fast: Any = reprise.region(lambda x: twice(layer(x)).sum())
    for _ in range(8):
        x = torch.randn(4, WIDTH, device=device)
        layer.zero_grad()
        fast(x).backward()
        found = [p.grad for p in layer.parameters()]
        layer.zero_grad()
        (layer(x) * 2).sum().backward()
        assert_same_bits(found, [p.grad for p in layer.parameters()])
    assert fast.explain().backward > 0


def test_regions_within_and_samples(device: str) -> None:
    """It may call another region; and each recorded call runs it once."""
    inner: Any = reprise.region(lambda x: (x * 3).relu().sum(-1))
    calls = []

    @reprise.eager
    def piece(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(calls))
        found: torch.Tensor = inner(x) + len(calls) % 2
        return found

    fast: Any = reprise.region(lambda x: piece(x + 1) * 2, check="always")
    sampled: Any = reprise.region(lambda x: piece(x + 1) * 2)
    with torch.no_grad():
        for number in range(CALLS):
            x = torch.randn(4, WIDTH, device=device)
            for of in (fast, sampled):
                before = len(calls)
                found = of(x)
                assert len(calls) == before + 1
                expected = (((x + 1) * 3).relu().sum(-1) + len(calls) % 2) * 2
                assert_same_bits(found, expected, f"call {number}")
    assert fast.explain().samples > 0
    assert sampled.explain().replayed > 0
    assert inner.explain().replayed > 0


def test_reports_name_it(device: str) -> None:
    written = torch.zeros(4, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        written.add_(1)
        return x * x.sum().item()

    fast: Any = reprise.region(fn)
    x = torch.randn(4, device=device)
    for _ in range(6):
        assert_same_bits(fast(x), x * x.sum().item())
    assert "by @reprise.eager" in str(fast.explain())


def test_functions_of_torchscript_stand_in_one(device: str) -> None:
    """They may be fused, so that no operator is seen."""
    with pytest.warns(DeprecationWarning):
        scripted: Any = torch.jit.script(_scaled)
    plain: Any = reprise.region(lambda x: scripted(x + 1) - 1)
    split: Any = reprise.region(lambda x: wrapped(x + 1) - 1)
    wrapped = reprise.eager(lambda x: scripted(x))
    x = torch.randn(4, device=device)
    with torch.no_grad():
        for _ in range(8):
            assert_same_bits(plain(x), _scaled(x + 1) - 1)
            assert_same_bits(split(x), _scaled(x + 1) - 1)
    assert "TorchScript" in str(plain.explain())
    assert split.explain().replayed > 0


def _scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x


def test_outside_of_regions_it_is_the_function(device: str) -> None:
    x = torch.randn(4, WIDTH, device=device)
    assert_same_bits(attend(x, x), attend.__wrapped__(x, x))  # type: ignore[attr-defined]
    assert attend.__name__ == "attend"
    with pytest.raises(TypeError, match="give a callable"):
        reprise.eager(3)  # type: ignore[arg-type]
