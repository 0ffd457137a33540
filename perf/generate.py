"""Text generated token by token by transformers' `generate`, with a static cache.

    python perf/generate.py --output perf/results/h200-generate.jsonl

GPT-2's default configuration with random weights, a prompt of 32 tokens, 64 new ones,
greedy; another prompt at each call. In interleaved rounds: eager, eager again
(``control``), Reprise, and Reprise with its launches left out (``host``, of a library
built with ``REPRISE_MEASURE=ON`` alone). Beside them ``graph``: one step of decoding
captured by hand and launched again and again, which is less than `generate` does.

Writes one JSON object: microseconds a token of each mode (medians), ratio (eager over
Reprise, median of paired rounds, with a bootstrap 95 % interval), control, same_tokens
(of 8 prompts, against eager's), followed (share of ops answered from replays in the
last 4 calls), replays a token, waited_us and host_waited_us (of a token, in which the
program waits for a number of the device's, by Reprise and with launches left out), gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from typing import Any

import models
import reprise
import torch

NEW_TOKENS = 64
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


def generate(model: Any, prompt: torch.Tensor) -> torch.Tensor:
    """The prompt and what follows it."""
    return model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,
        eos_token_id=None,
        pad_token_id=0,
    )


def waited_us(mode: models.Mode, prompt: torch.Tensor) -> float:
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
    return 1e6 * statistics.median(waited[1:]) / NEW_TOKENS


def captured_step(model: Any, prompt: torch.Tensor) -> float:
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
        for _ in range(NEW_TOKENS):
            graph.replay()
            torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - begin) / NEW_TOKENS)
    return statistics.median(times)


@torch.no_grad()
def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All modes."""
    model, prompts = make(arguments)
    expected = [generate(model, prompt).cpu() for prompt in prompts]

    def run(inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return generate(model, inputs[0])

    modes = {
        "eager": models.Mode(run),
        "control": models.Mode(run),
        "reprise": models.Mode(run, enabled=True),
    }
    if models.can_skip_launches():
        modes["host"] = models.Mode(run, enabled=True, launches=False)
    inputs = [(prompts[i % PROMPTS],) for i in range(models.INPUTS)]
    with modes["reprise"] as mode:
        end = time.perf_counter() + arguments.seconds
        while time.perf_counter() < end:
            mode.run(inputs[0])
        found = [mode.run((prompt,)).cpu() for prompt in prompts]
        before = reprise.stats()
        for prompt in prompts[:4]:
            mode.run((prompt,))
        steady = reprise.stats().since(before)
    blocks = models.interleaved(modes, inputs, arguments.rounds, arguments.passes)
    medians = {
        name: [1e6 * statistics.median(block) / NEW_TOKENS for block in blocks[name]]
        for name in modes
    }

    def ratios(of: str) -> list[float]:
        return [e / m for e, m in zip(medians["eager"], medians[of], strict=True)]

    low, high = models.bootstrap(ratios("reprise"))
    waits = {"waited_us": waited_us(modes["reprise"], prompts[0])}
    if "host" in modes:
        waits["host_waited_us"] = waited_us(modes["host"], prompts[0])
    reprise.enable("cuda", policy=arguments.policy)
    print(reprise.explain(), file=sys.stderr, flush=True)
    reprise.disable()
    return {
        "program": "gpt2_generate_static_cache",
        "policy": arguments.policy,
        "same_tokens": all(map(torch.equal, found, expected)),
        **{f"{name}_us": statistics.median(medians[name]) for name in modes},
        **waits,
        "graph_us": captured_step(model, prompts[0]),
        "ratio": statistics.median(ratios("reprise")),
        "ratio_low": low,
        "ratio_high": high,
        "control": statistics.median(ratios("control")),
        "followed": steady.followed / max(steady.ops, 1),
        "ops_a_token": steady.ops / 4 / NEW_TOKENS,
        "replays_a_token": steady.replays / 4 / NEW_TOKENS,
        "squashes_a_token": steady.squashes / 4 / NEW_TOKENS,
        "plan_bytes": steady.plan_bytes,
    }


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=32, help="tokens")
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
    record = measure(arguments) | models.environment(arguments)
    line = json.dumps(record)
    print(line)
    if arguments.output:
        with arguments.output.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
