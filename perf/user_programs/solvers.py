"""Differential equations: by torchdiffeq, by hand, and by networks."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


def neural_ode(setting: Setting, *, adapts: bool, **how: Any) -> Built:
    """torchdiffeq's demonstration: a network learns a spiral.

    ``adapts``: the solver reads its errors, so a region has what it solves alone.
    """
    import torchdiffeq

    rows, length, wide = setting.pick((4, 4, 8), (20, 10, 50))
    net = nn.Sequential(nn.Linear(2, wide), nn.Tanh(), nn.Linear(wide, 2))
    net = net.to(setting.device)
    times = torch.linspace(0, 1, length, device=setting.device)
    batches = setting.batches(
        lambda: (torch.randn(rows, 1, 2), torch.randn(length, rows, 1, 2))
    )
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)

    def slope(_: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return net(y**3)

    def train(start: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        found = torchdiffeq.odeint(slope, start, times, **how)
        loss = torch.mean(torch.abs(found - wanted))
        loss.backward()
        optimizer.step()
        return loss

    if adapts:
        slope = setting.region(slope)
    else:
        train = setting.region(train)

    def step(i: int) -> Any:
        return train(*batches(i)).item()

    return Built(step, [net, optimizer])


@program("torchdiffeq")
def ode_adaptive(setting: Setting) -> Built:
    """torchdiffeq: a neural ODE by dopri5, whose steps adapt to the error."""
    return neural_ode(setting, adapts=True, method="dopri5", rtol=1e-4, atol=1e-5)


@program("torchdiffeq")
def ode_fixed(setting: Setting) -> Built:
    """torchdiffeq: a neural ODE by rk4, with fixed steps."""
    return neural_ode(setting, adapts=False, method="rk4")


@program()
def runge_kutta(setting: Setting) -> Built:
    """Lorenz's equations by RK4 for many starts; eight steps a pass."""
    count = setting.pick(32, 65536)
    state = torch.randn(3, count, device=setting.device)
    dt = 0.005

    def slope(s: torch.Tensor) -> torch.Tensor:
        x, y, z = s
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    @setting.region
    def move(state: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            one = slope(state)
            two = slope(state + 0.5 * dt * one)
            three = slope(state + 0.5 * dt * two)
            four = slope(state + dt * three)
            state = state + dt / 6 * (one + 2 * two + 2 * three + four)
        return state

    def step(_: int) -> Any:
        nonlocal state
        state = move(state)
        return state.mean(1)

    return Built(step, [lambda: state])


@program()
def shallow_water(setting: Setting) -> Built:
    """Shallow water: a pass is 64 operations in place on slices of three fields."""
    side = setting.pick(16, 512)
    height = 1 + 0.1 * torch.rand(side, side, device=setting.device)
    u = torch.zeros(side, side, device=setting.device)
    v = torch.zeros(side, side, device=setting.device)
    dt = 0.01

    @setting.region
    def move() -> None:
        for _ in range(4):
            # 16 operations in place: 4 of each velocity, 4 of the height, 4 of the edges.
            u[1:-1, 1:-1].mul_(0.999)
            u[1:-1, 1:-1].sub_(height[2:, 1:-1], alpha=0.5 * dt)
            u[1:-1, 1:-1].add_(height[:-2, 1:-1], alpha=0.5 * dt)
            u[1:-1, 1:-1].add_(v[1:-1, 1:-1], alpha=0.1 * dt)
            v[1:-1, 1:-1].mul_(0.999)
            v[1:-1, 1:-1].sub_(height[1:-1, 2:], alpha=0.5 * dt)
            v[1:-1, 1:-1].add_(height[1:-1, :-2], alpha=0.5 * dt)
            v[1:-1, 1:-1].sub_(u[1:-1, 1:-1], alpha=0.1 * dt)
            height[1:-1, 1:-1].sub_(u[2:, 1:-1], alpha=0.5 * dt)
            height[1:-1, 1:-1].add_(u[:-2, 1:-1], alpha=0.5 * dt)
            height[1:-1, 1:-1].sub_(v[1:-1, 2:], alpha=0.5 * dt)
            height[1:-1, 1:-1].add_(v[1:-1, :-2], alpha=0.5 * dt)
            height[0].copy_(height[1])
            height[-1].copy_(height[-2])
            height[:, 0].copy_(height[:, 1])
            height[:, -1].copy_(height[:, -2])

    def step(_: int) -> Any:
        move()
        return ()

    return Built(step, [height, u, v])


@program()
def heat_equation(setting: Setting) -> Built:
    """Heat by a convolution until it changes little, which is read at each pass."""
    side = setting.pick(16, 256)
    field = torch.rand(1, 1, side, side, device=setting.device)
    stencil = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]], device=setting.device)

    @setting.region
    def move(field: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = field
        for _ in range(10):
            padded = nn.functional.pad(field, (1, 1, 1, 1), mode="circular")
            field = field + 0.2 * nn.functional.conv2d(padded, stencil[None, None])
        return field, (field - before).abs().max()

    def step(_: int) -> Any:
        nonlocal field
        field, moved = move(field)
        change = moved.item()
        if change < 1e-4:  # another start
            field = torch.rand_like(field)
        return change

    return Built(step, [lambda: field])


@program()
def spectral_turbulence(setting: Setting) -> Built:
    """Two-dimensional turbulence by Fourier transforms, three stages a pass."""
    side = setting.pick(16, 256)
    k = torch.fft.fftfreq(side, 1 / side, device=setting.device)
    kx, ky = torch.meshgrid(k, k[: side // 2 + 1].abs(), indexing="ij")
    square = kx**2 + ky**2
    inverse = torch.where(square > 0, 1 / square.clamp(min=1), 0.0)
    sharp = ((kx.abs() < side / 3) & (ky < side / 3)).to(torch.float32)
    curl = torch.fft.rfft2(torch.randn(side, side, device=setting.device))
    dt, damping = 1e-3, 1e-3

    def slope(w: torch.Tensor) -> torch.Tensor:
        stream = w * inverse
        u = torch.fft.irfft2(1j * ky * stream, s=(side, side))
        v = torch.fft.irfft2(-1j * kx * stream, s=(side, side))
        wx = torch.fft.irfft2(1j * kx * w, s=(side, side))
        wy = torch.fft.irfft2(1j * ky * w, s=(side, side))
        return sharp * -torch.fft.rfft2(u * wx + v * wy) - damping * square * w

    @setting.region
    def move(curl: torch.Tensor) -> torch.Tensor:
        one = curl + dt * slope(curl)
        two = 0.75 * curl + 0.25 * (one + dt * slope(one))
        return curl / 3 + 2 / 3 * (two + dt * slope(two))

    def step(_: int) -> Any:
        nonlocal curl
        curl = move(curl)
        return torch.fft.irfft2(curl, s=(side, side)).std()

    return Built(step, [lambda: curl])


@program()
def physics_informed(setting: Setting) -> Built:
    """A network solves Burgers' equation: second derivatives by `autograd.grad`."""
    wide, depth, count = setting.pick((8, 2, 32), (50, 8, 4096))
    sizes = [2, *[wide] * depth]
    layers = [
        part
        for a, b in itertools.pairwise(sizes)
        for part in (nn.Linear(a, b), nn.Tanh())
    ]
    net = nn.Sequential(*layers, nn.Linear(wide, 1)).to(setting.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def slope(of: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(of, at, torch.ones_like(of), create_graph=True)[0]

    @setting.region
    def train() -> torch.Tensor:
        t = torch.rand(count, 1, device=setting.device, requires_grad=True)
        x = torch.rand(count, 1, device=setting.device) * 2 - 1
        x.requires_grad_(True)
        u = net(torch.cat([t, x], 1))
        ux = slope(u, x)
        left = slope(u, t) + u * ux - 0.01 / torch.pi * slope(ux, x)
        start = net(torch.cat([torch.zeros_like(t), x], 1)) + torch.sin(torch.pi * x)
        loss = (left**2).mean() + (start**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(_: int) -> Any:
        return train()

    return Built(step, [net, optimizer])
