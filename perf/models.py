"""Eager, Reprise, a hand-written CUDA graph and torch.compile, side by side.

One process measures all modes of a model in interleaved rounds, each pass on
another input, so that the clock of a shared machine falls on all of them alike:
read the ratios. ``eager_control`` is eager measured a second time: its ratio to
eager is the noise. Speed is the time of a pass with a synchronisation after it
(``latency``) and of passes back to back (``throughput``).

    python perf/models.py --output perf/results/h200.json --plot perf/results/h200.png

Writes one JSON object a line: workload, mode, median_us, p10_us, p90_us,
throughput_us, device_us (of ``reprise`` and ``graph``: the device's time a pass where
the host is far ahead; not a number where it is not), ratio (eager over mode, median of paired rounds) with a bootstrap
95 % interval, bit_equal (50 calls, all outputs kept), first_replay_ms,
first_replay_calls, prepare_ms (what is done once a process before, in the
background: CUPTI and the comparison kernel), eager_peak_bytes and peak_bytes
(of device memory in use, with all plans), plan_bytes, host_us (mode ``reprise_host``:
followed passes whose launches are left out; of a library built with
``REPRISE_MEASURE=ON`` alone) and, by sampling such passes
(``--sampler``), its parts own_us, python_us, torch_us, driver_us and libc_us,
gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import json
import math
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import pc_sampler
import progress
import reprise
import torch
import zoo
from torch.utils._python_dispatch import TorchDispatchMode

MODES = (
    "eager",
    "eager_control",
    "reprise",
    "reprise_host",
    "graph",
    "graph_kept",
    "compile",
    "reduce_overhead",
)
INPUTS = 16
KEPT = 50
HOLD_CYCLES = 150_000_000  # of the device's clock, for which a stream is held
SETTLING = {"always": 1.5, "measured": 6.0}  # seconds

Run = Callable[[tuple[torch.Tensor, ...]], torch.Tensor]


def synchronize() -> None:
    """Wait for the device."""
    torch.cuda.synchronize()


def seconds(run: Callable[[], object]) -> float:
    """Time one call, its device work included."""
    start = time.perf_counter()
    run()
    synchronize()
    return time.perf_counter() - start


class Mode:
    """One way of running a model: ``with mode: y = mode.run(arguments)``."""

    policy = "always"

    def __init__(self, run: Run, enabled: bool = False, launches: bool = True) -> None:
        self.run = run
        self.enabled = enabled
        self.launches = launches

    def __enter__(self) -> Mode:
        if self.enabled:
            reprise.enable("cuda", policy=self.policy)
        if not self.launches:  # what is left of a pass is the host's share
            torch.ops.reprise.skip_launches(True)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.launches:
            torch.ops.reprise.skip_launches(False)
        if self.enabled:
            reprise.disable()


class Keep(TorchDispatchMode):
    """Keeps all that ops give, so that no memory is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[object] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Call the op."""
        result = function(*args, **(kwargs or {}))
        self.kept.append(result)
        return result


def hand_written(
    model: torch.nn.Module, arguments: tuple[torch.Tensor, ...], *, keep: bool = False
) -> Run:
    """Capture ``model`` as PyTorch's manual says, with static inputs.

    With `keep` each intermediate has memory of its own, as in a plan of Reprise,
    where the program may hold any of them.
    """
    static = tuple(argument.clone() for argument in arguments)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    kept = Keep()
    with torch.cuda.graph(graph), kept if keep else contextlib.nullcontext():
        output = model(*static)

    def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
        for old, value in zip(static, new, strict=True):
            old.copy_(value)
        graph.replay()
        return output

    run.kept = kept  # type: ignore[attr-defined]
    return run


def compiled_at_first_call(function: Callable[..., torch.Tensor], mode: str) -> Run:
    """``function`` by torch.compile, which compiles it in the first call."""
    fast = torch.compile(function, mode=mode)

    def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        return fast(*new)

    return run


def compiled(
    model: torch.nn.Module, arguments: tuple[torch.Tensor, ...], mode: str
) -> Run:
    """Compile ``model`` and run it until it is warm."""
    torch._dynamo.reset()
    run = compiled_at_first_call(model, mode)
    for _ in range(4):
        run(arguments)
        synchronize()
    return run


def prepare() -> float:
    """Have done, once a process, what a session's first op starts in the background.

    That is attaching CUPTI and compiling the comparison kernel. Gives the
    milliseconds that waiting for it took.
    """
    x = torch.zeros(1, device="cuda")
    synchronize()
    reprise.enable("cuda", policy="always")
    took = seconds(lambda: (x + 1, reprise.wait()))
    reprise.reset()
    reprise.disable()
    return 1e3 * took


def can_skip_launches() -> bool:
    """Whether the library was built with what mode ``reprise_host`` needs; loads it."""
    reprise.enable("cuda")
    reprise.disable()
    return hasattr(torch.ops.reprise, "skip_launches")


def first_replay(
    model: torch.nn.Module, make: Callable[[], tuple]
) -> tuple[int, float, float]:
    """Calls until the first replay, and the milliseconds that they cost more than eager."""
    for _ in range(3):
        model(*make())
    eager = statistics.median(seconds(lambda: model(*make())) for _ in range(5))
    reprise.enable("cuda", policy="always")
    ours = []
    kept = []
    calls = -1
    for call in range(1, 21):
        arguments = make()
        synchronize()

        def once(arguments: tuple = arguments) -> None:
            kept.append(model(*arguments))
            reprise.wait()

        before = reprise.stats().replays
        ours.append(seconds(once))
        if reprise.stats().replays > before:
            calls = call
            break
    reprise.disable()
    return calls, 1e3 * (sum(ours) - eager * len(ours)), 1e6 * eager


def peak_bytes(mode: Mode, inputs: list[tuple]) -> int:
    """Give the most device memory in use at once during passes of ``mode``."""
    with mode:
        torch.cuda.reset_peak_memory_stats()
        for arguments in inputs:
            mode.run(arguments)
        synchronize()
        return torch.cuda.max_memory_allocated()


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal in every bit, which NaNs and signs of zeros are not by value."""
    if a.device != b.device:
        a, b = a.cpu(), b.cpu()

    def bits(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous().reshape(-1).view(torch.uint8)

    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b))


