"""Linear algebra, optimisation and clustering by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


@program()
def k_means(setting: Setting) -> Built:
    """k-means: a pass is a round; `.item()` says whether it has converged."""
    count, wide, clusters = setting.pick((64, 4, 4), (50000, 32, 64))
    points = torch.randn(count, wide, device=setting.device)
    centres = points[:clusters].clone()
    ones = torch.ones(count, device=setting.device)
    rounds = 0

    @setting.region
    def moved_by_means(centres: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nearest = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        members = torch.zeros(clusters, device=setting.device).index_add_(
            0, nearest, ones
        )
        moved = torch.where(members[:, None] > 0, sums / members[:, None], centres)
        return moved, (moved - centres).norm()

    def step(_: int) -> Any:
        nonlocal centres, rounds
        moved, norm = moved_by_means(centres)
        shift = norm.item()
        centres, rounds = moved, rounds + 1
        if shift < 1e-3:  # another start
            centres = points[torch.randint(count, (clusters,), device=setting.device)]
        return shift

    return Built(step, [lambda: (centres, rounds)])


@program()
def sinkhorn(setting: Setting) -> Built:
    """Sinkhorn's optimal transport of two clouds, in logarithms, 20 rounds a pass."""
    count, rounds = setting.pick((16, 5), (512, 20))
    batches = setting.batches(lambda: torch.randn(2, count, 2))
    log_mass = -torch.log(torch.tensor(float(count), device=setting.device))

    @setting.region
    def transport(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        cost = torch.cdist(x, y) ** 2
        f, g = torch.zeros_like(cost[0]), torch.zeros_like(cost[0])
        for _ in range(rounds):
            f = -0.1 * torch.logsumexp((g - cost) / 0.1 + log_mass, 1)
            g = -0.1 * torch.logsumexp((f[:, None] - cost) / 0.1 + log_mass, 0)
        plan = torch.exp((f[:, None] + g - cost) / 0.1 + 2 * log_mass)
        return (plan * cost).sum()

    def step(i: int) -> Any:
        x, y = batches(i)
        return transport(x, y)

    return Built(step, [])


@program()
def conjugate_gradient(setting: Setting) -> Built:
    """Conjugate gradients on a new right side, until the residual, read each time, is small."""
    size = setting.pick(24, 1024)
    half = torch.randn(size, size, device=setting.device) / size**0.5
    matrix = half @ half.T + torch.eye(size, device=setting.device)
    batches = setting.batches(lambda: torch.randn(size))

    @setting.region
    def advance(
        x: torch.Tensor, r: torch.Tensor, p: torch.Tensor, square: torch.Tensor
    ) -> torch.Tensor:
        ap = matrix @ p
        alpha = square / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        return r @ r

    def step(i: int) -> Any:
        b = batches(i)
        x = torch.zeros_like(b)
        r = b - matrix @ x
        p, square = r.clone(), r @ r
        rounds = 0
        while rounds < 200:
            rounds += 1
            after = advance(x, r, p, square)
            if after.sqrt().item() < 1e-4:
                break
            p = r + after / square * p
            square = after
        return x, rounds

    return Built(step, [])


@program()
def power_iteration(setting: Setting) -> Built:
    """PageRank on a sparse matrix, until it changes little."""
    nodes, edges = setting.pick((32, 128), (20000, 200000))
    where = torch.randint(nodes, (2, edges))
    links = torch.sparse_coo_tensor(where, torch.ones(edges), (nodes, nodes)).coalesce()
    out = torch.sparse.sum(links, 0).to_dense().clamp(min=1)
    values = links.values() / out[links.indices()[1]]
    matrix = torch.sparse_coo_tensor(links.indices(), values, (nodes, nodes))
    matrix = matrix.to(setting.device).to_sparse_csr()
    batches = setting.batches(lambda: torch.rand(nodes))

    @setting.region
    def advance(rank: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        moved = 0.85 * (matrix @ rank) + 0.15 / nodes
        return moved, (moved - rank).abs().sum()

    def step(i: int) -> Any:
        rank = batches(i)
        rank = rank / rank.sum()
        for _ in range(50):
            rank, change = advance(rank)
            if change < 1e-6:
                break
        return rank

    return Built(step, [])


@program()
def proximal_gradient(setting: Setting) -> Built:
    """The lasso by FISTA, with a momentum that is computed in Python."""
    rows, wide = setting.pick((16, 32), (2000, 4000))
    matrix = torch.randn(rows, wide, device=setting.device) / rows**0.5
    wanted = torch.randn(rows, device=setting.device)
    size = float(1 / torch.linalg.matrix_norm(matrix, 2) ** 2)
    x = z = torch.zeros(wide, device=setting.device)
    t = 1.0

    @setting.region
    def advance(
        x: torch.Tensor, z: torch.Tensor, momentum: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        slope = matrix.T @ (matrix @ z - wanted)
        moved = nn.functional.softshrink(z - size * slope, 0.05 * size)
        return moved, moved + momentum * (moved - x)

    def step(_: int) -> Any:
        nonlocal x, z, t
        after = (1 + (1 + 4 * t * t) ** 0.5) / 2
        x, z = advance(x, z, (t - 1) / after)
        t = after
        return (x != 0).sum()

    return Built(step, [lambda: (x, z, t)])


@program()
def alternating_least_squares(setting: Setting) -> Built:
    """Matrix factorisation of ratings: each side is solved by Cholesky in turn."""
    users, things, rank = setting.pick((12, 10, 3), (1000, 800, 32))
    ratings = torch.rand(users, things, device=setting.device)
    known = (torch.rand(users, things, device=setting.device) < 0.3).float()
    left = torch.randn(users, rank, device=setting.device)
    right = torch.randn(things, rank, device=setting.device)
    ridge = 0.1 * torch.eye(rank, device=setting.device)

    def solved(other: torch.Tensor, seen: torch.Tensor, said: torch.Tensor) -> Any:
        normal = torch.einsum("ut,tr,ts->urs", seen, other, other) + ridge
        side = (seen * said) @ other
        return torch.cholesky_solve(side[..., None], torch.linalg.cholesky(normal))[
            ..., 0
        ]

    @setting.region
    def advance(right: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = solved(right, known, ratings)
        right = solved(left, known.T, ratings.T)
        wrong = known * (ratings - left @ right.T)
        return left, right, ((wrong**2).sum() / known.sum()).sqrt()

    def step(_: int) -> Any:
        nonlocal left, right
        left, right, error = advance(right)
        return error.item()

    return Built(step, [lambda: (left, right)])


@program()
def evolution_strategy(setting: Setting) -> Built:
    """An evolution strategy: a population is drawn, ranked and averaged."""
    wide, count = setting.pick((8, 16), (256, 4096))
    mean = torch.randn(wide, device=setting.device)
    optimizer = torch.optim.SGD([nn.Parameter(mean)], lr=0.05, momentum=0.9)
    (mean,) = optimizer.param_groups[0]["params"]

    @setting.region
    @torch.no_grad()
    def advance() -> torch.Tensor:
        noise = torch.randn(count, wide, device=setting.device)
        noise = torch.cat([noise, -noise])
        at = mean + 0.1 * noise
        score = -(100 * (at[:, 1:] - at[:, :-1] ** 2) ** 2 + (1 - at[:, :-1]) ** 2).sum(
            1
        )
        rank = score.argsort().argsort().float() / (len(score) - 1) - 0.5
        mean.grad = -(rank @ noise) / (len(score) * 0.1)
        optimizer.step()
        return score.max()

    def step(_: int) -> Any:
        return advance()

    return Built(step, [mean, optimizer])
