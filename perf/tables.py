"""Tables of README.md and docs/benchmarks.md, from the records in perf/results.

    python perf/tables.py            # writes them into both files, between their marks
    python perf/tables.py --check    # says what would change, and fails if anything would

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``, a number inside of
a sentence between ``<!-- number NAME -->`` and ``<!-- end -->``. The figures in
docs/images that front_page.py drew hold the numbers of their bars; a figure that is of
other numbers is stale, too. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import difflib
import html
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "perf" / "results"
PAGES = ("README.md", "docs/benchmarks.md")

TITLES = {
    "mlp20": "MLP, 20 layers, batch 32",
    "resnet50_fp16": "ResNet-50 fp16",
    "vit_s_fp16": "ViT-S fp16",
    "gpt2_bf16": "GPT-2 bf16, 64 tokens",
    "bert_fp16": "BERT-base fp16, 128 tokens",
    "distilgpt2_fp16": "DistilGPT2 fp16, 64 tokens",
    "xlnet_fp16": "XLNet fp16, 64 tokens",
    "densenet121_fp16": "DenseNet-121 fp16",
    "efficientnet_b0_fp16": "EfficientNet-B0 fp16",
    "alexnet_fp16": "AlexNet fp16",
    "deberta_v2_fp16": "DeBERTa-v3-base fp16, 128 tokens",
    "mobilebert_fp16": "MobileBERT fp16, 128 tokens",
    "mt5_small_bf16": "mT5-small bf16, 64 and 16 tokens",
    "t5_small_bf16": "T5-small bf16, 64 and 16 tokens",
    "blenderbot_small_fp16": "Blenderbot-small fp16, 64 and 16 tokens",
    "whisper_tiny_fp16": "Whisper-tiny fp16",
    "clip_vit_b32_fp16": "CLIP ViT-B/32 fp16",
    "mask_rcnn": "Mask R-CNN fp32, 256 x 256 (depends on data)",
    "lstm2_fp16": "LSTM, 2 layers, 64 steps, fp16",
    "unet_block_fp16": "U-Net block with attention, fp16",
}
PROGRAMS = {
    "mlp20_b32": "MLP, 20 layers, batch 32",
    "gpt2_bf16_b2x64": "GPT-2 bf16, 2 x 64 tokens, dropout",
    "gpt2_bf16_b8x1024": "GPT-2 bf16, 8 x 1024 tokens, dropout",
    "resnet18_b8": "ResNet-18, batch 8",
    "bert_b8x128": "BERT-base, 8 x 128 tokens, dropout",
    "resnet50_b32": "ResNet-50, batch 32",
    "vit_s_b8": "ViT-S, batch 8, dropout",
    "distilgpt2_b2x64": "DistilGPT2, 2 x 64 tokens, dropout",
    "mt5_small_b2x64": "mT5, 2 x 64 tokens",
    "densenet121_b8": "DenseNet-121, batch 8",
    "lstm": "LSTM, 2 layers, dropout",
    "gru": "GRU, 2 layers, dropout",
    "gan": "GAN, two optimizers",
    "accumulation_4": "MLP, gradients of 4 batches",
    "dqn": "Q learning, target network",
    "lora": "LoRA, 12 frozen layers",
    "early_exit": "batch norm, early exit",
    "llama_2_layers": "two Llama layers, bf16",
}
POLICY_PROGRAMS = {
    **TITLES,
    "unsynchronised": "the MLP, passes back to back",
    "alternating": "the MLP and DistilGPT2 in turn",
    "item": "a number to the host in mid-pass",
    "sleeping": "10 ms of sleep between passes",
    "device_bound": "large matrices, each pass waited for",
    "device_bound_unsynchronised": "large matrices, passes back to back",
    "never_repeating": "ops in another order at each pass",
    "growing": "one row more at each pass",
    "tiny": "three ops a pass",
    "short_lived": "a new model after every fourth pass",
    "detection": "Faster R-CNN (depends on data)",
    "lengths": "30 lengths in random order",
    **{f"train_{name}": f"training: {title}" for name, title in PROGRAMS.items()},
}
MARKS = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
NUMBERS_MARKS = re.compile(r"(<!-- number (\S+) -->).*?(<!-- end -->)")

Records = dict[tuple[str, str], dict]


def read(name: str) -> Records:
    """Read a file of records, by workload and mode."""
    lines = (RESULTS / name).read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {(record["workload"], record["mode"]): record for record in records}


def workloads(records: Records) -> Iterable[str]:
    """Give the workloads in the order of their measurement."""
    return dict.fromkeys(workload for workload, _ in records)


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Render a table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def median(records: Records, workload: str, mode: str) -> str:
    """Render a mode's median, if it was measured."""
    record = records.get((workload, mode))
    return "-" if record is None else f"{record['median_us']:.0f}"