def all_same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """As many, and each equal in every bit."""
    return len(left) == len(right) and all(map(same_bits, left, right))


def bits_of_eager(
    model: torch.nn.Module, make: Callable[[], tuple], mode: Mode
) -> bool:
    """Whether 50 kept outputs, looked at at the end, hold eager's bits."""
    inputs = [make() for _ in range(KEPT)]
    expected = [model(*arguments).cpu() for arguments in inputs]
    with mode:
        outputs = [mode.run(arguments) for arguments in inputs]
        synchronize()
    return all(same_bits(a, b) for a, b in zip(outputs, expected, strict=True))


def bootstrap(values: list[float], draws: int = 1000) -> tuple[float, float]:
    """Give a 95 % interval of the median."""
    rng = random.Random(0)
    medians = sorted(
        statistics.median(rng.choices(values, k=len(values))) for _ in range(draws)
    )
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def passes(mode: Mode, inputs: list[tuple], start: int, count: int) -> list[float]:
    """Latencies of ``count`` passes, each synchronised, after one that is not counted."""
    times = []
    with mode:
        mode.run(inputs[start % INPUTS])
        synchronize()
        for i in range(count):
            times.append(
                seconds(lambda i=i: mode.run(inputs[(start + 1 + i) % INPUTS]))  # type: ignore[misc]
            )
    return times


