"""What a callable looks at, and gives to no operator: another one is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

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

# How the callable leads to the tensor.
WAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "attribute": lambda seen: (lambda of: of.held, Holder(held=seen)),
    "list": lambda seen: (lambda of: of.held[0], Holder(held=[seen])),
    "dict": lambda seen: (lambda of: of.held["a"], Holder(held={"a": seen})),
    "closure": lambda seen: (lambda of: seen, 0),
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
@pytest.mark.parametrize("buffer", [False, True])
def test_module_that_is_looked_at(look: str, buffer: bool) -> None:
    looks, change = LOOKS[look]

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if buffer:
                self.register_buffer("held", seen())
            else:
                self.held = nn.Parameter(seen(), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if looks(self.held) else x * 3

    net = Looking()
    check_changes(net, (torch.rand(2),), lambda: change(net.held))


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
    assert fast.explain().replayed > 2 * CALLS, str(fast.explain())  # type: ignore[attr-defined]


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
    assert fast.explain().replayed > CALLS, str(fast.explain())  # type: ignore[attr-defined]


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
