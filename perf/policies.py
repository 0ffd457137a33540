"""The default policy beside eager and beside `always`, over programs of many kinds.

    python perf/policies.py --output perf/results/h200-policies.jsonl [program...]

Each program runs in a process of its own with inputs that differ from pass to pass.
Of ``--jobs`` at once one is timed while the others make their models. First it is timed from the moment when Reprise is switched on under
``measured``, second by second, between stretches of eager; then ``eager``, eager again
(``control``), ``always`` and ``measured`` take turns in blocks, in another order each
round. Blocks end with a synchronisation, and passes only where the program has one.
Programs that were measured already, with the same commit, are left out: an
interrupted run goes on.

Writes one JSON object a program: microseconds a pass of each mode (medians of blocks),
of_better (whichever of eager and always has the better median, over measured: median of
rounds, with a bootstrap 95 % interval), of_eager (eager over measured), always_of_eager, control
(eager over itself), seconds (eager over measured in each of the first seconds),
followed_always and followed_measured (shares of ops), saved_us (a second of measured,
as Reprise itself counts), asleep (Reprise let the stream pass at the end), gpu, driver,
torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import models
import progress
import reprise
import torch
import training
import zoo
from torch import nn

MODES = ("eager", "control", "always", "measured")
POLICIES = {"always": "always", "measured": "measured"}
functional = nn.functional

Pass = Callable[[int], Any]


def model_of(name: str) -> Pass:
    """A workload of zoo.py, synchronised after each pass."""
    model, arguments = zoo.WORKLOADS[name].make(torch.device("cuda"))
    inputs = [arguments() for _ in range(models.INPUTS)]

    def step(i: int) -> None:
        model(*inputs[i % len(inputs)])
        torch.cuda.synchronize()

    return step


def batch(*shape: int) -> list[torch.Tensor]:
    """Inputs of a model."""
    return [torch.randn(*shape, device="cuda") for _ in range(models.INPUTS)]


def mlp(width: int = 256, depth: int = 20) -> nn.Module:
    """A model of small launches."""
    return zoo.Mlp(width, depth).cuda().eval()


def unsynchronised() -> Pass:
    """Passes back to back; nobody waits before the end of a block."""
    model, inputs = mlp(), batch(32, 256)
    return lambda i: model(inputs[i % len(inputs)])


def alternating() -> Pass:
    """Two models in turn, in passes of their own."""
    first, second = model_of("mlp20"), model_of("distilgpt2_fp16")
    return lambda i: (first, second)[i % 2](i)


def item() -> Pass:
    """A number goes to the host in the middle of each pass and at its end."""
    first, second, inputs = mlp(depth=8), mlp(depth=8), batch(32, 256)

    def step(i: int) -> float:
        h = first(inputs[i % len(inputs)])
        scale = h.abs().max().item()
        return second(h / (1.0 + scale)).sum().item()

    return step


def sleeping() -> Pass:
    """A control loop: ten milliseconds pass between passes."""
    model, inputs = mlp(), batch(32, 256)

    def step(i: int) -> None:
        model(inputs[i % len(inputs)]).sum().item()
        time.sleep(0.01)

    return step


def device_bound() -> Pass:
    """Large matrices: the host is far ahead of the device."""
    model, inputs = mlp(4096, 8), batch(8192, 4096)

    def step(i: int) -> None:
        model(inputs[i % len(inputs)])
        torch.cuda.synchronize()

    return step


def device_bound_unsynchronised() -> Pass:
    """The same, and nobody waits before the end of a block."""
    model, inputs = mlp(2048, 8), batch(4096, 2048)
    return lambda i: model(inputs[i % len(inputs)])


def never_repeating() -> Pass:
    """Ops in another order and of other sizes at each pass."""
    weights = [torch.randn(256, 256, device="cuda") for _ in range(8)]
    ops = [torch.relu, torch.tanh, torch.sigmoid, torch.sin, torch.abs, torch.exp]
    choose = random.Random(3)

    def step(_: int) -> None:
        x = torch.ones(choose.randrange(1, 512), 256, device="cuda")
        for _ in range(40):
            x = choose.choice(ops)(x)
            if choose.random() < 0.3:
                x = x @ choose.choice(weights)
        torch.cuda.synchronize()

    return step


def growing() -> Pass:
    """A sequence that is longer by one at each pass, up to 2048."""
    model = mlp(256, 12)
    rows = torch.randn(2048, 256, device="cuda")

    def step(i: int) -> None:
        model(rows[: 1 + i % 2048])
        torch.cuda.synchronize()

    return step


def tiny() -> Pass:
    """Three ops a pass."""
    weight = torch.randn(64, 64, device="cuda")
    inputs = batch(8, 64)

    def step(i: int) -> float:
        return torch.relu(inputs[i % len(inputs)] @ weight).sum().item()

    return step


def short_lived() -> Pass:
    """A new model after every fourth pass."""
    inputs = batch(32, 64)
    current: list[nn.Module] = []

    def step(i: int) -> None:
        if i % 4 == 0 or not current:
            layers = [nn.Linear(64, 64, device="cuda") for _ in range(8)]
            current[:] = [nn.Sequential(*layers)]
        current[0](inputs[i % len(inputs)])
        torch.cuda.synchronize()

    return step


def detection() -> Pass:
    """A detector of torchvision's: its shapes depend on its data."""
    import torchvision

    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, box_score_thresh=0.0
    )
    model = model.cuda().eval()
    inputs = [torch.rand(3, 240, 320, device="cuda") for _ in range(models.INPUTS)]

    def step(i: int) -> None:
        model([inputs[i % len(inputs)]])
        torch.cuda.synchronize()

    return step