def interleaved(
    modes: dict[str, Mode], inputs: list[tuple], rounds: int, count: int
) -> dict[str, list[list[float]]]:
    """Latencies of ``count`` passes of each mode, by round, each in another order."""
    latencies: dict[str, list[list[float]]] = {name: [] for name in modes}
    for index in range(rounds):
        progress.stage(f"round {index + 1} of {rounds}")
        order = list(modes)
        random.Random(index).shuffle(order)
        for name in order:
            latencies[name].append(passes(modes[name], inputs, index, count))
    return latencies


class Rounds:
    """Modes measured in interleaved rounds, and how they compare."""

    def __init__(
        self, modes: dict[str, Mode], inputs: list[tuple], rounds: int, count: int
    ) -> None:
        blocks = interleaved(modes, inputs, rounds, count)
        # Seconds, by mode: the median of each round.
        self.medians = {
            mode: [statistics.median(block) for block in blocks[mode]] for mode in modes
        }

    def times(self) -> dict[str, float]:
        """Microseconds of each mode."""
        return {
            f"{mode}_us": 1e6 * statistics.median(found)
            for mode, found in self.medians.items()
        }

    def ratios(self, top: str, under: str) -> list[float]:
        """Of each round."""
        pairs = zip(self.medians[top], self.medians[under], strict=True)
        return [a / b for a, b in pairs]

    def ratio(self, key: str, top: str, under: str) -> dict[str, float]:
        """Median of paired rounds, and a bootstrap 95 % interval."""
        found = self.ratios(top, under)
        low, high = bootstrap(found)
        return {key: statistics.median(found), f"{key}_low": low, f"{key}_high": high}


def parts(mode: Mode, inputs: list[tuple], count: int) -> tuple[float, float]:
    """Median seconds until a pass returns, and then until the device has done it."""
    returned, waited = [], []
    with mode:
        for i in range(count + 1):
            start = time.perf_counter()
            mode.run(inputs[i % INPUTS])
            back = time.perf_counter()
            synchronize()
            returned.append(back - start)
            waited.append(time.perf_counter() - back)
    return statistics.median(returned[1:]), statistics.median(waited[1:])


def back_to_back(mode: Mode, inputs: list[tuple], count: int) -> float:
    """Seconds a pass without a synchronisation between passes."""
    with mode:
        for i in range(3):
            mode.run(inputs[i % INPUTS])
        synchronize()

        def all_of_them() -> None:
            for i in range(count):
                mode.run(inputs[i % INPUTS])

        return seconds(all_of_them) / count


def settle(mode: Mode, inputs: list[tuple], duration: float) -> None:
    """Run until what Reprise does only at the beginning is over (recording, CUPTI)."""
    with mode:
        end = time.perf_counter() + duration
        while time.perf_counter() < end:
            seconds(lambda: mode.run(inputs[0]))


def host_shares(
    mode: Mode, inputs: list[tuple], sampler: pc_sampler.Sampler
) -> dict[str, float]:
    """Give each owner's share of a pass whose launches are left out."""
    with mode:
        return sampler.shares(lambda: [mode.run(x) for x in inputs])


