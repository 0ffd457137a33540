"""Streams, events, kernels, captures and allocators of the program's own, on a GPU."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import models
import pytest
import reprise
import skips
import torch
from hazards import Hazard, Point, cases, check_case, same_as_eager
from torch import nn
from watching import (
    BUILD_TIMEOUT_S,
    SETTLING_CALLS,
    assert_same_bits,
    replaying,
    rest,
    settle,
    watched,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(skips.gpus() == 0, reason=skips.NO_GPU),
]
PASSES = 12
PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _side(point: Point) -> torch.cuda.Stream:
    if "side" not in point.memo:
        point.memo["side"] = torch.cuda.Stream()
    return point.memo["side"]


# --- Streams and events -------------------------------------------------------


def _use_on_side_stream(point: Point) -> Any:
    """Waits there for what was made here, and here for what is made there."""
    side = _side(point)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = (point.h @ point.w).relu_()
    torch.cuda.current_stream().wait_stream(side)
    return out + 1


def _write_on_side_stream(point: Point) -> Any:
    side = _side(point)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        point.h.mul_(1.5)
    torch.cuda.current_stream().wait_stream(side)


def _record_stream(point: Point) -> Any:
    """The side stream reads late what this one has dropped by then."""
    side = _side(point)
    side.wait_stream(torch.cuda.current_stream())
    value = point.h * 2
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000)
        out = value + 1
    value.record_stream(side)
    del value
    point.memo.setdefault("out", []).append(out)
    return [v for v in point.memo["out"][-3:-2]] or None


def _record_stream_of_a_value(point: Point) -> Any:
    """The same for what a replay made, dropped while the side stream still reads."""
    side = _side(point)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000)
        out = point.h + 1
    point.h.record_stream(side)
    point.h = point.h.clone()
    point.seen.clear()
    torch.cuda.current_stream().wait_stream(side)
    return out * 2


def _event(point: Point) -> Any:
    """Recorded here, waited for there, and by the host."""
    event = torch.cuda.Event()
    event.record()
    side = _side(point)
    with torch.cuda.stream(side):
        event.wait()
        out = point.h * 2
    event.synchronize()
    torch.cuda.current_stream().wait_stream(side)
    return out


def _timing(point: Point) -> Any:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    point.h = point.h + 1
    after.record()
    after.synchronize()
    assert before.elapsed_time(after) >= 0


def _synchronise(point: Point) -> Any:
    torch.cuda.synchronize()
    torch.cuda.current_stream().query()
    torch.cuda.current_stream().synchronize()


def _prefetch(point: Point) -> Any:
    """The next input comes from pinned memory, on a stream for copies."""
    side = _side(point)
    arrived = point.memo.get("next")
    host = torch.full((hazards.WIDTH, hazards.WIDTH), float(point.number)).pin_memory()
    with torch.cuda.stream(side):
        coming = host.to("cuda", non_blocking=True)
        event = torch.cuda.Event()
        event.record()
    point.memo["next"] = coming, event, host
    if arrived is None:
        return None
    value, event, _ = arrived
    torch.cuda.current_stream().wait_event(event)
    value.record_stream(torch.cuda.current_stream())
    point.h = point.h + value
    return None


def _copy_to_host(point: Point) -> Any:
    host = torch.empty(point.h.shape, pin_memory=True)
    host.copy_(point.h, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return host.clone()


# --- Writers of the program's own ---------------------------------------------

_KERNEL = """
extern "C" __global__ void scale(float* values, int count, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= by;
}
"""


def _kernel(point: Point) -> Any:
    if "kernel" not in point.memo:
        point.memo["kernel"] = torch.cuda._compile_kernel(_KERNEL, "scale")
    return point.memo["kernel"]


def _launch(point: Point, values: torch.Tensor, by: float) -> None:
    count = values.numel()
    _kernel(point)(
        grid=((count + 127) // 128, 1, 1), block=(128, 1, 1), args=(values, count, by)
    )


def _kernel_on_the_value(point: Point) -> Any:
    point.h = point.h.contiguous()
    _launch(point, point.h, 1.5)


def _kernel_on_the_weight(point: Point) -> Any:
    _launch(point, point.w, 1 + point.number % 3 / 8)


def _memset(address: int, point: Point) -> None:
    runtime = ctypes.CDLL(None)
    status = runtime.cudaMemsetAsync(
        ctypes.c_void_p(address),
        point.number % 3,
        ctypes.c_size_t(64),
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )
    assert status == 0


def _raw_memset(point: Point) -> Any:
    """By the runtime's own call, on the current stream."""
    point.h = point.h.contiguous()
    _memset(point.h.data_ptr(), point)


