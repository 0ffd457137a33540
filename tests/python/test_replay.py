"""Models replayed on fresh inputs, all outputs kept: eager's bits, every one."""

from __future__ import annotations

from collections.abc import Iterator

import models
import pytest
import torch
import torchvision
from torch import nn
from watching import assert_same_bits, check, randoms, settle, watched


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def test_an_mlp(device: str) -> None:
    model = models.mlp().to(device)
    stats = check(device, model, randoms(device, 4, 32))
    assert stats.squashes <= stats.replays


def test_an_mlp_that_records_a_graph(device: str) -> None:
    model = models.mlp().to(device)
    with torch.enable_grad():
        check(device, model, randoms(device, 4, 32))


def test_a_cnn_with_updates_in_place(device: str) -> None:
    model = models.SmallCnn().eval().to(device)
    check(device, model, randoms(device, 2, 3, 12, 12))


def test_a_transformer(device: str) -> None:
    model = models.SmallTransformer().eval().to(device)
    ids = [torch.randint(50, (2, 12), device=device) for _ in range(24)]
    check(device, model, ids)


@pytest.mark.parametrize("fused", [True, False])
def test_encoder_layers_of_torch(device: str, fused: bool) -> None:
    model = models.encoder().to(device)
    with torch.set_grad_enabled(not fused):
        check(device, model, randoms(device, 2, 7, 32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes(device: str, dtype: torch.dtype) -> None:
    model = models.mlp().to(device, dtype)
    check(device, model, randoms(device, 4, 32, dtype=dtype))


def test_a_resnet18(device: str) -> None:
    model = torchvision.models.resnet18(num_classes=10).eval().to(device)
    check(device, model, randoms(device, 1, 3, 40, 40, calls=22))


def test_fifty_outputs_of_fifty_calls(device: str) -> None:
    model = models.mlp().to(device)
    stats = check(device, model, randoms(device, 4, 32, calls=50))
    assert stats.replays >= 25


def test_replays_follow_most_ops_once_settled(device: str) -> None:
    """A loop without outputs kept: after settling, nearly every op is followed."""
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32)
    with watched(device) as session:
        fresh = iter(randoms(device, 4, 32))
        settle(session, lambda: model(next(fresh)))
        before = session.stats()
        for x in inputs:
            found = model(x)
        after = session.stats().since(before)
    assert after.followed > 0.8 * after.ops
    assert_same_bits(found, model(inputs[-1]))


def test_assignments_to_parts(device: str) -> None:
    """Each ends with a copy of the part to itself, which launches nothing."""
    weight = torch.randn(4, 32, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        y[0] += weight[1]
        y[:, 1] *= 0.5
        z = torch.tanh(y @ weight.t())
        z[1:] -= 0.25
        return z + 1

    stats = check(device, step, randoms(device, 4, 32, calls=32))
    assert stats.replays >= 10
    with watched(device) as session:
        fresh = iter(randoms(device, 4, 32))
        settle(session, lambda: step(next(fresh)))
        cuts = session.explain().to_dict()["cuts"]
    assert not any("launch" in cut["reason"] for cut in cuts), cuts


def test_inputs_at_other_addresses_and_alignments(device: str) -> None:
    """Views of one buffer that slide: aligned ones, then all off by one element."""
    model = models.mlp().to(device)
    pool = torch.randn(8192, device=device)
    starts = [128 * n for n in range(20)] + [128 * n + 1 for n in range(20)]
    check(device, model, [pool[at : at + 128].view(4, 32) for at in starts])


def test_one_input_buffer_with_new_contents(device: str) -> None:
    """What feeds a hand-written CUDA graph: the same memory, refilled each time."""
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32)
    buffer = torch.empty(4, 32, device=device)
    kept = []
    with watched(device) as session:
        settle(session, lambda: model(buffer.copy_(inputs[0])))
        for x in inputs:
            kept.append(model(buffer.copy_(x)))
        assert session.stats().replays > 0
    assert_same_bits(kept, [model(x) for x in inputs])


def test_several_results_of_many_kinds(device: str) -> None:
    """Tuples, lists, undefined tensors, integers and bools among the results."""

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        h = x * 2
        low, high = h.split(2)
        values, places = h.topk(3)
        normed, mean, rstd = torch.native_layer_norm(h, (16,), None, None, 1e-5)
        return [low + 1, high - 1, values, places, normed, mean, rstd, h > 0]

    check(device, step, randoms(device, 4, 16))


def test_empty_tensors_and_scalars(device: str) -> None:
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        nothing = x[:0] * 3
        total = x.sum()
        return [nothing, total, total * x.mean(), x + total]

    check(device, step, randoms(device, 4, 16))


def test_factories_inside_the_trace(device: str) -> None:
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        zeros = torch.zeros(4, 16, device=device)
        zeros.add_(x)
        steps = torch.arange(16, device=device)
        return [zeros * steps, torch.ones_like(x) - x, x.to(torch.float64)]

    check(device, step, randoms(device, 4, 16, calls=48))


def test_nan_infinity_and_negative_zero_keep_their_bits(device: str) -> None:
    inputs = randoms(device, 4, 16)
    for x in inputs:
        x[0, :4] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    check(device, lambda x: [x * 1.5, torch.relu(x), x - x], inputs)


def test_two_models_alternate(device: str) -> None:
    first = models.mlp().to(device)
    second = models.SmallCnn().eval().to(device)
    rows = randoms(device, 4, 32, calls=30)
    images = randoms(device, 2, 3, 12, 12, calls=30)
    check(
        device,
        lambda pair: [first(pair[0]), second(pair[1])],
        list(zip(rows, images, strict=True)),
    )


def test_two_models_in_no_order(device: str) -> None:
    """Which model comes next is not what came next before."""
    pair = [models.mlp().to(device), models.mlp(layers=3).to(device)]
    order = [int(bit) for bit in f"{0x1B4E93A6D205:048b}"]
    inputs = list(zip(order, randoms(device, 4, 32, calls=48), strict=True))
    check(device, lambda pick: pair[pick[0]](pick[1]), inputs)


def test_a_model_that_feeds_itself(device: str) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    model.eval().to(device)
    start = torch.randn(4, 16, device=device)

    def run() -> list[torch.Tensor]:
        trail = [start]
        for _ in range(40):
            trail.append(model(trail[-1]) + trail[-1])
        return trail

    with watched(device) as session:
        x = start
        for _ in range(10):
            x = model(x) + x
            assert session.wait(120)
        found = run()
        assert session.stats().replays > 0, str(session.explain())
    assert_same_bits(found, run())


def test_generation_token_by_token(device: str) -> None:
    """Host reads between traces, and a length that grows."""
    model = models.SmallTransformer().eval().to(device)

    def generate() -> torch.Tensor:
        ids = torch.tensor([[1, 2, 3]], device=device)
        for _ in range(12):
            best = model(ids)[:, -1].argmax(-1, keepdim=True)
            if best.item() < 0:
                break
            ids = torch.cat([ids, best], dim=1)
        return ids

    with watched(device) as session:
        settle(session, generate)
        found = generate()
        assert session.stats().replays > 0, str(session.explain())
    assert_same_bits(found, generate())
