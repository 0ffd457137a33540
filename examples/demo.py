"""Real models under Reprise: what is replayed, whether it is right, what it saves.

Run it by `scripts/demo.sh`, which builds what it needs. Weights are random, and so is
every input; each output is kept and compared with eager's, bit for bit.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import reprise
import torch
import torchvision
from torch import nn
from torch.nn import functional

_BUILD_TIMEOUT_S = 120.0
_BLOCKS = 4  # eager and Reprise take turns, as a machine's speed drifts
_EXPLAINED_LINES = 6

MakeInput = Callable[[], torch.Tensor]


class Block(nn.Module):
    """Pre-norm causal attention and a feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        batch, length, width = h.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(h)).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return h + self.down(functional.gelu(self.up(self.norm2(h))))


class Transformer(nn.Module):
    """A small language model with a tied head."""

    def __init__(self, width: int = 256, heads: int = 8, layers: int = 6) -> None:
        super().__init__()
        self.tokens = nn.Embedding(1000, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.blocks(self.tokens(ids))) @ self.tokens.weight.t()


def workloads(device: str) -> dict[str, tuple[nn.Module, MakeInput]]:
    """Models by name, each with a maker of fresh inputs; small ones on the CPU."""
    side = 224 if device == "cuda" else 64

    def image() -> torch.Tensor:
        return torch.randn(1, 3, side, side, device=device)

    def ids() -> torch.Tensor:
        return torch.randint(1000, (1, 64), device=device)

    made: dict[str, tuple[nn.Module, MakeInput]] = {
        "resnet18": (torchvision.models.resnet18(), image),
        "resnet50": (torchvision.models.resnet50(), image),
        "transformer": (Transformer(), ids),
    }
    return {k: (model.eval().to(device), make) for k, (model, make) in made.items()}


def pass_us(model: nn.Module, make_input: MakeInput, passes: int) -> list[float]:
    """The time of each pass in microseconds, synchronised."""
    times = []
    for _ in range(passes):
        x = make_input()
        _synchronise(x)
        begin = time.perf_counter()
        model(x)
        _synchronise(x)
        times.append((time.perf_counter() - begin) * 1e6)
    return times


def _synchronise(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in every bit: nan equals itself, and 0 is not -0."""
    as_bytes = [t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right)]
    return torch.equal(*as_bytes)


def show(
    name: str, model: nn.Module, make_input: MakeInput, device: str, passes: int
) -> bool:
    """Run one model and print its story; True if it was replayed, with eager's bits."""
    inputs = [make_input() for _ in range(passes)]
    kept = []
    eager_us: list[float] = []
    reprise_us: list[float] = []
    with reprise.session(device) as session:
        session.reset()
        for x in inputs:
            kept.append(model(x))
            session.wait(_BUILD_TIMEOUT_S)
        x = make_input()
        before = session.stats()
        model(x)
        ops = session.stats().since(before).ops
        for _ in range(_BLOCKS):
            reprise_us += pass_us(model, make_input, passes)[1:]
            reprise.disable()
            eager_us += pass_us(model, make_input, passes)[1:]
            reprise.enable(device)
        stats = session.stats()
        report = str(session.explain()).splitlines()
    equal = [same_bits(y, model(x)) for x, y in zip(inputs, kept, strict=True)]
    eager, replayed = statistics.median(eager_us), statistics.median(reprise_us)

    print(f"\n{name}")
    print(f"  ops in a pass     {ops}")
    print(f"  plans             {stats.plans}")
    print(f"  replays           {stats.replays} (ops followed: {stats.followed})")
    print(f"  bits of eager     {sum(equal)} of {len(equal)} outputs, all kept")
    print(f"  eager             {eager:9.1f} us a pass (median)")
    print(f"  with Reprise      {replayed:9.1f} us a pass ({eager / replayed:.2f}x)")
    print("  explain()")
    for line in report[:_EXPLAINED_LINES]:
        print(f"    {line}")
    return all(equal) and stats.replays > 0


def main() -> None:
    """Show every workload; exit with 1 if a bit differs or a model is not replayed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--passes", type=int, default=20, help="outputs kept a model")
    parser.add_argument("--only", help="one model, by name")
    arguments = parser.parse_args()
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")

    torch.manual_seed(0)
    if device == "cuda":
        print(f"On {torch.cuda.get_device_name()}, torch {torch.__version__}.")
    else:
        warnings.filterwarnings("ignore", message="reprise: on the CPU")
        print(
            "No GPU in use: the host executor replays on CPU tensors. That shows that "
            "results\nare eager's, and how; it is not faster, and is not meant to be."
        )
    right = True
    with torch.no_grad():
        for name, (model, make_input) in workloads(device).items():
            if arguments.only in (None, name):
                right &= show(name, model, make_input, device, arguments.passes)
    raise SystemExit(0 if right else 1)


if __name__ == "__main__":
    main()