def _array_interface(point: Point) -> Any:
    """As CuPy and Numba take a tensor."""

    class Taken:
        __cuda_array_interface__ = point.h.contiguous().__cuda_array_interface__

    alias = torch.as_tensor(Taken(), device="cuda")
    return alias + 1


# --- Captures -----------------------------------------------------------------


def _capture(point: Point) -> Any:
    """A graph of the program's own, captured and replayed in the middle of a pass."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = (point.h @ point.w).relu() + 1
    graph.replay()
    kept = out.clone()
    point.memo["graphs"] = [*point.memo.get("graphs", []), graph][-2:]
    return kept


def _replay_own_graph(point: Point) -> Any:
    if "own" not in point.memo:
        given = point.h.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = torch.tanh(given) * 2
        point.memo["own"] = given, graph, made
    given, graph, made = point.memo["own"]
    given.copy_(point.h)
    graph.replay()
    return made.clone()


def _empty_cache(point: Point) -> Any:
    torch.cuda.empty_cache()
    return torch.ones(1 << 18, device="cuda")


def _empty_cache_beside_large_values(point: Point) -> Any:
    """Blocks that have segments of their own, which go back to the driver."""
    torch.cuda.empty_cache()
    large = torch.ones(1 << 23, device="cuda") * point.h[0, 0]
    return (large + 1)[:8].clone()


def _drop_and_empty_cache(point: Point) -> Any:
    """Memory that launched work still reads goes back to the driver."""
    point.memo["large"] = torch.ones(1 << 22, device="cuda")
    point.h = point.h * point.memo["large"][:1]
    del point.memo["large"]
    point.seen.clear()
    torch.cuda.empty_cache()


def _memory_pool(point: Point) -> Any:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        out = (point.h * 2).relu()
    return out + 1


def _memory_history(point: Point) -> Any:
    torch.cuda.memory._record_memory_history(max_entries=100)
    out = point.h * 2
    torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return out


@cases
@pytest.mark.parametrize(
    "hazard",
    [
        _use_on_side_stream,
        _write_on_side_stream,
        _record_stream,
        _record_stream_of_a_value,
        _event,
        _timing,
        _synchronise,
        _prefetch,
        _copy_to_host,
        _kernel_on_the_value,
        _raw_memset,
        _array_interface,
        _capture,
        _replay_own_graph,
        _empty_cache,
        _empty_cache_beside_large_values,
        _drop_and_empty_cache,
        _memory_pool,
        _memory_history,
    ],
)
def test_between_two_ops(hazard: Hazard, case: hazards.Case) -> None:
    check_case("cuda", hazard, case)


def test_a_kernel_that_writes_a_weight_from_the_first_pass_on() -> None:
    """Recorded work that no operation made ends the trace; nothing is guessed."""
    always = hazards.Case("", lambda number: True, 4)
    check_case("cuda", _kernel_on_the_weight, always)


def _memset_at_a_known_address(point: Point) -> None:
    """The address was taken once: only the recorder can see the call."""
    if "address" not in point.memo:
        point.memo["address"] = point.w.data_ptr()
    _memset(point.memo["address"], point)


def test_a_writer_that_took_the_address_before() -> None:
    always = hazards.Case("", lambda number: True, 4)
    check_case("cuda", _memset_at_a_known_address, always)


def test_a_kernel_between_passes() -> None:
    at_the_head = hazards.Case("", lambda number: number >= hazards.LATE, 0)
    check_case("cuda", _kernel_on_the_weight, at_the_head)


def test_a_model_on_several_streams_in_turn() -> None:
    model = models.mlp().cuda()

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        streams = [torch.cuda.Stream() for _ in range(2)]
        kept = []
        for number in range(48):
            x = torch.randn(4, 32, device="cuda")
            side = streams[number // 3 % 2]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = model(x)
            x.record_stream(side)
            torch.cuda.current_stream().wait_stream(side)
            y.record_stream(torch.cuda.current_stream())
            kept.append(y)
            wait()
        return kept

    same_as_eager("cuda", run)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_fork_streams(kind: type[nn.RNNBase], train: bool) -> None:
    """CuDNN spreads layers over streams of its own, and joins them."""
    torch.manual_seed(7)
    model = kind(16, 32, num_layers=2).cuda().half().train(train)
    # In training eight passes may go by until the op is a cut: see below.
    inputs = [torch.randn(24, 4, 16, device="cuda").half() for _ in range(60)]

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        if not train:
            with torch.no_grad():
                return [model(x)[0]]
        with torch.enable_grad():
            model.zero_grad()
            y = model(x)[0]
            y.float().square().mean().backward()
        gradients = [weight.grad.clone() for weight in model.parameters()]
        return [y.detach(), *gradients]

    kept = []
    with watched("cuda") as session:
        for x in inputs:
            kept.append(step(x))
            assert session.wait(BUILD_TIMEOUT_S)
        report = str(session.explain())
        assert session.stats().replays > 0, report
    assert "an event or a wait" not in report
    # In training part of a result, its reserve, may stay unwritten, and differ.
    assert train or "aten::_cudnn_rnn:" not in report, report  # no cut
    assert_same_bits(kept, [step(x) for x in inputs])


def test_kernels_that_cudnn_has_picked_by_time() -> None:
    """Each thread tries them out at its first call of a shape, and keeps them."""
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, groups=4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
    )
    model = model.cuda().half().eval()
    shapes = [(4, 3, 32, 32), (2, 3, 48, 48)]
    inputs = [
        torch.randn(shapes[i % 2], device="cuda").half() for i in range(2 * PASSES)
    ]
    weights = list(model.parameters())
    wrong: list[BaseException] = []

    @torch.enable_grad()
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        y = model(x)
        gradients = torch.autograd.grad(y.float().square().mean(), weights)
        return [y.detach(), *gradients]

    def run(session: reprise.Session) -> None:
        kept = []
        for x in inputs:
            kept.append(step(x))
            assert session.wait(BUILD_TIMEOUT_S)
        with reprise.session("cuda", enabled=False):
            assert_same_bits(kept, [step(x) for x in inputs])

    def on_a_thread(session: reprise.Session) -> None:
        try:
            run(session)
        except BaseException as error:
            wrong.append(error)

    torch.backends.cudnn.benchmark = True
    try:
        with watched("cuda") as session:
            run(session)
            first = session.stats()
            thread = threading.Thread(target=on_a_thread, args=(session,))
            thread.start()
            thread.join()
            assert not wrong, wrong
            report = str(session.explain())
            # One trace may be a step of each shape.
            assert first.replays >= PASSES / 4, report
            # Its kernels are others, perhaps: then it has recorded anew.
            assert session.stats().replays > first.replays, report
            cuts = {cut["op"] for cut in session.explain().to_dict()["cuts"]}
            assert not any("conv" in op for op in cuts), report
            before = session.stats()
            step(inputs[0])
            now = session.stats()
            # As good as all: the backward pass is another thread's.
            assert now.followed - before.followed > 0.8 * (now.ops - before.ops)
    finally:
        torch.backends.cudnn.benchmark = False


def test_graphed_callables_beside_replays() -> None:
    model = models.mlp().cuda()
    x = torch.randn(4, 32, device="cuda")

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        part = nn.Linear(8, 8).cuda()
        graphed = torch.cuda.make_graphed_callables(part, (torch.randn_like(x[:, :8]),))
        kept = []
        for _ in range(30):
            y = model(torch.randn(4, 32, device="cuda"))
            kept.append(graphed(y).clone() + model(x))
            wait()
        return kept

    same_as_eager("cuda", run)


def test_a_capture_of_a_replayed_model() -> None:
    """While the program captures, its operations are its own."""
    model = models.mlp().cuda()
    x = torch.randn(4, 32, device="cuda")
    with watched("cuda") as session:
        settle(session, lambda: model(x))
        assert session.stats().replays > 0, str(session.explain())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        found = []
        for number in range(12):
            x.fill_(number / 5)
            graph.replay()
            found += [y.clone(), model(x)]
    expected = [
        model(torch.full_like(x, number / 5)) for number in range(12) for _ in range(2)
    ]
    assert_same_bits(found, expected)


def test_a_value_that_ends_while_the_stream_it_was_lent_to_is_captured() -> None:
    """Its use is marked behind the capture, of which a mark would become a part."""
    model = models.mlp().cuda()
    side = torch.cuda.Stream()

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        y = model(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            used = y * 3
        y.record_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            del y
            made = used + 1
        graph.replay()
        kept = [used.clone(), made.clone()]
        torch.cuda.synchronize()
        return kept

    inputs = [torch.randn(4, 32, device="cuda") for _ in range(4 * SETTLING_CALLS)]
    found = []
    with watched("cuda") as session:
        for x in inputs[: 2 * SETTLING_CALLS]:
            found.append(step(x))
            rest(session)
        with replaying(session):
            for x in inputs[2 * SETTLING_CALLS :]:
                found.append(step(x))
                rest(session)
    assert_same_bits(found, [step(x) for x in inputs])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_models_beside_replayed_ones(backend: str) -> None:
    model = models.mlp().cuda()
    torch._dynamo.reset()
    compiled = torch.compile(models.mlp(layers=2).cuda(), backend=backend)

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for _ in range(30):
            x = torch.randn(4, 32, device="cuda")
            kept.append([model(x), compiled(x)])
            wait()
        return kept

    same_as_eager("cuda", run)


def _clear_workspaces(number: int) -> torch.Tensor:
    """A library gives its memory up, and the program takes it at once."""
    torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined]
    return torch.full((16 << 20,), float(number), device="cuda")


@pytest.mark.parametrize("place", ["between passes", "within a pass"])
@pytest.mark.parametrize("often", [1, 4])
def test_workspaces_of_cublas_are_freed(place: str, often: int) -> None:
    """Kernels of matrix products that are split along a long sum name them."""

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        a = torch.randn(64, 1 << 14, device="cuda")
        b = torch.randn(1 << 14, 64, device="cuda")
        kept = []
        for number in range(64):
            clears = number >= 40 and number % often == 0
            h = (a * 0.25 + number) @ b
            h = (h @ h.t()).tanh_()
            if clears and place == "within a pass":
                kept.append(_clear_workspaces(number))
            h = h + (a * 0.5) @ b
            for _ in range(4):
                h = (h @ h).tanh_()
            kept.append(h)
            torch.cuda.synchronize()
            if clears and place == "between passes":
                kept.append(_clear_workspaces(number))
            wait()
        return kept

    same_as_eager("cuda", run)


class _ForeignStream:
    """A stream that torch does not own, ended where the program says so."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        create = ctypes.CDLL(None).cudaStreamCreateWithFlags
        assert create(ctypes.byref(handle), 1) == 0
        self.handle = handle
        self.stream = torch.cuda.ExternalStream(handle.value)

    def end(self) -> None:
        self.stream.synchronize()
        assert ctypes.CDLL(None).cudaStreamDestroy(self.handle) == 0


