"""Text generated token by token by transformers' `generate`.

    python perf/generate.py --output perf/results/h200-generate.jsonl

GPT-2's default configuration with random weights, a prompt of 32 tokens, 64 new ones
(``--tokens``), greedy; another prompt at each call. The cache is ``static``, or
``dynamic``: then each token's tensors are longer than those of the one before. In
interleaved rounds: eager, eager again (``control``), Reprise, and Reprise with its launches left out (``host``, of a library
built with ``REPRISE_MEASURE=ON`` alone). ``region``: the same by
`reprise.region(model).generate`. Beside them ``graph``: one step of decoding
captured by hand and launched again and again, and ``itself``: what `generate` takes
around a model that gives the same logits each time.

Writes one JSON object: microseconds a token of each mode (medians), ratio (eager over
Reprise, median of paired rounds, with a bootstrap 95 % interval), control, same_tokens and
same_logits (of 8 prompts, against eager's), followed (share of ops answered from replays in the
last 4 calls), replays a token, waited_us (of a token, in which the
program waits for a number of the device's, by Reprise), gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import models
import progress
import reprise
import torch

PROMPTS = 8


def make(arguments: argparse.Namespace) -> tuple[Any, list[torch.Tensor]]:
    """The model and its prompts."""
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=arguments.layers)
    model = transformers.GPT2LMHeadModel(config).to(arguments.device, torch.bfloat16)
    shape = (1, arguments.prompt)
    prompts = [
        torch.randint(config.vocab_size, shape, device=arguments.device)
        for _ in range(PROMPTS)
    ]
    return model.eval(), prompts


def generator(model: Any, arguments: argparse.Namespace) -> Callable[..., Any]:
    """The prompt and what follows it, of a prompt."""

    def generate(prompt: torch.Tensor, **more: Any) -> Any:
        return model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=arguments.tokens,
            do_sample=False,
            cache_implementation=arguments.cache,
            disable_compile=True,
            eos_token_id=None,
            pad_token_id=0,
            **more,
        )

    return generate


class Kept:
    """In place of a model's calls: what the last ones of a text gave."""

    def __init__(self, model: Any, generate: Callable[..., Any], prompt: Any) -> None:
        self.model = model
        self.given: dict[torch.Size, Any] = {}
        self.forward = model.forward
        model.forward = self.keep
        generate(prompt)
        del model.forward

    def keep(self, *args: Any, **kwargs: Any) -> Any:
        out = self.forward(*args, **kwargs)
        self.given[kwargs["input_ids"].shape] = out
        return out

    def give(self, *_: Any, **kwargs: Any) -> Any:
        return self.given[kwargs["input_ids"].shape]

    def __enter__(self) -> None:
        self.model.forward = self.give

    def __exit__(self, *_: object) -> None:
        del self.model.forward


def texts(generate: Callable[..., Any], prompts: list[torch.Tensor]) -> list[Any]:
    """Of each prompt the tokens, and the logits that they were chosen by."""
    found = []
    for prompt in prompts:
        text = generate(prompt, return_dict_in_generate=True, output_logits=True)
        found.append((text.sequences.cpu(), torch.stack(text.logits).cpu()))
    return found


def waited_us(mode: models.Mode, prompt: torch.Tensor, tokens: int) -> float:
    """Microseconds of a token in which the program waits for a number: median of 8."""
    read = torch.Tensor.__bool__
    waited: list[float] = []

    def timed(tensor: torch.Tensor) -> bool:
        begin = time.perf_counter()
        value = read(tensor)
        waited[-1] += time.perf_counter() - begin
        return value

    torch.Tensor.__bool__ = timed  # type: ignore[method-assign]
    try:
        with mode:
            for _ in range(9):
                waited.append(0.0)
                mode.run((prompt,))
    finally:
        torch.Tensor.__bool__ = read  # type: ignore[method-assign]
    return 1e6 * statistics.median(waited[1:]) / tokens


