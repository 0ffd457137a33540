"""`_lazy_clone` of what a replay made: one memory, until somebody writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from watching import SETTLING_CALLS, rest, watched

SIZES = (64, 1 << 16)  # elements: of a heap and, on the host, of pages


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def _made(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(torch.tanh(x * 2) + x) * 3


def _as_function(t: torch.Tensor) -> torch.Tensor:
    return torch._lazy_clone(t)


def _as_method(t: torch.Tensor) -> torch.Tensor:
    return t._lazy_clone()


def _kinds(*tensors: torch.Tensor) -> list[bool]:
    return [torch._C._is_cow_tensor(tensor) for tensor in tensors]


def _share(made: torch.Tensor, clone: torch.Tensor) -> bool:
    return torch._C._data_address(made) == torch._C._data_address(clone)


def _clone_is_written(made: torch.Tensor, clone: torch.Tensor) -> list[object]:
    before = [_kinds(made, clone), _share(made, clone)]
    clone.add_(1)
    return [*before, _kinds(made, clone), _share(made, clone), made, clone]


def _original_is_written(made: torch.Tensor, clone: torch.Tensor) -> list[object]:
    made.mul_(5)
    return [_kinds(made, clone), _share(made, clone), made, clone]


def _last_one_is_written(made: torch.Tensor, clone: torch.Tensor) -> list[object]:
    """It takes the memory over."""
    where = torch._C._data_address(clone)
    made.set_()
    del made
    clone.neg_()
    return [_kinds(clone), torch._C._data_address(clone) == where, clone]


def _cloned_again(made: torch.Tensor, clone: torch.Tensor) -> list[object]:
    again = clone._lazy_clone()
    again[0] = 7
    return [_kinds(made, clone, again), _share(made, clone), made, clone, again]


def _nobody_writes(made: torch.Tensor, clone: torch.Tensor) -> list[object]:
    return [_kinds(made, clone), _share(made, clone), made + clone]


def _same(found: object, expected: object) -> bool:
    if isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor):
        return torch.equal(found, expected)
    return found == expected


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("clone", [_as_function, _as_method])
@pytest.mark.parametrize(
    "use",
    [
        _clone_is_written,
        _original_is_written,
        _last_one_is_written,
        _cloned_again,
        _nobody_writes,
    ],
)
@pytest.mark.parametrize("keep", [False, True])
def test_of_what_a_replay_made(
    device: str,
    use: Callable[[torch.Tensor, torch.Tensor], list[object]],
    clone: Callable[[torch.Tensor], torch.Tensor],
    size: int,
    keep: bool,
) -> None:
    """With `keep`, what earlier passes made lives on, and outputs escape."""
    inputs = [torch.randn(size, device=device) for _ in range(3 * SETTLING_CALLS)]
    found, kept = [], []
    with watched(device) as session:
        for x in inputs:
            made = _made(x)
            found.append(use(made, clone(made)))
            if keep:
                kept.append(made)
            rest(session)
    for number, (x, results) in enumerate(zip(inputs, found, strict=True)):
        made = _made(x)
        for result, expected in zip(results, use(made, clone(made)), strict=True):
            assert _same(result, expected), f"call {number}: {result} {expected}"


def test_memory_is_used_again_once_all_clones_are_gone() -> None:
    """Nothing that a pass made is alive at the next one: no output escapes."""
    with watched("cpu") as session:
        for _ in range(SETTLING_CALLS):
            _made(torch.randn(64))._lazy_clone().add_(1)
            rest(session)
        before = session.stats()
        for _ in range(SETTLING_CALLS):
            _made(torch.randn(64))._lazy_clone().add_(1)
        during = session.stats().since(before)
        assert during.replays >= SETTLING_CALLS
        assert during.escapes == 0, str(session.explain())
