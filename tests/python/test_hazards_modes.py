"""Switches, modes, wrappers and tools of torch's between two ops of a trace."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import pytest
import reprise
import skips
import torch
from hazards import Case, Hazard, Point, cases, check_case, restored, same_as_eager
from torch import library, nn
from torch.overrides import TorchFunctionMode
from torch.testing._internal.logging_tensor import LoggingTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from watching import (
    BUILD_TIMEOUT_S,
    assert_same_bits,
    replaying,
    settle,
    until_replayed,
    watched,
)

_names = itertools.count()
# Torch's list of operators names those of a library that is gone, and cannot be read.
_libraries: list[library.Library] = []


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


# --- Switches that stay flipped for the rest of the pass, and longer ----------


def _flip_default_dtype(point: Point) -> Any:
    double = torch.get_default_dtype() == torch.float64
    torch.set_default_dtype(torch.float32 if double else torch.float64)
    made = torch.ones(3, device=point.device) / 3
    point.h = (point.h * made[0]).float()
    return made


def _flip_deterministic(point: Point) -> Any:
    now = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(not now, warn_only=True)


def _flip_matmul_precision(point: Point) -> Any:
    now = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if now == "highest" else "highest")


def _flip_threads(point: Point) -> Any:
    torch.set_num_threads(3 - torch.get_num_threads())


def _flip_denormals(point: Point) -> Any:
    """Numbers too small to be normal count as nothing, for one of two calls."""
    flush = not point.memo.get("flush", False)
    point.memo["flush"] = flush
    torch.set_flush_denormal(flush)
    point.h = point.h * 2e-38
    tiny = point.h * 0.125
    point.h = point.h * 5e37
    return tiny


@pytest.fixture
def _switches_restored() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for read, write in [
            (torch.get_default_dtype, torch.set_default_dtype),
            (
                torch.are_deterministic_algorithms_enabled,
                torch.use_deterministic_algorithms,
            ),
            (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        ]:
            stack.enter_context(restored(read, write))
        yield
        torch.set_flush_denormal(False)


def _from_the_same_switches(
    device: str, hazard: Hazard, case: Case
) -> Callable[[Callable[[], object]], Any]:
    """A walk that begins with torch's own settings, whatever the one before left."""

    def run(wait: Callable[[], object]) -> Any:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_flush_denormal(False)
        torch.set_num_threads(1)
        return hazards.walk(device, hazard, case, wait)

    return run


@pytest.mark.usefixtures("_switches_restored")
@cases
@pytest.mark.parametrize(
    "hazard",
    [
        _flip_default_dtype,
        _flip_deterministic,
        _flip_matmul_precision,
        _flip_threads,
        _flip_denormals,
    ],
)
def test_switches(device: str, hazard: Hazard, case: Case) -> None:
    run = _from_the_same_switches(device, hazard, case)
    same_as_eager(device, run)


def test_denormals_flushed_in_the_middle_of_a_replayed_trace() -> None:
    """On the host a mode of the processor's says what tiny numbers are worth."""

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for number in range(40):
            h = torch.rand(4, 4) * 2e-38
            for index in range(12):
                if index == 3:
                    torch.set_flush_denormal(number >= 20 and number % 3 == 0)
                h = h * 0.75
                kept.append(h)
            torch.set_flush_denormal(False)
            wait()
        return kept

    same_as_eager("cpu", run)


def test_attention_backends_switched_between_calls_and_layers(device: str) -> None:
    """Which kernel computes attention is a switch that no argument shows."""
    backends = torch.nn.attention.SDPBackend

    def layer(h: torch.Tensor, backend: Any) -> torch.Tensor:
        q, k, v = (h @ h.mT).unsqueeze(0), h.unsqueeze(0) * 2, h.unsqueeze(0).sin()
        with torch.nn.attention.sdpa_kernel(backend):
            out = nn.functional.scaled_dot_product_attention(q, k, v)
        return out.squeeze(0) + 0.5

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for number in range(40):
            h = torch.randn(1, 16, 16, device=device)
            first = backends.MATH if number % 8 < 5 else backends.EFFICIENT_ATTENTION
            second = backends.FLASH_ATTENTION if number % 2 else backends.MATH
            for one in ([first], [second, backends.MATH]):
                h = layer(h, one if device == "cpu" else [*one, backends.MATH])
            kept.append(h)
            wait()
        return kept

    if device == "cpu":  # there is no memory-efficient one
        backends = type("", (), {**vars(_CpuBackends)})
    same_as_eager(device, run)


