"""BERT on batches of thirty lengths in random order: time, bits and memory.

    python perf/lengths.py --output perf/results/h100-lengths.jsonl [inference] [training]

A batch of eight texts has one of thirty lengths up to 120 tokens, another one at each
pass, in an order that does not repeat. ``inference`` is a BertModel in half precision,
``training`` a BertForMaskedLM in TF32 with dropout and fused AdamW. First the longest
batch comes alone until its plans are ready, and what these take is noted; then all is
forgotten, and batches of all lengths come. Rounds of eager, eager again, Reprise,
Reprise without its launches (where the library can leave them out, REPRISE_MEASURE=ON)
and, for inference, a hand-written graph for each length take turns on the same order of
lengths; each pass ends with a synchronisation.

Writes one JSON object a program: microseconds a pass of each mode (medians of rounds),
ratio (eager over Reprise, median of rounds, with a bootstrap 95 % interval), control,
followed, squashes and escapes of a last round, bit_equal (inference: what all lengths
give), held_bytes (of the device's memory by plans, what graphs are made of apart),
longest_bytes (the same of the longest batch's plans alone), plan_bytes (of both, and of
recordings), plans, shared (those without an arena of their own), gpu, driver, torch,
commit, command.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
from collections.abc import Callable
from typing import Any

import models
import progress
import reprise
import torch

LENGTHS = range(4, 121, 4)
BATCH = 8

Pass = Callable[[torch.Tensor], Any]


def inference() -> Pass:
    """Give the last hidden states of a text."""
    import transformers

    model = transformers.BertModel(transformers.BertConfig()).half().cuda().eval()

    @torch.no_grad()
    def step(ids: torch.Tensor) -> torch.Tensor:
        return model(ids).last_hidden_state

    return step


def training() -> Pass:
    """Make a step; gives the loss."""
    import transformers

    torch.set_float32_matmul_precision("high")
    model = transformers.BertForMaskedLM(transformers.BertConfig()).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step(ids: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


PROGRAMS: dict[str, Callable[[], Pass]] = {
    "inference": inference,
    "training": training,
}


def texts(length: int) -> torch.Tensor:
    """Make a batch."""
    return torch.randint(30000, (BATCH, length), device="cuda")


class Graphs:
    """A hand-written graph for each length, in one pool."""

    def __init__(self, step: Pass) -> None:
        self._made: dict[int, tuple[torch.Tensor, torch.cuda.CUDAGraph, Any]] = {}
        pool = torch.cuda.graph_pool_handle()
        for length in reversed(LENGTHS):
            ids = texts(length)
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(2):
                    step(ids)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                output = step(ids)
            self._made[length] = ids, graph, output

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        static, graph, output = self._made[ids.shape[1]]
        static.copy_(ids)
        graph.replay()
        return output


def plans() -> list[dict[str, Any]]:
    """All that have one that is ready."""
    found = reprise.explain().to_dict()["plans"]
    return [plan for plan in found if plan["state"] == "ready"]


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One program, in this process."""
    torch.manual_seed(0)
    step = PROGRAMS[name]()
    batches = {length: texts(length) for length in LENGTHS}
    for ids in batches.values():
        step(ids)
    order = random.Random(3)

    def rounds(run: Pass, lengths: list[int]) -> float:
        def all_of_them() -> None:
            for length in lengths:
                run(batches[length])
                torch.cuda.synchronize()

        return models.seconds(all_of_them) / len(lengths)

    def shuffled() -> list[int]:
        return order.sample(list(LENGTHS), len(LENGTHS))

    models.prepare()
    base_bytes = torch.cuda.memory_allocated()

    def device_bytes() -> int:
        """What plans hold of the device's memory, graphs apart."""
        return torch.cuda.memory_allocated() - base_bytes

    reprise.enable("cuda", policy=arguments.policy)
    for _ in range(15):
        rounds(step, [max(LENGTHS)] * 2)
        reprise.wait()
    longest_bytes = device_bytes()
    reprise.reset()
    progress.stage("settling")
    for _ in range(arguments.settling):
        rounds(step, shuffled())
        reprise.wait()
    held_bytes = device_bytes()
    reprise.disable()

    modes = {"eager": step, "control": step, "reprise": step}
    if models.can_skip_launches():
        modes["host"] = step
    bit_equal = None
    if name == "inference":
        modes["graph"] = Graphs(step)
        expected = {length: step(ids) for length, ids in batches.items()}
        reprise.enable("cuda", policy=arguments.policy)
        bit_equal = all(
            models.same_bits(step(batches[length]), expected[length])
            for length in shuffled()
        )
        reprise.disable()
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    for index in range(arguments.rounds):
        progress.stage(f"round {index + 1} of {arguments.rounds}")
        lengths = shuffled()
        turns = list(modes)
        random.Random(index).shuffle(turns)
        for mode in turns:
            ours = models.Mode(modes[mode], mode in ("reprise", "host"), mode != "host")
            ours.policy = arguments.policy
            with ours:
                times[mode].append(rounds(ours.run, lengths))

    reprise.enable("cuda", policy=arguments.policy)
    before = reprise.stats()
    rounds(step, shuffled())
    now = reprise.stats()
    block = now.since(before)
    ready = plans()
    progress.tell(reprise.explain())
    reprise.disable()
    ratios = [e / r for e, r in zip(times["eager"], times["reprise"], strict=True)]
    controls = [e / c for e, c in zip(times["eager"], times["control"], strict=True)]
    low, high = models.bootstrap(ratios)
    return {
        "program": name,
        "policy": arguments.policy,
        **{f"{mode}_us": 1e6 * statistics.median(all) for mode, all in times.items()},
        "ratio": statistics.median(ratios),
        "ratio_low": low,
        "ratio_high": high,
        "control": statistics.median(controls),
        "followed": block.followed / block.ops,
        "squashes": block.squashes,
        "escapes": block.escapes,
        "bit_equal": bit_equal,
        "plan_bytes": now.plan_bytes,
        "held_bytes": held_bytes,
        "longest_bytes": longest_bytes,
        "plans": len(ready),
        "shared": sum(
            all(instance["shares_arena"] for instance in plan["instances"])
            for plan in ready
        ),
    } | models.environment(arguments)


def main() -> None:
    """Measure what was named, or both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", choices=[[], *PROGRAMS])
    parser.add_argument("--policy", default="always")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--settling", type=int, default=25, help="rounds")
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    names = arguments.programs or list(PROGRAMS)
    for number, name in enumerate(names, 1):
        with progress.row(number, len(names), name):
            record = measure(name, arguments)
        reprise.enable("cuda")
        reprise.reset()
        reprise.disable()
        print(json.dumps(record), flush=True)
        if arguments.output:
            with arguments.output.open("a") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