def models() -> str:
    """Speed, bits and time to the first replay of the models that matter most."""
    return speeds("h100-models.jsonl")


def zoo() -> str:
    """The same of some more models."""
    return speeds("h200-zoo.jsonl")


def speeds(name: str) -> str:
    """Speed, bits and time to the first replay."""
    records = read(name)
    rows = []
    for workload in workloads(records):
        ours = records[workload, "reprise"]
        rows.append(
            [
                TITLES.get(workload, workload),
                median(records, workload, "eager"),
                median(records, workload, "reprise"),
                f"{ours['ratio']:.2f} [{ours['ratio_low']:.2f}, {ours['ratio_high']:.2f}]",
                median(records, workload, "graph"),
                median(records, workload, "reprise_host"),
                str(ours["first_replay_calls"]),
                f"{ours['first_replay_ms']:.1f}",
                "yes" if ours["bit_equal"] else "NO",
                f"{ours['plan_bytes'] / 2**20:.0f}",
                f"{(ours['peak_bytes'] - ours['eager_peak_bytes']) / 2**20:.0f}",
            ]
        )
    head = [
        "model (batch 1)",
        "eager µs",
        "Reprise µs",
        "speed-up [95 %]",
        "hand-written graph µs",
        "host share µs",
        "first replay at call",
        "cost until then ms",
        "bits of eager",
        "plans MiB",
        "over eager's peak MiB",
    ]
    return table(head, rows)


def host() -> str:
    """Who uses the host's share of a pass."""
    records = read("h200-models.jsonl")
    parts = ["python", "torch", "own", "libc", "driver"]
    rows = []
    for workload in workloads(records):
        ours = records[workload, "reprise"]
        if "python_us" not in ours:
            continue
        eager = records[workload, "eager"]["median_us"]
        graph = records[workload, "graph"]["median_us"]
        least = max(ours["host_us"] - ours["own_us"], graph)
        rows.append(
            [TITLES.get(workload, workload), f"{ours['host_us']:.0f}"]
            + [f"{ours[part + '_us']:.0f}" for part in parts]
            + [f"{eager / least:.2f}", f"{ours['ratio']:.2f}"]
        )
    head = ["model", "host µs", "Python", "torch", "Reprise", "C library", "driver"]
    return table([*head, "speed-up if Reprise cost nothing", "measured"], rows)


def peers() -> str:
    """Compare with other ways to launch less."""
    records = read("h200-peers.jsonl")
    modes = ["eager", "reprise", "graph", "compile", "reduce_overhead"]
    rows = [
        [TITLES.get(workload, workload)]
        + [
            f"{records[workload, mode]['median_us']:.0f}"
            if (workload, mode) in records
            else "-"
            for mode in modes
        ]
        for workload in workloads(records)
    ]
    head = [
        "model",
        "eager µs",
        "Reprise µs",
        "hand-written graph µs",
        "torch.compile µs",
        "reduce-overhead µs",
    ]
    return table(head, rows)