def test_values_lent_to_a_stream_that_ends() -> None:
    """It has ended when their memory is used again, and when it is given back."""
    model = models.mlp().cuda()

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for number in range(40):
            y = model(torch.randn(4, 32, device="cuda"))
            if number >= 20:
                foreign = _ForeignStream()
                foreign.stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(foreign.stream):
                    torch.cuda._sleep(200_000)
                    kept.append(y + 1)
                y.record_stream(foreign.stream)
                del y
                torch.cuda.current_stream().wait_stream(foreign.stream)
                foreign.end()
            wait()
        return kept

    same_as_eager("cuda", run)
    torch.cuda.empty_cache()


def test_a_session_whose_stream_has_ended() -> None:
    """Its builds and verdicts may still be under way, and its plans are dropped."""
    model = models.mlp().cuda()
    kept, expected = [], []
    inputs = [torch.randn(4, 32, device="cuda") for _ in range(24)]
    torch.cuda.synchronize()
    with watched("cuda") as session:
        for passes in range(1, 9):
            foreign = _ForeignStream()
            with torch.cuda.stream(foreign.stream):
                for x in inputs[:passes]:
                    kept.append(model(x).clone())
            foreign.end()
            assert session.wait(BUILD_TIMEOUT_S)
        session.reset()
        settle(session, lambda: model(inputs[0]))
        kept += [model(x) for x in inputs]
        assert session.stats().replays > 0, str(session.explain())
    for passes in range(1, 9):
        expected += [model(x) for x in inputs[:passes]]
    assert_same_bits(kept, expected + [model(x) for x in inputs])