class _CpuBackends:
    MATH = torch.nn.attention.SDPBackend.MATH
    EFFICIENT_ATTENTION = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    FLASH_ATTENTION = torch.nn.attention.SDPBackend.FLASH_ATTENTION


# --- Things that happen once, between two ops ---------------------------------


def _seed(point: Point) -> Any:
    torch.manual_seed(point.number)
    return torch.rand(3, device=point.device)


def _draw(point: Point) -> Any:
    return torch.randn_like(point.h) + torch.nn.functional.dropout(point.h, 0.5, True)


def _inference_mode(point: Point) -> Any:
    with torch.inference_mode():
        return [point.h * 2, (point.h + 1).relu_()]


def _autocast(point: Point) -> Any:
    with torch.autocast(point.device, torch.bfloat16):
        return [point.h @ point.w, nn.functional.linear(point.h, point.w)]


def _gradients(point: Point) -> Any:
    """A whole forward and backward pass; the weight's gradient is kept."""
    with torch.enable_grad():
        w = point.w.clone().requires_grad_()
        loss = (torch.tanh(point.h @ w) ** 2).mean()
        loss.backward()
    return [loss.detach(), w.grad]


def _checkpoint(point: Point) -> Any:
    with torch.enable_grad():
        w = point.w.clone().requires_grad_()
        out = checkpoint(lambda t: (point.h @ t).relu() @ t, w, use_reentrant=False)
        (grad,) = torch.autograd.grad(out.sum(), w)
    return [out.detach(), grad]


def _saved_tensors_on_the_host(point: Point) -> Any:
    with torch.enable_grad(), torch.autograd.graph.save_on_cpu():
        w = point.w.clone().requires_grad_()
        (grad,) = torch.autograd.grad((point.h @ w).sigmoid().sum(), w)
    return grad


def _function(point: Point) -> Any:
    """An autograd function whose forward writes its input."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> torch.Tensor:
            ctx.mark_dirty(t)
            return t.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    return Twice.apply(point.h) + 1


def _stale_backward(point: Point) -> Any:
    """What was saved for backward and overwritten since is refused, as by eager."""
    with torch.enable_grad():
        w = point.w.clone().requires_grad_()
        out = torch.tanh(point.h @ w)
        out.detach().mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def _vmap(point: Point) -> Any:
    return torch.vmap(lambda row, w: (row * 2 + 1) @ w, (0, None))(point.h, point.w)


def _func_grad(point: Point) -> Any:
    def loss(w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(point.h @ w).sum()

    return [
        torch.func.grad(loss)(point.w),
        torch.func.jvp(loss, (point.w,), (point.w,)),
        torch.vmap(torch.func.grad(lambda row: row.sin().sum()))(point.h),
    ]


def _functional_call(point: Point) -> Any:
    model = nn.Linear(hazards.WIDTH, hazards.WIDTH, device="meta")
    state = {"weight": point.w, "bias": point.w[0]}
    return torch.func.functional_call(model, state, (point.h,))


def _functionalize(point: Point) -> Any:
    return torch.func.functionalize(lambda t: t.clone().mul_(2).add_(1))(point.h)


def _fake(point: Point) -> Any:
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(point.h)
        shape = (fake @ mode.from_tensor(point.w)).relu_().shape
    return torch.ones(shape)


def _meta(point: Point) -> Any:
    return torch.ones((point.h.to("meta") @ point.w.to("meta")).shape)


class _Doubling(TorchDispatchMode):
    """Every result of `mul` twice as large."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.mul.Tensor else out


def _dispatch_mode(point: Point) -> Any:
    with _Doubling():
        point.h = point.h * 1.5
        return point.h @ point.w


