"""How much faster a pass is whose independent ops run side by side.

    python perf/branches.py --output perf/results/h200-branches.jsonl [program...]

Each model (batch 1, without gradients) is captured by hand as several CUDA graphs of
eager's ops, which take turns in interleaved rounds of synchronised passes:

- ``graph``: one op behind the other, as torch captures it; ``control``: it once more;
- ``kept``: the same, where nothing that an op makes shares memory with another;
- ``wide2``, ``wide4``: kept, and each op waits only for those that made or wrote what
  it uses, or used what it writes. Its stream (of 2 or 4, each with library workspaces
  of its own) is where it could begin first if all ops took equally long;
- ``picked``: so on 4 streams, by the kernels' durations, where what comes from another
  stream comes EDGE_US later, so that what is short stays where it is;
- ``ordered``: picked, with ops that name a library's workspace one behind the other;
- ``cut``: ordered, in pieces of some CUT launches that wait for each other, as a plan's
  segments do.

Writes one JSON object a program: microseconds of each mode (medians); by mode, of_graph
(its time over the graph's, median of paired rounds, with a bootstrap 95 % interval),
bits (those of ``graph`` in each replay), pool_bytes (of the graph's memory), edges
(between streams) and packed_bytes (of what ops make, where one may have the place of
another that is done with by then); made_bytes (all that ops make), varies (one input
gives another output than the next), ops and kernels, chain_ops (the longest chain),
kernel_us and chain_us (of all kernels, and of the chain that takes longest),
workspace_ops (that name one), gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import os
import statistics
import unittest.mock
from collections.abc import Callable, Sequence
from typing import Any

import models
import policies
import regions
import torch
import zoo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

VISION = (
    *("squeezenet1_1_fp16", "squeezenet1_1_fp32", "googlenet_fp16", "googlenet_fp32"),
    *("inception_v3_fp16", "mobilenet_v2_fp16", "resnet18_fp16"),
)
OTHERS = (
    *("densenet121_fp16", "unet_block_fp16", "clip_vit_b32_fp16", "t5_small_bf16"),
    "mobilebert_fp16",
)
PROGRAMS = (*regions.MODELS, *VISION, *OTHERS)
# Go their own way while they are captured: on eager's they read a number.
THEIR_OWN_WAY = ("gpt2_bf16", "distilgpt2_fp16")
EDGE_US = 3.0
CUT = 100
REPLAYS = 6  # that are profiled
WORKSPACE_BYTES = 1 << 20  # at least

Waits = list[set[int]]  # by op, the earlier ones that it waits for


class KernelNode(ctypes.Structure):
    """The driver's CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
        ("packed", ctypes.POINTER(ctypes.c_void_p)),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def ask(name: str, *arguments: Any) -> None:
    """Call the driver. Integers are handles or sizes."""
    given = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
    if error := getattr(ctypes.CDLL("libcuda.so.1"), name)(*given):
        raise RuntimeError(f"{name}: {error}")


def asked(name: str, graph: int, *of: Any) -> list[Any]:
    """What the driver lists of a graph."""
    count = ctypes.c_size_t()
    ask(name, graph, *(None for _ in of), ctypes.byref(count))
    lists = [(each * count.value)() for each in of]
    if count.value > 0:
        ask(name, graph, *lists, ctypes.byref(count))
    return lists


def edges_of(graph: int) -> dict[tuple[int, int], int]:
    """All edges, and what the driver says of each."""
    of = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64
    begins, ends, data = asked("cuGraphGetEdges_v2", graph, *of)
    return dict(zip(zip(begins, ends, strict=True), data, strict=True))


def change(name: str, graph: int, edges: dict[tuple[int, int], int]) -> None:
    """Add edges, or remove them."""
    count = len(edges)
    ends = [(ctypes.c_void_p * count)(*(edge[i] for edge in edges)) for i in (0, 1)]
    if count > 0:
        ask(name, graph, *ends, (ctypes.c_uint64 * count)(*edges.values()), count)


