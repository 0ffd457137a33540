"""Floats of a region's calls that no operator takes, and floats that no operator shows."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from watching import assert_same_bits

# Alike as integers, and at the end not.
NUMBERS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.7, 5.0, -3.0, 0.25]

Fn = Callable[..., Any]


def check(
    fn: Fn, given: Callable[[], torch.Tensor], numbers: list[float] = NUMBERS
) -> reprise.RegionReport:
    fast: Any = reprise.region(fn)
    for number in numbers:
        x = given()
        found, expected = fast(x, number), fn(x, number)
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else ()
        for mine, other in pairs or ((found, expected),):
            if isinstance(other, torch.Tensor):
                assert_same_bits([mine], [other])
            else:
                assert mine == other
    report: reprise.RegionReport = fast.explain()
    return report


@pytest.fixture
def floats(device: str) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(4, device=device)


@pytest.fixture
def integers(device: str) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, 5, (4,), device=device)


# --- Numbers that nobody takes ---


def unused(x: torch.Tensor, number: float) -> torch.Tensor:
    del number
    return x * 2


def beside_another(x: torch.Tensor, number: float) -> torch.Tensor:
    other = 0.5
    return x * other


def handed_on(x: torch.Tensor, number: float) -> torch.Tensor:
    return unused(x, number=number)


@pytest.mark.parametrize("fn", [unused, beside_another, handed_on])
def test_a_number_that_no_operator_takes(
    floats: Callable[[], torch.Tensor], fn: Fn
) -> None:
    report = check(fn, floats)
    assert report.replayed >= len(NUMBERS) - 2, str(report)


def test_numbers_that_are_none(floats: Callable[[], torch.Tensor]) -> None:
    numbers = [0.1, 0.2, 0.3, math.nan, math.inf, 0.4, math.nan, 0.5, 0.6]
    report = check(unused, floats, numbers)
    assert report.replayed >= 4, str(report)


def check_schedule(
    device: str,
    made: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
    *,
    steps_inside: bool,
) -> None:
    """Passes of a region under a schedule, which are replayed, beside plain ones."""
    torch.manual_seed(3)
    net = nn.Linear(4, 4).to(device)
    found = []
    reports = []
    for is_region in (False, True):
        own = copy.deepcopy(net)
        optimizer = made(list(own.parameters()))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def passes(
            x: torch.Tensor, own: Any = own, optimizer: Any = optimizer
        ) -> torch.Tensor:
            optimizer.zero_grad()
            loss = own(x).square().sum()
            loss.backward()
            return loss.detach()  # type: ignore[no-any-return]

        def step(
            x: torch.Tensor, passes: Any = passes, optimizer: Any = optimizer
        ) -> torch.Tensor:
            loss = passes(x)
            optimizer.step()
            return loss  # type: ignore[no-any-return]

        plain = step if steps_inside else passes
        fn: Any = reprise.region(plain) if is_region else plain
        generator = torch.Generator().manual_seed(5)
        kept = []
        for _ in range(16):
            kept.append(fn(torch.randn(3, 4, generator=generator).to(device)))
            if not steps_inside:
                optimizer.step()
            schedule.step()
        found.append([*kept, *(each.detach() for each in own.parameters())])
        reports.append(fn.explain() if is_region else None)
    assert_same_bits(*found)
    assert reports[1].replayed >= 12, str(reports[1])


def test_a_step_outside_whose_rate_changes(device: str) -> None:
    """The region leads to the optimizer, which it only has forget gradients."""
    check_schedule(device, lambda of: torch.optim.AdamW(of, lr=0.1), steps_inside=False)


@pytest.mark.parametrize("foreach", [False, True])
def test_a_rate_that_a_step_does_not_take(device: str, foreach: bool) -> None:
    """`Rprop` takes it for its first step alone."""
    check_schedule(
        device,
        lambda of: torch.optim.Rprop(of, lr=0.1, foreach=foreach),
        steps_inside=True,
    )


# --- Numbers that Python, or what no operator shows, goes by ---


class Keeps:
    number = 0.0

    def __call__(self, x: torch.Tensor, number: float) -> torch.Tensor:
        self.number = number
        return x + 1


def looked_at(x: torch.Tensor, number: float) -> torch.Tensor:
    return x + 1 if number > 0.45 else x - 1


def returned(x: torch.Tensor, number: float) -> tuple[torch.Tensor, float]:
    return x + 1, number


def as_a_key(x: torch.Tensor, number: float) -> torch.Tensor:
    return x + {0.1: 5, 0.3: 6}.get(number, 7)


def rounded(x: torch.Tensor, number: float) -> torch.Tensor:
    return x + round(number)


def forms_by_it(x: torch.Tensor, number: float) -> torch.Tensor:
    """Only operators of the meta device take it."""
    rows = torch.arange(0.0, abs(number) + 1, device="meta").shape[0]
    return x.sum() + rows


def composite(x: torch.Tensor, number: float) -> torch.Tensor:
    return functional.interpolate(x[None, None], scale_factor=abs(number) + 1)


def in_another_tensor(x: torch.Tensor, number: float) -> torch.Tensor:
    kept = torch.zeros(2, dtype=torch.float64)
    kept[0] = number
    return x + kept[0].to(x)


@pytest.mark.parametrize(
    "fn",
    [
        looked_at,
        returned,
        as_a_key,
        rounded,
        forms_by_it,
        composite,
        in_another_tensor,
    ],
)
def test_a_number_that_is_used_otherwise(
    floats: Callable[[], torch.Tensor], fn: Fn
) -> None:
    check(fn, floats, [*NUMBERS, *NUMBERS])


def test_a_number_that_is_kept() -> None:
    plain, ours = Keeps(), Keeps()
    fast: Any = reprise.region(ours.__call__)
    for number in [*NUMBERS, *NUMBERS]:
        x = torch.randn(3)
        assert_same_bits([fast(x, number)], [plain(x, number)])
        assert ours.number == plain.number


def set_in(x: torch.Tensor, number: float) -> torch.Tensor:
    x = x.clone()
    x[0] = number
    return x


def set_by_mask(x: torch.Tensor, number: float) -> torch.Tensor:
    x = x.clone()
    x[x > 2] = number
    return x


def set_and_used(x: torch.Tensor, number: float) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.clone()
    x[1:] = number
    return x, x * number


def made_alike(x: torch.Tensor, number: float) -> torch.Tensor:
    return x + x.new_tensor(number)


def made_in_a_list(x: torch.Tensor, number: float) -> torch.Tensor:
    return x + x.new_tensor([1, number]).sum()


def as_a_truth(x: torch.Tensor, number: float) -> torch.Tensor:
    x = x > 2
    x[0] = number
    return x


@pytest.mark.parametrize(
    "fn",
    [set_in, set_by_mask, set_and_used, made_alike, made_in_a_list, as_a_truth],
)
def test_a_number_that_an_integer_is_made_of(
    integers: Callable[[], torch.Tensor], fn: Fn
) -> None:
    """By no operator, and the first numbers are all alike as integers."""
    check(fn, integers, [*NUMBERS, 0.0, 0.3, 7.0])


def test_integers_beside_a_number_that_varies(
    integers: Callable[[], torch.Tensor],
) -> None:
    """They are none that it may have become."""

    def fn(x: torch.Tensor, number: float) -> torch.Tensor:
        x = x.clone()
        x[0] = -100
        return x * number

    report = check(fn, integers, [*NUMBERS, 0.0, 0.3, 7.0])
    assert report.replayed >= 10, str(report)


@pytest.mark.parametrize("reads", [False, True])
def test_integers_beside_a_rate(reads: bool) -> None:
    """Only torch's optimizer looks at a rate, unless code names its groups."""
    torch.manual_seed(3)
    net = nn.Linear(4, 4)
    own = copy.deepcopy(net)

    def make(net: nn.Module) -> tuple[Fn, torch.optim.Optimizer]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x: torch.Tensor, ids: torch.Tensor) -> Any:
            optimizer.zero_grad()
            ids = ids.clone()
            ids[0] = 0
            loss = net(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach(), ids

        def reading(x: torch.Tensor, ids: torch.Tensor) -> Any:
            loss, ids = step(x, ids)
            ids[1] = optimizer.param_groups[0]["lr"]
            return loss, ids

        return (reading if reads else step), optimizer

    (plain, other), (ours, optimizer) = make(net), make(own)
    fast: Any = reprise.region(ours)
    for rate in [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 1.5, 2.5, 0.1]:
        for each in (other, optimizer):
            each.param_groups[0]["lr"] = rate
        x, ids = torch.randn(3, 4), torch.randint(0, 5, (4,))
        assert_same_bits(list(fast(x, ids)), list(plain(x, ids)))
    report = fast.explain()
    # Torch 2.15 fills the integer by an operator, which is given the rate.
    assert reads or report.replayed >= 6, str(report)


IS_MORE = (1.0).__gt__
HELD = {"is more": (1.0).__gt__}


class WithMethod:
    is_less = (1.0).__lt__


METHODS: dict[str, Callable[[float], float]] = {
    "named": lambda f: (1.0).__gt__(f),
    "of the class": lambda f: float.__lt__(1.0, f),
    "filter": lambda f: len([*filter((1.0).__lt__, [f])]),
    "adds": lambda f: int((1.0).__add__(f)),
    "complex": lambda f: int(abs((1j).__add__(f))),
    "a global": lambda f: IS_MORE(f),
    "in a dictionary": lambda f: HELD["is more"](f),
    "of a class": lambda f: WithMethod.is_less(f),
    "a default": lambda f, more=(1.0).__gt__: more(f),  # type: ignore[misc]
    "by text": lambda f: getattr(1.0, "__gt__")(f),  # noqa: B009
    "by a caller": lambda f: operator.methodcaller("__gt__", f)(1.0),
}


@pytest.mark.parametrize("takes", METHODS.values(), ids=METHODS)
def test_methods_of_ordinary_numbers_take_it(takes: Callable[[float], float]) -> None:
    """They are written in C, and ask nothing of the number that they are given."""
    numbers = [*NUMBERS, *[0.3] * 6, *[1.7] * 6]
    report = check(lambda x, f: x * takes(f) + 1, lambda: torch.randn(3), numbers)
    assert report.replayed >= 4, str(report)
