"""What torch offers beside layers: torch.func, autocast, LBFGS, parametrisations."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


def small_net(setting: Setting, rows: int) -> tuple[nn.Sequential, Any]:
    """A convolutional network for small pictures, and batches for it."""
    wide = setting.pick(4, 32)
    model = nn.Sequential(
        nn.Conv2d(1, wide, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(wide, 2 * wide, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * wide * 49, 10),
    )
    batches = setting.batches(
        lambda: (torch.randn(rows, 1, 28, 28), torch.randint(10, (rows,)))
    )
    return model.to(setting.device), batches


@program()
def per_sample_gradients(setting: Setting) -> Built:
    """torch.func: gradients of each sample are clipped, and noise is added (DP-SGD)."""
    from torch.func import functional_call, grad, vmap

    model, batches = small_net(setting, setting.pick(4, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def loss_of(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = functional_call(model, weights, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(scores, y.unsqueeze(0))

    each = vmap(grad(loss_of), in_dims=(None, 0, 0))

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weights = {name: p.detach() for name, p in model.named_parameters()}
        slopes = each(weights, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in slopes.values()]).norm(
            dim=0
        )
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for name, p in model.named_parameters():
            total = torch.einsum("n,n...->...", scale, slopes[name])
            p.grad = (total + 0.1 * torch.randn_like(p)) / len(x)
        optimizer.step()
        return norms

    def step(i: int) -> Any:
        return train(*batches(i))

    return Built(step, [model, optimizer])


@program()
def vmap_ensemble(setting: Setting) -> Built:
    """torch.func: an ensemble of networks is trained at once by `vmap`."""
    from torch.func import functional_call, grad_and_value, stack_module_state, vmap

    nets = [small_net(setting, 1)[0] for _ in range(setting.pick(3, 8))]
    base = copy.deepcopy(nets[0]).to("meta")
    weights, _ = stack_module_state(nets)
    _, batches = small_net(setting, setting.pick(4, 64))

    def loss_of(own: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(functional_call(base, own, (x,)), y)

    every = vmap(grad_and_value(loss_of), in_dims=(0, None, None))

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        slopes, losses = every(weights, x, y)
        with torch.no_grad():
            for name, value in weights.items():
                value.sub_(slopes[name], alpha=0.05)
        return losses.detach()

    def step(i: int) -> Any:
        return train(*batches(i))

    return Built(step, [weights])


@program()
def meta_learning(setting: Setting) -> Built:
    """MAML on sines: inner steps by `torch.func.grad`, an outer step by Adam."""
    from torch.func import functional_call, grad, vmap

    wide, tasks, shots = setting.pick((8, 3, 4), (40, 25, 10))
    layers = [nn.Linear(1, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(wide, 1)).to(setting.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(functional_call(model, weights, (x,)), y)

    def adapted(
        weights: Any, x: Any, y: Any, x_after: Any, y_after: Any
    ) -> torch.Tensor:
        for _ in range(2):
            slopes = grad(loss_of)(weights, x, y)
            weights = {name: w - 0.01 * slopes[name] for name, w in weights.items()}
        return loss_of(weights, x_after, y_after)

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weights = dict(model.named_parameters())
        losses = vmap(adapted, in_dims=(None, 0, 0, 0, 0))(
            weights, x[0], y[0], x[1], y[1]
        )
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        return losses.detach()

    def step(_: int) -> Any:
        height = torch.rand(tasks, 1, 1, device=setting.device) * 4.9 + 0.1
        phase = torch.rand(tasks, 1, 1, device=setting.device) * torch.pi
        x = torch.rand(2, tasks, shots, 1, device=setting.device) * 10 - 5
        return train(x, height * torch.sin(x + phase))

    return Built(step, [model, optimizer])


@program()
def hessian_vector(setting: Setting) -> Built:
    """The largest curvature of a loss: power iteration on Hessian-vector products."""
    from torch.func import functional_call, grad, jvp

    model, batches = small_net(setting, setting.pick(4, 128))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    vector = {name: torch.randn_like(p) for name, p in weights.items()}

    @setting.region
    def product_of(vector: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        def loss_of(own: Any) -> torch.Tensor:
            return nn.functional.cross_entropy(functional_call(model, own, (x,)), y)

        _, product = jvp(grad(loss_of), (weights,), (vector,))
        size = torch.stack([v.norm() for v in product.values()]).norm()
        return {name: v / (size + 1e-9) for name, v in product.items()}, size

    def step(i: int) -> Any:
        nonlocal vector
        vector, size = product_of(vector, *batches(i))
        return size.item()

    return Built(step, [lambda: vector])


@program()
def spectral_norm(setting: Setting) -> Built:
    """`parametrizations.spectral_norm`: a critic is trained by the hinge loss."""
    from torch.nn.utils import parametrizations

    wide, rows = setting.pick((8, 4), (64, 64))
    model = nn.Sequential(
        parametrizations.spectral_norm(nn.Conv2d(3, wide, 3, 2, 1)),
        nn.LeakyReLU(0.2),
        parametrizations.spectral_norm(nn.Conv2d(wide, 2 * wide, 3, 2, 1)),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        parametrizations.spectral_norm(nn.Linear(2 * wide * 64, 1)),
    )
    model = model.to(setting.device).train()
    batches = setting.batches(lambda: torch.randn(2, rows, 3, 32, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-4, betas=(0.0, 0.9))

    @setting.region
    def train(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        loss = torch.relu(1 - model(real)).mean() + torch.relu(1 + model(fake)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        real, fake = batches(i)
        return train(real, fake)

    return Built(step, [model, optimizer])


@program()
def amp_accumulation(setting: Setting) -> Built:
    """Autocast with `GradScaler`: four batches are accumulated, gradients clipped."""
    model, batches = small_net(setting, setting.pick(4, 64))
    kind = setting.device.split(":")[0]
    dtype = torch.float16 if kind == "cuda" else torch.bfloat16
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(kind)

    @setting.region
    def learn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(kind, dtype):
            loss = nn.functional.cross_entropy(model(x), y) / 4
        scaler.scale(loss).backward()
        return loss

    def step(i: int) -> Any:
        optimizer.zero_grad()
        for part in range(4):
            loss = learn(*batches(4 * i + part))
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return Built(step, [model, optimizer, scaler])


@program()
def checkpointed(setting: Setting) -> Built:
    """Activations are computed again in the backward pass by `checkpoint`, with dropout."""
    from torch.utils.checkpoint import checkpoint

    wide, heads, depth, rows, length = setting.pick(
        (16, 2, 2, 2, 6), (512, 8, 6, 8, 128)
    )
    model = nn.ModuleList(
        nn.TransformerEncoderLayer(wide, heads, 4 * wide, batch_first=True)
        for _ in range(depth)
    )
    model = model.to(setting.device).train()
    batches = setting.batches(lambda: torch.randn(rows, length, wide))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    @setting.region
    def train(x: torch.Tensor) -> torch.Tensor:
        h = x
        for layer in model:
            h = checkpoint(layer, h, use_reentrant=False)
        loss = nn.functional.mse_loss(h, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [model, optimizer])


@program()
def lbfgs(setting: Setting) -> Built:
    """LBFGS with a strong Wolfe line search fits a network to a batch."""
    wide, rows = setting.pick((8, 16), (128, 1024))
    model = nn.Sequential(nn.Linear(4, wide), nn.Tanh(), nn.Linear(wide, 1))
    model = model.to(setting.device)
    batches = setting.batches(lambda: torch.randn(rows, 4))
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        lr=1.0,
        max_iter=setting.pick(3, 10),
        line_search_fn="strong_wolfe",
    )

    @setting.region
    def learn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    def step(i: int) -> Any:
        x = batches(i)
        y = x.prod(1, keepdim=True)
        return optimizer.step(lambda: learn(x, y)).item()

    return Built(step, [model, optimizer])


class Rounded(nn.Module):
    """A linear layer whose weights and inputs are rounded as in eight bits."""

    def __init__(self, enter: int, leave: int) -> None:
        super().__init__()
        self.layer = nn.Linear(enter, leave)
        self.register_buffer("largest", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, enter)."""
        if self.training:
            self.largest.lerp_(x.detach().abs().amax(), 0.01)
        scale = self.largest.clamp(min=1e-8) / 127
        zero = torch.zeros_like(scale, dtype=torch.int32)
        x = torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)
        weight = self.layer.weight
        scales = weight.detach().abs().amax(1).clamp(min=1e-8) / 127
        zeros = torch.zeros_like(scales, dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(
            weight, scales, zeros, 0, -128, 127
        )
        return nn.functional.linear(x, weight, self.layer.bias)


@program()
def quantised_training(setting: Setting) -> Built:
    """Training that is aware of quantisation: weights and inputs are rounded."""
    wide, rows = setting.pick((16, 8), (512, 128))
    model = nn.Sequential(
        Rounded(32, wide), nn.ReLU(), Rounded(wide, wide), nn.ReLU(), Rounded(wide, 10)
    )
    model = model.to(setting.device).train()
    batches = setting.batches(
        lambda: (torch.randn(rows, 32), torch.randint(10, (rows,)))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(*batches(i))

    return Built(step, [model, optimizer])


@program()
def recommender(setting: Setting) -> Built:
    """A recommender of many sparse features: embedding bags and Adagrad."""
    tables, size, wide, rows = setting.pick((3, 50, 8, 8), (26, 10000, 64, 1024))
    bags = nn.ModuleList(nn.EmbeddingBag(size, wide, mode="sum") for _ in range(tables))
    dense = nn.Sequential(nn.Linear(13, wide), nn.ReLU(), nn.Linear(wide, wide))
    pairs = (tables + 1) * tables // 2
    top = nn.Sequential(nn.Linear(wide + pairs, wide), nn.ReLU(), nn.Linear(wide, 1))
    model = nn.ModuleList([bags, dense, top]).to(setting.device).train()
    i, j = torch.triu_indices(tables + 1, tables + 1, 1, device=setting.device)

    def batch() -> tuple[torch.Tensor, ...]:
        numbers = torch.rand(rows, 13)
        chosen = torch.randint(size, (tables, rows, 4))
        return numbers, chosen, torch.randint(2, (rows, 1)).float()

    batches = setting.batches(batch)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)

    @setting.region
    def train(
        numbers: torch.Tensor, chosen: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        x = dense(numbers)
        every = torch.stack(
            [x, *[bag(c) for bag, c in zip(bags, chosen, strict=True)]], 1
        )
        mixed = torch.bmm(every, every.mT)[:, i, j]
        scores = top(torch.cat([x, mixed], 1))
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(number: int) -> Any:
        return train(*batches(number))

    return Built(step, [model, optimizer])
