"""Models of TorchBench: eager's bits, the share that is replayed, and the policies' times.

    python perf/torchbench.py --torchbench DIR [--site DIR] --output FILE [eval:resnet18...]

DIR holds the folders `torchbenchmark` and `utils` of a checkout of pytorch/benchmark;
nothing is downloaded, weights are random and configurations the libraries' defaults.
``--site`` is a folder of packages that only some models need. A program is ``eval:`` or
``train:`` and a model's name; without names all are run that need no download. Each runs
in a process of its own; those that the record has of the same commit are left out.

Writes one JSON object a program, with what policies.py says of it and

  deterministic   eager equals eager bit for bit, run twice from one seed; where it does
                  not, `bits` says nothing
  bits            eval: all outputs of 14 calls equal eager's; train: all state after 10
                  steps does; under `always`
  replays         what of that was replayed, in plans
  batch           rows of an input
  ops, followed, launches, gates, squashes   of a steady pass under `always`: ops,
                  answered from replays, launches of graphs, ops that eager runs between
                  these, replays that were left
  graph_us        microseconds a pass of a hand-written graph (eval, where one can be
                  captured), in blocks beside eager's

and of the model as a region (``--parts region``), whose tensors are others at each call,
under `always`

  region_bits     of at least 32 calls on 16 inputs, against eager's
  region_first_replay_calls, region_first_replay_ms   calls until the first graph was
                  launched, each of which waits for what is built, and what those took
                  beyond eager's
  region_replayed, region_operators, region_reasons   calls that ran no Python, of what
                  it consists, why others did
  eager_us, region_us, graph_us   microseconds a pass, in interleaved rounds of
                  synchronised passes; the graph's inputs are copied
  region_of_graph, region_of_eager   region's time over theirs: median of paired rounds,
                  with a bootstrap 95 % interval
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import itertools
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import models
import policies
import progress
import reprise
import torch
import torch.utils._pytree as pytree

EVAL = [
    "BERT_pytorch",
    "LearningToPaint",
    "alexnet",
    "cm3leon_generate",
    "dcgan",
    "demucs",
    "dlrm",
    "functorch_dp_cifar10",
    "hf_Albert",
    "hf_Bart",
    "hf_Bert",
    "hf_BigBird",
    "hf_DistilBert",
    "hf_GPT2",
    "hf_Longformer",
    "hf_Reformer",
    "hf_Roberta_base",
    "hf_T5",
    "hf_Whisper",
    "lennard_jones",
    "llama",
    "maml",
    "microbench_unbacked_tolist_sum",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "moco",
    "nanogpt",
    "nvidia_deeprecommender",
    "opacus_cifar10",
    "phlippe_densenet",
    "phlippe_resnet",
    "pyhpc_equation_of_state",
    "pyhpc_isoneutral_mixing",
    "pyhpc_turbulent_kinetic_energy",
    "pytorch_CycleGAN_and_pix2pix",
    "pytorch_unet",
    "resnet18",
    "resnet50",
    "resnet152",
    "resnext50_32x4d",
    "shufflenet_v2_x1_0",
    "soft_actor_critic",
    "squeezenet1_1",
    "timm_efficientnet",
    "timm_nfnet",
    "timm_regnet",
    "timm_resnest",
    "timm_vision_transformer",
    "timm_vovnet",
    "tts_angular",
    "vgg16",
]
TRAIN = [
    "BERT_pytorch",
    "LearningToPaint",
    "dcgan",
    "demucs",
    "dlrm",
    "functorch_dp_cifar10",
    "hf_Albert",
    "hf_Bert",
    "hf_DistilBert",
    "hf_GPT2",
    "hf_T5",
    "lennard_jones",
    "mobilenet_v3_large",
    "nanogpt",
    "nvidia_deeprecommender",
    "phlippe_densenet",
    "phlippe_resnet",
    "pytorch_unet",
    "resnet18",
    "resnet50",
    "shufflenet_v2_x1_0",
    "soft_actor_critic",
    "squeezenet1_1",
    "timm_vision_transformer",
    "tts_angular",
]
PROGRAMS = [f"eval:{name}" for name in EVAL] + [f"train:{name}" for name in TRAIN]

CALLS, STEPS, STEADY = 14, 10, 20
ROUNDS, PASSES = 15, 20  # of a region and what it is compared with


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)
    elif hasattr(value, "to_tuple"):
        yield from tensors(value.to_tuple())


def kept(value: Any) -> list[torch.Tensor]:
    """Copies of them, on the host."""
    return [t.cpu().contiguous() for t in tensors(value)]


def stay_offline() -> None:
    """Random weights and default configurations in place of downloads."""
    import timm
    import torchvision.models._api as vision
    import transformers as hf

    for library in ("timm", "huggingface"):
        module: Any = types.ModuleType(f"{library}.extended_configs")
        module.BATCH_SIZE_DIVISORS = module.TIMM_MODELS = {}
        module.BATCH_SIZE_KNOWN_MODELS = {}
        for kind in ("timm", "huggingface"):
            setattr(module, f"is_extended_{kind}_models", lambda name: False)
            setattr(module, f"list_extended_{kind}_models", list)
        for name in ("extended_configs", "list_extended_configs"):
            sys.modules[f"torchbenchmark.util.framework.{library}.{name}"] = module

    vision.WeightsEnum.get_state_dict = lambda self, *_, **__: None
    load = torch.nn.Module.load_state_dict
    torch.nn.Module.load_state_dict = lambda self, state, *a, **k: (  # type: ignore[assignment]
        None if state is None else load(self, state, *a, **k)
    )
    create = timm.create_model
    timm.create_model = lambda *a, **k: create(*a, **{**k, "pretrained": False})

    wide = {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6}
    wide |= {"encoder_attention_heads": 12, "decoder_attention_heads": 12}
    wide |= {"encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}
    made: dict[str, Callable[[], Any]] = {
        "gpt2": hf.GPT2Config,
        "t5-small": lambda: hf.T5Config(decoder_start_token_id=0),
        "facebook/bart-base": lambda: hf.BartConfig(**wide),
        "albert-base-v2": lambda: hf.AlbertConfig(
            hidden_size=768, num_attention_heads=12, intermediate_size=3072
        ),
        "distilbert-base-uncased": hf.DistilBertConfig,
        "allenai/longformer-base-4096": lambda: hf.LongformerConfig(
            attention_window=512, max_position_embeddings=4098
        ),
        "xlm-roberta-base": lambda: hf.XLMRobertaConfig(max_position_embeddings=514),
    }
    find = hf.AutoConfig.from_pretrained
    hf.AutoConfig.from_pretrained = lambda name, *a, **k: (
        made[name]() if name in made else find(name, *a, **k)
    )


def state(model: Any) -> list[torch.Tensor]:
    """Parameters and buffers of all that a training program holds."""
    modules = [m for m in vars(model).values() if isinstance(m, torch.nn.Module)]
    with contextlib.suppress(Exception):  # some have none
        modules.append(model.get_module()[0])
    return kept([list(m.state_dict().values()) for m in modules])


class Program:
    """A model of TorchBench and its passes."""

    def __init__(self, name: str, batch: int | None) -> None:
        self.test, model = name.split(":")
        self._made = importlib.import_module(f"torchbenchmark.models.{model}")
        self._batch = 1 if self.test == "eval" else batch
        self.model = self._make()

    def _make(self) -> Any:
        torch.manual_seed(7)
        try:
            return self._made.Model(
                test=self.test, device="cuda", batch_size=self._batch
            )
        except NotImplementedError:  # its batch size is its own
            return self._made.Model(test=self.test, device="cuda", batch_size=None)

    def __call__(self, _: int = 0) -> None:
        with torch.set_grad_enabled(self.test == "train"):
            self.model.invoke()
        torch.cuda.synchronize()

    def results(self) -> Iterator[list[torch.Tensor]]:
        """What must have eager's bits, and waits for builds between passes."""
        if self.test == "eval":
            for _ in range(CALLS):
                torch.manual_seed(3)
                with torch.no_grad():
                    yield kept(self.model.invoke())
                reprise.wait(20)
            return
        fresh = self._make()
        torch.manual_seed(3)
        with torch.enable_grad():
            for _ in range(STEPS):
                fresh.invoke()
                reprise.wait(20)
        yield state(fresh)


