"""Streams of the program that are ordered by the host alone, on a GPU.

Another stream writes what a replay may have read ahead, and the program waits for it
before it goes on: no event and no wait tells the replay's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hazards
import pytest
import reprise
import skips
import torch
from hazards import same_as_eager
from watching import assert_same_bits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(skips.gpus() == 0, reason=skips.NO_GPU),
]

PASSES = 40
LATE = 22  # a pass at which what repeats has long been replayed

#: Waits for the other stream, by the host; returns what the program keeps of it.
Order = Callable[[torch.cuda.Stream, torch.Tensor], Any]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _wait_for_stream(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    side.synchronize()


def _wait_for_event(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    side.record_event().synchronize()


def _ask_event(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    event = side.record_event()
    while not event.query():
        pass


def _ask_stream(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    while not side.query():
        pass


def _wait_for_device(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    torch.cuda.synchronize()


def _read_number(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    with torch.cuda.stream(side):
        return torch.tensor(w.sum().item())


def _copy_out(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    with torch.cuda.stream(side):
        return w.cpu()


def _copy_in(side: torch.cuda.Stream, w: torch.Tensor) -> Any:
    with torch.cuda.stream(side):
        return torch.full((3,), 2.0).to("cuda")


def _write(weight: torch.Tensor) -> None:
    weight.mul_(1.0625)
    weight.clamp_(-2, 2)
    weight.sub_(0.001)
    weight.add_(0.002)


def _walk(
    order: Order,
    when: Callable[[int], bool],
    wait: Callable[[], object],
    write: Callable[[torch.Tensor], object] = _write,
) -> Any:
    """Passes that do not use the weight before another stream has written it."""
    torch.manual_seed(11)
    weight = torch.randn(64, 64, device="cuda")
    inputs = [torch.randn(64, 64, device="cuda") for _ in range(PASSES)]
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    kept: list[Any] = []
    for number, x in enumerate(inputs):
        h = (x * 1.5).tanh()
        h = (h + 0.25).abs_() * x
        if when(number):
            with torch.cuda.stream(side):
                torch.cuda._sleep(400_000)
                write(weight)
            kept.append(order(side, weight))
        h = h @ weight
        h = (h.relu_() - 0.5).sin()
        kept.append(h @ weight)
        torch.cuda.current_stream().synchronize()  # the weight may be written
        wait()
    return [value for value in kept if value is not None]


@pytest.mark.parametrize(
    "when",
    [
        lambda number: number >= LATE,
        lambda number: number % 5 == 4,
        lambda number: True,
    ],
    ids=["from late on", "now and then", "always"],
)
@pytest.mark.parametrize(
    "order",
    [
        _wait_for_stream,
        _wait_for_event,
        _ask_event,
        _ask_stream,
        _wait_for_device,
        _read_number,
        _copy_out,
        _copy_in,
    ],
)
def test_writes_of_other_streams_are_seen(
    order: Order, when: Callable[[int], bool]
) -> None:
    same_as_eager("cuda", lambda wait: _walk(order, when, wait))


@pytest.mark.parametrize("order", [_wait_for_stream, _wait_for_event, _ask_stream])
def test_writes_of_regions_on_other_streams_are_seen(order: Order) -> None:
    """Their ops are not shown one by one, and others know of them all the same."""
    fast: Any = reprise.region(_write)
    with hazards.watched("cuda") as session:
        found = _walk(order, lambda _: True, lambda: hazards.rest(session), fast)
        assert session.stats().unshown > 0, str(session.explain())
    assert_same_bits(found, _walk(order, lambda _: True, lambda: None))
