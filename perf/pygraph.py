"""The workloads of PyGraph (GraCE) beside `reduce-overhead` and hand-written graphs.

    python perf/pygraph.py --torchbench DIR [--site DIR]... --output FILE [program...]
    python perf/pygraph.py --table FILE

The 25 programs, their modes and batch sizes are those of "GraCE: Unlocking CUDA Graphs
with Compiler Support for ML Workloads" (OSDI '26): ``eval:`` is a forward pass in
bfloat16, ``train:`` a forward pass under autocast and the backward pass, without an
optimizer. Exceptions are those of TorchDynamo's benchmarks (Mask R-CNN in float16, DALL-E 2
under autocast, the turbulence model as it is) and DeBERTa's training, which transformers 5
cannot do under autocast: in bfloat16. Nothing is downloaded: weights and inputs are random,
configurations the libraries' defaults, models of TorchBench those in DIR, as for
torchbench.py; ``--site`` is a folder of packages that only some models need.

Each program runs in a process of its own, the ways to use Reprise one after the other:
each begins knowing nothing (`reprise.reset`), settles, and is timed beside all peers in
interleaved rounds of passes, each synchronised and on another input:

- ``eager``, and again as ``control``;
- ``reprise``: eager, with nothing but `reprise.enable(policy="always")`;
- ``region``: `reprise.region(model)`; of training, a region of the function that its
  user writes: gradients to None, forward pass, backward pass;
- ``backend``, ``reduce_overhead``: `torch.compile(model)` with ``backend="reprise"``, or
  with ``mode="reduce-overhead"``; of training, the rest as in eager;
- ``graph``: a hand-written CUDA graph of all that, which copies its inputs.

Writes one JSON object a program: microseconds of each mode (medians), A_of_B (A's time
over B's, median of paired rounds, with a bootstrap 95 % interval), control (eager over
itself), backend_ms and reduce_overhead_ms (the first three calls, beside other processes
that compile), calls (until the region's first without Python) and calls_ms (what those
took beyond eager), deterministic (eager twice gives the same outputs, gradients and
buffers in some calls), A_bits (the mode gives eager's; dynamo_bits, where backend_bits is
false: so does `backend="eager"`), A_followed (share of the ops that were replayed in the
last call before the rounds), replayed, operators and reasons (of the region),
backend_graphs, backend_replayed and backend_reasons, notes (of the session), failed (modes
that are left out, and why), gpu, driver, torch, commit, dirty, command. Where a model
cannot be made, `reason` says why. All processes of `--jobs` have their memory at once.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import itertools
import json
import os
import pathlib
import signal
import statistics
import sys
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import models
import policies
import progress
import regions
import reprise
import torch
import torchbench
from reprise._compiler import reprise as backend
from torch import nn
from torch.utils import _pytree as pytree

DEVICE = "cuda"
OURS = ("reprise", "region", "backend")
PEERS = ("eager", "reduce_overhead", "graph")
RATIOS = [f"{ours}_of_{peer}" for ours in OURS for peer in PEERS]
KEPT = 4  # calls whose results are compared
INPUT_BYTES = 2**31  # of all inputs of a program, about
SLOW = 2.0  # seconds of a pass that is not repeated

Model = tuple[nn.Module, tuple, dict[str, Any]]  # and the arguments of a call


def integers(high: int, *shape: int) -> torch.Tensor:
    """Random ones below `high`."""
    return torch.randint(0, high, shape, device=DEVICE)


def hugging_face(name: str, batch: int, _: str) -> Model:
    """A class of transformers, with the inputs that TorchDynamo's benchmarks make."""
    import transformers

    made = getattr(transformers, {"DistilGPT2": "GPT2LMHeadModel"}.get(name, name))
    config = made.config_class(**({"n_layer": 6} if name == "DistilGPT2" else {}))
    config.use_cache = False
    long = name.startswith(("Deberta", "XLNet", "Distil"))
    shape = (batch, 512 if long else 128)
    named = {"input_ids": integers(config.vocab_size, *shape)}
    if name.startswith("MT5"):
        named["decoder_input_ids"] = named["input_ids"].clone()
    if name.endswith("QuestionAnswering"):
        named["start_positions"] = integers(shape[1], batch)
        named["end_positions"] = integers(shape[1], batch)
    else:
        named["labels"] = integers(config.vocab_size - 1, *shape)
    with torch.device(DEVICE):
        return made(config), (), named


