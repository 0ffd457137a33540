"""`Tensor._version` of what replayed ops return and write is eager's.

Autograd counts how often a tensor was written. Some composite operators write their
result in place before they return it, so that its count is not 0.
"""

from __future__ import annotations

from collections.abc import Callable

import hazards
import pytest
import torch
from watching import tensors

Program = Callable[[torch.Tensor], object]

PASSES = 24

#: Forward results that their operators write in place.
MADE: dict[str, Program] = {
    "full": lambda x: torch.ops.aten.full([3], 2.0, device=x.device),
    "zeros": lambda x: torch.ops.aten.zeros([2, 3], device=x.device),
    "one_hot": lambda x: torch.nn.functional.one_hot(x.argmax(1), 16),
    "block_diag": lambda x: torch.block_diag(x, x),
    "pad_sequence": lambda x: torch.nn.utils.rnn.pad_sequence([x, x[:3]]),
    "constant_pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "eye": lambda x: torch.eye(4, device=x.device),
    "tril_indices": lambda x: torch.tril_indices(4, 4, device=x.device),
    "vander": lambda x: torch.vander(x[0]),
}

#: Losses whose gradients are made so.
GRADIENTS: dict[str, Program] = {
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(3).values,
    "max": lambda x: x.max(1).values,
    "median": lambda x: x.median(1).values,
    "cummax": lambda x: x.cummax(1).values,
    "trace": lambda x: x[:, :8].trace(),
    "copysign": lambda x: torch.copysign(x, x.roll(1)),
    "cumprod": lambda x: x.cumprod(1),
    "quantile": lambda x: x.quantile(0.25),
    "cat": lambda x: torch.cat([x, x * 2]),
    "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x.view(1, 1, 8, 16), 2),
    "select": lambda x: x[2],
}


def _versions(
    device: str, program: Program, tick: Callable[[], object]
) -> list[torch.Tensor]:
    """The versions of all that the passes of a program make, as a tensor a pass."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        x = torch.randn(8, 16, device=device)
    seen = []
    for _ in range(PASSES):
        y = x * 2 + 1  # ops that are replayed, whatever becomes of the program's own
        made = tensors(program(y))
        made.append(made[0] + 1 if made[0].is_floating_point() else made[0] * 2)
        # What counts a write is counted on top of what was there.
        made[0].mul_(1)
        seen.append(torch.tensor([t._version for t in (y, *made)]))
        tick()
    return seen


@pytest.mark.parametrize("name", MADE)
def test_results_that_are_written_inside(device: str, name: str) -> None:
    """Their count of writes is eager's, and goes on from there."""
    hazards.same_as_eager(device, lambda tick: _versions(device, MADE[name], tick))


def _gradient(loss: Program) -> Program:
    def program(y: torch.Tensor) -> object:
        with torch.enable_grad():
            leaf = y.detach().requires_grad_()
            out = loss(leaf)
            assert isinstance(out, torch.Tensor)
            (gradient,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
        return gradient

    return program


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device: str, name: str) -> None:
    """Formulas of gradients write into zeros."""
    hazards.same_as_eager(
        device, lambda tick: _versions(device, _gradient(GRADIENTS[name]), tick)
    )


def test_below_autograd_nothing_is_counted(device: str) -> None:
    """One call of an operator, with and without counting, in turn: other ops."""

    def program(y: torch.Tensor) -> object:
        counted = torch.ops.aten.full([2], 3.0, device=device)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            uncounted = torch.ops.aten.full([2], 3.0, device=device)
        return counted, uncounted

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        return _versions(device, program, tick)

    hazards.same_as_eager(device, run)
    assert run(lambda: None)[0].tolist()[1:3] == [2, 0]  # one of them is ours


def test_inference_tensors_have_no_version(device: str) -> None:
    """A replay makes them as eager does: their count cannot be asked for."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        made = []
        x = torch.ones(4, device=device)
        for _ in range(PASSES):
            with torch.inference_mode():
                y = (x * 2 + 1).tanh()
                full = torch.ops.aten.full([3], 2.0, device=device)
            made += [y, full]
            tick()
        return made

    hazards.same_as_eager(device, run)
    assert all(t.is_inference() for t in run(lambda: None))
