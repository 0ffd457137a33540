"""Ops whose bits eager itself does not repeat are replayed, and all round them is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import reprise
import torch
from torch import nn
from watching import followed_share, randoms, rest, watched

pytestmark = pytest.mark.gpu

PASSES = 30
ROWS, COLUMNS, ADDS = 16, 64, 20_000


def _index_add(x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.zeros(ROWS, COLUMNS, device="cuda").index_add_(0, where, x)


def _scatter_add(x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    wide = where[:, None].expand_as(x)
    return torch.zeros(ROWS, COLUMNS, device="cuda").scatter_add(0, wide, x)


def _scatter_reduce(x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    wide = where[:, None].expand_as(x)
    rows = torch.zeros(ROWS, COLUMNS, device="cuda")
    return rows.scatter_reduce(0, wide, x, "sum")


OPS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index_add_": _index_add,
    "scatter_add": _scatter_add,
    "scatter_reduce": _scatter_reduce,
}


@pytest.mark.parametrize("name", OPS)
def test_sums_in_any_order_are_followed(name: str) -> None:
    """What comes of them has the bits that eager gives of what the program saw."""
    op = OPS[name]
    where = torch.randint(ROWS, (ADDS,), device="cuda")
    weight = torch.randn(COLUMNS, device="cuda")
    passes = []
    shares = []
    with torch.inference_mode():
        with watched("cuda") as session:
            for x in randoms("cuda", ADDS, COLUMNS, calls=PASSES):
                before = session.stats()
                scaled = x * weight
                total = op(scaled, where)
                scores = torch.tanh(total) + weight
                passes.append((scaled, total, scores, scores * 3))
                shares.append(followed_share(session, before))
                rest(session)
        for scaled, total, scores, top in passes:
            wanted = op(scaled, where)
            torch.testing.assert_close(total, wanted, rtol=0, atol=1e-2)
            assert torch.equal(scores, torch.tanh(total) + weight)
            assert torch.equal(top, scores * 3)
    assert shares[-1] > 0.9, shares


class _Lookup(nn.Module):
    """Rows that many places look up: their gradients are summed in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(ROWS, COLUMNS))
        self.head = nn.Linear(COLUMNS, 8)

    def forward(self, where: torch.Tensor) -> torch.Tensor:
        """Logits, one row a place."""
        return self.head(torch.relu(self.rows.index_select(0, where)))


def test_training_with_such_a_gradient_is_followed() -> None:
    """Parameters end where eager's do, to within what two runs of eager differ by."""
    places = [torch.randint(ROWS, (ADDS,), device="cuda") for _ in range(PASSES)]
    labels = torch.randint(8, (ADDS,), device="cuda")
    start = _Lookup().to("cuda").state_dict()
    shares: list[float] = []

    def train(session: reprise.Session | None) -> _Lookup:
        net = _Lookup().to("cuda")
        net.load_state_dict(start)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        for where in places:
            before = None if session is None else session.stats()
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(where), labels).backward()
            optimizer.step()
            if session is not None and before is not None:
                shares.append(followed_share(session, before))
                rest(session)
        return net

    wanted = train(None)
    with watched("cuda") as session:
        given = train(session)
    for one, other in zip(given.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert shares[-1] > 0.9, shares


def test_sums_in_one_order_have_the_same_bits() -> None:
    """Torch sums in one order then, and all passes have the same bits."""
    x = torch.randn(ADDS, COLUMNS, device="cuda")
    where = torch.randint(ROWS, (ADDS,), device="cuda")
    torch.use_deterministic_algorithms(mode=True)
    try:
        with torch.inference_mode(), watched("cuda") as session:
            seen = []
            for _ in range(PASSES):
                seen.append(torch.tanh(_index_add(x * 2, where)) + 1)
                rest(session)
        assert all(torch.equal(one, seen[0]) for one in seen)
    finally:
        torch.use_deterministic_algorithms(mode=False)
