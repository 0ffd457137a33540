"""The program leaves what it was expected to do, at any op: eager's results."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from watching import assert_same_bits, settle, until_replayed, watched


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


# Each op makes a new value or overwrites the one before it; between the two kinds
# lies what a squash has to restore.
_OPS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda h, w: h @ w,
    lambda h, w: h.relu_(),
    lambda h, w: h + 1,
    lambda h, w: h.mul_(0.5),
    lambda h, w: h.add_(w[0]),
    lambda h, w: torch.softmax(h, -1),
    lambda h, w: h.t().contiguous(),
    lambda h, w: h.sub_(0.25),
    lambda h, w: h.view(-1)[4:20].view(4, 4).neg(),
    lambda h, w: h @ w[:4],
    lambda h, w: torch.cat([h, h], 0),
    lambda h, w: h.sigmoid_(),
    lambda h, w: h.clone(),
    lambda h, w: h[1:5].tanh_(),
    lambda h, w: h.sum(0, keepdim=True) * h,
]

_LEAVE: dict[str, Callable[[torch.Tensor], list[torch.Tensor]]] = {
    "by another op": lambda h: [torch.cos(h), h],
    "by another op in place": lambda h: [h.exp_(), h],
    "by reading a number": lambda h: [torch.tensor(h.sum().item()), h],
    "by copying to the host": lambda h: [torch.tensor(h.double().tolist()), h],
    "by looking into memory": lambda h: [torch.tensor(h.tolist()), h],
    "by stopping": lambda h: [h],
    "by a view": lambda h: [h.reshape(-1)[1:3]],
    "by dropping the value": lambda h: [torch.ones(2, device=h.device)],
}


def _run(
    x: torch.Tensor, w: torch.Tensor, leave_at: int | None, how: str
) -> list[torch.Tensor]:
    values: list[torch.Tensor] = []
    h = x
    for index, op in enumerate(_OPS):
        if index == leave_at:
            return values + _LEAVE[how](h)
        h = op(h, w)
        values.append(h)
    return values


@pytest.mark.parametrize("how", _LEAVE)
def test_leaving_at_every_index(device: str, how: str) -> None:
    """For each index: a whole pass that replays, one that leaves, a whole one again.

    All values of all passes are kept and compared, so that a squash may neither
    spoil what came before nor what comes after.
    """
    w = torch.randn(16, 16, device=device)
    passes: list[tuple[torch.Tensor, int | None]] = []
    found: list[list[torch.Tensor]] = []

    def run(leave_at: int | None) -> None:
        passes.append((torch.randn(16, 16, device=device), leave_at))
        found.append(_run(passes[-1][0], w, leave_at, how))

    squashed = []
    with watched(device) as session:
        for index in range(1, len(_OPS)):
            until_replayed(session, lambda: run(None))
            before = session.stats()
            run(index)
            run(None)  # its first op shows that the pass before has ended
            if session.stats().since(before).squashes > 0:
                squashed.append(index)
        report = str(session.explain())
    assert len(squashed) >= 0.8 * (len(_OPS) - 1), f"{squashed}\n{report}"
    for number, (x, leave_at) in enumerate(passes):
        expected = _run(x, w, leave_at, how)
        assert_same_bits(found[number], expected, f"pass {number} until {leave_at}")


def test_reading_a_value_between_its_op_and_its_overwriter(device: str) -> None:
    """The program sees the value that the launched overwriter has destroyed."""
    w = torch.randn(16, 16, device=device)
    x = torch.randn(16, 16, device=device)

    def whole() -> torch.Tensor:
        return (x @ w).relu_() + 1

    with watched(device) as session:
        until_replayed(session, whole)
        before = session.stats()
        product = x @ w
        seen = product.clone()
        after = product.relu_() + 1
        assert session.stats().since(before).squashes > 0, str(session.explain())
    expected = x @ w
    assert_same_bits([seen, after], [expected, expected.relu() + 1])


def _bytes_of(tensor: torch.Tensor) -> list[int]:
    return list(ctypes.string_at(tensor.data_ptr(), tensor.nbytes))


@pytest.mark.parametrize(
    "look",
    [
        lambda t: t.tolist(),
        lambda t: t.numpy().copy(),
        lambda t: numpy.asarray(t).tolist(),
        lambda t: numpy.from_dlpack(t).copy(),
        lambda t: t.untyped_storage().tolist(),
        lambda t: pickle.loads(pickle.dumps(t)).numpy(),
        _bytes_of,
    ],
)
def test_looking_into_host_memory_before_it_is_overwritten(
    look: Callable[[torch.Tensor], Any],
) -> None:
    """No operation tells that the program reads what the executor ran over."""
    w = torch.randn(16, 16)
    x = torch.randn(16, 16)
    with watched("cpu") as session:
        until_replayed(session, lambda: (x @ w).relu_() + 1)
        before = session.stats()
        product = x @ w
        seen = look(product)
        after = product.relu_() + 1
        assert session.stats().since(before).squashes > 0, str(session.explain())
    assert numpy.array_equal(seen, look(x @ w))
    assert_same_bits(after, (x @ w).relu() + 1)


def test_squashes_do_not_wear_a_plan_out(device: str) -> None:
    """A hundred squashes later, whole passes are replayed, and right."""
    w = torch.randn(16, 16, device=device)
    x = torch.randn(16, 16, device=device)
    with watched(device) as session:
        settle(session, lambda: _run(x, w, None, ""))
        for number in range(100):
            _run(x, w, 1 + number % (len(_OPS) - 1), "by stopping")
        until_replayed(session, lambda: _run(x, w, None, ""))
        found = _run(x, w, None, "")
    assert_same_bits(found, _run(x, w, None, ""))
