"""Whole programs whose control flow, not their ops, is out of the ordinary."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import models
import pytest
import reprise
import torch
from hazards import PASSES, same_as_eager
from torch import nn, optim

Wait = Callable[[], object]


def _inputs(device: str, width: int = 32) -> list[torch.Tensor]:
    with reprise.session(device, enabled=False):  # no pass of its own
        torch.manual_seed(7)
        return [torch.randn(4, width, device=device) for _ in range(PASSES)]


def _train(
    device: str, make: Callable[..., optim.Optimizer], wait: Wait
) -> list[torch.Tensor]:
    inputs = _inputs(device)
    model = models.mlp().to(device)
    optimizer = make(model.parameters())
    kept = []
    for number, x in enumerate(inputs):

        def loss(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            value = model(x).pow(2).mean()
            value.backward()
            return value

        value = optimizer.step(loss)
        kept += [value.detach(), *(weight.grad for weight in model.parameters())]
        if number % 4 == 0:
            kept += [weight.detach().clone() for weight in model.parameters()]
        wait()
    return kept


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True, fused=True),
        functools.partial(optim.Adam, lr=0.01, foreach=True, amsgrad=True),
        functools.partial(optim.NAdam, foreach=False),
        functools.partial(optim.RAdam, foreach=True),
        functools.partial(optim.Rprop, foreach=False),
        functools.partial(optim.ASGD, foreach=True),
        functools.partial(optim.LBFGS, lr=0.1, max_iter=3),
    ],
    ids=lambda make: make.func.__name__,
)
def test_optimizers(device: str, make: Callable[..., optim.Optimizer]) -> None:
    same_as_eager(device, functools.partial(_train, device, make))


@pytest.mark.parametrize("make", ["tensor", "FloatTensor", "new_tensor", "as_tensor"])
def test_tensors_that_are_made_of_numbers(device: str, make: str) -> None:
    """What torch writes into them, behind the op that gives them memory, is no op."""
    weight = torch.randn(64, 64, device=device)

    def made(number: int) -> torch.Tensor:
        values = [[float(number % 7)] * 64] * 64
        if make == "new_tensor":
            return weight.new_tensor(values)
        if make == "FloatTensor":
            return torch.FloatTensor(values).to(device)
        function = torch.tensor if make == "tensor" else torch.as_tensor
        return function(values, device=device)

    def run(wait: Wait) -> list[torch.Tensor]:
        torch.manual_seed(3)
        kept = []
        for number, x in enumerate(_inputs(device, 64)):
            given = made(number)
            h = (x @ weight).relu()
            h = (h + given[:4]).tanh() * 0.5
            kept.append(h @ given)
            wait()
        return kept

    same_as_eager(device, run)


def test_gradients_of_gradients(device: str) -> None:
    def run(wait: Wait) -> list[torch.Tensor]:
        inputs = _inputs(device)
        model = models.mlp().to(device)
        steps = optim.SGD(model.parameters(), lr=0.1)
        kept = []
        for x in inputs:
            x.requires_grad_()
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            penalty = (slope.norm(2, 1) - 1).pow(2).mean()
            steps.zero_grad()
            penalty.backward()
            steps.step()
            kept += [slope.detach(), penalty.detach()]
            wait()
        return kept

    same_as_eager(device, run)


def test_hooks_that_come_and_go_in_mid_pass(device: str) -> None:
    def run(wait: Wait) -> list[torch.Tensor]:
        inputs = _inputs(device)
        model = models.mlp().to(device)
        first, last = model[0], model[-1]
        assert isinstance(first, nn.Module)
        kept = []
        for number, x in enumerate(inputs):
            x.requires_grad_()
            handles = []
            if number % 6 > 3:
                handles.append(last.register_forward_hook(lambda m, i, o: o * 1.5))
                handles.append(
                    last.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0.5,))
                )
            if number % 6 == 5:  # it takes the others away before they are called

                def leave(*_: Any, handles: Any = tuple(handles)) -> None:
                    for handle in handles:
                        handle.remove()

                handles.append(first.register_forward_hook(leave))
            y = model(x)
            hook = y.register_hook(lambda gradient: gradient * 3)
            if number % 4 == 1:
                hook.remove()
            y.sum().backward()
            kept += [y.detach(), x.grad]
            for handle in handles:
                handle.remove()
            wait()
        return kept

    same_as_eager(device, run)


def test_passes_of_generators_that_take_turns(device: str) -> None:
    """Some are left half way, and finished a few passes later."""

    def run(wait: Wait) -> list[torch.Tensor]:
        inputs = _inputs(device)
        model = models.mlp().to(device)

        def walk(x: torch.Tensor) -> Iterator[torch.Tensor]:
            for layer in model:
                x = layer(x)
                yield x

        kept: list[torch.Tensor] = []
        left: Iterator[Any] = iter(())
        for number, x in enumerate(inputs):
            both = zip(walk(x), walk(x.neg()), strict=True)
            if number % 10 == 9:
                kept += itertools.chain(*itertools.islice(both, 2))
                left = both
            else:
                kept += itertools.chain(*left, *both)
                left = iter(())
            wait()
        return kept

    with torch.no_grad():
        same_as_eager(device, run)


def test_coroutines_that_take_turns(device: str) -> None:
    def run(wait: Wait) -> list[torch.Tensor]:
        inputs = _inputs(device)
        pair = [models.mlp().to(device), models.mlp(layers=3).to(device)]

        async def walk(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
            for layer in model:
                x = layer(x)
                await asyncio.sleep(0)
            return x

        async def program() -> list[torch.Tensor]:
            kept: list[torch.Tensor] = []
            for number, x in enumerate(inputs):
                models_now = pair if number % 10 < 8 else pair[:1]
                kept += await asyncio.gather(*(walk(model, x) for model in models_now))
                wait()
            return kept

        return asyncio.run(program())

    with torch.no_grad():
        same_as_eager(device, run)


class _Cycle:
    """Keeps itself and a tensor alive until it is collected, and then computes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.itself = tensor, self

    def __del__(self) -> None:
        (self.tensor * 2).add_(1)


def test_what_is_collected_computes(device: str) -> None:
    """Finalizers and callbacks of weak references run ops between any two ops."""

    def run(wait: Wait) -> list[torch.Tensor]:
        inputs = _inputs(device)
        model = models.mlp().to(device)
        kept = []
        gc.collect()
        gc.disable()  # or it would depend on more than the program when they run
        try:
            for number, x in enumerate(inputs):
                h = model[:2](x)
                weakref.finalize(
                    h, lambda n: kept.append(torch.full((3,), n * 2.0)), number
                )
                if number > 20 and number % 3 == 0:
                    _Cycle(h)
                h = model[2:4](h)
                if number % 5 == 4:
                    gc.collect()
                kept.append(model[4:](h))
                wait()
        finally:
            gc.enable()
            gc.collect()
        return kept

    with torch.no_grad():
        same_as_eager(device, run)