def bits(program: Program) -> dict[str, Any]:
    """Whether what is replayed has eager's bits."""
    runs = [next(program.results()) for _ in range(3 if program.test == "eval" else 2)]
    reprise.enable("cuda", policy="always")
    equal = all([models.all_same(runs[0], result) for result in program.results()])
    replays = reprise.stats().replays
    reprise.disable()
    return {
        "batch": program.model.batch_size,
        "deterministic": all(models.all_same(runs[0], run) for run in runs),
        "bits": equal,
        "replays": replays,
    }


def replays_by_plan() -> collections.Counter[str]:
    """By signature: several plans may have one, and are alike then."""
    counts: collections.Counter[str] = collections.Counter()
    for plan in reprise.explain().to_dict()["plans"]:
        counts[plan["signature"]] += plan["replays"]
    return counts


def steady(program: Program, seconds: float) -> dict[str, Any]:
    """What a pass is made of once all is learnt."""
    reprise.enable("cuda", policy="always")
    policies.Runner(program).block(seconds)
    reprise.wait(20)
    before, replayed = reprise.stats(), replays_by_plan()
    for _ in range(STEADY):
        program()
    now = reprise.stats().since(before)
    replayed = replays_by_plan() - replayed
    report = reprise.explain().to_dict()
    reprise.disable()
    plans = {plan["signature"]: plan for plan in report["plans"]}

    def each_pass(what: str) -> float:
        """Of all replays, a pass."""
        launched = (plans[s][what] * count for s, count in replayed.items())
        return sum(launched) / STEADY

    cuts = sorted(report.get("cuts", []), key=lambda cut: -cut["count"])
    return {
        "ops": now.ops / STEADY,
        "followed": now.followed / max(1, now.ops),
        "launches": each_pass("segments"),
        "gates": each_pass("gates"),
        "squashes": now.squashes / STEADY,
        "cuts": [[cut["op"], cut["reason"][:200], cut["count"]] for cut in cuts[:5]],
    }