@pytest.mark.skipif(skips.gpus() < 2, reason=skips.FEW_GPUS)
def test_several_devices() -> None:
    parts = [models.mlp().cuda(0), nn.Linear(8, 32).cuda(1), models.mlp().cuda(0)]

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for _ in range(36):
            a = parts[0](torch.randn(4, 32, device="cuda:0"))
            b = parts[1](a.to("cuda:1", non_blocking=True)).relu()
            with torch.cuda.device(1):
                b = b * 2 + torch.ones(1, device="cuda")
            kept.append([a, b, parts[2](b.to("cuda:0"))])
            wait()
        return kept

    same_as_eager("cuda", run)


# --- Memory of libraries --------------------------------------------------------


CUFFT_PLANS = torch.backends.cuda.cufft_plan_cache
# Of a whole number, one with a chirp, and one with tables.
FFT_SIZES = [4099, 15015, 1 << 20]


class _Transforms:
    """Passes with a transform, and something before each of them."""

    def __init__(self, size: int, before: Callable[[int], object]) -> None:
        self.weight = torch.randn(size, device="cuda")
        self.inputs = [
            torch.randn(size, device="cuda") for _ in range(12 * SETTLING_CALLS)
        ]
        self.before = before

    def run(self, after: Callable[[], object] = lambda: None) -> list[torch.Tensor]:
        kept = []
        for number, x in enumerate(self.inputs):
            self.before(number)
            moved = torch.fft.fft(x * 2 + self.weight)
            kept.append((moved * self.weight).abs() + 1)
            after()
        return kept


