"""Values on the host by which operators decide are looked at in each call, as if Python read them."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from registry import host_values
from registry.host_values import Found
from torch import library as torch_library
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pad_packed_sequence,
)
from watching import assert_same_bits

CALLS = 6
# Of 13 steps and four sequences, the longest of six: in numbers that Python reads alike.
LENGTHS = ([6, 3, 3, 1], [6, 4, 2, 1], [6, 5, 1, 1])
KINDS = [nn.RNN, nn.GRU, nn.LSTM]


def packed(x: torch.Tensor, lengths: list[int]) -> PackedSequence:
    return pack_padded_sequence(x, torch.tensor(lengths))


def check(
    fast: Any,
    plain: Callable[..., Any],
    arguments: Callable[[Any], tuple[Any, ...]],
    values: Any,
) -> None:
    """By turns, each of the values again and again: eager's bits, and replays of each."""
    for value in values:
        for _ in range(CALLS):
            given = arguments(value)
            assert_same_bits(fast(*given), plain(*copy.deepcopy(given)), str(value))
    for _ in range(CALLS):
        for value in values:
            before = fast.explain().replayed
            given = arguments(value)
            assert_same_bits(fast(*given), plain(*copy.deepcopy(given)), str(value))
            assert fast.explain().replayed == before + 1, str(fast.explain())


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_the_batches_of_packed_sequences(kind: Any) -> None:
    torch.manual_seed(0)
    layer = kind(2, 3).requires_grad_(False)
    fast: Any = reprise.region(lambda x: layer(x)[0].data)
    x = torch.randn(6, 4, 2)
    check(fast, lambda x: layer(x)[0].data, lambda each: (packed(x, each),), LENGTHS)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_batches_in_training(kind: Any) -> None:
    """Backward passes go by them, too."""
    torch.manual_seed(0)
    plain = kind(2, 3)
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(lambda x: ours(x)[0].data)
    for call in range(3 * CALLS):
        x = packed(torch.randn(6, 4, 2), LENGTHS[call // 2 % 2])
        found, expected = fast(x), plain(x)[0].data
        assert_same_bits(found.detach(), expected.detach())
        for net, result in ((ours, found), (plain, expected)):
            net.zero_grad()
            result.square().sum().backward()
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            assert_same_bits(a.grad, b.grad, f"call {call}")
    assert fast.explain().replayed > 0, str(fast.explain())


def run_padded(layer: Any, x: torch.Tensor, lengths: torch.Tensor) -> Any:
    inner = pack_padded_sequence(x, lengths, enforce_sorted=False)
    return pad_packed_sequence(layer(inner)[0], total_length=6)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_of_what_is_packed_inside(kind: Any) -> None:
    torch.manual_seed(0)
    layer = kind(2, 3).requires_grad_(False)
    fast: Any = reprise.region(lambda x, lengths: run_padded(layer, x, lengths))
    x = torch.randn(6, 4, 2)
    check(
        fast,
        lambda x, lengths: run_padded(layer, x, lengths),
        lambda each: (x, torch.tensor(each)),
        ([1, 6, 3, 3], [4, 2, 6, 1]),
    )


def test_lengths_of_ctc_loss() -> None:
    """The size of what it keeps depends on them."""

    def loss(x: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor) -> Any:
        chances = x.log_softmax(-1)
        return functional.ctc_loss(chances, targets, lengths, lengths.clamp(max=3))

    torch.manual_seed(0)
    x, targets = torch.randn(8, 4, 5), torch.randint(1, 5, (4, 3))
    fast: Any = reprise.region(loss)
    for call in range(3 * CALLS):
        lengths = torch.tensor([[8, 6, 4, 3], [6, 8, 3, 4]][call // 3 % 2])
        assert_same_bits(fast(x, targets, lengths), loss(x, targets, lengths))
    report = fast.explain()
    assert report.replayed >= 3 * CALLS - 10 and report.variants == 2, str(report)


def test_values_that_are_computed_inside() -> None:
    """Of an argument, which is what is compared."""

    def halves(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        places = (at + 1).clone()
        places[0].sub_(1)
        left, right = torch.tensor_split(x, places // 2)[:2]
        return left.sum() + right.sum() * 2

    fast: Any = reprise.region(halves)
    x = torch.randn(8, 3)
    check(
        fast,
        halves,
        lambda each: (x, torch.tensor(each)),
        ([2, 8], [5, 9], [3, 12]),
    )


def test_where_a_tensor_is_split() -> None:
    def halves(x: torch.Tensor, at: torch.Tensor) -> Any:
        left, right = torch.tensor_split(x, at)
        return left.sum(), right * 2

    fast: Any = reprise.region(halves)
    x = torch.randn(8, 3)
    check(fast, halves, lambda each: (x, torch.tensor([each])), (2, 5, 3))


def test_values_that_a_module_holds() -> None:
    """Written in place, so that it is the same tensor with other content."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.at = torch.tensor([2])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = torch.tensor_split(x, self.at)
            return left.sum() + right.sum() * 2

    net = Net()
    fast: Any = reprise.region(net)
    x = torch.randn(8, 3)
    for at in (2, 5, 2, 3):
        net.at.fill_(at)
        for _ in range(CALLS):
            assert_same_bits(fast(x), net(x), str(at))
    assert fast.explain().replayed > CALLS, str(fast.explain())


def test_values_that_are_written_inside() -> None:
    def grows(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        at.add_(1)
        left, right = torch.tensor_split(x, at)
        return left.sum() + right.sum() * 2

    fast: Any = reprise.region(grows)
    ours, plain = torch.tensor([0]), torch.tensor([0])
    x = torch.randn(8, 3)
    for _ in range(CALLS):
        assert_same_bits(fast(x, ours), grows(x, plain))
    assert fast.explain().replayed == 0
    assert any("written" in each for each in fast.explain().reasons)


def test_values_that_are_drawn_inside() -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        left, right = torch.tensor_split(x, torch.randint(1, 7, (1,)))
        return left.sum() + right.sum() * 2

    fast: Any = reprise.region(drawn)
    x = torch.randn(8, 3)
    for call in range(CALLS):
        torch.manual_seed(call)
        found = fast(x)
        torch.manual_seed(call)
        assert_same_bits(found, drawn(x))
    assert fast.explain().replayed == 0
    assert any("is drawn" in each for each in fast.explain().reasons)


def test_values_that_are_others_each_time_are_given_up() -> None:
    fast: Any = reprise.region(lambda x, at: torch.tensor_split(x, at)[0])
    x = torch.randn(200, 3)
    for call in range(150):
        assert_same_bits(fast(x, torch.tensor([call + 1])), x[: call + 1])
    report = fast.explain()
    assert report.recorded < 100, str(report)


def test_a_loop_of_a_session_writes_what_is_looked_at() -> None:
    """What a replay has done ahead of the program is taken back before."""
    at = torch.tensor([1])
    x = torch.randn(9, 3)
    fast: Any = reprise.region(lambda x, at: torch.tensor_split(x, at)[0].sum())
    with reprise.session("cpu"):
        for call in range(40):
            at.copy_(torch.tensor([1 + call % 3]))
            at.add_(1).mul_(2)
            assert_same_bits(fast(x, at), x[: 2 * (2 + call % 3)].sum(), str(call))
    assert fast.explain().replayed > 0, str(fast.explain())


# --- The scan ---


def test_the_table_names_what_the_scan_finds() -> None:
    """Over all operators, in a process that has no other threads to be forked."""
    done = subprocess.run(
        [sys.executable, host_values.__file__],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "aten::lstm.data: batch_sizes" in done.stdout.splitlines()


@pytest.fixture
def library() -> Iterator[torch_library.Library]:
    with torch_library._scoped_library("reprise_values", "FRAGMENT") as library:
        yield library


def test_the_scan_finds_an_operator_that_decides(
    library: torch_library.Library,
) -> None:
    """By what it reads past operators: which calls it makes, and what it returns."""

    def steps(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x[: int(lengths.numpy()[0])].sum()

    def rows(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.empty(int(lengths.numpy()[0]))

    for function, key in ((steps, "CompositeImplicitAutograd"), (rows, "CPU")):
        name = function.__name__
        library.define(f"{name}(Tensor x, Tensor lengths) -> Tensor")
        library.impl(name, function, key)
        found = host_values.decides(
            f"reprise_values::{name}", [[torch.rand(4), torch.tensor([1, 2, 3])]]
        )
        assert found == {Found(f"reprise_values::{name}", "lengths")}
        assert not host_values.named(*found)


def splits(x: torch.Tensor, size: float) -> list[torch.Tensor]:
    return [*x.tensor_split(torch.full((1,), size).long())]


def counts_what_is_less(x: torch.Tensor, size: float) -> list[torch.Tensor]:
    return [*x.tensor_split((torch.arange(4.0) < size).sum().reshape(1))]


def takes_what_is_less(x: torch.Tensor, size: float) -> list[torch.Tensor]:
    return [x[torch.arange(13.0) < size]]


@pytest.mark.parametrize("fn", [splits, counts_what_is_less, takes_what_is_less])
def test_numbers_by_which_deciding_values_are_made(fn: Any, device: str) -> None:
    """A float that is another one in each call decides as what is made of it does."""
    fast: Any = reprise.region(fn)
    for size in [1.1, 1.2, 1.3, 1.15, 2.5, 3.5, 1.4, 2.2, 4.0, 1.25]:
        x = torch.randn(13, device=device)
        assert_same_bits(fast(x, size), fn(x, size), str(size))


MASK = torch.tensor([True, False] * 6 + [True])
OTHER = torch.tensor([False, True] * 6 + [True])


def masked(x: torch.Tensor) -> torch.Tensor:
    return x[MASK] * 2


def selected(x: torch.Tensor) -> torch.Tensor:
    return x * MASK.nonzero().size(0)


def runs(x: torch.Tensor) -> torch.Tensor:
    """As models that are given images of several sizes find those of one size."""
    sizes = torch.tensor([x.size(0), x.size(0), 7])
    ends = torch.unique_consecutive(sizes, return_counts=True)[1].cumsum(0)
    return x[: ends[0]] - x[: ends[1]].sum()


@pytest.mark.parametrize("fn", [masked, selected, runs])
def test_sizes_that_follow_from_constants(fn: Any, device: str) -> None:
    """They are the same as long as these hold what they held."""
    fast: Any = reprise.region(fn)
    values = [MASK.clone(), OTHER.clone()]

    def arguments(value: torch.Tensor) -> tuple[torch.Tensor]:
        MASK.copy_(value)
        return (torch.randn(13, device=device),)

    try:
        check(fast, fn, arguments, values)
    finally:
        MASK.copy_(values[0])


def of_an_argument(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


def of_a_draw(x: torch.Tensor) -> torch.Tensor:
    return x[torch.rand(13) > 0.5]


def of_what_is_written(x: torch.Tensor) -> torch.Tensor:
    OTHER[0] = ~OTHER[0]
    return x[OTHER]


def of_memory_as_it_is(x: torch.Tensor) -> torch.Tensor:
    kept = torch.empty(13, dtype=torch.bool)
    kept[:] = MASK
    return x[kept]


@pytest.mark.parametrize(
    "fn", [of_an_argument, of_a_draw, of_what_is_written, of_memory_as_it_is]
)
def test_sizes_that_follow_from_other_data(fn: Any) -> None:
    fast: Any = reprise.region(fn)
    for call in range(CALLS):
        x = torch.randn(13)
        before = OTHER.clone()
        torch.manual_seed(call)
        found = fast(x)
        OTHER.copy_(before)
        torch.manual_seed(call)
        assert_same_bits([found], [fn(x)])
    if fn is of_what_is_written:  # others are compared, as what Python reads
        report = fast.explain()
        assert report.replayed == 0
        assert "depends on data" in str(report)