class _Negating(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        return -out if func is torch.Tensor.relu else out


def _function_mode(point: Point) -> Any:
    with _Negating():
        return point.h.relu() + 1


def _subclass(point: Point) -> Any:
    wrapped = LoggingTensor(point.h)
    out = (wrapped * 2).relu()
    return [out.elem, torch.Tensor(point.h.cpu()).sum()]


class _Plain(torch.Tensor):
    """A subclass without a dispatch of its own: an ordinary tensor underneath."""


def _plain_subclass(point: Point) -> Any:
    wrapped = point.h.as_subclass(_Plain)
    return [(wrapped @ point.w).as_subclass(torch.Tensor), nn.Parameter(point.h) * 2]


def _sparse(point: Point) -> Any:
    sparse = point.h.relu().to_sparse()
    return [(sparse @ point.w), (sparse * 2).to_dense()]


def _nested(point: Point) -> Any:
    nested = torch.nested.nested_tensor([point.h[:2], point.h[2:5]])
    return (nested * 2).to_padded_tensor(0.0)


def _script(point: Point) -> Any:
    if "script" not in point.memo:
        point.memo["script"] = torch.jit.trace(
            lambda t: (t * 2).relu_() + 1, (point.h.clone(),), check_trace=False
        )
    return point.memo["script"](point.h)


def _compile(point: Point) -> Any:
    if "compiled" not in point.memo:
        torch._dynamo.reset()
        point.memo["compiled"] = [
            torch.compile(lambda t, w: (t @ w).relu() + 1, backend=backend)
            for backend in ("eager", "aot_eager")
        ]
    return [call(point.h, point.w) for call in point.memo["compiled"]]


def _profile(point: Point) -> Any:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return (point.h * 2).relu()


def _profile_over_the_edge(point: Point) -> Any:
    """A profile that ends in the middle of a later pass."""
    if profile := point.memo.pop("profile", None):
        profile.stop()
    else:
        activities = [torch.profiler.ProfilerActivity.CPU]
        point.memo["profile"] = torch.profiler.profile(activities=activities)
        point.memo["profile"].start()


def _raise(point: Point) -> Any:
    with pytest.raises(RuntimeError, match="must match"):
        point.h + torch.ones(hazards.WIDTH + 1, device=point.device)
    with pytest.raises(RuntimeError):
        point.h.view(3, -1)
    with pytest.raises(IndexError):
        torch.softmax(point.h, 7)


def _raise_in_place(point: Point) -> Any:
    with pytest.raises(RuntimeError):
        point.h.add_(torch.ones(3, 1, 1, device=point.device))
    with pytest.raises(RuntimeError):
        torch.mm(point.h, point.w[:3], out=torch.empty_like(point.h))


def _nested_session(point: Point) -> Any:
    """Another runtime, which watches a part of the pass."""
    with reprise.session(point.device, policy="always", max_trace_ops=64):
        return (point.h * 2).relu() + 1


def _explain(point: Point) -> Any:
    str(reprise.explain())
    reprise.stats()
    reprise.wait(0)


def _print(point: Point) -> Any:
    repr(point.h)


def _op_defined_now(point: Point) -> Any:
    """Operators that did not exist when hooks were placed, one that writes."""
    name = f"hazards_{next(_names)}"

    @library.custom_op(f"reprise_tests::{name}", mutates_args={"out"})
    def write(t: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(t * 3)

    @library.custom_op(f"reprise_tests::{name}_pure", mutates_args=())
    def pure(t: torch.Tensor, scale: float) -> torch.Tensor:
        return t * scale

    write(point.h, point.h)
    return pure(point.h, 0.5)


@library.custom_op("reprise_tests::scale_", mutates_args={"t"})
def _scale_(t: torch.Tensor, by: float) -> None:
    t.mul_(by)


@library.custom_op("reprise_tests::scale_raw_", mutates_args={"t"})
def _scale_raw_(t: torch.Tensor, by: float) -> None:
    """By means that no hook sees, on the host."""
    if t.device.type == "cpu":
        t.numpy()[...] *= by
    else:
        t.mul_(by)


@library.custom_op("reprise_tests::both", mutates_args=())
def _both(t: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return t @ w, [t + 1, w - 1]


def _custom_ops(point: Point) -> Any:
    _scale_(point.h, 1.25)
    _scale_raw_(point.h, 0.5)
    return _both(point.h, point.w)


def _library_kernel(point: Point) -> Any:
    """A kernel of the program's own for an operator of its own, old style."""
    if "op" not in point.memo:
        name = f"reprise_tests_{next(_names)}"
        made = library.Library(name, "DEF")
        made.define("twice_(Tensor(a!) t) -> Tensor(a!)")
        made.impl("twice_", lambda t: t.mul_(2), "CompositeExplicitAutograd")
        _libraries.append(made)
        point.memo["op"] = getattr(torch.ops, name).twice_
    return point.memo["op"](point.h) + 1


@cases
@pytest.mark.parametrize(
    "hazard",
    [
        _seed,
        _draw,
        _inference_mode,
        _autocast,
        _gradients,
        _checkpoint,
        _saved_tensors_on_the_host,
        _function,
        _stale_backward,
        _vmap,
        _func_grad,
        _functional_call,
        _functionalize,
        _fake,
        _meta,
        _dispatch_mode,
        _function_mode,
        _subclass,
        _plain_subclass,
        _sparse,
        _nested,
        _script,
        _compile,
        _profile,
        _profile_over_the_edge,
        _raise,
        _raise_in_place,
        _nested_session,
        _explain,
        _print,
        _op_defined_now,
        _custom_ops,
        _library_kernel,
    ],
)
def test_between_two_ops(device: str, hazard: Hazard, case: Case) -> None:
    if device == "cuda" and hazard in (_profile, _profile_over_the_edge):
        pytest.skip(skips.PROFILED)
    # Starting a profile or another session ends what is being recorded: passes without
    # it come in between, from the 8th to where replays have begun.
    ends = hazard in (_profile, _profile_over_the_edge, _nested_session)
    if ends and case.name == "always":
        case = Case("", lambda number: not 8 <= number < 28, case.place)
    check_case(device, hazard, case)


@pytest.mark.parametrize(
    "case",
    [
        Case("at first", lambda number: number < 9, 10),
        Case("once replayed", lambda number: number == 13, 4),
        Case("once replayed, near the end", lambda number: number == 13, 13),
        Case("now and then", lambda number: number in (4, 9), 1),
    ],
    ids=lambda case: case.name,
)
def test_forgetting_everything_between_two_ops(device: str, case: Case) -> None:
    forgotten: list[int] = []

    def reset(point: Point) -> None:
        forgotten.append(reprise.stats().replays)
        reprise.reset()

    stats, report = check_case(device, reset, case)  # replayed after the last time
    assert max(forgotten) > 0 or not case.name.startswith("once"), str(report)
    assert stats.replays > 0, str(report)


class _Stop(Exception):
    pass


@pytest.mark.parametrize("place", range(1, 14, 3))
def test_a_pass_that_the_program_gives_up(device: str, place: int) -> None:
    """Values made before an exception of the program's own stay what they were."""
    kept: list[Any] = []

    def hazard(point: Point) -> Any:
        kept.append(list(point.seen))
        raise _Stop

    def run(wait: Callable[[], object]) -> list[Any]:
        kept.clear()
        torch.manual_seed(7)
        w = torch.randn(16, 16, device=device)
        for number in range(36):
            x = torch.randn(16, 16, device=device)
            stops = Case("", lambda _, at=number: at % 7 == 6, place)
            with contextlib.suppress(_Stop):
                kept.append(hazards.run_pass(device, x, w, hazard, stops, number, {}))
            wait()
        return list(kept)

    same_as_eager(device, run)


def test_models_under_modes_that_come_and_go(device: str) -> None:
    """The same model as it is, by vmap, by functional_call, compiled and faked."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
    model.to(device)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    state = dict(model.named_parameters())
    ways: list[Callable[[torch.Tensor], Any]] = [
        model,
        lambda x: torch.vmap(model)(x),
        lambda x: torch.func.functional_call(model, state, (x,)),
        compiled,
        lambda x: torch.func.jacrev(lambda t: model(t).sum())(x),
    ]

    def run(wait: Callable[[], object]) -> list[Any]:
        torch.manual_seed(7)
        kept = []
        for number in range(60):
            x = torch.randn(4, 16, device=device)
            kept.append(ways[number // 3 % len(ways)](x))
            kept.append(model(x + 1))
            wait()
        return kept

    same_as_eager(device, run)


def test_a_plan_is_right_again_after_errors_in_its_middle(device: str) -> None:
    w = torch.randn(16, 16, device=device)
    wrong = torch.randn(5, 5, device=device)
    x = torch.randn(16, 16, device=device)

    def whole(other: torch.Tensor) -> torch.Tensor:
        h = (x @ w).relu_() + 1
        return (h @ other).tanh() * 2

    with watched(device) as session:
        settle(session, lambda: whole(w))
        found = []
        with replaying(session):
            for _ in range(20):
                with pytest.raises(RuntimeError, match="cannot be multiplied"):
                    whole(wrong)
                found.append(whole(w))
                assert session.wait(BUILD_TIMEOUT_S)
        until_replayed(session, lambda: found.append(whole(w)))
    assert_same_bits(found, [whole(w)] * len(found))
