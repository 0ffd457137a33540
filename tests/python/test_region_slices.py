"""Arguments that are parts of one tensor, and what Python asks of an argument's memory and history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, tensors

CALLS = 40
FIRST = 12  # calls before the arguments are others

Arguments = Callable[[int], tuple[torch.Tensor, ...]]


def memory(device: str) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4 * CALLS + 8, 10, device=device)


def compare(
    function: Callable[..., Any], arguments: Arguments, *, check: str = "sample"
) -> reprise.RegionReport:
    """A region has eager's results in each call, and leaves eager's arguments."""
    fast: Any = reprise.region(function, check=check)

    def run(called: Any, call: int) -> list[torch.Tensor]:
        torch.manual_seed(call)
        given = arguments(call)
        return [each.clone() for each in tensors((called(*given), given))]

    for call in range(CALLS):
        assert_same_bits(run(fast, call), run(function, call), f"call {call}")
    return fast.explain()  # type: ignore[no-any-return]


def replays_all(report: reprise.RegionReport, but: int = 2) -> None:
    assert report.replayed == report.calls - but, str(report)
    assert not report.reasons, str(report)


# --- Where an argument begins ---------------------------------------------------


@pytest.mark.parametrize("check", ["sample", "never", "always"])
def test_another_slice_in_each_call(device: str, check: str) -> None:
    """From the first call on, and a sample finds what was recorded."""
    data = memory(device)
    net = nn.Sequential(nn.LayerNorm(10), nn.Linear(10, 10)).eval().to(device)
    with torch.no_grad():
        report = compare(net, lambda i: (data[4 * i : 4 * i + 4],), check=check)
    if check == "always":
        assert report.replayed == 0 and not report.reasons, str(report)
    else:
        replays_all(report)


def test_steps_of_one_sequence(device: str) -> None:
    data = memory(device)
    parts = data.unbind(0)
    with torch.no_grad():
        replays_all(compare(lambda x: x.log_softmax(-1), lambda i: (parts[i],)))


def test_views_of_a_slice_are_made_where_it_lies(device: str) -> None:
    """They are returned, written, and read."""
    data = memory(device)

    def function(x: torch.Tensor) -> Any:
        columns = x.t()[1:]
        columns.mul_(2)
        return columns, x.view(-1)[3:7] + 1, x.view(torch.int32)[2:].sum()

    def arguments(call: int) -> tuple[torch.Tensor, ...]:
        data.copy_(memory(device))
        return (data[4 * call : 4 * call + 4],)

    with torch.no_grad():
        replays_all(compare(function, arguments))
        fast: Any = reprise.region(function)
        for call in range(CALLS):
            (x,) = arguments(call)
            assert fast(x)[0].data_ptr() == x.t()[1:].data_ptr()


def test_two_slices_that_come_nearer(device: str) -> None:
    """Where they overlap, what is written to one is read from the other."""
    data = memory(device)

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        a.mul_(2)
        return b + 1

    def arguments(call: int) -> tuple[torch.Tensor, ...]:
        data.copy_(memory(device))
        return data[: 4 + 4], data[max(24 - call, 0) :][:8]

    with torch.no_grad():
        replays_all(compare(function, arguments))


def test_slices_that_lay_in_one_place(device: str) -> None:
    """`.data` is known by its place: a call in which they part is another one."""
    data = memory(device)

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        return a * 2 + b.data * 3

    def arguments(call: int) -> tuple[torch.Tensor, ...]:
        return data[4:8], (data[4:8] if call < FIRST else data[8:12])

    with torch.no_grad():
        assert compare(function, arguments).replayed > FIRST


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a.data * 2 + b.data * 3,
        lambda a, b: torch.cat([b.data, a.data, b]) + a.data.sum(),
        lambda a, b: a[1:].data * 2 + b[1:].data * 3,
        lambda a, b: (a.data * 2, b.data.t()[1:] * 3),
    ],
)
def test_samples_of_slices_that_lie_in_one_place(
    device: str, function: Callable[..., Any]
) -> None:
    """There `.data` may be of either: no sample is another one for that."""
    data = memory(device)
    fast: Any = reprise.region(function)
    with torch.no_grad():
        for call in range(700):
            first = 4 * (call % 32)
            # Samples come at 259 and later: in one place from 250 on.
            second = first if call % 3 or call > 250 else first + 4
            given = data[first : first + 4], data[second : second + 4]
            assert_same_bits(fast(*given), function(*given), f"call {call}")
    report = fast.explain()
    assert report.samples > 0 and report.replayed > 680, str(report)
    assert not any("withdrawn" in each for each in report.reasons), str(report)


def test_gradients_of_slices(device: str) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(10, 3).to(device)

    def step(x: torch.Tensor) -> Any:
        layer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        return loss.detach(), *(each.grad for each in layer.parameters())

    data = memory(device)
    # The first call makes the gradients.
    replays_all(compare(step, lambda i: (data[4 * i : 4 * i + 4],)), but=3)


def test_a_number_that_says_where_memory_begins(device: str) -> None:
    data = memory(device)
    with torch.no_grad():
        report = compare(
            lambda x: x.as_strided((2, 2), (1, 1), 12) * 2,
            lambda i: (data[1:5] if i < FIRST else data[2:6],),
        )
    assert report.replayed > FIRST, str(report)


def test_backward_passes_of_slices_that_part(device: str) -> None:
    """What autograd saves of two arguments in one memory is told apart."""
    data = memory(device)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 10), nn.Tanh()).to(device)
    fast: Any = reprise.region(lambda a, b: net(a) * net(b) * b)
    for call in range(CALLS):
        a, b = data[:4], data[4 + 4 * call :][:4]
        net.zero_grad()
        fast(a, b).sum().backward()
        found = [each.grad.clone() for each in net.parameters()]
        net.zero_grad()
        (net(a) * net(b) * b).sum().backward()
        assert_same_bits(found, [each.grad for each in net.parameters()], str(call))
    report = fast.explain()
    assert report.backward > CALLS // 2, str(report)


def test_windows_of_one_waveform(device: str) -> None:
    """An operator may make views by numbers, from where its argument begins."""
    wave = memory(device).view(-1)
    with torch.no_grad():
        report = compare(
            lambda x: x.as_strided((3, 4), (2, 1)).sum(0),
            lambda i: (wave[8 * i : 8 * i + 16],),
        )
    replays_all(report)


def test_many_offsets_that_are_asked(device: str) -> None:
    """Each is another variant, and those that come back are found among all of them."""
    data = memory(device)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.storage_offset() % 20 == 0 else x * 3

    fast: Any = reprise.region(function)
    with torch.no_grad():
        for call in range(600):
            first = call % 60
            x = data[first : first + 4]
            assert_same_bits(fast(x), function(x), f"call {call}")
    report = fast.explain()
    assert report.replayed > 240, str(report)


# --- What Python asks -----------------------------------------------------------


def fresh_or_slice(call: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 10) if call < FIRST else torch.randn(8, 10)[2:6],)


def written(call: int) -> tuple[torch.Tensor, ...]:
    x = torch.randn(4, 10)
    return (x if call < FIRST else x.add_(1),)


def with_history(call: int) -> tuple[torch.Tensor, ...]:
    x = torch.randn(8, 10).requires_grad_()
    a, b = (x * 1).chunk(2) if call < FIRST else (x + 1).chunk(2)
    return (a,) if call % 8 < 4 else (b,)


def leaf_or_not(call: int) -> tuple[torch.Tensor, ...]:
    x = torch.randn(4, 10).requires_grad_()
    return (x if call < FIRST else x * 1,)


@pytest.mark.parametrize(
    ("asks", "arguments", "reason"),
    [
        (lambda x: x._base is not None, fresh_or_slice, "_base"),
        (lambda x: x._is_view(), fresh_or_slice, "_is_view"),
        (lambda x: x.view(-1)._base is x, fresh_or_slice, "_base"),
        (lambda x: x._version > 0, written, "_version"),
        (lambda x: "Split" in type(x.grad_fn).__name__, with_history, "grad_fn"),
        (lambda x: "Split" in type(x._grad_fn).__name__, with_history, "grad_fn"),
        (
            lambda x: x.view(-1).grad_fn.next_functions[0][0].name() != "Mul",
            with_history,
            "grad_fn",
        ),
        (lambda x: x.output_nr > 0, with_history, "output_nr"),
    ],
)
def test_what_python_asks_of_an_argument_is_refused(
    asks: Callable[[torch.Tensor], bool], arguments: Arguments, reason: str
) -> None:
    report = compare(lambda x: x * 2 if asks(x) else x * 3, arguments)
    assert report.replayed == 0 and any(reason in each for each in report.reasons), str(
        report
    )


@pytest.mark.parametrize(
    ("asks", "arguments"),
    [
        (lambda x: x.storage_offset() > 0, fresh_or_slice),
        (lambda x: x[1:].storage_offset() > 10, fresh_or_slice),
        (lambda x: x.is_leaf, leaf_or_not),
        (lambda x: x.grad_fn is None, leaf_or_not),
    ],
)
def test_what_python_asks_of_an_argument_is_compared(
    asks: Callable[[torch.Tensor], bool], arguments: Arguments
) -> None:
    report = compare(lambda x: x * 2 if asks(x) else x * 3, arguments)
    assert report.replayed > 0, str(report)


def test_what_python_asks_of_what_a_call_makes() -> None:
    """It is the same in each call."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.add_(1)
        parts = y.chunk(2)
        asked = (
            y._version,
            parts[1].storage_offset(),
            parts[1]._base is y,
            y._is_view(),
            y.grad_fn is None,
        )
        return parts[1] * (3 if asked == (1, 20, True, False, True) else 5)

    with torch.no_grad():
        replays_all(compare(function, lambda i: (torch.randn(4, 10),)))