def environment(arguments: argparse.Namespace) -> dict:
    """Say where and with what this was measured."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver.split("\n")[0].strip(),
        "torch": torch.__version__,
        "commit": arguments.commit,
        "dirty": arguments.dirty,
        "command": shlex.join(["python", *sys.argv]),
    }


def make_modes(
    model: torch.nn.Module, arguments: tuple, names: list[str]
) -> dict[str, Mode]:
    """Make what can be made; a mode that fails is left out, with its error printed."""
    makers: dict[str, Callable[[], Mode]] = {
        "eager": lambda: Mode(lambda new: model(*new)),
        "eager_control": lambda: Mode(lambda new: model(*new)),
        "reprise": lambda: Mode(lambda new: model(*new), enabled=True),
        "reprise_host": lambda: Mode(
            lambda new: model(*new), enabled=True, launches=False
        ),
        "graph": lambda: Mode(hand_written(model, arguments)),
        "graph_kept": lambda: Mode(hand_written(model, arguments, keep=True)),
        "compile": lambda: Mode(compiled(model, arguments, "default")),
        "reduce_overhead": lambda: Mode(compiled(model, arguments, "reduce-overhead")),
    }
    made = {}
    for name in names:
        try:
            made[name] = makers[name]()
        except Exception as error:  # a peer that fails must not hide the others
            progress.tell(f"  {name}: {type(error).__name__}: {error}"[:300])
    return made


def device_time(mode: Mode, inputs: list[tuple], passes: int = 8) -> float:
    """Seconds of the device a pass, the host being far ahead.

    The stream is held until all passes have been launched.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with mode:
        mode.run(inputs[0])
        synchronize()
        torch.cuda._sleep(HOLD_CYCLES)
        begin.record()
        for i in range(passes):
            mode.run(inputs[i % len(inputs)])
        end.record()
        held = not begin.query()
        synchronize()
    return 1e-3 * begin.elapsed_time(end) / passes if held else math.nan