def training() -> str:
    """Whole steps of training loops: speed, and the bits that they leave."""
    lines = (RESULTS / "h100-training.jsonl").read_text().splitlines()
    rows = []
    for record in map(json.loads, lines):
        bits = "yes" if record["bit_equal"] else "NO"
        rows.append(
            [
                PROGRAMS.get(record["program"], record["program"]),
                record["optimizer"],
                f"{record['eager_us']:.0f}",
                f"{record['reprise_us']:.0f}",
                f"{record['ratio']:.2f} [{record['ratio_low']:.2f}, {record['ratio_high']:.2f}]",
                f"{record['control']:.2f}",
                f"{record['host_us']:.0f}",
                f"{100 * record['followed']:.0f}",
                bits if record["deterministic"] else "eager's differ, too",
                f"{record['plan_bytes'] / 2**20:.0f}",
                f"{record['eager_peak_bytes'] / 2**20:.0f}",
            ]
        )
    head = [
        "a step of",
        "optimizer",
        "eager µs",
        "Reprise µs",
        "speed-up [95 %]",
        "eager against itself",
        "host share µs",
        "ops followed %",
        "bits of eager",
        "plans MiB",
        "eager's peak MiB",
    ]
    return table(head, rows)


def policies(*names: str) -> str:
    """The default policy beside eager and `always`."""
    lines = [
        line for name in names for line in (RESULTS / name).read_text().splitlines()
    ]
    rows = [
        [
            POLICY_PROGRAMS.get(
                record["program"], record["program"].replace(":", ": ")
            ),
            *(
                f"{record[f'{mode}_us']:.0f}"
                for mode in ("eager", "always", "measured")
            ),
            *(
                f"{record[key]:.2f} [{record[f'{key}_low']:.2f}, {record[f'{key}_high']:.2f}]"
                for key in ("of_eager", "of_better")
            ),
            f"{record['control']:.2f}",
            " ".join(f"{ratio:.2f}" for ratio in record["seconds"]),
        ]
        for record in map(json.loads, lines)
    ]
    head = [
        "a pass of",
        "eager µs",
        "`always` µs",
        "default µs",
        "eager over default [95 %]",
        "the better of both over default [95 %]",
        "eager against itself",
        "eager over default in the first seconds",
    ]
    return table(head, rows)


REGION_PROGRAMS = {
    "model:mlp20": "MLP, 20 layers, batch 32",
    "model:resnet50_fp16": "ResNet-50 fp16",
    "model:vit_s_fp16": "ViT-S fp16",
    "model:gpt2_bf16": "GPT-2 bf16, 64 tokens",
    "model:bert_fp16": "BERT-base fp16, 128 tokens",
    "model:distilgpt2_fp16": "DistilGPT2 fp16, 64 tokens",
    "model:xlnet_fp16": "XLNet fp16, 64 tokens",
    "step:mlp20_b32": "step: MLP, 20 layers, batch 32",
    "step:resnet18_b8": "step: ResNet-18, batch 8",
    "step:bert_b8x128": "step: BERT-base, 8 x 128 tokens, dropout",
    "step:gpt2_bf16_b2x64": "step: GPT-2 bf16, 2 x 64 tokens, dropout",
    "part:mlp20": "forward and backward: the MLP",
    "part:resnet18": "forward and backward: ResNet-18 without norms, batch 8",
}


FRONT_PROGRAMS = {
    "model:resnet50_fp16": "ResNet-50",
    "model:vit_s_fp16": "ViT-S",
    "model:bert_fp16": "BERT-base",
    "model:gpt2_bf16": "GPT-2",
    "step:gpt2_bf16_b2x64": "a training step of GPT-2",
    "step:resnet18_b8": "a training step of ResNet-18",
}


def read_regions() -> dict[str, dict]:
    """Read the records of regions, by program."""
    lines = (RESULTS / "h100-regions.jsonl").read_text().splitlines()
    return {record["program"]: record for record in map(json.loads, lines)}


def region_bits(record: dict) -> str:
    """Whether a region gave eager's bits."""
    return "yes" if record.get("bits", record.get("region_bits")) else "no"


