"""Whole training steps under Reprise: every bit of what they leave, and their time.

    python perf/training.py --output perf/results/h100-training.jsonl [program...]

Each program (forward, loss, backward, optimizer, as its authors' loops have them) is
made three times from one seed: for eager, for eager again (the control, which also
says whether the program is deterministic at all) and for Reprise. After 50 steps of
each everything in their state dicts, the gradients, the losses and the generator's
state are compared. Then steps are timed in interleaved rounds, each synchronised. Matrices of
float32 are multiplied in TF32, as most training scripts ask for; cuDNN's algorithms are
deterministic; with ``--deterministic`` so are torch's, and an op that has no such
algorithm is an error.

Writes one JSON object a program and optimizer: median microseconds of a step of each
mode, ratio (eager over Reprise, median of paired rounds, with a bootstrap 95 %
interval), control (the same of the control), deterministic, bit_equal, followed (share
of a round's ops that were answered from replays), launches and replays a step, host_us
(steps whose launches are left out, of a library built with ``REPRISE_MEASURE=ON``
alone), returned_us and waited_us (Reprise's steps until the program has them, and then
until the device has done them), plan_bytes, eager_peak_bytes, gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import models
import progress
import reprise
import torch
import zoo
from torch import nn

STEPS = 50  # after which bits are compared
BATCHES = 8
functional = nn.functional

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
}


@dataclasses.dataclass
class Program:
    """A training loop: ``step(i)`` gives the loss, all else is its state.

    Of a step on one batch, ``on_batch(*batch)`` is the step, and ``batches`` are those
    that it takes in turn.
    """

    parts: list[nn.Module]
    optimizers: list[torch.optim.Optimizer]
    step: Callable[[int], torch.Tensor]
    on_batch: Callable[..., torch.Tensor] | None = None
    batches: list[tuple[torch.Tensor, ...]] = dataclasses.field(default_factory=list)

    def state(self) -> list[torch.Tensor]:
        """Parameters, buffers, gradients and the optimizers' state, in order."""
        found: list[torch.Tensor] = []
        for part in self.parts:
            found += part.state_dict().values()
            found += [p.grad for p in part.parameters() if p.grad is not None]
        for optimizer in self.optimizers:
            for values in optimizer.state_dict()["state"].values():
                found += [v for v in values.values() if isinstance(v, torch.Tensor)]
        return found


def plain(
    model: nn.Module,
    optimizer: Make,
    batch: Callable[[], tuple[torch.Tensor, ...]],
    loss: Callable[..., torch.Tensor],
    accumulate: int = 1,
) -> Program:
    """The loop of every tutorial: ``loss(model, *batch)``, a step each `accumulate`."""
    model.cuda().train()
    chosen = optimizer([p for p in model.parameters() if p.requires_grad])
    batches = [batch() for _ in range(BATCHES)]

    def on_batch(*given: torch.Tensor) -> torch.Tensor:
        chosen.zero_grad()
        value = loss(model, *given)
        value.backward()
        chosen.step()
        return value.detach()

    def step(i: int) -> torch.Tensor:
        if accumulate == 1:
            return on_batch(*batches[i % BATCHES])
        chosen.zero_grad()
        for k in range(accumulate):
            value = loss(model, *batches[(i + k) % BATCHES])
            (value / accumulate).backward()
        chosen.step()
        return value.detach()

    return Program([model], [chosen], step, on_batch, batches)


def images(count: int, size: int, classes: int = 1000):
    """Pictures and their labels."""
    return lambda: (
        torch.randn(count, 3, size, size, device="cuda"),
        torch.randint(classes, (count,), device="cuda"),
    )


def tokens(count: int, length: int, words: int = 30000):
    """Texts."""
    return lambda: (torch.randint(words, (count, length), device="cuda"),)