def words_of(node: int) -> list[int]:
    """The words of a kernel's parameters; of other nodes none."""
    kind, it = ctypes.c_int(), KernelNode()
    ask("cuGraphNodeGetType", node, ctypes.byref(kind))
    if kind.value != 0:
        return []
    ask("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(it))
    images = []
    if it.packed:  # CU_LAUNCH_PARAM_BUFFER_POINTER, it, .._SIZE, its size, .._END
        size = ctypes.c_size_t.from_address(it.packed[3])
        images.append(ctypes.string_at(it.packed[1], size.value))
    info = "cuFuncGetParamInfo" if it.function else "cuKernelGetParamInfo"
    with contextlib.suppress(RuntimeError):  # there are no more parameters
        while it.parameters:
            offset, size = ctypes.c_size_t(), ctypes.c_size_t()
            out = ctypes.byref(offset), ctypes.byref(size)
            ask(info, it.function or it.kernel, len(images), *out)
            images.append(ctypes.string_at(it.parameters[len(images)], size.value))
    whole = [image[: len(image) // 8 * 8] for image in images]
    return [word for image in whole for word in memoryview(image).cast("Q")]


def storages(of: Any) -> dict[int, int]:
    """Address and bytes of each storage."""
    tensors = [leaf for leaf in tree_leaves(of) if isinstance(leaf, torch.Tensor)]
    every = [tensor.untyped_storage() for tensor in tensors]
    return {s.data_ptr(): s.nbytes() for s in every if s.nbytes() > 0}


@dataclasses.dataclass
class Op:
    """A call that launched something."""

    call: int
    used: set[int]  # storages
    written: dict[int, int]  # storages, and their bytes
    nodes: list[int]
    us: float = 1.0
    names_workspace: bool = False


class Ops(TorchDispatchMode):
    """Notes the ops of a capture, and keeps all that they make.

    Runs each on the stream that ``chosen`` says of its call, or on the first.
    """

    def __init__(self, chosen: dict[int, int] | None = None) -> None:
        super().__init__()
        self.chosen = chosen or {}
        count = max(self.chosen.values(), default=0)
        self.sides = [torch.cuda.Stream() for _ in range(count)]
        self.ops: list[Op] = []
        self.kept: list[Any] = []
        self.seen: set[int] = set()

    def __enter__(self) -> Any:
        """A graph is being captured on this stream."""
        self.streams = [torch.cuda.current_stream(), *self.sides]
        graph = ctypes.c_void_p()
        out = [ctypes.byref(ctypes.c_uint64()) for _ in range(5)]
        out.insert(2, ctypes.byref(graph))
        ask("cuStreamGetCaptureInfo_v3", self.streams[0].cuda_stream, *out)
        self.graph = graph.value or 0
        for side in self.sides:
            side.wait_stream(self.streams[0])
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for side in self.sides:
            self.streams[0].wait_stream(side)

    def launched(self) -> list[int]:
        """Nodes that are new."""
        (nodes,) = asked("cuGraphGetNodes", self.graph, ctypes.c_void_p)
        new = [node for node in nodes if node not in self.seen]
        self.seen.update(new)
        return new

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Call the op."""
        kwargs = kwargs or {}
        call = len(self.kept)
        with torch.cuda.stream(self.streams[self.chosen.get(call, 0)]):
            result = function(*args, **kwargs)
        self.kept.append((args, kwargs, result))
        if new := self.launched():
            used = storages((args, kwargs))
            named = dict(zip((a.name for a in function._schema.arguments), args))  # noqa: B905
            written = storages(
                [
                    (named | kwargs).get(argument.name)
                    for argument in function._schema.arguments
                    if argument.alias_info is not None and argument.alias_info.is_write
                ]
            )
            made = {s: size for s, size in storages(result).items() if s not in used}
            self.ops.append(Op(call, set(used), written | made, new))
        return result


def dependencies(ops: Sequence[Op], ordered: bool = False) -> Waits:
    """Whom each op has to wait for; ``ordered``: for workspaces, too."""
    writers: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    named: set[int] = set()
    before = []
    for k, op in enumerate(ops):
        waits = {writers[s] for s in op.used | op.written.keys() if s in writers}
        for s in op.written:
            waits |= readers.pop(s, set())
            writers[s] = k
        for s in op.used - op.written.keys():
            readers.setdefault(s, set()).add(k)
        if ordered and op.names_workspace:
            waits |= named
            named = {k}
        before.append(waits)
    return before


def cut(ops: Sequence[Op], before: Waits) -> Waits:
    """Have all ops of a piece wait for all of the one before it."""
    result = []
    last, piece, launches = range(0), 0, 0  # ops before, the piece's first, its nodes
    for k, op in enumerate(ops):
        if launches > 0 and launches + len(op.nodes) > CUT:
            last, piece, launches = range(piece, k), k, 0
        launches += len(op.nodes)
        result.append({j for j in before[k] if j >= piece}.union(last))
    return result


def spread(ops: Sequence[Op], before: Waits, streams: int, edge_us: float) -> list[int]:
    """Give each op, in their order, the stream on which it can begin first.

    Where there are several, one that an op that it waits for was the last on.
    """
    ends: list[float] = []
    chosen: list[int] = []
    last = [-1] * streams

    def begin(k: int, s: int) -> float:
        waits = [ends[j] + edge_us * (chosen[j] != s) for j in before[k]]
        return max([0.0, *waits, *ends[last[s] : last[s] + 1]])

    for k, op in enumerate(ops):
        s = min(range(streams), key=lambda s: (begin(k, s), last[s] not in before[k]))
        ends.append(begin(k, s) + op.us)
        chosen.append(s)
        last[s] = k
    return chosen


def in_streams(before: Waits, chosen: list[int]) -> Waits:
    """Have each op wait for the one before it on its stream, too; no edge is implied."""
    behind: list[int] = []  # sets of ops, as bits
    last: dict[int, int] = {}
    result = []
    for k, waits in enumerate(before):
        reached = 0
        needed = set()
        for j in sorted(waits | {last.get(chosen[k], -1)} - {-1}, reverse=True):
            if not reached >> j & 1:
                needed.add(j)
                reached |= behind[j] | 1 << j
        behind.append(reached)
        result.append(needed)
        last[chosen[k]] = k
    return result


def packed(ops: Sequence[Op], before: Waits) -> int:
    """Bytes of all that ops make, the largest first, each where it fits."""
    behind: list[int] = []
    made: dict[int, tuple[int, int]] = {}  # by storage: bytes, and who made it
    users: dict[int, int] = {}
    for k, op in enumerate(ops):
        behind.append(0)
        for j in before[k]:
            behind[k] |= behind[j] | 1 << j
        for s, size in op.written.items():
            made.setdefault(s, ((size + 511) // 512 * 512, k))
        for s in op.used | op.written.keys():
            users[s] = users.get(s, 0) | 1 << k
    for s in ops[-1].written:
        users[s] |= 1 << len(ops)  # the result's: nothing comes behind that
    placed: list[tuple[int, int, int]] = []  # place, end, storage
    for s, (size, maker) in sorted(made.items(), key=lambda item: -item[1][0]):
        place = 0
        for begin, end, other in sorted(placed):
            follows = not users[other] & ~behind[maker]
            if follows or not users[s] & ~behind[made[other][1]]:
                continue
            if begin >= place + size:
                break
            place = max(place, end)
        placed.append((place, place + size, s))
    return max(end for _, end, _ in placed)


def longest(ops: Sequence[Op], before: Waits) -> float:
    """Give the time of the chain that takes longest."""
    ends: list[float] = []
    for op, waits in zip(ops, before, strict=True):
        ends.append(op.us + max((ends[j] for j in waits), default=0.0))
    return max(ends)


class Captured:
    """A pass as a graph, with inputs of its own."""

    def __init__(
        self,
        module: Callable[..., torch.Tensor],
        given: tuple[torch.Tensor, ...],
        noted: Ops | None = None,
        before: Waits | None = None,
    ) -> None:
        torch._C._cuda_clearCublasWorkspaces()  # each graph has its own
        self.inputs = tuple(each.clone() for each in given)
        self.ops = noted.ops if noted is not None else []
        self.kept = noted.kept if noted is not None else []
        self.graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(self.graph), noted or contextlib.nullcontext():
            self.output = module(*self.inputs)
        if before is not None:
            self.rewire(before)
        self.graph.instantiate()

    def rewire(self, before: Waits) -> None:
        """Leave edges within ops and between these, whatever libraries have added."""
        graph = self.graph.raw_cuda_graph()
        owner = {node: k for k, op in enumerate(self.ops) for node in op.nodes}
        have = edges_of(graph)
        inner = {edge for edge in have if owner[edge[0]] == owner[edge[1]]}
        not_last, not_first = ({edge[i] for edge in inner} for i in (0, 1))
        wanted = {
            (a, b)
            for op, waits in zip(self.ops, before, strict=True)
            for j in waits
            for a in self.ops[j].nodes
            for b in op.nodes
            if a not in not_last and b not in not_first
        }
        surplus = {edge: have[edge] for edge in have.keys() - wanted - inner}
        change("cuGraphRemoveDependencies_v2", graph, surplus)
        missing = dict.fromkeys(wanted - have.keys(), 0)
        change("cuGraphAddDependencies_v2", graph, missing)

    def run(self, new: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Replay it on other inputs."""
        for old, value in zip(self.inputs, new, strict=True):
            old.copy_(value)
        self.graph.replay()
        return self.output

    def segments(self) -> list[dict[str, Any]]:
        """Its memory."""
        pool = tuple(self.graph.pool())
        every = torch.cuda.memory_snapshot()
        return [each for each in every if tuple(each["segment_pool_id"]) == pool]

    def look(self) -> None:
        """Note how long ops take, and which name a workspace, of a line."""
        kept = storages(self.kept)
        spaces = [
            range(block["address"], block["address"] + block["size"])
            for segment in self.segments()
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
            and block["size"] >= WORKSPACE_BYTES
            and block["address"] not in kept
        ]
        us = self.durations()
        for op in self.ops:
            op.us = sum(next(us) for _ in op.nodes)
            words = [word for node in op.nodes for word in words_of(node)]
            op.names_workspace = any(word in s for s in spaces for word in words)

    def durations(self) -> Any:
        """Microseconds of each node of a line."""
        os.environ["TEARDOWN_CUPTI"] = "1"  # else launches take longer afterwards
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(REPLAYS):
                self.graph.replay()
                torch.cuda.synchronize()
        every = [
            (event.time_range.start, event.time_range.elapsed_us())
            for event in profile.events()
            if event.device_type == torch.autograd.DeviceType.CUDA
        ]
        nodes = sum(len(op.nodes) for op in self.ops)
        if len(every) != REPLAYS * nodes:
            raise RuntimeError(f"{len(every)} events of {REPLAYS} times {nodes} nodes")
        took = [us for _, us in sorted(every)]
        return iter([statistics.median(took[i::nodes]) for i in range(nodes)])


def vision(name: str) -> tuple[torch.nn.Module, Callable[[], tuple[torch.Tensor]]]:
    """A model of torchvision."""
    import torchvision

    which, _, kind = name.rpartition("_")
    inception = which in ("googlenet", "inception_v3")
    options = {"init_weights": False} if inception else {}
    module = getattr(torchvision.models, which)(**options)
    for part in module.modules():
        if isinstance(part, torch.nn.Conv2d):  # else nothing is left of an input
            torch.nn.init.kaiming_normal_(part.weight)
    dtype = torch.float16 if kind == "fp16" else torch.float32
    size = 299 if which == "inception_v3" else 224
    return module.cuda().eval().to(dtype), lambda: (
        torch.randn(1, 3, size, size, device="cuda", dtype=dtype),
    )


def compared(
    graphs: dict[str, Captured], inputs: list[Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    """What the record says of times, bits and memory."""
    modes = {mode: models.Mode(graph.run) for mode, graph in graphs.items()}
    times = models.Rounds(modes, inputs, arguments.rounds, arguments.passes)
    result: dict[str, Any] = times.times()
    expected = [graphs["graph"].run(given).clone() for given in inputs]
    result["varies"] = not models.same_bits(expected[0], expected[1])
    result |= {"of_graph": {}, "bits": {}, "pool_bytes": {}}
    for mode, graph in graphs.items():
        ratio = times.ratio("of_graph", mode, "graph")
        result["of_graph"][mode] = list(ratio.values())
        result["bits"][mode] = all(
            models.same_bits(graph.run(given), bits)
            for _ in range(2)
            for given, bits in zip(inputs, expected, strict=True)
        )
        memory = [segment["total_size"] for segment in graph.segments()]
        result["pool_bytes"][mode] = sum(memory)
    return result


@torch.no_grad()
def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One program, in this process."""
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    capturing = "torch.cuda.is_current_stream_capturing"
    if name not in THEIR_OWN_WAY:
        unittest.mock.patch(capturing, lambda: False).start()
    if name in VISION:
        module, make = vision(name)
    else:
        module, make = zoo.WORKLOADS[name].make(torch.device("cuda"))
    inputs = [make() for _ in range(models.INPUTS)]
    for given in inputs[:3]:
        module(*given)
    graphs = {
        "graph": Captured(module, make()),
        "kept": Captured(module, make(), Ops()),
    }
    graphs["control"] = graphs["graph"]
    ops = graphs["kept"].ops
    with policies.turn(arguments):
        graphs["kept"].look()
        alike = [dataclasses.replace(op, us=1.0) for op in ops]
        free, ordered = dependencies(ops), dependencies(ops, ordered=True)
        pieces = cut(ops, ordered)
        how = {
            "wide2": (free, spread(alike, free, 2, 0.0)),
            "wide4": (free, spread(alike, free, 4, 0.0)),
            "picked": (free, spread(ops, free, 4, EDGE_US)),
            "ordered": (ordered, spread(ops, ordered, 4, EDGE_US)),
            "cut": (pieces, spread(ops, pieces, 4, EDGE_US)),
        }
        waits = {mode: in_streams(*each) for mode, each in how.items()}
        for mode, (_, streams) in how.items():
            chosen = {op.call: s for op, s in zip(ops, streams, strict=True)}
            graphs[mode] = Captured(module, make(), Ops(chosen), waits[mode])
            assert chosen.keys() == {op.call for op in graphs[mode].ops}
        result = {"program": name} | compared(graphs, inputs, arguments)
    result["edges"] = {
        mode: sum(chosen[j] != chosen[k] for k, w in enumerate(waits[mode]) for j in w)
        for mode, (_, chosen) in how.items()
    }
    waits["graph"] = in_streams(free, [0] * len(ops))
    result["packed_bytes"] = {mode: packed(ops, waits[mode]) for mode in waits}
    made = {s: size for op in ops for s, size in op.written.items()}
    return result | {
        "made_bytes": sum(made.values()),
        "ops": len(ops),
        "kernels": sum(len(op.nodes) for op in ops),
        "chain_ops": longest(alike, free),
        "kernel_us": sum(op.us for op in ops),
        "chain_us": longest(ops, free),
        "workspace_ops": sum(op.names_workspace for op in ops),
    }


def main() -> None:
    """Measure the programs that were named, or all."""
    options = policies.parser(__doc__.splitlines()[0], PROGRAMS)
    options.add_argument("--passes", type=int, default=12, help="in a block")
    policies.run(options.parse_args(), PROGRAMS, measure)


if __name__ == "__main__":
    main()