def torch_bench(name: str, batch: int, test: str) -> Model:
    """A model of TorchBench."""
    made = importlib.import_module(f"torchbenchmark.models.{name}").Model
    rows = batch if getattr(made, "ALLOW_CUSTOMIZE_BSIZE", True) else None
    module, args = made(test=test, device=DEVICE, batch_size=rows).get_module()
    return module, tuple(args), {}


def pictures(name: str, batch: int, _: str) -> Model:
    """A model of timm or torchvision; a detector's images are a list."""
    import timm
    import torchvision

    if name == "vision_maskrcnn":
        module = torchvision.models.get_model(
            "maskrcnn_resnet50_fpn",
            weights=None,
            weights_backbone=None,
            box_score_thresh=0.0,
        )
        return module, ([torch.rand(3, 480, 640)],), {}
    make = timm.create_model if name == "lcnet_050" else torchvision.models.get_model
    return make(name), (torch.randn(batch, 3, 224, 224),), {}


def speech(name: str, _: int, test: str) -> Model:
    """TorchBench's, with one utterance of 450 frames and 14 of 4,233 characters."""
    sys.modules.setdefault("kaldi_io", types.ModuleType("kaldi_io"))  # reads recordings
    module: Any = importlib.import_module(f"torchbenchmark.models.{name}.config")
    c = module.SpeechTransformerTrainConfig
    heads = (c.n_head, c.d_k, c.d_v, c.d_model, c.d_inner)
    width = c.d_input * c.LFR_m
    encoder = module.Encoder(width, c.n_layers_enc, *heads, c.dropout, c.pe_maxlen)
    words = (2, 3, 4233, c.d_word_vec, c.n_layers_dec)
    decoder = module.Decoder(*words, *heads, c.dropout, True, c.pe_maxlen)
    given = torch.randn(1, 450 // c.LFR_n, width), torch.tensor([450 // c.LFR_n])
    return module.Transformer(encoder, decoder), (*given, integers(4233, 1, 14)), {}


def multimodal_clip(name: str, batch: int, test: str) -> Model:
    """TorchMultimodal's CLIP, with 32 texts as TorchBench has them."""
    from torchmultimodal.models.clip.model import clip_vit_b32

    texts = integers(49408, 32, 77)
    return clip_vit_b32(), (torch.randn(batch, 3, 224, 224), texts), {}


def dalle2(name: str, batch: int, test: str) -> Model:
    """TorchBench's, whose CLIP has random weights."""
    clip: Any = importlib.import_module("clip")
    size = (512, 224, 12, 768, 32, 77, 49408, 512, 8, 12)  # ViT-B/32
    like = types.SimpleNamespace(transforms=[nn.Identity()])
    clip.load = lambda *_, **__: (
        importlib.import_module("clip.model").CLIP(*size),
        like,
    )
    made = importlib.import_module(f"torchbenchmark.canary_models.{name}").Model
    module, args = made(test=test, device=DEVICE, batch_size=batch).get_module()
    return module, args, {}


def efficientdet(name: str, batch: int, test: str) -> Model:
    """EfficientDet with its loss; images are labelled before, as its loader does."""
    import effdet
    from effdet.anchors import AnchorLabeler, Anchors

    module = effdet.create_model(
        "tf_efficientdet_d1", "train", pretrained=False, pretrained_backbone=False
    )
    config = module.config
    labeler = AnchorLabeler(Anchors.from_config(config), config.num_classes)
    corner, extent = 300 * torch.rand(8, 2), 40 + 200 * torch.rand(8, 2)
    boxes, which = torch.cat([corner, corner + extent], 1), torch.randint(1, 90, (8,))
    classes, targets, count = labeler.label_anchors(boxes, which)
    labels = {"label_num_positives": count.reshape(1)}
    for level, (one, box) in enumerate(zip(classes, targets, strict=True)):
        labels |= {f"label_cls_{level}": one[None], f"label_bbox_{level}": box[None]}
    return module, (torch.randn(batch, 3, *config.image_size), labels), {}


Maker = Callable[[str, int, str], Model]
PROGRAMS: dict[str, tuple[Maker, int]] = {
    # What takes long to compile comes first; what takes much memory stands apart.
    "train:timm_efficientdet": (efficientdet, 1),
    "eval:DALLE2_pytorch": (dalle2, 1),
    "train:XLNetLMHeadModel": (hugging_face, 8),
    "eval:pyhpc_equation_of_state": (torch_bench, 1048576),
    "eval:alexnet": (pictures, 2),
    "train:dcgan": (torch_bench, 32),
    "eval:speech_transformer": (speech, 1),
    "train:MT5ForConditionalGeneration": (hugging_face, 16),
    "eval:lcnet_050": (pictures, 256),
    "eval:DebertaV2ForQuestionAnswering": (hugging_face, 1),
    "eval:dlrm": (torch_bench, 2048),
    "train:BlenderbotSmallForConditionalGeneration": (hugging_face, 64),
    "eval:XLNetLMHeadModel": (hugging_face, 1),
    "eval:torch_multimodal_clip": (multimodal_clip, 1),
    "train:nvidia_deeprecommender": (torch_bench, 256),
    "train:DebertaForMaskedLM": (hugging_face, 8),
    "eval:MobileBertForQuestionAnswering": (hugging_face, 128),
    "eval:pyhpc_turbulent_kinetic_energy": (torch_bench, 1048576),
    "train:DistilGPT2": (hugging_face, 16),
    "eval:densenet121": (pictures, 64),
    "eval:MT5ForConditionalGeneration": (hugging_face, 16),
    "train:BERT_pytorch": (torch_bench, 16),
    "eval:nvidia_deeprecommender": (torch_bench, 8192),
    "eval:vision_maskrcnn": (pictures, 1),
    "train:Speech2Text2ForCausalLM": (hugging_face, 256),
}
DTYPES: dict[str, torch.dtype | None] = {
    "eval:vision_maskrcnn": torch.float16,
    "eval:DALLE2_pytorch": None,
    "eval:pyhpc_turbulent_kinetic_energy": None,
    "train:DebertaForMaskedLM": torch.bfloat16,
}


class Inputs(NamedTuple):
    """The arguments of a call, and the tensors among them."""

    args: tuple
    named: dict[str, Any]
    tensors: tuple[torch.Tensor, ...]


class Program:
    """A model, what it is called with, and how its user calls it."""

    def __init__(self, name: str) -> None:
        test, _, which = name.partition(":")
        make, batch = PROGRAMS[name]
        torch.manual_seed(7)
        module, *given = make(which, batch, test)
        self.training = test == "train"
        dtype = DTYPES.get(name, None if self.training else torch.bfloat16)
        self._autocast = dtype is None and (self.training or which == "DALLE2_pytorch")
        self.module = module.to(DEVICE, dtype).train(self.training)
        leaves, self._form = pytree.tree_flatten(given)
        leaves = [
            leaf.to(DEVICE, dtype if leaf.is_floating_point() else None)
            for leaf in leaves
        ]
        count = INPUT_BYTES // sum(leaf.nbytes for leaf in leaves)
        mixed = make is hugging_face  # any of its integers may stand anywhere
        made = [
            self._given([another(leaf, index, mixed) for leaf in leaves])
            for index in range(max(2, min(models.INPUTS, count)))
        ]
        self.inputs = [made[i % len(made)] for i in range(models.INPUTS)]
        self._turns = itertools.cycle(made)
        self._buffers = [buffer.clone() for buffer in self.module.buffers()]

    def _given(self, tensors: list[torch.Tensor]) -> Inputs:
        args, named = pytree.tree_unflatten(tensors, self._form)
        return Inputs(tuple(args), named, tuple(tensors))

    def next(self, call: Callable[..., Any]) -> Any:
        """Call it with the next inputs."""
        new = next(self._turns)
        return call(*new.args, **new.named)

    def call(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """The model, and what its user writes round it."""
        from torch._dynamo.testing import reduce_to_scalar_loss

        def forward(*args: Any, **named: Any) -> Any:
            with torch.autocast(DEVICE):
                return model(*args, **named)

        def step(*args: Any, **named: Any) -> torch.Tensor:
            module.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, enabled=autocast):
                found = model(*args, **named)
                loss = reduce_to_scalar_loss(getattr(found, "loss", found))
            loss.backward()
            return loss.detach()

        module, autocast = self.module, self._autocast
        return step if self.training else forward if autocast else model

    def graph(self) -> models.Mode:
        """A call as a hand-written graph."""
        call = self.call(self.module)

        def of_tensors(*tensors: torch.Tensor) -> Any:
            new = self._given(list(tensors))
            return call(*new.args, **new.named)

        function: Any = of_tensors
        run: Any = models.hand_written(function, self.inputs[0].tensors)
        return models.Mode(lambda new: run(new.tensors))  # type: ignore[attr-defined]

    def results(self, mode: models.Mode) -> list[torch.Tensor]:
        """Outputs, gradients and buffers of some calls."""
        with torch.no_grad():
            for buffer, old in zip(self.module.buffers(), self._buffers, strict=True):
                buffer.copy_(old)
        kept: list[torch.Tensor] = []
        with mode:
            for index, new in enumerate(self.inputs[:KEPT]):
                torch.manual_seed(index)
                kept += torchbench.tensors(mode.run(new))
                if self.training:
                    gradients = [w.grad for w in self.module.parameters()]
                    kept += [grad for grad in gradients if grad is not None]
                    kept += [buffer.clone() for buffer in self.module.buffers()]
        return kept


def another(leaf: torch.Tensor, by: int, mixed: bool) -> torch.Tensor:
    """The same numbers at other places of other memory."""
    if leaf.is_floating_point() or mixed:
        return leaf.reshape(-1).roll(17 * by).view_as(leaf)
    return leaf.roll(by, 0)


class Modes(dict[str, models.Mode]):
    """A program's modes, without those that fail or take too long to make."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.failed: dict[str, str] = {}
        self._limit = limit

    def add(self, name: str, call: Callable[..., Any], enabled: bool = False) -> None:
        """A mode that makes such calls."""

        def run(new: Any) -> Any:
            return call(*new.args, **new.named)

        self[name] = models.Mode(run, enabled)

    def attempt(self, name: str, do: Callable[[], object]) -> None:
        """What one mode needs; where it fails, there is no such mode."""

        def late(*_: object) -> None:
            raise TimeoutError(f"not made in {self._limit} s")

        signal.signal(signal.SIGALRM, late)
        signal.alarm(self._limit)
        try:
            do()
        except Exception as error:
            self.failed[name] = line(error)
            self.pop(name, None)
        finally:
            signal.alarm(0)


def line(error: Exception) -> str:
    """What an error says, in one line."""
    said = [part.strip() for part in str(error).splitlines() if part.strip()]
    return f"{type(error).__name__}: {said[0] if said else ''}"[:300]


def timed(modes: Modes, inputs: list[Any], arguments: argparse.Namespace) -> dict:
    """What the record says of them."""
    each = 0.0
    for name, mode in list(modes.items()):
        took = models.seconds(lambda mode=mode: mode.run(inputs[0]))  # type: ignore[misc]
        each += took
        if took > SLOW:
            modes.failed[name] = f"a pass takes {took:.1f} s"
            del modes[name]
            each -= took
    rounds = min(arguments.rounds, max(5, int(arguments.time / each / 3)))
    passes = max(1, min(20, int(arguments.time / each / rounds) - 1))
    found = models.Rounds(modes, inputs, rounds, passes)
    result = found.times()
    result["control"] = statistics.median(found.ratios("eager", "control"))
    for key in RATIOS:
        ours, _, peer = key.partition("_of_")
        if {ours, peer} <= modes.keys():
            result |= found.ratio(key, ours, peer)
    return result


def settled(call: Callable[[], object], seconds: float) -> float:
    """Call until five calls in a row were replays, or for so long: the last one's share."""
    until = time.perf_counter() + seconds
    passes, share = 0, 0.0
    while passes < 5 and time.perf_counter() < until:
        before = reprise.stats()
        models.seconds(call)
        reprise.wait(20)
        now = reprise.stats().since(before)
        share = now.followed / max(1, now.ops)
        passes = passes + 1 if share >= 0.9 or now.ops == 0 else 0
    return share


def forget() -> None:
    """All that was learned, and the memory of it."""
    reprise.enable("cuda", policy="always")
    reprise.reset()
    reprise.disable()
    torch.cuda.empty_cache()


def of_backend(name: str) -> dict[str, Any]:
    """What became of the backend's graphs, which all regions are but the one of `name`."""
    report = reprise.explain()
    progress.tell(report)
    found = [r for r in report.to_dict().get("regions", []) if r["name"] != name]
    calls = sum(r["calls"] for r in found)
    reasons = collections.Counter(e["reason"] for r in found for e in r["reasons"])
    return {
        "backend_graphs": len(found),
        "backend_replayed": sum(r["replayed"] for r in found) / max(1, calls),
        "backend_reasons": reasons.most_common(4),
        "notes": report.to_dict().get("notes", [])[:4],
    }


def compare(program: Program, arguments: argparse.Namespace) -> dict[str, Any]:
    """All modes of a program."""
    result: dict[str, Any] = {}
    modes = Modes(arguments.limit)
    call = program.call(program.module)
    modes.add("eager", call)
    modes.add("control", call)
    modes.add("reprise", call, enabled=True)
    # Before `reduce-overhead`, which keeps nodes that add gradients up, and their stream.
    # A capture that fails leaves its stream, pool and generator behind: begin anew.
    if arguments.uncaptured:
        modes.failed["graph"] = arguments.uncaptured
    else:
        modes.attempt("graph", lambda: modes.update(graph=program.graph()))
        if why := modes.failed.get("graph"):
            os.chdir(arguments.start)
            os.execv(sys.executable, [sys.executable, *sys.argv, f"--uncaptured={why}"])
    torch.cuda.empty_cache()

    def compiled(name: str, **how: Any) -> None:
        fast = program.call(torch.compile(program.module, **how))

        def stepping(*args: Any, **named: Any) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return fast(*args, **named)

        modes.add(name, fast if name == "backend" else stepping, name == "backend")
        took = [models.seconds(lambda: program.next(stepping)) for _ in range(3)]
        result[f"{name}_ms"] = 1e3 * sum(took)

    modes.attempt("backend", lambda: compiled("backend", backend=backend))
    peer = "reduce_overhead"
    modes.attempt(peer, lambda: compiled(peer, mode="reduce-overhead"))
    torch.cuda.empty_cache()  # others make theirs meanwhile
    fast: Any = reprise.region(call)

    def first() -> None:
        region: Any = lambda: program.next(fast)  # noqa: E731
        region.of = fast
        result.update(regions.first_calls(region, lambda: program.next(call)))
        modes.add("region", fast, enabled=True)

    def settle(name: str) -> None:
        mode = modes[name]
        run: Any = lambda *args, **named: mode.run(Inputs(args, named, ()))  # noqa: E731
        with mode:
            share = settled(lambda: program.next(run), arguments.settle)
        result[f"{name}_followed"] = share

    with policies.turn(arguments):
        models.prepare()
        expected = program.results(modes["eager"])
        result["deterministic"] = models.all_same(
            expected, program.results(modes["control"])
        )
        for name in OURS:
            forget()
            if name == "region":
                modes.attempt(name, first)
            if name in modes:
                modes.attempt(name, lambda name=name: settle(name))  # type: ignore[misc]
            if name not in modes:
                continue
            others = Modes(arguments.limit)
            others.update(
                {key: modes[key] for key in modes if key == name or key not in OURS}
            )
            result |= timed(others, program.inputs, arguments)
            modes.failed |= others.failed
            result[f"{name}_bits"] = models.all_same(
                expected, program.results(modes[name])
            )
        del expected
    result |= of_backend(fast.explain().name) | regions.said(fast)
    if not result.get("backend_bits", True):
        torch._dynamo.reset()
        plain = program.call(torch.compile(program.module, backend="eager"))
        modes.add("dynamo", plain)
        expected = program.results(modes["eager"])
        result["dynamo_bits"] = models.all_same(
            expected, program.results(modes["dynamo"])
        )
    return result | {"failed": modes.failed}


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One program, in this process."""
    torch.set_num_threads(2)
    os.environ["TQDM_DISABLE"] = "1"
    sys.path[:0] = map(os.path.abspath, [arguments.torchbench, *arguments.site])
    arguments.start = os.getcwd()
    os.chdir(arguments.torchbench)
    torchbench.stay_offline()
    try:
        program = Program(name)
    except Exception as error:
        return {"program": name, "reason": line(error)}
    torch.backends.cudnn.deterministic = True  # some models set it otherwise
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit *= 2  # of two compilers
    with torch.set_grad_enabled(program.training):
        return {"program": name} | compare(program, arguments)


def table(records: list[dict[str, Any]]) -> str:
    """A line a program, and geometric means."""
    times = ["eager", *OURS, *PEERS[1:]]
    bits = ["deterministic", *(f"{mode}_bits" for mode in OURS)]
    lines = ["|".join(["", "program", *times, *RATIOS, "bits", ""])]
    lines.append("|---" * (len(times) + len(RATIOS) + 2) + "|")
    for record in records:
        cells = [record["program"]]
        cells += [f"{record.get(f'{mode}_us', float('nan')):.0f}" for mode in times]
        cells += [f"{record.get(key, float('nan')):.2f}" for key in RATIOS]
        cells += [" ".join(str(record.get(key, "-"))[0] for key in bits)]
        lines.append("|".join(["", *cells, ""]))
    for key in RATIOS:
        values = [record[key] for record in records if key in record]
        mean = statistics.geometric_mean(values or [float("nan")])
        lines.append(f"{key}: {mean:.3f}, geometric mean of {len(values)} programs")
    return "\n".join(lines)


def main() -> None:
    """Measure the programs that were named, or all."""
    options = policies.parser(__doc__.splitlines()[0], PROGRAMS)
    options.add_argument("--torchbench")
    options.add_argument("--site", action="append", default=[])
    options.add_argument(
        "--time", type=float, default=5.0, help="seconds of all rounds"
    )
    options.add_argument("--limit", type=int, default=60, help="seconds to make a mode")
    options.add_argument("--uncaptured", help=argparse.SUPPRESS)
    options.add_argument("--table", type=pathlib.Path, help="print that of a record")
    arguments = options.parse_args()
    if arguments.table:
        lines = arguments.table.read_text().splitlines()
        print(table([json.loads(each) for each in lines]))
    else:
        policies.run(arguments, PROGRAMS, measure)
        os._exit(0)  # some models leave threads behind


if __name__ == "__main__":
    main()
