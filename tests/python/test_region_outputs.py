"""Regions in training that return several tensors with gradients: a node for each."""

from __future__ import annotations

from typing import Any

import pytest
import reprise
import torch
from test_region_gradients import (
    CALLS,
    REPLAYED,
    WIDTH,
    Block,
    Inputs,
    Tied,
    batch,
    check,
    twice,
)
from torch import nn
from torch.nn import functional
from watching import assert_same_bits


class Model(nn.Module):
    """As those of transformers: a loss, what it is of, and what is inside."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(2))
        self.head = nn.Linear(WIDTH, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
        hidden = [self.embed(ids)]
        for block in self.blocks:
            hidden.append(block(hidden[-1]))
        logits = self.head(hidden[-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits, "hidden": tuple(hidden)}


def text(device: str) -> Inputs:
    return torch.randint(12, (2, 5), device=device), torch.randint(
        12, (2, 5), device=device
    )


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_loss_and_what_it_is_of(device: str, dropout: float) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        found = model(*inputs)
        found["loss"].backward()
        return [found["loss"].detach(), found["logits"].detach()]

    check(device, lambda: Model(dropout), program, lambda: text(device))


def test_all_are_used_outside(device: str) -> None:
    """Gradients of the loss, and others of what it was computed from."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        found = model(*inputs)
        penalty = found["logits"].square().mean() + found["hidden"][1].abs().mean()
        (found["loss"] * 3 + penalty + module.embed.weight.square().sum()).backward()
        return [found["loss"].detach(), penalty.detach()]

    check(device, Model, program, lambda: text(device))


def test_each_by_itself(device: str) -> None:
    """In turn, with the graph kept; some not at all."""
    count = 0

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        nonlocal count
        which = count // 2 % 3
        count += 1
        found = model(*inputs)
        if which != 0:
            found["hidden"][2].mean().backward(retain_graph=True)
        if which != 1:
            found["logits"].square().mean().backward(retain_graph=True)
        found["loss"].backward()
        return [found["loss"].detach()]

    check(device, Model, program, lambda: text(device))


def test_a_second_pass_is_eagers_error(device: str) -> None:
    plain, ours = twice(device, Model)
    fast: Any = reprise.region(ours)
    for _ in range(CALLS):
        inputs = text(device)
        errors = []
        for model in (plain, fast):
            found = model(*inputs)
            found["logits"].square().mean().backward()
            with pytest.raises(RuntimeError, match="second time") as error:
                found["loss"].backward()
            errors.append(str(error.value))
        assert errors[0] == errors[1]
    assert fast.explain().backward >= REPLAYED


def test_hooks_and_kept_gradients(device: str) -> None:
    """Those of an output see all of its gradient, the loss's part included."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        seen: list[torch.Tensor] = []
        found = model(*inputs)
        logits, hidden = found["logits"], found["hidden"][1]
        hidden.retain_grad()
        logits.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
        (found["loss"] + logits.sin().mean()).backward()
        return [*seen, hidden.grad]

    check(device, Model, program, lambda: text(device))


class Two(nn.Module):
    """Nothing in common, but for an argument and a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = self.layers[2](self.layers[0](x).tanh())
        return a, self.layers[2](self.layers[1](x).sigmoid()).exp()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_outputs_with_nothing_in_common(device: str, which: int) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        a, b = model(*inputs)
        if which != 1:
            a.square().mean().backward()
        if which != 0:
            b.square().mean().backward()
        return [a.detach(), b.detach()]

    check(device, Two, program)


def test_gradients_of_other_layouts(device: str) -> None:
    count = 0

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        nonlocal count
        call = count // 2
        count += 1
        module.zero_grad()
        out, hidden, _ = model(*inputs)
        gradient = torch.linspace(0, 1, out.numel(), device=device)
        shape = out.shape if call % 3 else out.shape[::-1]
        view = gradient.view(shape) if call % 3 else gradient.view(shape).t()
        torch.autograd.backward([out, hidden], [view, view * 2])
        return [out.detach()]

    check(device, lambda: Tied(several=True), program)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_gradients_of_gradients(device: str, dropout: float) -> None:
    """The first time they go through one node and the next; then operators keep theirs."""
    plain, ours = twice(device, lambda: Model(dropout))
    fast: Any = reprise.region(ours)
    for call in range(CALLS):
        inputs = text(device)
        found = []
        for model, module in ((plain, plain), (fast, ours)):
            torch.manual_seed(call)
            module.zero_grad()
            result = model(*inputs)
            loss = result["loss"] + result["hidden"][1].sin().mean()
            if call >= CALLS - 3:
                (gradient,) = torch.autograd.grad(
                    loss, [module.head.weight], create_graph=True
                )
                loss = loss + gradient.square().sum()
            loss.backward()
            found.append([p.grad for p in module.parameters()])
        if call == CALLS - 3:
            for mine, theirs in zip(*found, strict=True):
                torch.testing.assert_close(mine, theirs)
        else:
            assert_same_bits(found[1], found[0], f"call {call}")
    assert fast.explain().backward > 0


