"""Operators whose results depend on data in their sizes, or are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import library as torch_library
from torch import nn
from torch.nn import functional
from watching import assert_same_bits, rest, watched

CALLS = 40
LIBRARY = torch_library.Library("reprise_test_sizes_by_data", "DEF")  # for good


def _count(x: torch.Tensor) -> int:
    return int((x > 0).sum())


def _pick(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


def _tail(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x])[_count(x) :][:3]


def _itself(x: torch.Tensor) -> torch.Tensor:
    return x if _count(x) % 2 else x * 1


def _with_sum(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    return x * 2, float(x.sum())


def _some(x: torch.Tensor) -> list[torch.Tensor]:
    return [x * (2 + i) for i in range(1 + _count(x))]


def _scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _fill(x: torch.Tensor) -> int:
    x.fill_(2)
    return x.numel()


for _schema, _function in {
    "count(Tensor x) -> int": _count,
    "pick(Tensor x) -> Tensor": _pick,
    "tail(Tensor x) -> Tensor": _tail,
    "itself(Tensor x) -> Tensor": _itself,
    "with_sum(Tensor x) -> (Tensor, float)": _with_sum,
    "some(Tensor x) -> Tensor[]": _some,
    "scale(Tensor x) -> Tensor": _scale,
    "says_less(Tensor x) -> Tensor": _pick,
    "fill(Tensor(a!) x) -> int": _fill,
}.items():
    _name = LIBRARY.define(_schema)
    for _key in ("CPU", "CUDA"):
        LIBRARY.impl(_name, _function, _key)
for _name in ("scale", "says_less"):
    torch_library.register_fake(
        f"reprise_test_sizes_by_data::{_name}", torch.empty_like
    )
OPS = torch.ops.reprise_test_sizes_by_data

Fn = Callable[..., Any]


def inputs(device: str, kinds: int = 3) -> list[torch.Tensor]:
    """In turn: each of some, so that each is known after some calls."""
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(6, generator=generator).to(device) for _ in range(kinds)]
    return [made[i % kinds].clone() for i in range(CALLS)]


def compare(
    device: str, fn: Fn, wait: Callable[[], object] = lambda: None
) -> reprise.RegionReport:
    fast: Any = reprise.region(fn)
    for call, x in enumerate(inputs(device)):
        wait()
        torch.manual_seed(call)
        expected = fn(x)
        torch.manual_seed(call)
        assert_same_bits(fast(x), expected, f"call {call}")
    report: reprise.RegionReport = fast.explain()
    return report


def by_count(x: torch.Tensor) -> Any:
    return x * OPS.count(x)


def by_size(x: torch.Tensor) -> Any:
    return x * OPS.pick(x).shape[0]


def by_branch(x: torch.Tensor) -> Any:
    picked = OPS.pick(x)
    return picked * 2 if picked.numel() > 3 else picked + 1


def by_list(x: torch.Tensor) -> Any:
    return sum(OPS.some(x))


def by_place(x: torch.Tensor) -> Any:
    return x * OPS.tail(x).storage_offset()


def by_identity(x: torch.Tensor) -> Any:
    return x * 2 if OPS.itself(x) is x else x * 3


def by_memory(x: torch.Tensor) -> Any:
    y = x * 1
    OPS.itself(y).add_(1)
    return y * 2


def masked(x: torch.Tensor) -> Any:
    return x[x > 0] * 2


def masked_mean(x: torch.Tensor) -> Any:
    chosen = x[x > 0]
    return chosen.sum() / chosen.shape[0]


def selected(x: torch.Tensor) -> Any:
    return torch.masked_select(x, x > 0).sort().values


def where(x: torch.Tensor) -> Any:
    return torch.where(x > 0)[0] + 1


def unique(x: torch.Tensor) -> Any:
    values, counts = torch.unique((x * 2).round(), return_counts=True)
    return values * counts


def repeated(x: torch.Tensor) -> Any:
    return x.repeat_interleave((x > 0).long() + 1)


def between_draws(x: torch.Tensor) -> Any:
    y = x + torch.rand_like(x) * 0
    chosen = y[x > 0]
    return chosen + torch.rand_like(chosen)


def chained(x: torch.Tensor) -> Any:
    y = x.sin().exp().tanh().mul(2)
    chosen = y[x > 0]
    return chosen.sin().exp().tanh().mul(2)


SIZES = (
    *(by_count, by_size, by_branch, by_list),
    *(by_place, by_identity, by_memory),
    *(masked, masked_mean, selected, where, unique, repeated, between_draws),
    chained,
)


@pytest.mark.parametrize("fn", SIZES)
def test_each_size_is_a_variant(fn: Fn, device: str) -> None:
    report = compare(device, fn)
    assert report.replayed >= CALLS - 16, str(report)
    assert report.variants >= 2, str(report)


@pytest.mark.parametrize("fn", [by_size, chained, unique])
def test_each_size_by_plans(fn: Fn, device: str) -> None:
    with watched(device) as session:
        report = compare(device, fn, lambda: rest(session))
    assert report.replayed >= CALLS - 16, str(report)


def test_a_number_that_is_other_data_each_time_is_none(device: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y, total = OPS.with_sum(x)
        return y + total

    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(6, device=device)
        assert_same_bits(fast(x), fn(x))
    assert fast.explain().replayed == 0
    assert "gives other sizes or numbers each time" in " ".join(fast.explain().reasons)


def test_a_mask_from_outside(device: str) -> None:
    mask = torch.tensor([True, False, True, True, False, False], device=device)
    report = compare(device, lambda x: (x[mask] * 2).sum())
    assert report.replayed >= CALLS - 4 and report.variants == 1, str(report)


def test_a_mask_made_inside_of_constants_behind_a_write(device: str) -> None:
    """Torch makes a tensor of the host of the number 1, which is gone by then."""
    state = torch.zeros(6, device=device)

    def fn(x: torch.Tensor) -> Any:
        state.copy_(x)
        mask = torch.zeros(6, dtype=torch.bool)
        mask[1:4] = True
        return x.cpu()[mask] * 2

    def packed(x: torch.Tensor) -> Any:
        lengths = torch.full((2,), 3)
        lengths[1:] = 2
        rows = x.view(3, 2, 1)
        return nn.utils.rnn.pack_padded_sequence(rows, lengths).data

    for each in (fn, packed):
        if each is fn and device != "cpu":
            continue  # a copy to the host is read behind the write
        report = compare(device, each)
        assert report.replayed >= CALLS - 4, str(report)


class Nets:
    """A model that learns from the rows that a mask chooses."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.01)
        self.mask = torch.tensor([True, False, True, True], device=device)

    def step(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        out = self.net(x)
        loss = functional.cross_entropy(out[self.mask], labels[self.mask])
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        out = self.net(x)
        return functional.cross_entropy(out[self.mask], labels[self.mask])


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("name", ["step", "forward"])
def test_training_with_a_mask(name: str, changes: bool, device: str) -> None:
    """It may hold others from some call on."""
    ours, plain = Nets(device), Nets(device)
    fast: Any = reprise.region(getattr(ours, name))
    for call in range(CALLS):
        x = torch.randn(4, 6, device=device)
        labels = torch.randint(3, (4,), device=device)
        if changes and call >= CALLS // 2:
            for each in (ours, plain):
                each.mask.fill_(call % 2 == 0)
                each.mask[0] = True
        found = [fast(x, labels), getattr(plain, name)(x, labels)]
        if name == "forward":
            for loss in found:
                loss.backward()
        assert_same_bits(found[0].detach(), found[1].detach(), f"call {call}")
        for one, other in zip(
            ours.net.parameters(), plain.net.parameters(), strict=True
        ):
            assert_same_bits([one, one.grad], [other, other.grad], f"call {call}")
    assert fast.explain().replayed >= CALLS // 2 - 4, str(fast.explain())


def test_behind_a_write_is_refused(device: str) -> None:
    state = torch.zeros(6, device=device)

    def masks(x: torch.Tensor) -> Any:
        state.add_(1)
        return x[x > 0] * 2

    def picks(x: torch.Tensor) -> Any:
        state.add_(1)
        return x * OPS.pick(x).shape[0]

    for fn, said in (
        (masks, "the size of its result depends on data, behind a write"),
        (picks, "what it gives may depend on data, because it has no kernel that says"),
    ):
        report = compare(device, fn)
        assert report.replayed == 0
        assert said in " ".join(report.reasons), str(report)


def test_what_writes_itself_is_refused(device: str) -> None:
    state = torch.zeros(6, device=device)
    report = compare(device, lambda x: x * OPS.fill(state))
    assert report.replayed == 0
    assert "may depend on data" in " ".join(report.reasons), str(report)


def test_what_says_its_form_may_come_behind_a_write(device: str) -> None:
    state = torch.zeros(6, device=device)

    def fn(x: torch.Tensor) -> Any:
        state.copy_(x)
        return OPS.scale(state) + 1

    report = compare(device, fn)
    assert report.replayed >= CALLS - 4, str(report)


def test_what_gives_another_form_than_it_says_raises(device: str) -> None:
    """Behind a write there is no way back."""
    state = torch.zeros(6, device=device)

    def fn(x: torch.Tensor) -> Any:
        state.copy_(x)
        return OPS.says_less(state) + 1

    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        fast(torch.ones(6, device=device))
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())
    with pytest.raises(RuntimeError, match="gives results of another form"):
        fast(torch.tensor([1.0, -1, 1, -1, 1, -1], device=device))