def classified(model: nn.Module, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Cross entropy of what a classifier says."""
    return functional.cross_entropy(model(x), label)


def language(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a language model of transformers says of a text."""
    return model(input_ids=x, labels=x).loss


def torchvision_model(name: str, count: int, size: int = 224):
    """A classifier of torchvision's."""

    def make(optimizer: Make) -> Program:
        import torchvision

        model = getattr(torchvision.models, name)()
        return plain(model, optimizer, images(count, size), classified)

    return make


def transformers_model(
    kind: str, config: str, shape: tuple[int, int], dtype: torch.dtype, **settings: Any
):
    """A language model of transformers'."""

    def make(optimizer: Make) -> Program:
        import transformers

        made = getattr(transformers, config)(use_cache=False, **settings)
        model = getattr(transformers, kind)(made).to(dtype)
        return plain(model, optimizer, tokens(*shape, made.vocab_size), language)

    return make


def mlp(optimizer: Make) -> Program:
    """Twenty residual layers on a batch of 32."""
    batch = lambda: (torch.randn(32, 256, device="cuda"),)  # noqa: E731
    return plain(
        zoo.Mlp(), optimizer, batch, lambda model, x: functional.mse_loss(model(x), x)
    )


def vit(optimizer: Make) -> Program:
    """A small vision transformer of timm's, with dropout."""
    import timm

    model = timm.create_model("vit_small_patch16_224", drop_rate=0.1)
    return plain(model, optimizer, images(8, 224), classified)


def recurrent(kind: type[nn.RNNBase]):
    """Two layers of a recurrent network with dropout between, and a head."""

    def make(optimizer: Make) -> Program:
        layer = kind(128, 256, num_layers=2, dropout=0.1)
        model = nn.ModuleList([layer, nn.Linear(256, 10)])
        batch = lambda: (  # noqa: E731
            torch.randn(32, 8, 128, device="cuda"),
            torch.randint(10, (8,), device="cuda"),
        )

        def loss(model: Any, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(model[1](model[0](x)[0][-1]), label)

        return plain(model, optimizer, batch, loss)

    return make


def gan(optimizer: Make) -> Program:
    """Two networks and two optimizers, in turn."""

    def net(*widths: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
        return nn.Sequential(*layers[:-1]).cuda()

    generator, critic = net(64, 256, 256, 784), net(784, 256, 256, 1)
    g, d = optimizer(generator.parameters()), optimizer(critic.parameters())
    batches = [torch.randn(64, 784, device="cuda") for _ in range(BATCHES)]
    score = functional.binary_cross_entropy_with_logits

    def step(i: int) -> torch.Tensor:
        real = batches[i % BATCHES]
        fake = generator(torch.randn(64, 64, device="cuda"))
        d.zero_grad()
        yes, no = critic(real), critic(fake.detach())
        lost = score(yes, torch.ones_like(yes)) + score(no, torch.zeros_like(no))
        lost.backward()
        d.step()
        g.zero_grad()
        fooled = critic(fake)
        (won := score(fooled, torch.ones_like(fooled))).backward()
        g.step()
        return torch.stack([lost.detach(), won.detach()])

    return Program([generator, critic], [g, d], step)


def dqn(optimizer: Make) -> Program:
    """Q learning: a replay memory, a target network that follows slowly."""
    net = lambda: nn.Sequential(  # noqa: E731
        nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4)
    ).cuda()
    policy, target = net(), net()
    target.load_state_dict(policy.state_dict())
    chosen = optimizer(policy.parameters())
    memory = torch.randn(10_000, 8, device="cuda")
    actions = torch.randint(4, (10_000, 1), device="cuda")

    def step(i: int) -> torch.Tensor:
        sample = torch.randint(9_999, (128,), device="cuda")
        state, after = memory[sample], memory[sample + 1]
        with torch.no_grad():
            worth = 1.0 + 0.99 * target(after).max(1, keepdim=True).values
        loss = functional.smooth_l1_loss(
            policy(state).gather(1, actions[sample]), worth
        )
        chosen.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        chosen.step()
        with torch.no_grad():
            for slow, fast in zip(
                target.parameters(), policy.parameters(), strict=True
            ):
                slow.mul_(0.995).add_(fast, alpha=0.005)
        return loss.detach()

    return Program([policy, target], [chosen], step)


class Lora(nn.Module):
    """A frozen linear layer and a trained one of low rank beside it."""

    def __init__(self, layer: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map the last dimension."""
        return self.layer(x) + self.up(self.down(functional.dropout(x, 0.05)))


def lora(optimizer: Make) -> Program:
    """Twelve frozen layers, each with one of low rank."""
    model = nn.Sequential(
        *(nn.Sequential(Lora(nn.Linear(256, 256)), nn.GELU()) for _ in range(12))
    )
    batch = lambda: (torch.randn(32, 256, device="cuda"),)  # noqa: E731
    return plain(
        model, optimizer, batch, lambda model, x: functional.mse_loss(model(x), x)
    )


def early_exit(optimizer: Make) -> Program:
    """Batch norm, and every third step ends at the first of two heads."""
    body = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU()).cuda()
    tail = nn.Sequential(nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU()).cuda()
    heads = nn.ModuleList([nn.Linear(32, 10), nn.Linear(64, 10)]).cuda()
    parts: list[nn.Module] = [body, tail, heads]
    chosen = optimizer([p for part in parts for p in part.parameters()])
    batches = [images(16, 32, 10)() for _ in range(BATCHES)]

    def step(i: int) -> torch.Tensor:
        x, label = batches[i % BATCHES]
        h = body(x)
        if early := i % 3 == 0:
            out = heads[0](h.mean((2, 3)))
        else:
            out = heads[1](tail(h).mean((2, 3)))
        loss = functional.cross_entropy(out, label)
        chosen.zero_grad(set_to_none=not early)
        loss.backward()
        chosen.step()
        return loss.detach()

    return Program(parts, [chosen], step)


def accumulation(optimizer: Make) -> Program:
    """Four micro-batches a step."""
    batch = lambda: (torch.randn(16, 256, device="cuda"),)  # noqa: E731
    loss = lambda model, x: functional.mse_loss(model(x), x)  # noqa: E731
    return plain(zoo.Mlp(depth=8), optimizer, batch, loss, accumulate=4)


_BERT = transformers_model(
    "BertForMaskedLM", "BertConfig", (8, 128), torch.float32
)  # with its dropout of 0.1
_GPT2 = ("GPT2LMHeadModel", "GPT2Config")

PROGRAMS: dict[str, Callable[[Make], Program]] = {
    "mlp20_b32": mlp,
    "gpt2_bf16_b2x64": transformers_model(*_GPT2, (2, 64), torch.bfloat16),
    "gpt2_bf16_b8x1024": transformers_model(*_GPT2, (8, 1024), torch.bfloat16),
    "resnet18_b8": torchvision_model("resnet18", 8),
    "bert_b8x128": _BERT,
    "resnet50_b32": torchvision_model("resnet50", 32),
    "vit_s_b8": vit,
    "distilgpt2_b2x64": transformers_model(*_GPT2, (2, 64), torch.float32, n_layer=6),
    "mt5_small_b2x64": transformers_model(
        "MT5ForConditionalGeneration", "MT5Config", (2, 64), torch.float32, num_layers=4
    ),
    "densenet121_b8": torchvision_model("densenet121", 8),
    "lstm": recurrent(nn.LSTM),
    "gru": recurrent(nn.GRU),
    "gan": gan,
    "accumulation_4": accumulation,
    "dqn": dqn,
    "lora": lora,
    "early_exit": early_exit,
    "llama_2_layers": transformers_model(
        "LlamaForCausalLM",
        "LlamaConfig",
        (2, 64),
        torch.bfloat16,
        num_hidden_layers=2,
        hidden_size=1024,
        intermediate_size=2816,
        num_attention_heads=16,
        vocab_size=8000,
    ),
}


def bits(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of their bytes, on the host."""
    copies = [t.detach().to("cpu", copy=True).contiguous() for t in tensors]
    return [t.reshape(-1).view(torch.uint8) for t in copies]


def first_steps(name: str, optimizer: Make, policy: str | None) -> tuple[Any, Program]:
    """A program made from the seed, and the bits of its first steps."""
    torch.manual_seed(0)
    program = PROGRAMS[name](optimizer)
    torch.manual_seed(1)
    if policy:
        reprise.enable("cuda", policy=policy)
    losses = []
    for i in range(STEPS):
        losses.append(program.step(i))
        if policy:
            reprise.wait()
    if policy:
        reprise.disable()
    state = [*losses, *program.state(), torch.cuda.get_rng_state()]
    return bits(state), program


def measure(name: str, kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All of one program with one optimizer."""
    optimizer = OPTIMIZERS[kind]
    torch.cuda.reset_peak_memory_stats()
    expected, eager = first_steps(name, optimizer, None)
    peak = torch.cuda.max_memory_allocated()
    again, control = first_steps(name, optimizer, None)
    found, ours = first_steps(name, optimizer, arguments.policy)

    def same(left: list[torch.Tensor]) -> bool:
        return len(left) == len(expected) and all(
            torch.equal(a, b) for a, b in zip(left, expected, strict=True)
        )

    count = [0]

    def mode(program: Program, **options: Any) -> models.Mode:
        def run(_: tuple[torch.Tensor, ...]) -> torch.Tensor:
            count[0] += 1
            return program.step(count[0])

        return models.Mode(run, **options)

    modes = {
        "eager": mode(eager),
        "control": mode(control),
        "reprise": mode(ours, enabled=True),
    }
    if arguments.host:
        modes["host"] = mode(ours, enabled=True, launches=False)
    nothing: list[tuple] = [()] * models.INPUTS
    models.settle(modes["reprise"], nothing, arguments.seconds)
    before = reprise.stats()
    with modes["reprise"]:
        for i in range(10):
            ours.step(i)
    steady = reprise.stats().since(before)
    times = models.Rounds(modes, nothing, arguments.rounds, arguments.passes)
    returned, waited = models.parts(modes["reprise"], nothing, 20)
    reprise.enable("cuda", policy=arguments.policy)
    report = reprise.explain()
    progress.tell(name, kind, report)
    plan_bytes = reprise.stats().plan_bytes
    reprise.reset()
    reprise.disable()
    return {
        "program": name,
        "optimizer": kind,
        "policy": arguments.policy,
        "deterministic": same(again),
        "bit_equal": same(found),
        **times.times(),
        "returned_us": 1e6 * returned,
        "waited_us": 1e6 * waited,
        **times.ratio("ratio", "eager", "reprise"),
        "control": statistics.median(times.ratios("eager", "control")),
        "followed": steady.followed / max(steady.ops, 1),
        "ops_a_step": steady.ops / 10,
        "replays_a_step": steady.replays / 10,
        "effects_a_step": steady.effects / 10,
        "squashes_a_step": steady.squashes / 10,
        "plan_bytes": plan_bytes,
        "eager_peak_bytes": peak,
    }


def main() -> None:
    """Measure the programs that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", choices=[[], *PROGRAMS])
    parser.add_argument("--optimizers", nargs="*", default=["adamw", "sgd"])
    parser.add_argument("--policy", default="always")
    parser.add_argument(
        "--deterministic", action="store_true", help="torch's deterministic algorithms"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of settling")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.backends.cudnn.deterministic = True
    if arguments.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("high")
    models.Mode.policy = arguments.policy
    models.prepare()
    arguments.host = models.can_skip_launches()
    where = models.environment(arguments)
    names = arguments.programs or list(PROGRAMS)
    rows = list(itertools.product(names, arguments.optimizers))
    for number, (name, kind) in enumerate(rows, 1):
        try:
            with progress.row(number, len(rows), f"{name}, {kind}"):
                record = measure(name, kind, arguments) | where
        except Exception as error:  # one program must not hide the others
            record = {"program": name, "optimizer": kind, "error": str(error)[:500]}
        line = json.dumps(record)
        print(line, flush=True)
        if arguments.output:
            with arguments.output.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