def test_whether_arguments_are_one_memory(device: str) -> None:
    data = memory(device)
    with torch.no_grad():
        report = compare(
            lambda a, b: a * 2 if a.is_set_to(b) else a * 3,
            lambda i: (data[4:8], data[4:8] if i < FIRST else data[8:12]),
        )
    assert report.replayed > 0, str(report)


@pytest.mark.parametrize(
    "instead",
    [lambda y: y * 5, lambda y: y[:2], lambda y: y.t(), lambda y: y.clone()],
)
def test_other_memory_for_what_a_call_has_made(instead: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.data = instead(y.data)
        return y + 1

    with torch.no_grad():
        report = compare(function, lambda i: (torch.randn(4, 10),))
    assert any(".data" in each for each in report.reasons), str(report)


def test_another_form_by_operators(device: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.t_().squeeze_().unsqueeze_(0)
        return y + 1

    with torch.no_grad():
        replays_all(compare(function, lambda i: (torch.randn(4, 10, device=device),)))


def test_tensors_that_are_swapped_inside() -> None:
    def function(x: torch.Tensor) -> Any:
        y, z = x * 2, x * 3
        torch.utils.swap_tensors(y, z)
        return y + 1, z

    with torch.no_grad():
        compare(function, lambda i: (torch.randn(4, 10),))