def regions() -> str:
    """Regions beside eager, Reprise alone and hand-written graphs."""
    found = read_regions()
    rows = []
    for program, name in REGION_PROGRAMS.items():
        record = found.get(program)
        if record is None:
            continue
        rows.append(
            [
                name,
                f"{record['eager_us']:.0f}",
                f"{record['reprise_us']:.0f}" if "reprise_us" in record else "-",
                f"{record['region_us']:.0f}",
                f"{record['eager_us'] / record['region_us']:.1f}",
                f"{record['graph_us']:.0f}",
                f"{record['of_graph']:.2f} [{record['of_graph_low']:.2f}, {record['of_graph_high']:.2f}]",
                compiled(found.get(program.replace("model:", "backend:"))),
                region_bits(record),
            ]
        )
    head = [
        "a call of",
        "eager µs",
        "Reprise µs",
        "region µs",
        "speed-up",
        "hand-written graph µs",
        "region over graph [95 %]",
        "`backend` µs (its graph's, Dynamo's call)",
        "bits of eager",
    ]
    return table(head, rows)


def default_adamw() -> str:
    """Whole steps with AdamW as torch gives it, as regions."""
    rows = []
    for line in (RESULTS / "h200-default-adamw.jsonl").read_text().splitlines():
        record = json.loads(line)
        assert record["bits"], record["program"]
        rows.append(
            [
                PROGRAMS[record["program"].removeprefix("default:")],
                f"{record['eager_us']:.0f}",
                f"{record['region_us']:.0f}",
                f"{record['eager_us'] / record['region_us']:.1f}",
                f"{record['graph_us']:.0f}",
                f"{record['fused_us']:.0f}",
                f"{record['device_us']:.0f}",
                f"{record['returned_us']:.0f}",
                f"{record['bound']:.2f}",
            ]
        )
    head = [
        "a step of",
        "eager µs",
        "region µs",
        "speed-up",
        "graph of `capturable=True` µs",
        "region with `fused=True` µs",
        "eager's own kernels on the device µs",
        "the region's call on the host µs",
        "region over the larger of the two",
    ]
    return table(head, sorted(rows))


FRONT = RESULTS / "front-page.jsonl"
FRONT_FIGURES = {
    theme: ROOT / "docs" / "images" / f"front-{theme}.svg"
    for theme in ("light", "dark")
}
FRONT_MODES = {
    "eager": "eager",
    "control": "eager again",
    "enable": "`enable`",
    "region": "`region`",
    "graph": "hand-written graph",
    "compile": "`torch.compile`",
    "reduce_overhead": "`reduce-overhead`",
}
FRONT_FASTER = ("enable", "region", "compile", "reduce_overhead")
FrontRecord = dict[tuple[str, str], dict]


def read_front(path: pathlib.Path | None = None) -> FrontRecord:
    """Read the record of README's first table, by row and mode."""
    lines = (path or FRONT).read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {(record["program"], record["mode"]): record for record in records}


def front_us(records: FrontRecord, program: str, mode: str) -> str:
    """Render microseconds of a call."""
    record = records.get((program, mode))
    if record is None:
        return "-"
    if "error" in record:
        return "failed"
    eager = " (not replayed)" if record.get("replays") == 0 else ""
    return f"{record['median_us']:.0f}{eager}"


def front_gap(record: dict | None) -> str:
    """Render that a way has nothing to show; empty: it has."""
    if record is not None and "error" in record:
        return "failed"
    return "-" if record is None or record.get("replays") == 0 else ""


def front_seconds(record: dict | None) -> str:
    """Render the seconds until the first fast call."""
    if gap := front_gap(record):
        return gap
    if record["first_fast_s"] is None:
        return f"> {record['first_calls_s']:.0f}"
    took = record["first_fast_s"] + record["prepare_s"]
    return f"{took:.1f}" if took < 10 else f"{took:.0f}"