def _fill_what_is_free() -> list[torch.Tensor]:
    torch.cuda.empty_cache()
    return [torch.full((1 << 21,), math.nan, device="cuda") for _ in range(32)]


@pytest.mark.parametrize("size", FFT_SIZES)
def test_plans_of_cufft_are_freed(size: int) -> None:
    """A plan has tables that kernels of the transform read, and the kernels themselves."""
    clears = (4 * SETTLING_CALLS, 8 * SETTLING_CALLS)
    others = []

    def before(number: int) -> None:
        if number in clears:
            CUFFT_PLANS.clear()
            others.extend(_fill_what_is_free())

    transforms = _Transforms(size, before)
    with watched("cuda") as session:
        begun = []

        def wait() -> None:
            assert session.wait(BUILD_TIMEOUT_S)
            begun.append(session.stats())

        found = transforms.run(wait)
        ends = [begun[number - 1] for number in (*clears, len(begun))]
        assert ends[0].replays > 0, str(session.explain())
        for earlier, later in itertools.pairwise(ends):
            assert later.since(earlier).replays > 0, str(session.explain())
    assert_same_bits(found, transforms.run())


@pytest.mark.parametrize("waits", [True, False], ids=["built", "building"])
@pytest.mark.parametrize("size", FFT_SIZES)
def test_plans_of_cufft_are_freed_while_passes_are_learned(
    size: int, waits: bool
) -> None:
    """Before each of the first passes: between recordings, and while plans are built."""
    transforms = _Transforms(
        size,
        lambda number: CUFFT_PLANS.clear() if number < 3 * SETTLING_CALLS else None,
    )
    with watched("cuda") as session:
        found = transforms.run(lambda: waits and session.wait(BUILD_TIMEOUT_S))
        assert session.wait(BUILD_TIMEOUT_S)
        found.append(transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))[-1])
        assert session.stats().replays > 0, str(session.explain())
    expected = transforms.run()
    assert_same_bits(found, [*expected, expected[-1]])