class Trunk(nn.Module):
    """Two heads on one inner value, of which nobody outside knows."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(WIDTH, WIDTH)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inner = self.trunk(x).relu()
        return tuple(head(inner) for head in self.heads)


def test_one_inner_value(device: str) -> None:
    """Operators have nodes of their own there."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        a, b = model(*inputs)
        (a.sum() * b.sum()).backward()
        return [a.detach(), b.detach()]

    report = check(device, Trunk, program, backward=0)
    assert "computed from one inner value" in str(report)


def test_parts_of_one_result(device: str) -> None:
    """They share memory, and a node."""

    class Parts(nn.Linear):
        def forward(self, x: torch.Tensor) -> Any:
            return super().forward(x).chunk(2, -1)

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        a, b = model(*inputs)
        (a * b).sum().backward()
        return [a.detach(), b.detach()]

    check(device, lambda: Parts(WIDTH, WIDTH), program, backward=0)


def test_what_was_saved_is_written(device: str) -> None:
    """Each node minds what it reads, and no more."""
    plain, ours = twice(device, Two)
    fast: Any = reprise.region(ours)
    for call in range(CALLS):
        x = batch(device, grad=False)
        found = []
        for model in (plain, fast):
            model.zero_grad()
            a, b = model(x)
            a.mean().backward()
            with torch.no_grad():
                b.mul_(2)  # exp has saved it
            with pytest.raises(RuntimeError, match="inplace operation"):
                b.mean().backward()
            found.append([a.detach(), *(p.grad for p in model.layers[0].parameters())])
        assert_same_bits(found[1], found[0], f"call {call}")
    assert fast.explain().backward >= REPLAYED


@pytest.mark.parametrize("returns", ["view", "several"])
def test_views_that_are_written_before_a_pass(device: str, returns: str) -> None:
    """Their histories are other ones then, also where the call was recorded."""

    class Views(nn.Linear):
        def forward(self, x: torch.Tensor) -> Any:
            view = super().forward(x).tanh().mul(self.bias).view(-1)
            return view if returns == "view" else (view, (view + 1).sum())

    plain, ours = twice(device, lambda: Views(WIDTH, WIDTH))
    fast: Any = reprise.region(ours)
    for call in range(CALLS):
        x = batch(device, grad=False)
        found = []
        for model, module in ((plain, plain), (fast, ours)):
            module.zero_grad()
            out = model(x)
            view = out if returns == "view" else out[0]
            if call < 2:
                with torch.no_grad():
                    view.mul_(2)
            (view.sum() if returns == "view" else out[1]).backward()
            found.append([p.grad for p in module.parameters()])
        assert_same_bits(found[1], found[0], f"call {call}")


class Chain(nn.Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = super().forward(x).tanh()
        return hidden, hidden + 1


@pytest.mark.parametrize("written", [False, True])
def test_what_another_node_has_saved(device: str, written: bool) -> None:
    """Who saves nothing minds no write, and may be differentiated twice."""
    plain, ours = twice(device, lambda: Chain(WIDTH, WIDTH))
    fast: Any = reprise.region(ours)
    for call in range(CALLS):
        x = batch(device)
        found = []
        for model in (plain, fast):
            hidden, out = model(x)
            if written:
                with torch.no_grad():
                    hidden.mul_(2)
            for _ in range(2):
                found.append(list(torch.autograd.grad(out.sum(), [hidden])))
        assert_same_bits(found[2:], found[:2], f"call {call}")
    assert fast.explain().backward > 0


def test_numbers_in_graphs_that_draw(device: str) -> None:
    """Autograd keeps them as tensors, which are not read."""

    class Scaled(nn.Linear):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            value = functional.dropout(super().forward(x), 0.3) * 0.5
            return value, value.sin()

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        module.zero_grad()
        value, out = model(*inputs)
        (value.square().mean() + out.mean()).backward()
        return [out.detach()]

    check(device, lambda: Scaled(WIDTH, WIDTH), program)