def front_bits(record: dict | None) -> str:
    """Render whether a way gave eager's bits."""
    if gap := front_gap(record):
        return gap
    return "yes" if record["bits"] else "no"


def front_table(records: FrontRecord) -> str:
    """README's first table, of its record."""
    rows = []
    for program, name in FRONT_PROGRAMS.items():
        if not any(found == program for found, _ in records):
            continue
        ways = [records.get((program, mode)) for mode in FRONT_FASTER]
        bits = " / ".join(map(front_bits, ways))
        if front_bits(records.get((program, "control"))) == "no":
            bits = "eager's differ, too"
        rows.append(
            [
                name,
                *(front_us(records, program, m) for m in ("eager", *FRONT_FASTER)),
                " / ".join(map(front_seconds, ways)),
                bits,
            ]
        )
    ways = " / ".join(FRONT_MODES[mode] for mode in FRONT_FASTER)
    head = [
        "a call of",
        "eager µs",
        *(f"{FRONT_MODES[mode]} µs" for mode in FRONT_FASTER),
        f"seconds until the first fast call, in this order: {ways}",
        "eager's bits, in this order",
    ]
    return table(head, rows)


def front() -> str:
    """README's first table."""
    return front_table(read_front()) if FRONT.exists() else front_of_regions()


def front_figure() -> str:
    """README's figure, of light and dark pages, where there is a record to draw it from."""
    if not FRONT.exists():
        return ""
    light, dark = (
        FRONT_FIGURES[theme].relative_to(ROOT) for theme in ("light", "dark")
    )
    models = " and ".join(", ".join(front_bars(read_front())).rsplit(", ", 1))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img alt="How many times as fast as eager each way runs {models}" src="{light}">'
        "</picture>\n\n"
    )


def front_where() -> str:
    """Where README's first table was measured, and with which policy."""
    if not FRONT.exists():
        record = read_regions()[next(iter(FRONT_PROGRAMS))]
        policy = '`policy="always"`'
    else:
        records = read_front()
        policies = {r["policy"] for r in records.values() if r["policy"]}
        record = next(iter(records.values()))
        policy = f"the default policy, `{one(policies, 'policy')}`"
        for key in ("gpu", "commit"):
            one({r[key] for r in records.values()}, key)
    return f"one {short_gpu(record['gpu'])} at commit {record['commit']} ({policy})"


def one(values: set[str], what: str) -> str:
    """The value that all records share."""
    if len(values) != 1:
        found = ", ".join(sorted(map(str, values)))
        raise ValueError(
            f"the record of README's table has more than one {what}: {found}"
        )
    return next(iter(values))


def short_gpu(name: str) -> str:
    """The GPU's name without its memory."""
    return " ".join(name.split()[:2])


def peer_times() -> tuple[dict[str, dict[str, float]], str]:
    """Microseconds of models of batch 1 by peers, and where these were measured."""
    wanted = [p for p in FRONT_PROGRAMS if p.startswith("model:")]
    if FRONT.exists():
        records = read_front()
        first = next(iter(records.values()))
    else:
        ours = {"reprise": "enable"}
        records = {
            (f"model:{workload}", ours.get(mode, mode)): record
            for (workload, mode), record in read("h200-peers.jsonl").items()
        }
        first = records[wanted[0], "enable"]
    times = {
        program: {
            mode: records[program, mode]["median_us"]
            for mode in FRONT_FASTER
            if "median_us" in records.get((program, mode), {})
        }
        for program in wanted
    }
    gpu = short_gpu(first["gpu"]).removeprefix("NVIDIA ")
    return times, f"an {gpu} at {first['commit']}"


def peer_ratios(mode: str) -> dict[str, float]:
    """How long a peer takes, over `enable`, on each model that both ran."""
    ratios = {
        program: times[mode] / times["enable"]
        for program, times in peer_times()[0].items()
        if {mode, "enable"} <= times.keys()
    }
    if not ratios:
        raise ValueError(f"no model has times of {mode} and of enable: measure again")
    return ratios