def captured(program: Program) -> torch.cuda.CUDAGraph | None:
    """The pass as a hand-written graph; None where it cannot be one."""
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    try:
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(3):
                program.model.invoke()
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad(), torch.cuda.graph(graph):
            program.model.invoke()
    except Exception:
        torch.cuda.synchronize()
        return None
    return graph


def hand_written(program: Program) -> dict[str, Any]:
    """The pass as a graph, beside eager."""
    graph = captured(program)
    if graph is None:
        return {}

    def replay(_: int) -> None:
        graph.replay()
        torch.cuda.synchronize()

    blocks = [
        (policies.Runner(program).block(0.1), policies.Runner(replay).block(0.1))
        for _ in range(6)
    ]
    return {
        "graph_us": 1e6 * statistics.median(graph for _, graph in blocks),
        "graph_of_eager": statistics.median(eager / graph for eager, graph in blocks),
    }


class Calls:
    """A model, and the arguments of its calls: other tensors at each."""

    def __init__(self, program: Program) -> None:
        self.module, given = program.model.get_module()
        leaves, spec = pytree.tree_flatten(given)
        self.inputs: list[tuple] = []
        for turn in range(models.INPUTS):
            # Its own values, elsewhere: those of any input are what it may be given.
            new = [
                leaf.roll(turn) if isinstance(leaf, torch.Tensor) else leaf
                for leaf in leaves
            ]
            tensors = tuple(leaf for leaf in new if isinstance(leaf, torch.Tensor))
            self.inputs.append((pytree.tree_unflatten(new, spec), tensors))

    def of(self, function: Callable[..., Any]) -> Callable[[Any], Any]:
        """Calls it as the model is called."""
        if isinstance(self.inputs[0][0], dict):
            return lambda given: function(**given)
        return lambda given: function(*given)

    def on_tensors(self) -> Callable[..., Any]:
        """Calls the model on tensors alone; what else it is given stays."""
        leaves, spec = pytree.tree_flatten(self.inputs[0][0])
        call = self.of(self.module)

        def of_tensors(*tensors: torch.Tensor) -> Any:
            left = iter(tensors)
            new = [next(left) if isinstance(o, torch.Tensor) else o for o in leaves]
            return call(pytree.tree_unflatten(new, spec))

        return of_tensors


