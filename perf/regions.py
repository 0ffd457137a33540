"""Regions and torch.compile's backend beside hand-written CUDA graphs.

    python perf/regions.py --output perf/results/h100-regions.jsonl [program...]

Each program runs in a process of its own, its modes in interleaved rounds of passes,
each synchronised and on another input, which a graph copies to where it reads it:

- ``model:NAME``, of zoo.py, without gradients: eager, Reprise, ``region`` and a
  hand-written graph;
- ``backend:NAME``: ``backend`` (`torch.compile(backend="reprise")`), the hand-written
  graph, one of what Dynamo captures (``dynamo_graph``), which may be other operators,
  ``trivial`` (Dynamo's own call: a backend that gives kept outputs, call by call) and
  ``dynamo`` (the same where it is: what a call by ``backend`` takes before and behind it);
- ``step:NAME``, of training.py, with AdamW (fused): the whole step as a region, and as
  a hand-written graph; all state is compared with eager's after 50 steps;
- ``default:NAME``, the same with AdamW as torch gives it, which counts its steps on the
  host. Its graph is of ``capturable=True``, which counts on the device, with other bits;
  ``fused`` is a region of the fused one. device_us: what eager's own kernels and copies
  take on the device in a step, one behind the other; returned_us: the host's time of a
  call of the region; bound: the region's time over the greater of the two;
- ``part:NAME``, forward and backward passes of a module in training, beside
  ``torch.cuda.make_graphed_callables``;
- ``guards``: a module with 500 parameters whose call is one op.

Writes one JSON object a program: microseconds of each mode (medians; of ``trivial``
without the synchronisation), of_graph (a
region's time over the graph's, median of paired rounds, with a bootstrap 95 %
interval), over_graph_us (what it takes longer), control (eager over itself), bits
(region_bits, backend_bits; dynamo_bits: where the latter is false, of `backend="eager"`), calls (until the first call without Python) and calls_ms (what those took beyond eager),
replayed, operators, reasons, gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import models
import policies
import progress
import reprise
import torch
import training
import zoo
from reprise._compiler import reprise as backend
from torch import nn

MODELS = (
    *("mlp20", "resnet50_fp16", "vit_s_fp16", "gpt2_bf16", "bert_fp16"),
    *("distilgpt2_fp16", "xlnet_fp16"),
)
STEPS = ("mlp20_b32", "gpt2_bf16_b2x64", "resnet18_b8", "bert_b8x128")
PARTS = ("mlp20", "resnet18")
PROGRAMS = (
    *(f"model:{name}" for name in MODELS),
    *(f"backend:{name}" for name in MODELS),
    *(f"step:{name}" for name in STEPS),
    *(f"default:{name}" for name in STEPS),
    *(f"part:{name}" for name in PARTS),
    "guards",
)
POLICY = "always"
FIRST_CALLS = 12


def warm(run: Callable[[], object], seconds: float) -> None:
    """Under Reprise, until all is learned."""
    reprise.enable("cuda", policy=POLICY)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        run()
        torch.cuda.synchronize()
        reprise.wait(20)
    reprise.disable()


def first_calls(region: Any, plain: Callable[[], object]) -> dict[str, Any]:
    """Calls until the first that ran no Python, and what they took beyond eager's."""
    for _ in range(3):
        plain()
    eager = statistics.median(models.seconds(plain) for _ in range(5))
    reprise.enable("cuda", policy=POLICY)
    took = []
    calls = -1
    for call in range(1, FIRST_CALLS + 1):
        took.append(models.seconds(region))
        if region.of.explain().replayed:
            calls = call
            break
    reprise.disable()
    return {"calls": calls, "calls_ms": 1e3 * (sum(took) - eager * len(took))}


def compared(
    modes: dict[str, models.Mode], inputs: list[tuple], arguments: argparse.Namespace
) -> dict[str, Any]:
    """What the record says of the times."""
    found = models.Rounds(modes, inputs, arguments.rounds, arguments.passes)
    result: dict[str, Any] = found.times()
    if "control" in modes:
        result["control"] = statistics.median(found.ratios("eager", "control"))
    for mode, of in (("region", ""), ("backend", "backend_")):
        if mode not in modes:
            continue
        result |= found.ratio(f"{of}of_graph", mode, "graph")
        pairs = zip(found.medians[mode], found.medians["graph"], strict=True)
        result[f"{of}over_graph_us"] = 1e6 * statistics.median(a - b for a, b in pairs)
    return result