def peer_range(mode: str) -> str:
    """The least and the most of them."""
    ratios = peer_ratios(mode).values()
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def in_words(count: int) -> str:
    """A small number."""
    return ("no", "one", "two", "three", "four")[count]


def second_models() -> str:
    """On which models reduce-overhead was compared, said after torch.compile's."""
    first, second = (peer_ratios(mode) for mode in ("compile", "reduce_overhead"))
    same = first.keys() == second.keys()
    return "the same" if same else in_words(len(second))


NUMBERS: dict[str, Callable[[], str]] = {
    "front_where": front_where,
    "peers_where": lambda: peer_times()[1],
    "compile_models": lambda: in_words(len(peer_ratios("compile"))),
    "compile_range": lambda: peer_range("compile"),
    "reduce_overhead_models": second_models,
    "reduce_overhead_range": lambda: peer_range("reduce_overhead"),
}


def front_bars(records: FrontRecord) -> dict[str, Any]:
    """What the figure shows: speed over eager of each bar, with its bits."""
    bars: dict[str, Any] = {}
    for program, name in FRONT_PROGRAMS.items():
        if not program.startswith("model:") or (program, "eager") not in records:
            continue
        eager = records[program, "eager"]
        if "error" in eager:
            continue
        bars[name] = {}
        for mode in FRONT_MODES:
            record = records.get((program, mode))
            if mode == "control" or record is None:
                continue
            bars[name][mode] = (
                None
                if "error" in record
                else [
                    round(eager["median_us"] / record["median_us"], 2),
                    record["bits"],
                ]
            )
    return bars


def figure_says(svg: str) -> dict[str, Any] | None:
    """The numbers that a figure of front_page.py holds."""
    found = re.search(r"<dc:description>(.*?)</dc:description>", svg, re.DOTALL)
    return json.loads(html.unescape(found[1])) if found else None


def stale_figures() -> list[str]:
    """What is wrong with README's figures, which are drawn from the record."""
    if not FRONT.exists():
        return [
            f"{path.relative_to(ROOT)} is of no record: remove it"
            for path in FRONT_FIGURES.values()
            if path.exists()
        ]
    bars = front_bars(read_front())
    return [
        f"{path.relative_to(ROOT)} is not what {FRONT.relative_to(ROOT)} says: "
        "python perf/front_page.py --draw"
        for path in FRONT_FIGURES.values()
        if not path.exists() or figure_says(path.read_text()) != bars
    ]


def front_of_regions() -> str:
    """README's first table, of the record of regions: a few, in fewer columns."""
    found = read_regions()
    rows = []
    for program, name in FRONT_PROGRAMS.items():
        record = found[program]
        rows.append(
            [
                name,
                f"{record['eager_us']:.0f}",
                f"{record['reprise_us']:.0f}" if "reprise_us" in record else "-",
                f"{record['region_us']:.0f}",
                f"{record['graph_us']:.0f}" if "graph_us" in record else "-",
                f"{record['eager_us'] / record['region_us']:.1f} times",
                str(record.get("calls", "-")),
                region_bits(record),
            ]
        )
    head = [
        "a call of",
        "eager µs",
        "`enable` µs",
        "`region` µs",
        "hand-written graph µs",
        "region is faster than eager by",
        "calls until the first fast one",
        "same bits as eager",
    ]
    return table(head, rows)


def compiled(record: dict | None) -> str:
    """What a model takes that torch.compile has, and what it is compared with."""
    if record is None or "backend_us" not in record:
        return "-"
    return "{backend_us:.0f} ({graph_us:.0f}, {trivial_us:.0f})".format(**record)


