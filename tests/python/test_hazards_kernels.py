"""Kernels that the program registers for torch's own operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import hazards
import pytest
import reprise
import torch
from watching import assert_same_bits, watched

PASSES = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _sin_by_cos(calls: list[int]) -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")

    def kernel(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x.cos() * calls[0]

    library.impl("sin", kernel, "CPU", allow_override=True)
    return library


def _taken_back_in_mid_pass(
    tick: Callable[[], object],
) -> tuple[list[torch.Tensor], int]:
    """A kernel comes from some pass on, and goes in the middle of each."""
    w, out, calls = torch.linspace(0, 1, 8), [], [0]
    for i in range(PASSES):
        library = _sin_by_cos(calls) if i >= PASSES // 2 else None
        c = torch.sin(w * 2 + 1) * 3
        if library is not None:
            library._destroy()
        out.append(torch.sin(c - 1))
        tick()
    return out, calls[0]


def _always(tick: Callable[[], object]) -> tuple[list[torch.Tensor], int]:
    w, out, calls = torch.linspace(0, 1, 8), [], [0]
    library = _sin_by_cos(calls)
    for _ in range(PASSES):
        out.append((torch.sin(w * 2 + 1) * 3).exp() + 1)
        tick()
    library._destroy()
    return out, calls[0]


def _inside_a_composite(tick: Callable[[], object]) -> tuple[list[torch.Tensor], int]:
    """The operator whose kernel is replaced is called by another operator."""
    w, out, calls = torch.linspace(0, 1, 8), [], [0]
    for i in range(PASSES):
        library = None
        if i >= PASSES // 2:
            library = torch.library.Library("aten", "IMPL")

            def kernel(x: torch.Tensor, value: float) -> torch.Tensor:
                calls[0] += 1
                return x.zero_().add_(value + calls[0])

            library.impl("fill_.Scalar", kernel, "CPU", allow_override=True)
        out.append(torch.full((4,), 2.0) * w[:4] + 1)
        tick()
        if library is not None:
            library._destroy()
    return out, calls[0]


@pytest.mark.parametrize(
    "program", [_taken_back_in_mid_pass, _always, _inside_a_composite]
)
def test_kernels_of_the_programs_own(
    program: Callable[..., tuple[list[torch.Tensor], int]],
) -> None:
    expected, calls = program(lambda: None)
    with watched("cpu") as session:
        found, called = program(reprise.wait)
        assert session.stats().replays > 0
    assert_same_bits(found, expected)
    assert called == calls


def test_plans_come_back_with_torchs_kernels() -> None:
    w = torch.linspace(0, 1, 8)

    def one() -> torch.Tensor:
        return torch.sin(w * 2 + 1) * 3

    with watched("cpu") as session:
        for _ in range(20):
            one()
            reprise.wait()
        library = _sin_by_cos([0])
        one()
        library._destroy()
        before = session.stats().recorded
        followed = session.stats().followed
        for _ in range(20):
            one()
            reprise.wait()
        assert session.stats().recorded == before
        assert session.stats().followed > followed + 40


@pytest.mark.parametrize(
    "names", [("bmm", "sin"), ("view", "t", "slice.Tensor", "transpose.int")]
)
def test_kernels_for_another_backend_replace_none(names: tuple[str, ...]) -> None:
    """Torch 2.15 itself registers some from Python, for GPUs alone. Views are no ops."""
    w = torch.linspace(0, 1, 16).reshape(4, 2, 2)

    @torch.inference_mode()
    def one() -> torch.Tensor:
        y = (torch.bmm(w * 2 + 1, w).sin() * 3).view(2, 8)[:, 2:].t()
        return (y.transpose(0, 1) * 3).exp()

    library = torch.library.Library("aten", "IMPL")
    try:
        for name in names:
            library.impl(name, lambda *_: None, "CUDA", allow_override=True)
        expected = one()
        with watched("cpu") as session:
            for _ in range(40):
                assert_same_bits([one()], [expected])
                reprise.wait()
            before = session.stats()
            one()
            after = session.stats().since(before)
            assert after.followed == after.ops, str(session.explain())
    finally:
        library._destroy()