def captured_step(model: Any, prompt: torch.Tensor, tokens: int) -> float:
    """Microseconds of one step of decoding, as a graph made by hand."""
    import transformers

    length = prompt.shape[1]
    cache = transformers.StaticCache(model.config, max_cache_len=1024)
    model(prompt, past_key_values=cache)
    token = prompt[:, :1].clone()
    position = torch.tensor([[length]], device=prompt.device)
    mask = torch.zeros(1, 1, 1, 1024, dtype=model.dtype, device=prompt.device)

    def step() -> torch.Tensor:
        return model(
            token, past_key_values=cache, position_ids=position, attention_mask=mask
        ).logits

    def rewind() -> None:
        for layer in cache.layers:
            layer.cumulative_length.fill_(length)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(5):
        rewind()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(tokens):
            graph.replay()
            torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - begin) / tokens)
    return statistics.median(times)


@torch.no_grad()
def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All modes."""
    model, prompts = make(arguments)
    tokens = arguments.tokens
    generate = generator(model, arguments)
    expected = texts(generate, prompts)

    def run(inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return generate(inputs[0])

    fast = reprise.region(model)
    by_region = generator(fast, arguments)
    modes = {
        "eager": models.Mode(run),
        "control": models.Mode(run),
        "reprise": models.Mode(run, enabled=True),
        "region": models.Mode(lambda given: by_region(given[0]), enabled=True),
    }
    if models.can_skip_launches():
        modes["host"] = models.Mode(run, enabled=True, launches=False)
    inputs = [(prompts[i % PROMPTS],) for i in range(models.INPUTS)]
    progress.stage("settling")
    with modes["reprise"] as mode:
        end = time.perf_counter() + arguments.seconds
        while time.perf_counter() < end:
            mode.run(inputs[0])
        found = texts(generate, prompts)
        before = reprise.stats()
        for prompt in prompts[:4]:
            mode.run((prompt,))
        steady = reprise.stats().since(before)
    with modes["region"] as mode:
        end = time.perf_counter() + arguments.seconds
        while time.perf_counter() < end:
            mode.run(inputs[0])
        regions = texts(by_region, prompts)
    times = models.Rounds(modes, inputs, arguments.rounds, arguments.passes)
    waited = waited_us(modes["reprise"], prompts[0], tokens)
    with Kept(model, generate, prompts[0]):
        itself = [models.seconds(lambda: generate(prompts[0])) for _ in range(9)]
    report: Any = fast.explain()
    progress.tell(report)
    reprise.enable("cuda", policy=arguments.policy)
    progress.tell(reprise.explain())
    reprise.disable()
    return {
        "program": f"gpt2_generate_{arguments.cache}_cache",
        "policy": arguments.policy,
        "tokens": tokens,
        **{
            f"{name}same_{what}": all(
                models.same_bits(a[which], b[which])
                for a, b in zip(those, expected, strict=True)
            )
            for name, those in (("", found), ("region_", regions))
            for which, what in enumerate(("tokens", "logits"))
        },
        "itself_us": 1e6 * statistics.median(itself) / tokens,
        "region_replayed": report.replayed / report.calls,
        **{key: us / tokens for key, us in times.times().items()},
        "waited_us": waited,
        "graph_us": captured_step(model, prompts[0], tokens),
        **times.ratio("ratio", "eager", "reprise"),
        "control": statistics.median(times.ratios("eager", "control")),
        "followed": steady.followed / max(steady.ops, 1),
        "ops_a_token": steady.ops / 4 / tokens,
        "replays_a_token": steady.replays / 4 / tokens,
        "squashes_a_token": steady.squashes / 4 / tokens,
        "plan_bytes": steady.plan_bytes,
    }


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=32, help="tokens")
    parser.add_argument("--tokens", type=int, default=64, help="new ones")
    parser.add_argument("--cache", choices=["static", "dynamic"], default="static")
    parser.add_argument("--policy", default="always")
    parser.add_argument("--seconds", type=float, default=6.0, help="of settling")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    models.Mode.policy = arguments.policy
    models.prepare()
    with progress.row(1, 1, f"generate, {arguments.cache} cache"):
        record = measure(arguments) | models.environment(arguments)
    line = json.dumps(record)
    print(line)
    if arguments.output:
        with arguments.output.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