@torch.no_grad()
def region(program: Program, arguments: argparse.Namespace) -> dict[str, Any]:
    """The model as a region, beside eager and a hand-written graph with its copies."""
    calls = Calls(program)
    expected = []
    for given, _ in calls.inputs:
        torch.manual_seed(3)
        expected.append(kept(calls.of(calls.module)(given)))
    models.prepare()
    turns = itertools.cycle(calls.inputs)
    until, took, _ = models.first_replay(
        calls.of(reprise.region(calls.module)), lambda: (next(turns)[0],)
    )
    reprise.reset()
    fast: Any = reprise.region(calls.module)
    call, plain = calls.of(fast), calls.of(calls.module)
    modes = {
        "eager": models.Mode(lambda new: plain(new[0])),
        "region": models.Mode(lambda new: call(new[0]), enabled=True),
    }
    equal = True
    with modes["region"] as mode:
        end = time.perf_counter() + arguments.settle
        for turn in itertools.count():
            torch.manual_seed(3)
            at = turn % models.INPUTS
            equal &= models.all_same(kept(mode.run(calls.inputs[at])), expected[at])
            reprise.wait(20)
            if turn >= 2 * models.INPUTS and time.perf_counter() > end:
                break
    progress.tell(fast.explain())
    try:
        graph = models.hand_written(calls.on_tensors(), calls.inputs[0][1])
        modes["graph"] = models.Mode(lambda new: graph(new[1]))
    except Exception as error:  # it cannot be one
        progress.tell(f"no graph: {error}")
        torch.cuda.synchronize()
    times = models.Rounds(modes, calls.inputs, ROUNDS, PASSES)
    result: dict[str, Any] = {
        "region_bits": equal,
        "region_first_replay_calls": until,
        "region_first_replay_ms": took,
        "region_replayed": fast.explain().replayed,
        "region_operators": fast.explain().operators,
        "region_reasons": list(fast.explain().reasons)[:4],
        **times.times(),
    }
    for mode in modes.keys() - {"region"}:
        result |= times.ratio(f"region_of_{mode}", "region", mode)
    return result


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One program, in this process."""
    torch.backends.cudnn.deterministic = True
    torch.set_num_threads(2)
    folders = [arguments.torchbench, *filter(None, [arguments.site])]
    sys.path[:0] = map(os.path.abspath, folders)
    os.chdir(arguments.torchbench)
    stay_offline()
    program = Program(name, arguments.batch)
    parts = arguments.parts.split(",")
    record: dict[str, Any] = {"program": name}
    if "bits" in parts:
        record |= bits(program)
    with policies.turn(arguments):
        if "times" in parts:
            with torch.no_grad():
                record |= policies.compare(program, arguments)
        if "graph" in parts and program.test == "eval":
            record |= hand_written(program)
        if "region" in parts and program.test == "eval":
            record |= region(program, arguments)
    if "steady" in parts:
        record |= steady(program, arguments.settle)
    return record


def main() -> None:
    """Measure the programs that were named, or all."""
    options = policies.parser(__doc__.splitlines()[0], PROGRAMS)
    options.add_argument("--torchbench", required=True)
    options.add_argument("--site")
    options.add_argument("--batch", type=int, help="of training; inference: 1")
    options.add_argument(
        "--parts", default="bits,times,steady,graph", help="what to find out"
    )
    policies.run(options.parse_args(), PROGRAMS, measure)
    os._exit(0)  # some models leave threads behind


if __name__ == "__main__":
    main()