def lengths() -> Pass:
    """A batch of one of thirty lengths, in random order."""
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda().eval()
    rows = torch.randn(8, 128, 256, device="cuda")
    choose = random.Random(5)

    def step(_: int) -> None:
        model(rows[:, : 8 + 4 * choose.randrange(30)])
        torch.cuda.synchronize()

    return step


def trained(name: str, optimizer: str = "adamw") -> Pass:
    """A training loop of training.py, whose loss is looked at after every tenth step."""
    program = training.PROGRAMS[name](training.OPTIMIZERS[optimizer])

    def step(i: int) -> None:
        with torch.enable_grad():
            loss = program.step(i)
        if i % 10 == 9:
            loss.sum().item()

    return step


PROGRAMS: dict[str, Callable[[], Pass]] = {
    **{
        name: lambda name=name: model_of(name)  # type: ignore[misc]
        for name in (
            "mlp20",
            "resnet50_fp16",
            "vit_s_fp16",
            "gpt2_bf16",
            "bert_fp16",
            "distilgpt2_fp16",
            "xlnet_fp16",
        )
    },
    "unsynchronised": unsynchronised,
    "alternating": alternating,
    "item": item,
    "sleeping": sleeping,
    "device_bound": device_bound,
    "device_bound_unsynchronised": device_bound_unsynchronised,
    "never_repeating": never_repeating,
    "growing": growing,
    "tiny": tiny,
    "short_lived": short_lived,
    "detection": detection,
    "lengths": lengths,
    "train_mlp20_b32": lambda: trained("mlp20_b32"),
    "train_resnet18_b8": lambda: trained("resnet18_b8"),
    "train_resnet50_b32": lambda: trained("resnet50_b32", "sgd"),
    "train_gpt2_bf16_b2x64": lambda: trained("gpt2_bf16_b2x64"),
}


FEW = 10  # passes of a block


class Runner:
    """Blocks of a program's passes, whose numbers go on from one to the next."""

    def __init__(self, step: Pass) -> None:
        self._step = step
        self._count = itertools.count()

    def block(self, seconds: float) -> float:
        """Seconds a pass, over so long; the last one's device work is included.

        Of long passes a block takes up to four times as long, so that it is not made
        of its end, where the host waits.
        """
        begin = time.perf_counter()
        passes = 0
        while True:
            took = time.perf_counter() - begin
            if passes >= 2 and took >= (seconds if passes >= FEW else 4 * seconds):
                break
            self._step(next(self._count))
            passes += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / passes

    def in_mode(self, mode: str, seconds: float) -> float:
        """A block of that mode, after one pass that is not counted."""
        if mode in POLICIES:
            reprise.enable("cuda", policy=POLICIES[mode])
        self.block(0)
        time_of_pass = self.block(seconds)
        reprise.disable()
        return time_of_pass


