"""Kernels that the program registers for torch's own operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import hazards
import pytest
import reprise
import torch
from hazards import same_as_eager
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


_ONE = torch.ones(())
_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _by_the_key_of_a_device() -> Callable[[torch.Tensor], object]:
    add = torch.ops.aten.add_.Tensor
    return lambda tensor: add.redispatch(_HOST, tensor, _ONE)


def _by_its_handle() -> Callable[[torch.Tensor], object]:
    handle = torch.ops.aten.add_.Tensor._handle
    return lambda tensor: handle.redispatch_boxed(_HOST, tensor, _ONE)


@pytest.mark.parametrize("since", [0, PASSES // 2])
@pytest.mark.parametrize("make", [_by_the_key_of_a_device, _by_its_handle])
def test_kernels_that_python_calls_past_the_dispatcher(
    make: Callable[[], Callable[[torch.Tensor], object]], since: int
) -> None:
    """In some passes, on what the next op reads, which would have run ahead."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(6)
        write, w, t = make(), torch.randn(8, 8), torch.zeros(8)
        seen = []
        for number in range(PASSES):
            h = (torch.tanh(torch.randn(8, 8) @ w) + 1) * 2
            if number >= since and number % 3 == 0:
                write(t)
            h = (h + t).sin()
            if number >= since and number % 4 == 1:
                write(h)
            seen.append(h * t + 1)
            tick()
        return seen

    same_as_eager("cpu", run)


@torch.library.custom_op("reprise_kernels::twice", mutates_args=())
def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


_twice.register_autograd(lambda ctx, gradient: gradient * 2)


def test_operators_without_a_hook_end_no_replay() -> None:
    """Custom operators that are differentiated redispatch: their kernels' ops are seen."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(6)
        w, seen = torch.randn(8, 8).requires_grad_(), []
        for _ in range(PASSES):
            with torch.enable_grad():
                h = _twice(torch.tanh(torch.randn(8, 8) @ w) + 1)
                seen.append((h.sin() * w).detach())
            tick()
        return seen

    _, report = same_as_eager("cpu", run)
    rows = report.to_dict()["cuts"]
    assert not [row for row in rows if "without an op" in row["reason"]], str(report)


def test_what_is_no_set_of_keys_is_refused_by_torch() -> None:
    """With the error that it gives without Reprise."""
    handle = torch.ops.aten.add_.Tensor._handle
    with watched("cpu", replays=False), pytest.raises(TypeError, match="incompatible"):
        handle.redispatch_boxed(7, torch.ones(2), _ONE)