@pytest.mark.parametrize("size", FFT_SIZES)
def test_plans_of_cufft_are_freed_by_another_thread(size: int) -> None:
    """Between passes: torch itself may crash where a transform is under way."""

    def before(number: int) -> None:
        if number % 5 == 0:
            thread = threading.Thread(target=CUFFT_PLANS.clear)
            thread.start()
            thread.join()

    transforms = _Transforms(size, before)
    with watched("cuda") as session:
        found = [
            *transforms.run(),
            *transforms.run(lambda: session.wait(BUILD_TIMEOUT_S)),
        ]
        assert session.stats().replays > 0, str(session.explain())
    assert_same_bits(found, 2 * transforms.run())


@pytest.mark.parametrize("spare", [None, 0, 40], ids=["of nothing", "full", "nearly"])
def test_cache_of_cuffts_plans_is_full(spare: int | None) -> None:
    """Transforms free plans: nothing of them may be replayed, until there is room."""
    size = CUFFT_PLANS.max_size
    transforms = _Transforms(
        15015, lambda number: torch.fft.fft(transforms.weight[:4096])
    )
    with watched("cuda") as session:
        found = transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))
        assert session.stats().replays > 0, str(session.explain())
        CUFFT_PLANS.max_size = 0 if spare is None else CUFFT_PLANS.size + spare
        try:
            found += transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))
            assert "cache of cuFFT's plans is full" in str(session.explain())
        finally:
            CUFFT_PLANS.max_size = size
        before = session.stats()
        found += transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))
        assert session.stats().since(before).replays > 0, str(session.explain())
    assert_same_bits(found, 3 * transforms.run())


def test_cache_of_cuffts_plans_fills_unseen() -> None:
    """A plan of a pass that is replayed is the oldest, and goes first."""
    size = CUFFT_PLANS.max_size
    transforms = _Transforms(15015, lambda number: None)
    with watched("cuda") as session:
        found = transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))
        CUFFT_PLANS.max_size = CUFFT_PLANS.size + 100
        try:
            found += transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))
            assert session.stats().replays > 0, str(session.explain())
            reprise.disable()
            for length in range(2000, 2400):
                torch.fft.irfft2(torch.ones(4, length, device="cuda"))
            reprise.enable("cuda", policy="always")
            found += transforms.run(lambda: session.wait(BUILD_TIMEOUT_S))
            assert "cache of cuFFT's plans is full" in str(session.explain())
        finally:
            CUFFT_PLANS.max_size = size
    assert_same_bits(found, 3 * transforms.run())