def said(region: Any) -> dict[str, Any]:
    """What a region says of itself."""
    report = region.explain()
    progress.tell(report)
    return {
        "replayed": report.replayed / max(1, report.calls),
        "operators": report.operators,
        "reasons": list(report.reasons)[:4],
    }


class Called:
    """A region and the arguments of a call."""

    def __init__(self, of: Any, arguments: Callable[[], tuple]) -> None:
        self.of = of
        self.arguments = arguments

    def __call__(self) -> object:
        """Call it."""
        return self.of(*self.arguments())


def trivial(model: nn.Module) -> Any:
    """Dynamo's own call: what it compiles gives outputs that were kept."""

    def keeps(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        kept: list[Any] = []

        def give(*given: Any) -> Any:
            if not kept:
                kept.append(graph.forward(*given))
            return kept[0]

        return give

    return torch.compile(model, backend=keeps)


@torch.no_grad()
def model(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A model of the zoo."""
    workload = zoo.WORKLOADS[name]
    torch.manual_seed(0)
    module, make = workload.make(torch.device("cuda"))
    inputs = [make() for _ in range(models.INPUTS)]
    models.prepare()
    fast = reprise.region(module)
    result = first_calls(Called(fast, make), lambda: module(*make()))
    graph = models.hand_written(module, make())
    turns = itertools.cycle(inputs)  # made before: to make them is another pass
    warm(lambda: fast(*next(turns)), arguments.settle)
    modes = {
        "eager": models.Mode(lambda new: module(*new)),
        "control": models.Mode(lambda new: module(*new)),
        "reprise": models.Mode(lambda new: module(*new), enabled=True),
        "region": models.Mode(lambda new: fast(*new), enabled=True),
        "graph": models.Mode(graph),
    }
    if models.can_skip_launches():
        modes["region_host"] = models.Mode(
            lambda new: fast(*new), enabled=True, launches=False
        )
    result |= compared(modes, inputs, arguments)
    result["region_bits"] = models.bits_of_eager(module, make, modes["region"])
    return result | said(fast)


@torch.no_grad()
def compiled(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A model of the zoo by torch.compile, with nothing else beside it."""
    torch.manual_seed(0)
    module, make = zoo.WORKLOADS[name].make(torch.device("cuda"))
    inputs = [make() for _ in range(models.INPUTS)]
    models.prepare()
    graph = models.hand_written(module, make())
    dynamo_graph = models.hand_written(torch.compile(module, backend="eager"), make())
    torch._dynamo.reset()
    inside: list[float] = []  # seconds in the backend's functions

    def timed(graph: torch.fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        function = backend(graph, given)

        def run(*args: Any) -> Any:
            begin = time.perf_counter()
            result = function(*args)
            inside.append(time.perf_counter() - begin)
            return result

        return run

    begin = time.perf_counter()
    fast = torch.compile(module, backend=timed)
    fast(*make())
    torch.cuda.synchronize()
    result = {"backend_warm_up_ms": 1e3 * (time.perf_counter() - begin)}
    turns = itertools.cycle(inputs)  # made before: to make them is another pass
    warm(lambda: fast(*next(turns)), arguments.settle)
    kept = trivial(module)
    modes = {
        "eager": models.Mode(lambda new: module(*new)),
        "control": models.Mode(lambda new: module(*new)),
        "graph": models.Mode(graph),
        "dynamo_graph": models.Mode(dynamo_graph),
        "backend": models.Mode(lambda new: fast(*new), enabled=True),
        "trivial": models.Mode(lambda new: kept(*new)),
        "nothing": models.Mode(lambda new: new[0]),
    }
    result |= compared(modes, inputs, arguments)
    result["trivial_us"] -= result.pop("nothing_us")  # without the synchronisation
    around = []
    with modes["backend"] as mode:
        for given in inputs * 4:
            inside.clear()
            begin = time.perf_counter()
            mode.run(given)
            around.append(time.perf_counter() - begin - sum(inside))
            models.synchronize()
    result["dynamo_us"] = 1e6 * statistics.median(around)
    result["backend_bits"] = models.bits_of_eager(module, make, modes["backend"])
    if not result["backend_bits"]:
        torch._dynamo.reset()
        dynamo = torch.compile(module, backend="eager")
        mode = models.Mode(lambda new: dynamo(*new))
        result["dynamo_bits"] = models.bits_of_eager(module, make, mode)
    return result


def bits_of(program: training.Program) -> list[torch.Tensor]:
    """All that steps leave."""
    return training.bits([*program.state(), torch.cuda.get_rng_state()])


Make = Callable[[Any], torch.optim.Optimizer]
FUSED: Make = lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True)  # noqa: E731
FUSED_GRAPH: Make = lambda p: torch.optim.AdamW(  # noqa: E731
    p, lr=1e-3, fused=True, capturable=True
)
DEFAULT: Make = lambda p: torch.optim.AdamW(p, lr=1e-3)  # noqa: E731
DEFAULT_GRAPH: Make = lambda p: torch.optim.AdamW(  # noqa: E731
    p, lr=1e-3, capturable=True
)


def made(name: str, optimizer: Make) -> training.Program:
    """A program, always from the same seed."""
    torch.manual_seed(0)
    return training.PROGRAMS[name](optimizer)


def after_steps(program: training.Program, run: Any, ours: bool) -> list[torch.Tensor]:
    """What fifty steps leave, of a region under Reprise."""
    torch.manual_seed(1)
    if ours:
        reprise.enable("cuda", policy=POLICY)
    for i in range(training.STEPS):
        run(*program.batches[i % training.BATCHES])
        if ours:
            reprise.wait()
    reprise.disable()
    return bits_of(program)


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Whether all is equal."""
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def step(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A whole step of training."""
    eager, control, ours = (made(name, FUSED) for _ in range(3))
    graph = whole_step(made(name, FUSED_GRAPH))
    modes: dict[str, models.Mode] = {"graph": models.Mode(graph)}
    return steps(eager, control, ours, modes, arguments)


def default(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A whole step with AdamW as torch gives it."""
    eager, control, ours = (made(name, DEFAULT) for _ in range(3))
    graph = whole_step(made(name, DEFAULT_GRAPH))
    fused = made(name, FUSED)
    fast = reprise.region(fused.on_batch)
    after_steps(fused, fast, ours=True)
    modes = {
        "graph": models.Mode(graph),
        "fused": models.Mode(lambda new: fast(*new), enabled=True),
    }
    result = steps(eager, control, ours, modes, arguments)
    on_batch = eager.on_batch
    assert on_batch is not None
    # Behind all that is timed: torch's profiler keeps CUPTI.
    result["device_us"] = kernels_us(lambda: on_batch(*eager.batches[0]))
    least = max(result["device_us"], result["returned_us"])
    return result | {"bound": result["region_us"] / least}


def kernels_us(run: Callable[[], object], times: int = 3) -> float:
    """Microseconds that kernels, copies and memsets of a call take on the device."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(times):
            run()
        torch.cuda.synchronize()
    return (
        sum(
            float(event.time_range.elapsed_us())
            for event in profile.events()
            if event.device_type == torch.autograd.DeviceType.CUDA
        )
        / times
    )


def steps(
    eager: training.Program,
    control: training.Program,
    ours: training.Program,
    others: dict[str, models.Mode],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Steps of three programs that begin alike, beside other ways."""
    models.prepare()
    fast = reprise.region(ours.on_batch)
    expected = after_steps(eager, eager.on_batch, ours=False)
    result: dict[str, Any] = {
        "deterministic": same(after_steps(control, control.on_batch, False), expected),
        "bits": same(after_steps(ours, fast, ours=True), expected),
    }
    inputs = [ours.batches[i % training.BATCHES] for i in range(models.INPUTS)]
    turns = itertools.cycle(inputs)  # what never moves would be taken for a constant
    warm(Called(fast, lambda: next(turns)), arguments.settle)
    step_of = {"eager": eager.on_batch, "control": control.on_batch}
    modes = {
        name: models.Mode(lambda new, run=run: run(*new))  # type: ignore[misc]
        for name, run in step_of.items()
    }
    modes["region"] = models.Mode(lambda new: fast(*new), enabled=True)
    modes |= others
    if models.can_skip_launches():
        modes["region_host"] = models.Mode(
            lambda new: fast(*new), enabled=True, launches=False
        )
    result |= compared(modes, inputs, arguments)
    returned, _ = models.parts(modes["region"], inputs, 20)
    result["returned_us"] = 1e6 * returned
    return result | said(fast)


def whole_step(program: training.Program) -> models.Run:
    """The step as a graph made by hand, which copies its batch."""
    static = tuple(each.clone() for each in program.batches[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    assert program.on_batch is not None
    with torch.cuda.stream(side):
        for _ in range(4):
            program.on_batch(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = program.on_batch(*static)

    def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
        for old, value in zip(static, new, strict=True):
            old.copy_(value)
        graph.replay()
        return loss

    return run


def part(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Forward and backward passes of a module."""

    def make() -> tuple[nn.Module, Callable[[], tuple]]:
        torch.manual_seed(0)
        if name == "mlp20":
            return zoo.Mlp().cuda(), lambda: (torch.randn(32, 256, device="cuda"),)
        import torchvision

        net = torchvision.models.resnet18(norm_layer=nn.Identity).cuda()
        return net, lambda: (torch.randn(8, 3, 224, 224, device="cuda"),)

    (plain, batch), (graphed, _), (ours, _) = make(), make(), make()
    models.prepare()
    captured = torch.cuda.make_graphed_callables(graphed, batch())
    fast = reprise.region(ours)

    def passes(call: Any, net: nn.Module) -> models.Run:
        def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
            net.zero_grad()
            loss = call(*new).square().mean()
            loss.backward()
            return loss.detach()

        return run

    inputs = [batch() for _ in range(models.INPUTS)]
    runs = {"eager": passes(plain, plain), "region": passes(fast, ours)}
    runs["graph"] = passes(captured, graphed)
    turns = itertools.cycle(inputs)
    warm(lambda: runs["region"](next(turns)), arguments.settle)
    bits = []
    for mode, net in (("eager", plain), ("region", ours)):
        if mode == "region":
            reprise.enable("cuda", policy=POLICY)
        found = [runs[mode](given) for given in inputs]
        grads = [p.grad for p in net.parameters() if p.grad is not None]
        bits.append(training.bits([*found, *grads]))
        reprise.disable()
    modes = {
        "eager": models.Mode(runs["eager"]),
        "control": models.Mode(runs["eager"]),
        "region": models.Mode(runs["region"], enabled=True),
        "graph": models.Mode(runs["graph"]),
    }
    result = compared(modes, inputs, arguments)
    result["bits"] = all(map(torch.equal, *bits))
    return result | said(fast)


class OneOp(nn.Module):
    """Five hundred parameters, and an op."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(250))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Uses none of them."""
        return x + 1


@torch.no_grad()
def guards(_: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a call takes beside its op: with 500 parameters, and with none."""
    result: dict[str, Any] = {"python": sys.version.split()[0]}
    x = torch.randn(8, 8, device="cuda")
    for name, net in (("parameters", OneOp().cuda()), ("none", lambda y: y + 1)):
        fast: Any = reprise.region(net)
        reprise.enable("cuda", policy=POLICY)
        for _ in range(300):
            fast(x)
            reprise.wait()
        times: dict[str, list[float]] = {"op": [], "region": []}
        for _ in range(15):
            for mode, call in (("op", x.add), ("region", fast)):
                given = 1 if mode == "op" else x
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(200):
                    call(given)
                times[mode].append((time.perf_counter() - begin) / 200)
        reprise.disable()
        pairs = zip(times["region"], times["op"], strict=True)
        result[f"{name}_us"] = 1e6 * statistics.median(a - b for a, b in pairs)
        result |= said(fast)
    return result


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One program, in this process."""
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("high")
    kind, _, which = name.partition(":")
    kinds = {
        "model": model,
        "backend": compiled,
        "step": step,
        "default": default,
        "part": part,
        "guards": guards,
    }
    with policies.turn(arguments):
        return {"program": name} | kinds[kind](which, arguments)


def main() -> None:
    """Measure the programs that were named, or all."""
    options = policies.parser(__doc__.splitlines()[0], PROGRAMS)
    options.add_argument("--passes", type=int, default=12, help="in a block")
    policies.run(options.parse_args(), PROGRAMS, measure)


if __name__ == "__main__":
    main()
