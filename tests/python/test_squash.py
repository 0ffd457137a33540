"""The program leaves what it was expected to do, at any op: eager's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from watching import assert_same_bits, settle, watched


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
    "by reading to the host": lambda h: [torch.tensor(h.tolist()), h],
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
    """For each index: whole passes that replay, one that leaves, whole ones again.

    All values of all passes are kept and compared, so that a squash may neither
    spoil what came before nor what comes after.
    """
    w = torch.randn(16, 16, device=device)
    inputs = [torch.randn(16, 16, device=device) for _ in range(4 * len(_OPS))]
    leaves = [
        n // 4 + 1 if n % 4 == 2 and n // 4 + 1 < len(_OPS) else None
        for n in range(len(inputs))
    ]
    with watched(device) as session:
        settle(session, lambda: _run(inputs[0], w, None, how))
        before = session.stats()
        assert before.replays > 0, str(session.explain())
        found = [
            _run(x, w, leave, how) for x, leave in zip(inputs, leaves, strict=True)
        ]
        during = session.stats().since(before)
        report = str(session.explain())
    assert during.replays > 0, report
    assert during.squashes > 0, report
    for number, (x, leave) in enumerate(zip(inputs, leaves, strict=True)):
        expected = _run(x, w, leave, how)
        assert_same_bits(found[number], expected, f"call {number}, leaving at {leave}")


def test_reading_a_value_between_its_op_and_its_overwriter(device: str) -> None:
    """The program sees the value that the launched overwriter has destroyed."""
    w = torch.randn(16, 16, device=device)

    def whole(x: torch.Tensor) -> torch.Tensor:
        h = x @ w
        h.relu_()
        return h + 1

    with watched(device) as session:
        x = torch.randn(16, 16, device=device)
        settle(session, lambda: whole(x))
        before = session.stats()
        assert before.replays > 0, str(session.explain())
        product = x @ w
        seen = product.clone()
        product.relu_()
        after = product + 1
        assert session.stats().since(before).squashes > 0, str(session.explain())
    expected = x @ w
    assert_same_bits([seen, after], [expected, expected.relu() + 1])


def test_squashes_do_not_wear_a_plan_out(device: str) -> None:
    """A hundred squashes later, whole passes are replayed, and right."""
    w = torch.randn(16, 16, device=device)
    x = torch.randn(16, 16, device=device)
    with watched(device) as session:
        settle(session, lambda: _run(x, w, None, ""))
        for number in range(100):
            _run(x, w, 1 + number % (len(_OPS) - 1), "by stopping")
        before = session.stats()
        settle(session, lambda: _run(x, w, None, ""))
        found = _run(x, w, None, "")
        assert session.stats().since(before).replays > 0, str(session.explain())
    assert_same_bits(found, _run(x, w, None, ""))