# --- Settings of a whole process ----------------------------------------------

_PROGRAM = """
import ctypes, sys, warnings
warnings.simplefilter("ignore")
import torch, reprise
torch.set_grad_enabled(False)
torch.manual_seed(3)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(12)]).cuda()
def passes(count, inputs=[]):
    while len(inputs) < count:
        inputs.append(torch.randn(2, 64, device="cuda"))
    kept = []
    for x in inputs[:count]:
        kept.append(model(x.clone()).relu_())
        reprise.wait()
    return kept
expected = passes(30)
"""

_CHECK = """
found = passes(30)
assert all(torch.equal(a, b) for a, b in zip(found, expected))
"""


def _python(program: str, **variables: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM + textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stderr


@pytest.mark.parametrize(
    "settings",
    [
        "expandable_segments:True",
        "max_split_size_mb:32,garbage_collection_threshold:0.5",
        "roundup_power2_divisions:4",
    ],
)
def test_settings_of_the_caching_allocator(settings: str) -> None:
    _python(
        f"""
        reprise.enable("cuda", policy="always")
        {_CHECK.strip().replace(chr(10), chr(10) + " " * 8)}
        torch.cuda.empty_cache()
        assert torch.equal(passes(1)[0], expected[0])
        assert reprise.stats().replays > 0, str(reprise.explain())
        """,
        PYTORCH_CUDA_ALLOC_CONF=settings,
        PYTORCH_ALLOC_CONF=settings,
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        {
            "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync",
            "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
        },
    ],
    ids=["no caching", "another allocator"],
)
def test_an_allocator_that_cannot_be_followed_is_named(
    variables: dict[str, str],
) -> None:
    """The limit: the program runs as without Reprise, and is told why if it asks."""
    _python(
        f"""
        reprise.enable()
        {_CHECK.strip().replace(chr(10), chr(10) + " " * 8)}
        try:
            reprise.enable("cuda")
        except RuntimeError as error:
            assert "allocator" in str(error)
        else:
            raise AssertionError("enabled")
        """,
        **variables,
    )


def test_a_profile_in_the_middle_of_passes() -> None:
    """In a process of its own: torch keeps CUPTI after it."""
    _python(
        f"""
        reprise.enable("cuda", policy="always")
        {_CHECK.strip().replace(chr(10), chr(10) + " " * 8)}
        before = reprise.stats().replays
        assert before > 0, str(reprise.explain())
        with torch.profiler.profile() as profile:
            during = passes(30)
        assert reprise.stats().replays > before, str(reprise.explain())
        assert all(torch.equal(a, b) for a, b in zip(during, expected))
        assert "aten::addmm" in {{event.key for event in profile.key_averages()}}
        {_CHECK.strip().replace(chr(10), chr(10) + " " * 8)}
        """
    )


def test_cupti_held_by_another_tool() -> None:
    """Nothing can be recorded then, and everything runs as without Reprise."""
    _python(
        f"""
        cupti = ctypes.CDLL("libcupti.so.13")  # which torch has loaded
        callback = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
        )(lambda *_: None)
        subscriber = ctypes.c_void_p()
        assert cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
        reprise.enable("cuda", policy="always")
        {_CHECK.strip().replace(chr(10), chr(10) + " " * 8)}
        assert reprise.stats().replays == 0
        assert "nothing is recorded" in str(reprise.explain()), reprise.explain()
        assert cupti.cuptiUnsubscribe(subscriber) == 0
        {_CHECK.strip().replace(chr(10), chr(10) + " " * 8)}
        assert reprise.stats().replays > 0, str(reprise.explain())
        """
    )