def lengths() -> str:
    """Batches of thirty lengths in random order."""
    lines = (RESULTS / "h100-lengths.jsonl").read_text().splitlines()
    rows = []
    for record in map(json.loads, lines):
        graph = record.get("graph_us")
        rows.append(
            [
                record["program"],
                f"{record['eager_us']:.0f}",
                f"{record['reprise_us']:.0f}",
                f"{record['ratio']:.2f} [{record['ratio_low']:.2f}, {record['ratio_high']:.2f}]",
                f"{record['host_us']:.0f}" if "host_us" in record else "-",
                f"{graph:.0f}" if graph else "-",
                f"{100 * record['followed']:.0f}",
                str(record["plans"]),
                f"{record['held_bytes'] / 2**20:.0f}",
                f"{record['longest_bytes'] / 2**20:.0f}",
            ]
        )
    head = [
        "BERT-base, 8 texts",
        "eager µs",
        "Reprise µs",
        "speed-up [95 %]",
        "host share µs",
        "hand-written graphs µs",
        "ops followed %",
        "plans",
        "memory of all plans MiB",
        "of the longest batch's alone MiB",
    ]
    return table(head, rows)


def hooks() -> str:
    """What an op of two tensors costs more than without Reprise, in C++."""
    benchmarks = json.loads((RESULTS / "h200-hooks.json").read_text())["benchmarks"]
    medians = {
        b["run_name"].removesuffix("/manual_time"): b.get(
            "per_op", b["real_time"] / 1e9
        )
        for b in benchmarks
        if b["aggregate_name"] == "median"
    }
    made = medians["BM_MakeTensor"]
    titles = {
        "BM_Off": "switched off",
        "BM_Watching": "watched, in a trace that is known",
        "BM_WatchingNew": "watched, in a trace that never came before",
        "BM_Recording": "recorded, CUPTI apart",
        "BM_Following": f"followed, the making of the result ({1e9 * made:.0f} ns) apart",
    }
    rows = []
    for name, title in titles.items():
        costs = [
            medians[f"{name}/cuda:{cuda}"]
            - medians[f"BM_NeverHooked/cuda:{cuda}"]
            - (made if name == "BM_Following" else 0)
            for cuda in (0, 1)
        ]
        rows.append([title] + [f"{1e9 * cost:.0f}" for cost in costs])
    return table(
        ["an op of two tensors is", "host tensors, ns", "CUDA tensors, ns"], rows
    )


def batches() -> str:
    """What 64 small kernels cost the thread that launches them."""
    benchmarks = json.loads((RESULTS / "h200-batch.json").read_text())["benchmarks"]
    medians = {
        b["run_name"].partition("/iterations:")[0]: b["real_time"] / 1e3
        for b in benchmarks
        if b["aggregate_name"] == "median"
    }
    titles = {
        "BM_PlainLaunches/launches:{0}": "launched one by one",
        "BM_BareGraphLaunch/launches:{0}": "a hand-written graph, nothing changes",
        "BM_HandPatchedGraph/launches:{0}": "a hand-written graph, one argument of each changes",
        "BM_HandUpdatedGraph/launches:{0}": "the same by cuGraphExecUpdate",
        "BM_BuildBatch/launches:{0}": "a batch, built and dropped",
        "BM_Submit/Measured/launches:{0}/changed:0": "a batch, built and submitted, nothing changes",
        "BM_Submit/Measured/launches:{0}/changed:{0}": "a batch, one argument of each changes",
        "BM_Plan_Unchanged/launches:{0}": "a prepared plan, nothing changes",
        "BM_Plan_AllChanged/launches:{0}": "a prepared plan, one argument of each changes",
    }
    rows = [
        [title] + [f"{medians[name.format(count)]:.1f}" for count in (8, 64)]
        for name, title in titles.items()
    ]
    return table(["small kernels", "8 kernels, µs", "64 kernels, µs"], rows)