@torch.no_grad()
def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One program, in this process."""
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    step = PROGRAMS[name]()
    with turn(arguments):
        return {"program": name} | compare(step, arguments)


@contextlib.contextmanager
def turn(arguments: argparse.Namespace) -> Iterator[None]:
    """No other process of this run is timed meanwhile."""
    with arguments.turns.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compare(step: Pass, arguments: argparse.Namespace) -> dict[str, Any]:
    """What the record says of a program, whose first second is not counted."""
    runner = Runner(step)
    runner.block(1.0)
    models.prepare()

    # The first seconds, each between two of eager.
    before = runner.block(0.5)
    firsts = []
    for _ in range(arguments.first_seconds):
        reprise.enable("cuda", policy="measured")
        took = runner.block(1.0)
        reprise.disable()
        after = runner.block(0.5)
        firsts.append((before + after) / 2 / took)
        before = after
    runner.in_mode("always", arguments.settle)

    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    followed: dict[str, float] = {}
    for index in range(arguments.rounds):
        order = list(MODES)
        random.Random(index).shuffle(order)
        for mode in order:
            times[mode].append(runner.in_mode(mode, arguments.block))
    for mode in POLICIES:
        reprise.enable("cuda", policy=POLICIES[mode])
        seen = reprise.stats()
        runner.block(0.5)
        now = reprise.stats().since(seen)
        followed[mode] = now.followed / max(now.ops, 1)
        saved = now.saved_us / 0.5
        reprise.disable()
    reprise.enable("cuda", policy="measured")
    notes = reprise.explain().to_dict().get("notes", [])
    progress.tell(reprise.explain())
    reprise.disable()

    def eager(i: int) -> float:
        return (times["eager"][i] + times["control"][i]) / 2

    def always(i: int) -> float:
        return times["always"][i]

    rounds = range(arguments.rounds)
    wins = statistics.median(map(always, rounds)) < statistics.median(
        map(eager, rounds)
    )
    better = always if wins else eager

    def ratios(top: Callable[[int], float], under: str) -> list[float]:
        return [top(i) / times[under][i] for i in rounds]

    of_better, of_eager = ratios(better, "measured"), ratios(eager, "measured")
    result: dict[str, Any] = {}
    for mode in MODES:
        result[f"{mode}_us"] = 1e6 * statistics.median(times[mode])
    for key, values in (("of_better", of_better), ("of_eager", of_eager)):
        low, high = models.bootstrap(values)
        result |= {
            key: statistics.median(values),
            f"{key}_low": low,
            f"{key}_high": high,
        }
    return result | {
        "always_of_eager": statistics.median(ratios(eager, "always")),
        "control": statistics.median(ratios(lambda i: times["eager"][i], "control")),
        "seconds": firsts,
        "followed_always": followed["always"],
        "followed_measured": followed["measured"],
        "saved_us": saved,
        "asleep": any("was let pass" in note for note in notes),
    }


def known(path: pathlib.Path | None, commit: str) -> set[str]:
    """Programs that this commit's record has already."""
    if path is None or not path.exists():
        return set()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        r["program"] for r in records if r.get("commit") == commit and "error" not in r
    }


def drive(arguments: argparse.Namespace, every: Iterable[str]) -> None:
    """Measure what is asked for, or every program, in processes of their own.

    Such a process is this command with ``--child`` and one program.
    """
    asked = arguments.programs or list(every)
    done = known(arguments.output, arguments.commit)
    todo = [name for name in asked if name not in done]
    options = [word for word in sys.argv[1:] if word not in arguments.programs]
    folder = tempfile.TemporaryDirectory()
    turns = f"--turns={folder.name}/turns"
    here = [sys.executable, sys.argv[0], "--child", turns, *options]
    running: dict[str, tuple[subprocess.Popen[str], float]] = {}
    where = models.environment(arguments)
    while todo or running:
        while todo and len(running) < arguments.jobs:
            name = todo.pop(0)
            process = subprocess.Popen(
                [*here, name],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"},
            )
            running[name] = (process, time.monotonic())
        time.sleep(0.1)
        ended = len(asked) - len(todo) - len(running)
        progress.say(f"{ended} of {len(asked)} programs; now {', '.join(running)}")
        for name, (process, begun) in list(running.items()):
            late = time.monotonic() - begun > arguments.timeout
            if process.poll() is None and not late:
                continue
            why = f"it took longer than {arguments.timeout} s"
            if process.poll() is not None:
                why = f"its process ended early, with status {process.returncode}"
            process.kill()
            said = process.communicate()[0].strip().splitlines()
            del running[name]
            record: dict[str, Any] = {"program": name, "error": why}
            if said and said[-1].startswith("{"):
                record = json.loads(said[-1]) | where
            progress.clear()
            print(json.dumps(record), flush=True)
            if arguments.output:
                with arguments.output.open("a") as file:
                    file.write(json.dumps(record) + "\n")


def parser(description: str, every: Iterable[str]) -> argparse.ArgumentParser:
    """The options of what measures programs, of these or all."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("programs", nargs="*", choices=[[], *every])
    made.add_argument("--rounds", type=int, default=15)
    made.add_argument("--block", type=float, default=0.15, help="seconds")
    made.add_argument("--settle", type=float, default=2.0, help="seconds of always")
    made.add_argument("--first-seconds", type=int, default=3)
    made.add_argument("--jobs", type=int, default=3)
    made.add_argument("--timeout", type=float, default=120.0)
    made.add_argument("--commit", default="")
    made.add_argument("--dirty", action="store_true")
    made.add_argument("--output", type=pathlib.Path)
    made.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--turns", type=pathlib.Path, help=argparse.SUPPRESS)
    return made


def run(
    arguments: argparse.Namespace,
    every: Iterable[str],
    measure: Callable[[str, argparse.Namespace], dict[str, Any]],
) -> None:
    """Measure the programs that were named, or all: `drive`, and what it starts."""
    if not arguments.child:
        drive(arguments, every)
        return
    record = measure(arguments.programs[0], arguments)
    print("\n" + json.dumps(record), flush=True)  # behind what models print


if __name__ == "__main__":
    run(parser(__doc__.splitlines()[0], PROGRAMS).parse_args(), PROGRAMS, measure)
