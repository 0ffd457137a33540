"""Ops that no trace holds and that use memory of ordinary tensors, between two ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hazards
import pytest
import reprise
import torch
from hazards import WIDTH, Hazard, Point, cases, check_case, same_as_eager
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map

PASSES = 30


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _sparse(point: Point, layout: torch.layout) -> torch.Tensor:
    """A sparse matrix, made at the first pass that asks for it."""
    if layout not in point.memo:
        dense = torch.zeros(WIDTH, WIDTH, device=point.device)
        dense[0, 3], dense[5, 7], dense[9, 1] = 1.0, 2.0, -0.5
        point.memo[layout] = dense.to_sparse(layout=layout)
    return point.memo[layout]


class _Wrapper(torch.Tensor):
    """A tensor that hands each op on to the one that it wraps."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> _Wrapper:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def unwrap(value: Any) -> Any:
            return value.inner if isinstance(value, _Wrapper) else value

        out = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return cls(out) if isinstance(out, torch.Tensor) else out


class _Own(torch.Tensor):
    """A tensor with memory, whose ops run with its own dispatch switched off."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> _Own:
        return torch.Tensor._make_subclass(cls, inner)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with torch._C._DisableTorchDispatch():  # type: ignore[attr-defined]
            return func(*args, **(kwargs or {}))


# --- Writers ------------------------------------------------------------------


def _add_compressed(point: Point) -> Any:
    point.w.add_(_sparse(point, torch.sparse_csr))


def _add_coordinates(point: Point) -> Any:
    point.h.add_(_sparse(point, torch.sparse_coo))
    point.w.add_(_sparse(point, torch.sparse_coo), alpha=0.5)


def _mask(point: Point) -> Any:
    """Both a reader of a dense tensor and a writer of a sparse one."""
    mask = _sparse(point, torch.sparse_coo)
    return point.h.sparse_mask(mask).to_dense()


def _multiply_into(point: Point) -> Any:
    product = torch.mm(_sparse(point, torch.sparse_csr), point.w)
    torch.addmm(point.w, _sparse(point, torch.sparse_csr), point.w, out=point.w)
    point.w.div_(4)
    return product


def _through_sparse_values(point: Point) -> Any:
    """The values of a sparse tensor are a dense one, which the program works on."""
    sparse = _sparse(point, torch.sparse_coo)
    values = sparse._values()
    sparse.mul_(0.75)
    point.h = point.h + values.sum()
    sparse.mul_(-1.25)
    return values * 2


def _nested(point: Point) -> Any:
    """A view of a nested tensor's memory is written through the nested one."""
    if "nested" not in point.memo:
        with torch.inference_mode(False):
            rows = [point.x[:5].clone(), point.x[5:].clone()]
            point.memo["nested"] = torch.nested.nested_tensor(rows)
    nested = point.memo["nested"]
    first, second = nested.unbind()
    nested.mul_(-0.5)
    point.h = torch.cat([first, second]) + point.h
    nested.add_(nested)
    return first * 2


def _quantized(point: Point) -> Any:
    quantized = torch.quantize_per_tensor(point.h, 0.05, 3, torch.qint8)
    twice = torch.ops.quantized.add_scalar(quantized, 0.5)
    point.w.copy_(quantized.dequantize())
    return twice.dequantize()


def _requantized(point: Point) -> Any:
    """A quantized tensor is written that another op reads."""
    if "quantized" not in point.memo:
        point.memo["quantized"] = torch.quantize_per_tensor(
            point.w, 0.05, 3, torch.qint8
        )
    point.memo["quantized"].copy_(point.h.contiguous())
    point.h = point.h + point.memo["quantized"].dequantize()


def _blocked(point: Point) -> Any:
    blocked = point.h.to_mkldnn().relu()
    point.w.copy_(blocked.to_dense())
    return blocked.to_dense()


def _wrapped(point: Point) -> Any:
    wrapper = _Wrapper(point.w)
    wrapper.mul_(0.75)
    wrapper.add_(_Wrapper(point.h), alpha=0.25)
    return point.w.clone()


def _with_own_memory(point: Point) -> Any:
    if "own" not in point.memo:
        point.memo["own"] = _Own(point.w)
    point.memo["own"].mul_(0.75)
    return torch.add(point.memo["own"], point.h).as_subclass(torch.Tensor)


def _named(point: Point) -> Any:
    if "named" not in point.memo:
        point.memo["named"] = point.w.rename("a", "b")
    point.memo["named"].mul_(0.75)
    return point.w + 1