def solves() -> str:
    """Conjugate gradients, end to end, a check of the residual every 32 iterations."""
    benchmarks = json.loads((RESULTS / "h200-conjugate-gradient.json").read_text())
    titles = {
        "plain": "launched one by one",
        "batch_1": "a batch an iteration, whose arguments change",
        "hand_1": "a hand-written graph an iteration, patched by hand",
        "batch_32": "a batch of 32 iterations",
        "plan_32": "a prepared plan of 32 iterations",
        "hand_32": "a hand-written graph of 32 iterations",
    }
    every = [b for b in benchmarks["benchmarks"] if "check_every:32/" in b["name"]]
    rows = [
        [title] + [f"{b[name + '_us'] / b['iterations']:.1f}" for b in every]
        for name, title in titles.items()
    ]
    return table(["µs an iteration", "32 x 32 grid", "64 x 64 grid"], rows)


def sources() -> str:
    """What a kernel from source costs until it can be launched, and builds beside."""
    benchmarks = json.loads((RESULTS / "h200-compile.json").read_text())["benchmarks"]
    named = {b["name"].split("/iterations")[0]: b for b in benchmarks}

    def ms(name: str) -> float:
        b = named[name]
        return b["real_time"] / {"us": 1e3, "ms": 1.0}[b["time_unit"]]

    threads = json.loads((RESULTS / "h200-threads.json").read_text())["benchmarks"]
    beside = {
        b["name"].split("/")[1]: b for b in threads if "BesideBuilds" in b["name"]
    }
    rows = [
        ["compiled by NVRTC", ms("BM_CompileKernel_Cold/kernels:1")],
        ["found on disk", ms("BM_CompileKernel_OnDisk")],
        [
            "a fresh process, from its context to its first replay, kernel on disk",
            ms("BM_FreshProcess_ContextToReplay/warm:1"),
        ],
        [
            "launching a batch one by one beside background builds, 99.9th percentile",
            beside["replays:0"]["beside_builds_p999_us"] / 1e3,
        ],
        [
            "replaying a batch beside background builds, 99.9th percentile",
            beside["replays:1"]["beside_builds_p999_us"] / 1e3,
        ],
    ]
    return table(["", "ms"], [[title, f"{value:.2f}"] for title, value in rows])


TABLES: dict[str, Callable[[], str]] = {
    "front": front,
    "front_figure": front_figure,
    "batches": batches,
    "solves": solves,
    "sources": sources,
    "models": models,
    "zoo": zoo,
    "training": training,
    "policies": lambda: policies("h100-policies.jsonl"),
    "regions": regions,
    "default_adamw": default_adamw,
    "torchbench": lambda: policies(
        "h100-torchbench-policies.jsonl", "h200-torchbench-policies.jsonl"
    ),
    "lengths": lengths,
    "host": host,
    "hooks": hooks,
    "peers": peers,
}


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pages = {name: (ROOT / name).read_text() for name in PAGES}
    for name, old in pages.items():
        tables = {mark[1] for mark in MARKS.findall(old)}
        if not tables:
            print(f"{name} has no table of measured numbers", file=sys.stderr)
            return 1
        if unknown := tables - TABLES.keys():
            print(f"{name}: no such tables: {', '.join(unknown)}", file=sys.stderr)
            return 1
        numbers = {mark[1] for mark in NUMBERS_MARKS.findall(old)}
        if unknown := numbers - NUMBERS.keys():
            print(f"{name}: no such numbers: {', '.join(unknown)}", file=sys.stderr)
            return 1
    stale = False
    if arguments.check:
        for sentence in stale_figures():
            stale = True
            print(sentence, file=sys.stderr)
    for name, old in pages.items():
        new = MARKS.sub(lambda mark: mark[1] + TABLES[mark[2]]() + mark[3], old)
        new = NUMBERS_MARKS.sub(
            lambda mark: mark[1] + NUMBERS[mark[2]]() + mark[3], new
        )
        if old == new:
            continue
        if not arguments.check:
            (ROOT / name).write_text(new)
            continue
        stale = True
        print(f"{name} has numbers that no record has:", file=sys.stderr)
        sys.stderr.writelines(
            difflib.unified_diff(
                old.splitlines(keepends=True), new.splitlines(keepends=True), name, name
            )
        )
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
