"""Gaussian processes, Bayesian optimisation, filters and samplers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


@program("gpytorch")
def gaussian_process(setting: Setting) -> Built:
    """gpytorch: an exact Gaussian process is fitted; the loss is printed at each pass."""
    import gpytorch

    count = setting.pick(20, 1000)
    x = torch.linspace(0, 1, count, device=setting.device)
    y = torch.sin(x * 2 * math.pi) + torch.randn(count, device=setting.device) * 0.2

    class Model(gpytorch.models.ExactGP):
        """As gpytorch's first example has it."""

        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel()
            )

        def forward(self, at: torch.Tensor) -> Any:
            """The prior."""
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(at), self.covar_module(at)
            )

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(setting.device)
    model = Model(likelihood).to(setting.device)
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    @setting.region
    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = -marginal(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def step(_: int) -> Any:
        loss = train()
        scale = model.covar_module.base_kernel.lengthscale.item()
        return loss.item(), scale, model.likelihood.noise.item()

    return Built(step, [model, optimizer])


@program("botorch")
def bayesian_optimisation(setting: Setting) -> Built:
    """botorch: fits a model, maximises an acquisition function, and observes."""
    import warnings

    import botorch
    import gpytorch

    where = {"dtype": torch.double, "device": setting.device}
    bounds = torch.stack([torch.zeros(2, **where), torch.ones(2, **where)])
    first = setting.pick(6, 20)
    start = torch.rand(first, 2, **where)
    restarts, raw, most = setting.pick((2, 8, 5), (8, 128, 50))
    x = start

    def observed(at: torch.Tensor) -> torch.Tensor:
        return 1 - (at - 0.5).norm(dim=-1, keepdim=True)

    # No region: each pass has another model, and botorch's own loops call it.
    def step(i: int) -> Any:
        nonlocal x
        if i % 8 == 0:  # another run
            x = start
        y = observed(x)
        model = botorch.models.SingleTaskGP(
            x, y, outcome_transform=botorch.models.transforms.Standardize(1)
        )
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        better = botorch.acquisition.LogExpectedImprovement(model, best_f=y.max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            botorch.fit_gpytorch_mll(
                marginal, optimizer_kwargs={"options": {"maxiter": most}}
            )
            candidate, value = botorch.optim.optimize_acqf(
                better,
                bounds,
                q=1,
                num_restarts=restarts,
                raw_samples=raw,
                options={"maxiter": most},
            )
        x = torch.cat([x, candidate])
        return candidate, value

    return Built(step, [lambda: x])


@program()
def kalman_filter(setting: Setting) -> Built:
    """A Kalman filter follows many targets through 32 measurements."""
    targets, length = setting.pick((8, 8), (1024, 32))
    step_of = torch.eye(4, device=setting.device)
    step_of[0, 2] = step_of[1, 3] = 0.1
    seen = torch.eye(2, 4, device=setting.device)
    drift = 0.01 * torch.eye(4, device=setting.device)
    noise = 0.1 * torch.eye(2, device=setting.device)
    one = torch.eye(4, device=setting.device)
    batches = setting.batches(lambda: torch.randn(length, targets, 2, 1).cumsum(0))

    @setting.region
    def followed(
        mean: torch.Tensor, spread: torch.Tensor, measurements: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        means = []
        for measured in measurements:
            mean = step_of @ mean
            spread = step_of @ spread @ step_of.T + drift
            wrong = measured - seen @ mean
            total = seen @ spread @ seen.T + noise
            gain = torch.linalg.solve(total, seen @ spread).mT
            mean = mean + gain @ wrong
            spread = (one - gain @ seen) @ spread
            means.append(mean)
        return torch.stack(means), spread

    def step(i: int) -> Any:
        mean = torch.zeros(targets, 4, 1, device=setting.device)
        spread = torch.eye(4, device=setting.device).expand(targets, 4, 4)
        return followed(mean, spread, batches(i))

    return Built(step, [])


@program()
def particle_filter(setting: Setting) -> Built:
    """A particle filter resamples when its effective size, read on the host, is small."""
    count = setting.pick(64, 100000)
    particles = torch.randn(count, 2, device=setting.device)
    weights = torch.full((count,), 1 / count, device=setting.device)
    batches = setting.batches(lambda: torch.randn(2))

    @setting.region
    def move(
        particles: torch.Tensor, weights: torch.Tensor, measured: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        particles = 0.95 * particles + 0.3 * torch.randn_like(particles)
        likely = torch.exp(-((particles - measured) ** 2).sum(1))
        weights = weights * likely + 1e-30
        weights = weights / weights.sum()
        return particles, weights, 1 / (weights**2).sum()

    @setting.region
    def drawn_again(
        particles: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        places = torch.searchsorted(
            weights.cumsum(0), torch.rand(count, device=setting.device)
        )
        particles = particles[places.clamp(max=count - 1)]
        return particles, torch.full_like(weights, 1 / count)

    def step(i: int) -> Any:
        nonlocal particles, weights
        particles, weights, size = move(particles, weights, batches(i))
        if size.item() < count / 2:
            particles, weights = drawn_again(particles, weights)
        return (weights[:, None] * particles).sum(0)

    return Built(step, [lambda: (particles, weights)])


@program()
def hamiltonian_monte_carlo(setting: Setting) -> Built:
    """HMC samples a logistic regression's weights; a proposal is taken by `.item()`."""
    rows, wide, leaps = setting.pick((32, 4, 4), (4096, 64, 10))
    x = torch.randn(rows, wide, device=setting.device)
    y = (x @ torch.randn(wide, device=setting.device) > 0).float()
    position = torch.zeros(wide, device=setting.device)
    size, taken = 0.05 / rows**0.5, 0

    def energy(q: torch.Tensor) -> torch.Tensor:
        fit = nn.functional.binary_cross_entropy_with_logits(x @ q, y, reduction="sum")
        return fit + 0.5 * (q**2).sum()

    def slope(q: torch.Tensor) -> torch.Tensor:
        q = q.detach().requires_grad_(True)
        return torch.autograd.grad(energy(q), q)[0]

    @setting.region
    def proposed(q: torch.Tensor) -> tuple[torch.Tensor, ...]:
        p = torch.randn_like(q)
        before = energy(q) + 0.5 * (p**2).sum()
        p = p - 0.5 * size * slope(q)
        for leap in range(leaps):
            q = q + size * p
            p = p - (size if leap < leaps - 1 else 0.5 * size) * slope(q)
        after = energy(q) + 0.5 * (p**2).sum()
        return q, before, after

    def step(_: int) -> Any:
        nonlocal position, taken
        q, before, after = proposed(position)
        if math.log(torch.rand(()).item()) < (before - after).item():
            position, taken = q, taken + 1
        return taken

    return Built(step, [lambda: position])


@program()
def variational_inference(setting: Setting) -> Built:
    """A Bayesian network by `torch.distributions`: reparameterised weights, the ELBO."""
    wide, rows = setting.pick((8, 32), (128, 512))
    shapes = [(1, wide), (wide,), (wide, 1), (1,)]
    where = {"device": setting.device}
    means = [nn.Parameter(0.1 * torch.randn(shape, **where)) for shape in shapes]
    logs = [nn.Parameter(torch.full(shape, -3.0, **where)) for shape in shapes]
    batches = setting.batches(lambda: torch.rand(rows, 1) * 4 - 2)
    optimizer = torch.optim.Adam([*means, *logs], lr=1e-2)
    normal = torch.distributions.Normal

    @setting.region
    def train(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        drawn, divergence = [], torch.zeros((), **where)
        for mean, log in zip(means, logs, strict=True):
            guess, prior = normal(mean, log.exp()), normal(torch.zeros_like(mean), 1.0)
            drawn.append(guess.rsample())
            divergence = (
                divergence + torch.distributions.kl_divergence(guess, prior).sum()
            )
        out = torch.tanh(x @ drawn[0] + drawn[1]) @ drawn[2] + drawn[3]
        loss = divergence / rows - normal(out, 0.1).log_prob(y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [means, logs, optimizer])