def _mapped(point: Point) -> Any:
    """Writes of a vectorised function reach the tensor that is not mapped over."""
    rows = torch.vmap(lambda row: row.mul(2).add_(1))(point.h)
    point.w.add_(rows * 0.125)
    return torch.func.vmap(lambda a, b: a.mul_(b))(point.w, torch.ones(WIDTH) * 0.5)


_ANYWHERE = [
    _add_compressed,
    _add_coordinates,
    _mask,
    _multiply_into,
    _through_sparse_values,
    _nested,
    _wrapped,
    _with_own_memory,
    *([_named] if hasattr(torch.Tensor, "rename") else []),  # gone in torch 2.15
]
_ON_THE_HOST = [_quantized, _requantized, _blocked, _mapped]


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*[Nn]ested", "ignore:Named")
@cases
@pytest.mark.parametrize("hazard", _ANYWHERE)
def test_between_two_ops(device: str, hazard: Hazard, case: hazards.Case) -> None:
    check_case(device, hazard, case)


@cases
@pytest.mark.parametrize("hazard", _ON_THE_HOST)
def test_between_two_ops_of_the_host(hazard: Hazard, case: hazards.Case) -> None:
    check_case("cpu", hazard, case)


# --- What costs no replay -----------------------------------------------------


def _fake(point: Point) -> Any:
    """Shapes alone, as a compiler asks for them: no memory is used."""
    if "mode" not in point.memo:
        point.memo["mode"] = FakeTensorMode()
    with point.memo["mode"]:
        x = torch.empty(WIDTH, WIDTH, device=point.device)
        y = (x @ x).relu_() + torch.empty(WIDTH, device=point.device)
        assert isinstance(y, FakeTensor)


def _meta(point: Point) -> Any:
    x = torch.empty(WIDTH, WIDTH, device="meta")
    assert (x @ x).mul_(2).shape == (WIDTH, WIDTH)


def _views(point: Point) -> Any:
    return point.h.t()[1:].unsqueeze(0).expand(2, -1, -1), point.w.detach()


@pytest.mark.parametrize("hazard", [_fake, _meta, _views])
def test_what_uses_no_memory_interrupts_nothing(device: str, hazard: Hazard) -> None:
    case = hazards.Case("late", lambda number: number >= hazards.LATE, 7)
    stats, report = check_case(device, hazard, case)
    # Making a fake tensor looks at the storage of a tensor without memory.
    assert stats.squashes == 0 or hazard is _fake, str(report)
    assert "not watched" not in str(report)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("watched_device", ["cpu", "cuda"])
def test_ops_of_the_other_kind_of_device_interrupt_nothing(watched_device: str) -> None:
    other = "cuda" if watched_device == "cpu" else "cpu"
    elsewhere = torch.ones(4, device=other)

    def run(wait: Any) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for _ in range(PASSES):
            h = torch.randn(WIDTH, WIDTH, device=watched_device)
            h = (h @ h).relu_()
            elsewhere.mul_(2.0).clamp_(max=8.0)
            kept.append(h.sin() + 0.5)
            wait()
        return kept

    stats, report = same_as_eager(watched_device, run)
    assert stats.squashes == 0, str(report)


# --- Two devices --------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
@pytest.mark.parametrize("late", [0, 18])
def test_copies_between_devices_are_told_to_both(late: int) -> None:
    """A copy reads what the source's stream has not made yet, or has gone past."""
    here, there = torch.device("cuda:0"), torch.device("cuda:1")

    def run(wait: Any) -> list[torch.Tensor]:
        torch.manual_seed(7)
        copied = torch.zeros(256, 256, device=there)
        state = torch.ones(256, 256, device=here)
        kept = []
        for number in range(PASSES):
            h = torch.randn(256, 256, device=here)
            for _ in range(3):
                h = (h @ h).tanh_()
            state.copy_(h)
            if number >= late:
                copied.copy_(state)
            state.mul_(0.5)
            kept += [h + state, copied.clone() * 2]
            wait()
        return kept

    same_as_eager("cuda", run)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
def test_one_gpu_of_two_is_served() -> None:
    def passes(device: str, session: reprise.Session) -> int:
        before = session.stats()
        x = torch.ones(64, 64, device=device)
        for _ in range(PASSES):
            h = x
            for _ in range(8):
                h = (h @ x).tanh_()
            assert h.isfinite().all()
            session.wait()
        torch.cuda.synchronize(device)
        stats = session.stats()
        assert (stats.ops > before.ops) == (stats.replays > before.replays)
        return stats.replays - before.replays

    with reprise.session("cuda:1", policy="always") as session:
        assert passes("cuda:0", session) == 0
        assert passes("cuda:1", session) > 0
        assert passes("cuda:0", session) == 0