@torch.no_grad()
def measure(workload: zoo.Workload, arguments: argparse.Namespace) -> list[dict]:
    """Measure all modes of one workload."""
    torch.manual_seed(0)
    model, make = workload.make(torch.device("cuda"))
    records: dict[str, dict] = {}
    inputs = [make() for _ in range(INPUTS)]
    eager_peak_bytes = peak_bytes(Mode(lambda new: model(*new)), inputs)
    prepare_ms = prepare()
    calls, extra_ms, _ = first_replay(model, make)
    ours_peak_bytes = 0
    if "reprise" in arguments.modes:
        mode = Mode(lambda new: model(*new), enabled=True)
        settle(mode, inputs, 0.5)
        ours_peak_bytes = peak_bytes(mode, inputs)
    modes = make_modes(model, make(), arguments.modes)
    if "reprise" in modes:
        settle(modes["reprise"], inputs, SETTLING[arguments.policy])
    latencies = interleaved(modes, inputs, arguments.rounds, arguments.passes)
    for name, mode in modes.items():
        every = sorted(value for block in latencies[name] for value in block)
        ratios = [
            statistics.median(e) / statistics.median(m)
            for e, m in zip(latencies["eager"], latencies[name], strict=True)
        ]
        low, high = bootstrap(ratios)
        records[name] = {
            "workload": workload.name,
            "mode": name,
            "median_us": 1e6 * statistics.median(every),
            "p10_us": 1e6 * every[len(every) // 10],
            "p90_us": 1e6 * every[9 * len(every) // 10],
            "throughput_us": 1e6 * back_to_back(mode, inputs, 30),
            "device_us": None,
            "ratio": statistics.median(ratios),
            "ratio_low": low,
            "ratio_high": high,
            "bit_equal": None,
            "first_replay_ms": None,
            "first_replay_calls": None,
            "host_us": None,
            "own_us": None,
        }
    for name in {"reprise", "graph"} & modes.keys():
        device = [device_time(modes[name], inputs) for _ in range(5)]
        records[name]["device_us"] = 1e6 * statistics.median(device)
    ours = records["reprise"]
    ours["bit_equal"] = bits_of_eager(model, make, modes["reprise"])
    ours["first_replay_calls"] = calls
    ours["first_replay_ms"] = extra_ms
    ours["prepare_ms"] = prepare_ms
    ours["eager_peak_bytes"] = eager_peak_bytes
    ours["peak_bytes"] = ours_peak_bytes
    ours["plan_bytes"] = reprise.stats().plan_bytes
    ours["stats"] = dataclasses.asdict(reprise.stats())
    if "reprise_host" in modes:
        ours["host_us"] = records["reprise_host"]["median_us"]
    if arguments.sampler and "reprise_host" in modes:
        sampler = pc_sampler.Sampler(arguments.sampler)
        for owner, share in host_shares(modes["reprise_host"], inputs, sampler).items():
            ours[f"{owner}_us"] = share * ours["host_us"]
    reprise.enable("cuda", policy="always")
    report = reprise.explain()
    ours["report"] = report.to_dict() if arguments.reports else None
    progress.tell(report)
    reprise.reset()
    reprise.disable()
    return list(records.values())


def table(records: list[dict]) -> str:
    """Render one line a workload."""
    workloads = list(dict.fromkeys(record["workload"] for record in records))
    by = {(record["workload"], record["mode"]): record for record in records}
    modes = [mode for mode in MODES if any((w, mode) in by for w in workloads)]
    lines = [
        "| model | "
        + " | ".join(modes)
        + " | eager/reprise | bits | calls | ms | host us | plan MiB | excess MiB |"
    ]
    lines.append("|---" * (len(modes) + 8) + "|")
    for workload in workloads:
        cells = [workload]
        for mode in modes:
            record = by.get((workload, mode))
            cells.append(f"{record['median_us']:.0f}" if record else "")
        ours = by[(workload, "reprise")]
        cells += [
            f"{ours['ratio']:.2f} [{ours['ratio_low']:.2f}, {ours['ratio_high']:.2f}]",
            "yes" if ours["bit_equal"] else "NO",
            str(ours["first_replay_calls"]),
            f"{ours['first_replay_ms']:.1f}",
            f"{ours['host_us']:.0f}" if ours["host_us"] else "",
            f"{ours['plan_bytes'] / 2**20:.1f}",
            f"{(ours['peak_bytes'] - ours['eager_peak_bytes']) / 2**20:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(records: list[dict], path: str) -> None:
    """Draw the speed-ups over eager."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    workloads = list(dict.fromkeys(record["workload"] for record in records))
    modes = [mode for mode in MODES if mode != "eager"]
    figure, axes = plt.subplots(figsize=(1.5 + 1.6 * len(workloads), 4))
    width = 0.8 / len(modes)
    for m, mode in enumerate(modes):
        chosen = [r for r in records if r["mode"] == mode]
        places = [workloads.index(r["workload"]) + width * m for r in chosen]
        heights = [r["ratio"] for r in chosen]
        errors = [
            [r["ratio"] - r["ratio_low"] for r in chosen],
            [r["ratio_high"] - r["ratio"] for r in chosen],
        ]
        axes.bar(places, heights, width, yerr=errors, label=mode.replace("_", " "))
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(
        [i + 0.4 - width / 2 for i in range(len(workloads))], workloads, rotation=20
    )
    axes.set_ylabel("speed-up over eager (latency)")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Parse arguments, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(zoo.WORKLOADS)[:7])
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument(
        "--reports", action="store_true", help="keep explain() in the records"
    )
    parser.add_argument("--policy", default=Mode.policy, choices=("always", "measured"))
    parser.add_argument(
        "--sampler", type=pathlib.Path, help="libreprise_pc_sampler.so, built here"
    )
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--plot")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--dirty", action="store_true")
    arguments = parser.parse_args()
    Mode.policy = arguments.policy
    if "reprise_host" in arguments.modes and not can_skip_launches():
        print(
            "no mode reprise_host, and no host_us: the library has no operator "
            "skip_launches, which the CMake option REPRISE_MEASURE=ON builds into it",
            file=sys.stderr,
        )
        arguments.modes.remove("reprise_host")
    everything = []
    where = environment(arguments)
    for number, name in enumerate(arguments.models, 1):
        progress.tell(name)
        with progress.row(number, len(arguments.models), name):
            records = measure(zoo.WORKLOADS[name], arguments)
        for record in records:
            everything.append({**record, **where})
            if arguments.output:
                with arguments.output.open("a") as file:
                    file.write(json.dumps(everything[-1]) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    print(table(everything))
    if arguments.plot:
        plot(everything, arguments.plot)


if __name__ == "__main__":
    main()
