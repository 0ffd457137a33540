"""A callable that writes tensors from outside by their `.data`, as in eager: nobody counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, rest, watched

CALLS = 10


def plain(fn: Any) -> Any:
    """As it is."""
    return fn


class Nets:
    """A network that learns, and one that follows it."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(4, 4, device=device)
        self.target = nn.Linear(4, 4, device=device)

    def learned(self, x: torch.Tensor) -> torch.Tensor:
        """Gradients of a loss."""
        self.net.zero_grad()
        loss = (self.net(x) - self.target(x).detach()).square().mean()
        loss.backward()
        return loss.detach()

    def parameters(self) -> list[Any]:
        """Of both."""
        return [*self.net.parameters(), *self.target.parameters()]


def descends(nets: Nets, x: torch.Tensor) -> torch.Tensor:
    loss = nets.learned(x)
    for p in nets.net.parameters():
        p.data.add_(p.grad, alpha=-0.1)
    return loss


def follows(nets: Nets, x: torch.Tensor) -> torch.Tensor:
    loss = nets.learned(x)
    pairs = zip(nets.target.parameters(), nets.net.parameters(), strict=True)
    with torch.no_grad():
        for old, new in pairs:
            old.data.copy_(0.1 * new.data + 0.9 * old.data)
            new.add_(new.grad, alpha=-0.1)  # which is counted
    return loss


def all_at_once(nets: Nets, x: torch.Tensor) -> torch.Tensor:
    loss = nets.learned(x)
    data = [p.data for p in nets.net.parameters()]
    torch._foreach_add_(data, [p.grad for p in nets.net.parameters()], alpha=-0.1)
    return loss


def counts(data: torch.Tensor) -> None:
    data.add_(1)
    torch.autograd.graph.increment_version(data)


LIBRARY = torch.library.Library("reprise_test_region_data", "DEF")
LIBRARY.define("counts(Tensor(a!) data) -> ()")
LIBRARY.impl("counts", counts, "CPU")
LIBRARY.impl("counts", counts, "CUDA")


def by_a_kernel_that_counts(nets: Nets, x: torch.Tensor) -> torch.Tensor:
    """As torch's kernels of lists do on a GPU."""
    loss = nets.learned(x)
    torch.ops.reprise_test_region_data.counts(nets.net.weight.data)
    return loss


def reads_it_first(nets: Nets, x: torch.Tensor) -> torch.Tensor:
    loss = nets.learned(x)
    data = nets.net.weight.data
    larger = data * 2
    data.add_(larger, alpha=-0.1)
    return loss + larger.sum()


def with_others(nets: Nets, x: torch.Tensor) -> torch.Tensor:
    loss = nets.learned(x)
    with torch.no_grad():
        torch._foreach_mul_([nets.net.weight.data, nets.net.bias], 0.9)
    return loss


def of_an_argument(_: Nets, x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    x.data.mul_(2)
    return y


Step = Callable[[Nets, torch.Tensor], torch.Tensor]


def left(
    wrap: Callable[[Any], Any],
    step: Step,
    device: str,
    wait: Callable[[], Any] = lambda: None,
) -> tuple[Any, list[torch.Tensor]]:
    """What calls give and leave, counts of writes among it."""
    nets = Nets(device)
    fn = wrap(lambda x: step(nets, x))
    found = []
    for _ in range(CALLS):
        wait()
        x = torch.randn(2, 4, device=device)
        # A graph that has saved what the call writes, without being told of it.
        before = nets.net.weight.square().sum() + nets.target.weight.square().sum()
        found += [fn(x), x]
        if step is not with_others and step is not follows:
            found += torch.autograd.grad(before, nets.net.weight)
        found += [p.detach().clone() for p in nets.parameters()]
        versions = [each._version for each in (x, *nets.parameters())]
        found.append(torch.tensor(versions))
    return fn, found


REPLAYED = (
    descends,
    follows,
    all_at_once,
    by_a_kernel_that_counts,
    reads_it_first,
    of_an_argument,
)


@pytest.mark.parametrize("step", REPLAYED)
def test_writes_by_data_are_replayed(step: Step, device: str) -> None:
    fn, found = left(reprise.region, step, device)
    _, expected = left(plain, step, device)
    assert_same_bits(found, expected)
    assert fn.explain().replayed >= CALLS - 3, str(fn.explain())


@pytest.mark.parametrize("step", REPLAYED)
def test_writes_by_data_are_replayed_by_plans(step: Step, device: str) -> None:
    _, expected = left(plain, step, device)
    with watched(device) as session:
        fn, found = left(reprise.region, step, device, lambda: rest(session))
    assert_same_bits(found, expected)
    assert fn.explain().replayed >= CALLS - 3, str(fn.explain())


def test_one_write_by_data_and_by_the_tensor_is_refused(device: str) -> None:
    fn, found = left(reprise.region, with_others, device)
    _, expected = left(plain, with_others, device)
    assert_same_bits(found, expected)
    report = fn.explain()
    assert report.replayed == 0
    assert "is written by its .data together with" in " ".join(report.reasons)


def test_data_that_stays_is_refused(device: str) -> None:
    """Its own count of writes can be read later."""
    weight = torch.randn(4, device=device)
    kept = weight.data

    def write(x: torch.Tensor) -> torch.Tensor:
        y = x * weight
        kept.add_(1)
        return y

    fn = reprise.region(write)
    own = weight.clone()
    for call in range(CALLS):
        x = torch.randn(4, device=device)
        assert_same_bits(fn(x), x * own)
        own += 1
        assert kept._version == call + 1 and weight._version == 0
    assert fn.explain().replayed == 0
    assert "two tensors from outside lie in one place" in " ".join(fn.explain().reasons)


def _zeroes_a_row(weight: torch.Tensor) -> None:
    weight.data[0].zero_()


def _sets_a_row(weight: torch.Tensor) -> None:
    weight.data[0] = 0


def _scales_its_transpose(weight: torch.Tensor) -> None:
    weight.data.t().mul_(0.5)


def _writes_beside_a_view(weight: torch.Tensor) -> None:
    data = weight.data
    view = data.view(-1)
    data.mul_(0.5)
    view.add_(1)


@pytest.mark.parametrize(
    "write", [_zeroes_a_row, _sets_a_row, _scales_its_transpose, _writes_beside_a_view]
)
def test_views_of_data_are_not_counted(
    write: Callable[[torch.Tensor], None], device: str
) -> None:
    """Two forward passes before one backward pass: it raises if the weight has been counted."""

    def made() -> tuple[torch.Tensor, Any]:
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(4, 4, device=device))

        def model(x: torch.Tensor) -> torch.Tensor:
            y = (x @ weight).tanh() @ weight
            write(weight)
            return y

        return weight, model

    (weight, of_region), (twin, model) = made(), made()
    fast = reprise.region(of_region)
    for _ in range(CALLS):
        weight.grad = twin.grad = None
        inputs = [torch.randn(2, 4, device=device) for _ in range(2)]
        sum(fast(x).sum() for x in inputs).backward()  # type: ignore[union-attr]
        sum(model(x).sum() for x in inputs).backward()  # type: ignore[union-attr]
        assert weight._version == twin._version == 0
        assert_same_bits([weight, weight.grad], [twin, twin.grad])
