"""What one call does besides returning results, by eager alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from registry.hooks import Call, hooks
from registry.memory import (
    Unsupported,
    content,
    is_plain,
    look,
    overlaps_itself,
    storage_bytes,
    walk,
)

_MOST_FILLED = 1 << 28  # bytes of free blocks


def seed_generators(device: str, seed: int) -> None:
    """As torch.manual_seed, which takes 2 ms where CUDA is not initialized."""
    torch.default_generator.manual_seed(seed)
    if device == "cuda":
        torch.cuda.manual_seed(seed)


def generator_state(device: str) -> bytes:
    """Of the default generators."""
    states = [torch.get_rng_state()]
    if device == "cuda":
        states.append(torch.cuda.get_rng_state())
    return b"".join(content(state) for state in states)


def switches() -> tuple[Any, ...]:
    """Global switches that an operator might leave changed."""
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        torch.get_float32_matmul_precision(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.mkldnn.enabled,
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
    )


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return (
        storage._cdata,
        storage.data_ptr(),
        storage.nbytes(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )


def _owners(places: list[list[Any]], numbers: frozenset[int]) -> set[int]:
    """The storages of the arguments with these numbers."""
    return {place[0] for i in numbers for place in places[i]}


def _storages(value: Any) -> set[int]:
    """Where the bytes of a nest's tensors begin."""
    return {
        t.untyped_storage().data_ptr()
        for t in walk(value)
        if is_plain(t) and t.untyped_storage().nbytes() > 0
    }


def fill_free_memory(device: str, pattern: int) -> None:
    """What is allocated next holds a byte of choice, as a rule."""
    blocks = _free_blocks() if device == "cuda" else ()
    sizes = itertools.chain(blocks, (16, 64, 256, 1024, 4096, 16384) * 12)
    held = [
        torch.full((size,), pattern, dtype=torch.uint8, device=device) for size in sizes
    ]
    del held


def _reserved() -> int:
    """torch.cuda.memory_reserved, which formats all other statistics: 2 ms in torch 2.15."""
    statistics: Any = torch.cuda.memory_stats_as_nested_dict()
    reserved: int = statistics["reserved_bytes"]["all"]["current"]
    return reserved


def _free_blocks() -> Iterator[int]:
    """Sizes of what the allocator would give out; one that fits exactly is taken first."""
    stream = torch.cuda.current_stream().cuda_stream
    reserved = _reserved()
    left = _MOST_FILLED
    for segment in torch.cuda.memory_snapshot():
        if tuple(segment["segment_pool_id"]) != (0, 0) or segment["stream"] != stream:
            continue
        # Larger requests than a MiB come out of segments of their own kind.
        most = 1 << 20 if segment["segment_type"] == "small" else 1 << 26
        for block in segment["blocks"]:
            if block["state"] != "inactive" or _reserved() > reserved:
                continue
            size = min(block["size"], left)
            left -= size
            yield from [most] * (size // most)
            if size % most:
                yield size % most


def examine(call: Call, device: str) -> dict[str, Any]:
    """Run a call twice and say what it touched.

    `undeclared`: arguments that changed and neither schema nor tables say so, moved
    included. `may_hide`: the tables say that arguments are written which the schema does
    not name; `hidden`: those that were.
    `draws`: a default generator moved. `keeps`: two calls gave out one memory, which is no
    argument's. `repeats`: equal arguments gave equal bits.
    `by_storages`: where the arguments lie in larger storages, it makes other ones.

    `one_op`: an argument is a tensor of the device, and none is conjugated or negated,
    which torch makes good by other operators first.

    Raises what the operator raises.
    """
    hook = hooks()[call.name]
    arguments = call.arguments()
    if any(overlaps_itself(t) for i in hook.writes(call) for t in walk(arguments[i])):
        raise Unsupported("writes an element twice, in no order")
    found: dict[str, Any] = {"undeclared": [], "hidden": [], "keeps": False}
    given = list(walk(call.arguments()))
    found["one_op"] = any(t.device.type == device for t in given) and not any(
        t.is_conj() or t.is_neg() for t in given
    )
    seen = []
    held = []
    for pattern in (0x5A, 0xC3):
        mine = call.copy()
        tensors = [list(walk(argument)) for argument in mine.arguments()]
        places = [[_place(t) for t in group] for group in tensors]
        bits = [[content(storage_bytes(t)) for t in group] for group in tensors]
        written = _owners(places, hook.writes(mine))
        by_schema = _owners(places, hook.written)
        found["may_hide"] = written != by_schema
        global_before = switches()
        seed_generators(device, 77)
        before = generator_state(device)
        fill_free_memory(device, pattern)
        with torch.no_grad():
            result = mine.run()
        found["draws"] = generator_state(device) != before
        if switches() != global_before:
            found["undeclared"].append("global switches")
        for i, group in enumerate(tensors):
            for t, place, was in zip(group, places[i], bits[i], strict=True):
                if _place(t) == place and content(storage_bytes(t)) == was:
                    continue
                if place[0] not in written:
                    found["undeclared"].append(i)
                elif place[0] not in by_schema:
                    found["hidden"].append(i)
        seen.append((look(result), look(tensors)))
        held.append((result, _storages(result) - _storages(tensors)))
    found["keeps"] = bool(held[0][1] & held[1][1])
    found["repeats"] = seen[0] == seen[1]
    for name in ("undeclared", "hidden"):
        found[name] = sorted(set(found[name]), key=str)
    known = hook.cut or hook.by_storages or hook.writes(call)
    found["by_storages"] = not known and _goes_by_storages(call, mine, result)
    return found


def _goes_by_storages(call: Call, run: Call, result: Any) -> bool:
    """Where each argument lies in a larger storage than in that run, it makes others."""
    larger = call.copy(around=64)
    with torch.no_grad():
        other = larger.run()
    return _storages_made(run, result) != _storages_made(larger, other)


def _storages_made(call: Call, result: Any) -> list[tuple[int, int]]:
    """How large those of the results are, which are no argument's, and where in them."""
    given = {t.untyped_storage()._cdata for t in walk(call.arguments())}
    return [
        (t.untyped_storage().nbytes(), t.storage_offset())
        for t in walk(result)
        if is_plain(t) and t.untyped_storage()._cdata not in given
    ]
