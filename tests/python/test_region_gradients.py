"""Regions in training: one node for a call, whose backward pass is replayed as one."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from models import Doubled
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from watching import assert_same_bits, in_threads

CALLS = 12
REPLAYED = CALLS - 6
WIDTH = 16

Inputs = tuple[torch.Tensor, ...]
Program = Callable[[Any, nn.Module, Inputs], list[Any]]


class Block(nn.Module):
    """What reads its argument twice, as transformers' blocks do, and drops some."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 24)
        self.outer = nn.Linear(24, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.outer(functional.gelu(self.inner(self.norm(x))))
        return x + self.dropout(y)


class Tied(nn.Module):
    """One parameter twice, and a result that has no gradient."""

    def __init__(self, several: bool = False) -> None:
        super().__init__()
        self.several = several
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)
        self.scale = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.tanh(x @ self.weight) * self.scale
        out = hidden @ self.weight.t() + x
        out = out * hidden.exp()
        return out, hidden if self.several else hidden.detach(), out.argmax(-1)


def batch(device: str, grad: bool = True) -> torch.Tensor:
    return torch.randn(8, WIDTH, device=device).requires_grad_(grad)


def twice(device: str, make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    module = make().to(device)
    return module, copy.deepcopy(module)


def check(
    device: str,
    make: Callable[[], nn.Module],
    program: Program,
    inputs: Callable[[], Inputs] | None = None,
    backward: int = REPLAYED,
    replayed: int = REPLAYED,
) -> reprise.RegionReport:
    """A program with a region does what it does with the module, bit for bit.

    It gives what is compared; gradients of parameters and of inputs are, too.
    """
    plain, ours = twice(device, make)
    fast = reprise.region(ours)
    for call in range(CALLS):
        given = inputs() if inputs is not None else (batch(device),)
        results = []
        for model, module in ((plain, plain), (fast, ours)):
            own = tuple(
                each.detach().clone().requires_grad_(each.requires_grad)
                for each in given
            )
            torch.manual_seed(call)
            found = program(model, module, own)
            grads = [p.grad for p in module.parameters()] + [x.grad for x in own]
            results.append([*found, *(g for g in grads if g is not None)])
        expected, found = results
        assert len(expected) == len(found)
        assert_same_bits(found, expected)
    report: reprise.RegionReport = fast.explain()
    assert report.replayed >= replayed, str(report)
    assert report.backward >= backward, str(report)
    return report


def backwards(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    module.zero_grad()
    y = model(*inputs)
    y.square().mean().backward()
    return [y.detach()]


def first(found: Any) -> torch.Tensor:
    tensor: torch.Tensor = found[0] if isinstance(found, tuple) else found
    return tensor


# --- What gradients are ---


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_parameters_and_arguments(device: str, dropout: float) -> None:
    check(device, lambda: Block(dropout), backwards)


class Counted(nn.Module):
    """What changes with each call, secretly and not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.inner(x)).relu()
        self.calls[1:].add_(1)
        return y + x


def test_running_statistics(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        found = backwards(model, module, inputs)
        return [*found, *(b.clone() for b in module.buffers())]

    check(device, Counted, program)


def test_running_statistics_where_the_graph_is_made_anew(device: str) -> None:
    """It counts no call, and no write."""
    count = 0

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        nonlocal count
        module.zero_grad()
        before = [b._version for b in module.buffers()]
        y = model(*inputs)
        kind = count // 2 % 4
        count += 1
        if kind == 3:  # of another form
            y.backward(torch.ones(WIDTH, 8, device=device).t())
        else:
            y.square().mean().backward()
        buffers = zip(module.buffers(), before, strict=True)
        versions = [torch.tensor(b._version - was) for b, was in buffers]
        return [*versions, *(b.clone() for b in module.buffers())]

    check(device, Counted, program, backward=1)


def test_arguments_without_gradients(device: str) -> None:
    check(device, Block, backwards, lambda: (batch(device, grad=False),))


def test_frozen_parameters(device: str) -> None:
    def make() -> nn.Module:
        block = Block()
        block.inner.requires_grad_(False)
        return block

    check(device, make, backwards)


def test_they_are_added_up(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        for _ in range(2):
            first(model(*inputs)).square().mean().backward()
        return []

    check(device, Block, program, backward=2 * REPLAYED)


def test_uses_outside(device: str) -> None:
    """Contributions from outside are added where eager adds them."""

    def program(model: Any, module: Any, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        (x,) = inputs
        before = x.exp() @ module.weight * 1e3
        out, other, _ = model(x)
        behind = (x.sin() @ module.weight) * 1e-3 + out + before
        (behind * other).mean().backward()
        return [behind.detach()]

    check(device, Tied, program)
    check(device, lambda: Tied(several=True), program)


def test_several_in_a_row(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        (x,) = inputs
        for _ in range(3):
            x = model(x) + x
        x.mean().backward()
        return [x.detach()]

    # What comes from a parameter of the module: operators have nodes of their own.
    report = check(device, lambda: Block(0.2), program, backward=0)
    assert report.replayed >= 2 * REPLAYED, str(report)


def test_outputs_without_gradients(device: str) -> None:
    """Each path has its end."""
    count = 0

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[Any]:
        nonlocal count
        module.zero_grad()
        out, other, index = model(*inputs)
        assert not index.requires_grad
        loss = (out.mean(), out.mean() * 2, out.sum())[count // 2 % 3]
        count += 1
        other = other + inputs[0]
        loss.backward(retain_graph=True)
        of_other = torch.autograd.grad(other.sum(), inputs)
        return [index, out.detach(), other.detach(), *of_other]

    check(device, lambda: Tied(several=True), program)


def test_a_part_of_the_gradients(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        loss = model(*inputs).square().sum()
        of_input = torch.autograd.grad(loss, inputs, retain_graph=True)
        return [*of_input, *torch.autograd.grad(loss, list(module.parameters())[:2])]

    check(device, Block, program, backward=2 * REPLAYED)


def test_gradients_of_other_forms(device: str) -> None:
    """What `sum` gives is one number, at each place; what `t` gives is turned."""
    count = 0

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        nonlocal count
        module.zero_grad()
        y = model(*inputs)
        kind = count // 2 % 3
        count += 1
        if kind == 0:
            y.sum().backward()
        elif kind == 1:
            y.backward(torch.linspace(0, 1, y.numel(), device=device).view(y.shape))
        else:
            turned = torch.linspace(0, 1, y.numel(), device=device)
            y.backward(turned.view(WIDTH, 8).t())
        return []

    check(device, Block, program, backward=1)


# --- What happens round it ---


def test_hooks(device: str) -> None:
    """Of outputs and inputs, behind the call; of parameters, from before it on."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        seen = []
        y = model(*inputs)
        y.register_hook(lambda grad: grad * 2)
        y.retain_grad()
        inputs[0].register_hook(lambda grad: seen.append(grad) or grad + 1)
        y.square().mean().backward()
        return [*seen, y.grad]

    check(device, Block, program)


def test_hooks_behind_accumulation(device: str) -> None:
    """As optimizers that step in the backward pass use them."""
    plain, ours = twice(device, Block)
    fast = reprise.region(ours)
    seen: list[list[torch.Tensor]] = [[], []]
    for module, into in ((plain, seen[0]), (ours, seen[1])):
        for p in module.parameters():

            def note(p: torch.Tensor, into: list[torch.Tensor] = into) -> None:
                assert p.grad is not None
                into.append(p.grad.clone())
                p.grad = None

            p.register_post_accumulate_grad_hook(note)
    for call in range(CALLS):
        x = batch(device)
        y = x.detach().clone().requires_grad_()
        plain(x).square().mean().backward()
        fast(y).square().mean().backward()
        assert_same_bits(
            sorted(seen[1], key=lambda g: (tuple(g.shape), float(g.flatten()[0]))),
            sorted(seen[0], key=lambda g: (tuple(g.shape), float(g.flatten()[0]))),
        )
        assert_same_bits(y.grad, x.grad)
        seen[0].clear()
        seen[1].clear()
        del call


def test_backward_again(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        y = model(*inputs).square().mean()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        return []

    check(device, lambda: Block(0.3), program, backward=2 * REPLAYED)


def test_gradients_of_many_at_once(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        y = model(*inputs)
        many = torch.linspace(0, 1, 3 * y.numel(), device=device).view(3, *y.shape)
        found = torch.autograd.grad(y, inputs, many, True, is_grads_batched=True)
        return [*found, *torch.autograd.grad(y.sum(), inputs)]

    check(device, Block, program)


def test_differentiated_again(device: str) -> None:
    """By autograd's own graph, with the values that the call had."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        y = model(*inputs).square().mean()
        (grad,) = torch.autograd.grad(y, inputs, create_graph=True)
        (y + grad.square().sum()).backward()
        return [grad.detach()]

    check(device, lambda: Block(0.3), program, backward=0)


def test_random_numbers_behind_it_are_eagers(device: str) -> None:
    """Where the graph is made anew, nothing is drawn."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        y = model(*inputs).square().mean()
        (grad,) = torch.autograd.grad(y, inputs, create_graph=True)
        return [grad.detach(), torch.rand(3, device=device), torch.rand(3)]

    check(device, lambda: Block(0.3), program, backward=0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(device: str, reentrant: bool) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        y = checkpoint(model, *inputs, use_reentrant=reentrant)
        y.square().mean().backward()
        return [y.detach()]

    check(device, lambda: Block(0.3), program, backward=0, replayed=0)


def test_autocast(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            y = model(*inputs)
        y.float().square().mean().backward()
        return [y.detach()]

    check(device, Block, program, backward=0)


def test_saved_tensors_hooks(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        with torch.autograd.graph.save_on_cpu():
            y = model(*inputs)
        y.square().mean().backward()
        return [y.detach()]

    # Their copies to the host keep it from being a region on a device.
    check(device, Block, program, backward=0, replayed=0)


def test_an_optimizer_steps(device: str) -> None:
    optimizers: dict[int, torch.optim.Optimizer] = {}

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        optimizer = optimizers.setdefault(
            id(module), torch.optim.AdamW(module.parameters(), lr=1e-2, foreach=True)
        )
        optimizer.zero_grad()
        loss = model(*inputs).square().mean()
        loss.backward()
        optimizer.step()
        return [loss.detach(), *(p.detach().clone() for p in module.parameters())]

    check(device, lambda: Block(0.1), program)


def test_evaluation_between(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        backwards(model, module, inputs)
        with torch.no_grad():
            y = model(*inputs)
        assert not y.requires_grad
        return [y]

    check(device, Block, program)


def test_never_differentiated(device: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        y = model(*inputs)
        assert y.requires_grad
        return [y.detach()]

    check(device, Block, program, backward=0)


def test_backward_where_nothing_is_enabled(device: str) -> None:
    plain, ours = twice(device, Block)
    fast = reprise.region(ours)
    for _ in range(CALLS):
        x = batch(device, grad=False)
        plain.zero_grad()
        ours.zero_grad()
        plain(x).square().mean().backward()
        with reprise.session(device):
            loss = fast(x).square().mean()
        loss.backward()
        assert_same_bits(
            [p.grad for p in ours.parameters()], [p.grad for p in plain.parameters()]
        )
    assert fast.explain().backward >= REPLAYED, str(fast.explain())


# --- Writes ---


def test_a_result_is_written(device: str) -> None:
    """What autograd has not saved may be."""

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        y = model(*inputs)
        y.mul_(2)
        y.square().mean().backward()
        return [y.detach()]

    check(device, Block, program)


class Exponent(nn.Module):
    """Whose backward pass needs argument, parameter and result."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight).exp()


@pytest.mark.parametrize("what", ["result", "argument", "parameter"])
def test_what_was_saved_is_written(device: str, what: str) -> None:
    plain, ours = twice(device, Exponent)
    fast = reprise.region(ours)
    for call in range(CALLS):
        given = batch(device)
        for model, module in ((plain, plain), (fast, ours)):
            module.zero_grad()
            x = given.detach().clone().requires_grad_()
            y = model(x)
            if call % 2:
                y.sum().backward()
                continue
            written = {"result": y, "argument": x, "parameter": module.weight}[what]
            with torch.no_grad():
                written.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
            with torch.no_grad():
                written.div_(2)
        if call % 2:
            assert_same_bits(
                [p.grad for p in ours.parameters()],
                [p.grad for p in plain.parameters()],
            )
    assert fast.explain().backward > 0, str(fast.explain())


def test_what_was_saved_is_written_inside(device: str) -> None:
    """An error in eager, and never a gradient."""

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x).exp()
            return y.mul_(2) @ x.t()

    _, ours = twice(device, Inside)
    fast = reprise.region(ours)
    for _ in range(CALLS):
        y = fast(batch(device))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_nothing_is_saved(device: str) -> None:
    """Then a second backward pass is no error in eager."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Parameter(torch.randn(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.offset

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        y = model(*inputs).sum()
        y.backward()
        y.backward()
        return [y.detach()]

    check(device, Sum, program, backward=2 * REPLAYED)


def test_arguments_that_lead_to_each_other(device: str) -> None:
    """What lies between them runs once, with its hooks."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return self.inner(x).tanh() * h

    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        seen = []
        z = inputs[0] * 2
        z.register_hook(lambda grad: seen.append(grad) or grad * 2)
        model(inputs[0], z.exp()).sum().backward()
        return seen

    check(device, Two, program, backward=0)


def test_arguments_after_one_another(device: str) -> None:
    """Leaves at first, then what torch has computed; regions in a row."""
    plain, ours = twice(device, lambda: nn.Sequential(Block(), Block()))
    first_of, second_of = reprise.region(ours[0]), reprise.region(ours[1])
    for call in range(300):
        x = batch(device)
        y = x.detach().clone().requires_grad_()
        scale = 1 if call < CALLS else 2
        plain.zero_grad()
        ours.zero_grad()
        plain(x * scale if call >= CALLS else x).square().mean().backward()
        given = y * scale if call >= CALLS else y
        second_of(first_of(given)).square().mean().backward()
        assert_same_bits(
            [*(p.grad for p in ours.parameters()), y.grad],
            [*(p.grad for p in plain.parameters()), x.grad],
        )
    for each in (first_of, second_of):
        report = each.explain()
        assert report.backward > 250 and report.samples, str(report)
        assert not report.reasons, str(report)


def test_what_is_read_changes_before_the_graph_is_made_anew(device: str) -> None:
    """An error says so; there is no gradient of something else."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)
            self.scale = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).tanh() * self.scale

    _, ours = twice(device, Scaled)
    fast = reprise.region(ours)
    for _ in range(CALLS):
        fast(batch(device, grad=False)).square().mean().backward()
    turned = torch.ones(WIDTH, 8, device=device).t()
    for change in (
        lambda: setattr(ours, "scale", 3),
        lambda: ours.requires_grad_(False),
    ):
        ours.scale = 2
        y = fast(batch(device, grad=False))
        change()
        with pytest.raises(RuntimeError, match="has changed since its call"):
            y.backward(turned)


def test_many_shapes(device: str) -> None:
    """Each has one history, which goes with its tape."""
    from reprise.nodes.history import KEPT

    plain, ours = twice(device, Block)
    fast = reprise.region(ours)
    before = len(KEPT)
    for call in range(150):
        rows = 1 if call % 2 else 2 + call // 3
        x = torch.randn(rows, WIDTH, device=device)
        plain.zero_grad()
        ours.zero_grad()
        plain(x).square().mean().backward()
        fast(x).square().mean().backward()
        assert_same_bits(
            [p.grad for p in ours.parameters()], [p.grad for p in plain.parameters()]
        )
    assert fast.explain().backward > 50, str(fast.explain())
    assert len(KEPT) - before <= 52
    del fast, ours
    gc.collect()
    assert len(KEPT) <= before


@pytest.mark.parametrize("turned", [False, True])
def test_nothing_is_kept(device: str, turned: bool) -> None:
    """Of recorded calls and of those whose graph is made anew, neither."""
    _, ours = twice(device, Block)
    fast = reprise.region(ours, check="always")
    for recorded in (True, False):
        gone = []
        for _ in range(CALLS):
            x = batch(device)
            y = fast(x)
            gone += [weakref.ref(x), weakref.ref(y)]
            if turned:
                y.backward(torch.ones(WIDTH, 8, device=device).t())
            else:
                y.mean().backward()
        del x, y
        assert not [each for each in gone if each() is not None], recorded
        fast = reprise.region(ours)


def test_results_are_kept(device: str) -> None:
    """Many calls before the first backward pass, which come in any order."""
    plain, ours = twice(device, lambda: Block(0.2))
    fast = reprise.region(ours)
    for _ in range(3):
        losses: list[list[torch.Tensor]] = [[], []]
        for call in range(CALLS):
            x = batch(device, grad=False)
            for model, into in ((plain, losses[0]), (fast, losses[1])):
                torch.manual_seed(call)
                into.append(model(x).square().mean())
        plain.zero_grad()
        ours.zero_grad()
        for call in (5, 0, 11, 3, 4, 1, 2, 10, 9, 8, 7, 6):
            for of in losses:
                of[call].backward()
            assert_same_bits(
                [p.grad for p in ours.parameters()],
                [p.grad for p in plain.parameters()],
            )
    assert fast.explain().backward >= CALLS, str(fast.explain())


def test_what_is_saved_goes_with_the_result(device: str) -> None:
    _, ours = twice(device, Block)
    fast = reprise.region(ours)
    for _ in range(CALLS):
        x = batch(device)
        y = fast(x)
        gone = weakref.ref(x)
        y.mean().backward()
    assert fast.explain().backward >= REPLAYED
    del x, y
    assert gone() is None


# --- What one node does not stand for ---


class Odd(nn.Module):
    """Of the kind that is named."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.kind = kind

    def forward(self, x: torch.Tensor) -> Any:
        if self.kind == "written":
            x.detach().add_(1)
        y = self.inner(x)
        if self.kind == "function":
            return Doubled.apply(y)
        if self.kind == "hook":
            y.register_hook(lambda grad: grad * 3)
            return y * 2
        if self.kind == "leaf":
            return y.detach().requires_grad_() * 2 + y
        if self.kind == "itself":
            return x
        if self.kind == "view":
            return x.view(-1) * 1, x.t()
        if self.kind == "parts":
            return tuple(y.chunk(2, -1))
        if self.kind == "twice":
            return y, y
        return y


@pytest.mark.parametrize(
    "kind",
    ["function", "written", "hook", "leaf", "itself", "view", "parts", "twice"],
)
def test_operators_have_their_own_nodes(device: str, kind: str) -> None:
    def program(model: Any, module: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        module.zero_grad()
        found = model(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        sum(each.square().mean() for each in found).backward()  # type: ignore[union-attr]
        return [each.detach() for each in found]

    report = check(device, lambda: Odd(kind), program, backward=0, replayed=0)
    assert report.backward == 0, str(report)


def test_a_tensor_from_outside_with_a_history(device: str) -> None:
    plain, ours = twice(device, Block)
    shared: list[torch.Tensor] = []

    def call(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: module(x) * shared[0]

    fast = reprise.region(call(ours))
    for _ in range(CALLS):
        x = batch(device)
        found = []
        for model in (call(plain), fast):
            scale = torch.ones(WIDTH, device=device, requires_grad=True)
            shared[:] = [scale * 2]
            y = model(x)
            found.append([y.detach(), *torch.autograd.grad(y.sum(), [x, scale])])
        assert_same_bits(found[1], found[0])


def test_threads(device: str) -> None:
    """Each with arguments of its own, and one module."""
    plain, ours = twice(device, Block)
    fast = reprise.region(ours)
    for _ in range(CALLS):
        fast(batch(device)).square().mean().backward()
    wrong: list[int] = []

    def work(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        for call in range(CALLS):
            x = torch.randn(8, WIDTH, generator=generator).to(device)
            x.requires_grad_()
            y = x.detach().clone().requires_grad_()
            (expected,) = torch.autograd.grad(plain(x).square().mean(), x)
            (found,) = torch.autograd.grad(fast(y).square().mean(), y)
            if not torch.equal(expected, found):
                wrong.append(call)

    in_threads(work, 3)
    assert not wrong
    assert fast.explain().backward >= REPLAYED


# --- Samples ---


def test_every_call_is_checked(device: str) -> None:
    plain, ours = twice(device, Block)
    fast = reprise.region(ours, check="always")
    for _ in range(CALLS):
        x = batch(device, grad=False)
        backwards(plain, plain, (x,))
        backwards(fast, ours, (x,))
        assert_same_bits(
            [p.grad for p in ours.parameters()], [p.grad for p in plain.parameters()]
        )
    assert fast.explain().replayed == 0
    assert fast.explain().samples >= REPLAYED, str(fast.explain())
