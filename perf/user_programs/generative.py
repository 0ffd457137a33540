"""Models that make data: diffusion, GAN, VAE, flow, NeRF."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


class ResBlock(nn.Module):
    """Two convolutions that know the time."""

    def __init__(self, wide: int, out: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(4, wide), nn.SiLU(), nn.Conv2d(wide, out, 3, padding=1)
        )
        self.time = nn.Linear(time, out)
        self.second = nn.Sequential(
            nn.GroupNorm(4, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1)
        )
        self.skip = nn.Conv2d(wide, out, 1) if wide != out else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Map (batch, wide, height, width)."""
        h = self.first(x) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(h)


class Unet(nn.Module):
    """A U-Net of three levels, as tutorials of diffusion write it."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        time = 4 * wide
        sizes = [wide, 2 * wide, 4 * wide]
        self.wide = wide
        self.time = nn.Sequential(
            nn.Linear(wide, time), nn.SiLU(), nn.Linear(time, time)
        )
        self.enter = nn.Conv2d(3, wide, 3, padding=1)
        self.down = nn.ModuleList(
            ResBlock(a, b, time) for a, b in zip([wide, *sizes], sizes, strict=False)
        )
        self.attend = nn.MultiheadAttention(sizes[-1], 4, batch_first=True)
        self.middle = ResBlock(sizes[-1], sizes[-1], time)
        self.up = nn.ModuleList(
            ResBlock(2 * b, a, time)
            for a, b in zip([wide, *sizes], sizes, strict=False)
        )
        self.leave = nn.Sequential(
            nn.GroupNorm(4, wide), nn.SiLU(), nn.Conv2d(wide, 3, 1)
        )

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The noise in (batch, 3, height, width) at times (batch,)."""
        half = self.wide // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = t[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        h = self.enter(x)
        kept = []
        for block in self.down:
            h = block(h, time)
            kept.append(h)
            h = nn.functional.avg_pool2d(h, 2)
        h = self.middle(h, time)
        flat = h.flatten(2).transpose(1, 2)
        h = h + self.attend(flat, flat, flat, need_weights=False)[0].mT.view_as(h)
        for block in reversed(self.up):
            h = nn.functional.interpolate(h, scale_factor=2, mode="nearest")
            h = block(torch.cat([h, kept.pop()], 1), time)
        return self.leave(h)


def noise_levels(setting: Setting) -> torch.Tensor:
    """What is left of a picture at each of 1000 times."""
    return torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(setting.device)


@program()
def diffusion_training(setting: Setting) -> Built:
    """A U-Net learns to predict noise, with an average of its weights."""
    model = Unet(setting.pick(8, 64)).to(setting.device).train()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
    )
    left = noise_levels(setting)
    rows, side = setting.pick((2, 16), (32, 32))
    batches = setting.batches(lambda: torch.randn(rows, 3, side, side))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    @setting.region
    def train(x: torch.Tensor) -> torch.Tensor:
        t = torch.randint(0, 1000, (rows,), device=setting.device)
        noise = torch.randn_like(x)
        kept = left[t][:, None, None, None]
        loss = nn.functional.mse_loss(
            model(kept.sqrt() * x + (1 - kept).sqrt() * noise, t), noise
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def step(i: int) -> Any:
        loss = train(batches(i))
        average.update_parameters(model)
        return loss.detach()

    return Built(step, [model, average, optimizer])


@program()
def diffusion_sampling(setting: Setting) -> Built:
    """DDPM: pictures are made of noise, with a U-Net at each of 20 steps."""
    model = Unet(setting.pick(8, 64)).to(setting.device).eval()
    left = noise_levels(setting)
    rows, side, steps = setting.pick((1, 16, 4), (8, 32, 20))
    times = torch.linspace(999, 0, steps).long().tolist()
    noise_of = setting.region(model)

    @torch.no_grad()
    def step(_: int) -> Any:
        x = torch.randn(rows, 3, side, side, device=setting.device)
        for t, after in zip(times, [*times[1:], None], strict=True):
            now = left[t]
            then = left[after] if after is not None else torch.ones_like(now)
            noise = noise_of(x, torch.full((rows,), t, device=setting.device))
            start = ((x - (1 - now).sqrt() * noise) / now.sqrt()).clamp(-1, 1)
            spread = ((1 - then) / (1 - now) * (1 - now / then)).sqrt()
            x = then.sqrt() * start + (1 - then - spread**2).clamp(min=0).sqrt() * noise
            if after is not None:
                x = x + spread * torch.randn_like(x)
        return x

    return Built(step, [model])


@program()
def gan(setting: Setting) -> Built:
    """DCGAN: two networks and two optimizers; both losses are read at each step."""
    wide, rows = setting.pick((4, 4), (64, 64))
    maker = nn.Sequential(
        nn.ConvTranspose2d(100, 4 * wide, 4, 1, 0, bias=False),
        nn.BatchNorm2d(4 * wide),
        nn.ReLU(True),
        nn.ConvTranspose2d(4 * wide, 2 * wide, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * wide),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * wide, wide, 4, 2, 1, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU(True),
        nn.ConvTranspose2d(wide, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    ).to(setting.device)
    critic = nn.Sequential(
        nn.Conv2d(3, wide, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(wide, 2 * wide, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * wide),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * wide, 1, 8, 1, 0, bias=False),
        nn.Flatten(0),
    ).to(setting.device)
    batches = setting.batches(lambda: torch.rand(rows, 3, 32, 32) * 2 - 1)
    makes = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judges = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    loss_of = nn.BCEWithLogitsLoss()

    @setting.region
    def train(pictures: torch.Tensor) -> tuple[torch.Tensor, ...]:
        critic.zero_grad()
        real = critic(pictures)
        true = loss_of(real, torch.full_like(real, 1.0))
        true.backward()
        fake = maker(torch.randn(rows, 100, 1, 1, device=setting.device))
        found = critic(fake.detach())
        false = loss_of(found, torch.full_like(found, 0.0))
        false.backward()
        judges.step()
        maker.zero_grad()
        found = critic(fake)
        loss = loss_of(found, torch.full_like(found, 1.0))
        loss.backward()
        makes.step()
        return true, false, loss

    def step(i: int) -> Any:
        true, false, loss = train(batches(i))
        return (true + false).item(), loss.item()

    return Built(step, [maker, critic, makes, judges])


@program()
def autoencoder(setting: Setting) -> Built:
    """PyTorch's example of a variational autoencoder."""
    wide, rows = setting.pick((32, 8), (400, 128))
    enter, mean = nn.Linear(784, wide), nn.Linear(wide, 20)
    spread, back, leave = nn.Linear(wide, 20), nn.Linear(20, wide), nn.Linear(wide, 784)
    model = nn.ModuleList([enter, mean, spread, back, leave]).to(setting.device)
    batches = setting.batches(lambda: torch.rand(rows, 1, 28, 28))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total = 0.0

    @setting.region
    def learn(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        h = torch.relu(enter(x))
        mu, logs = mean(h), spread(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logs)
        found = torch.sigmoid(leave(torch.relu(back(z))))
        loss = nn.functional.binary_cross_entropy(found, x, reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + logs - mu.pow(2) - logs.exp())
        loss.backward()
        return loss

    update = setting.region(optimizer.step)

    def step(i: int) -> Any:
        nonlocal total
        loss = learn(batches(i).view(-1, 784))
        total += loss.item()
        update()
        return total

    return Built(step, [model, optimizer])


@program()
def normalising_flow(setting: Setting) -> Built:
    """RealNVP: coupling layers learn a density by `torch.distributions`."""
    depth, wide, rows = setting.pick((2, 16, 32), (8, 128, 512))
    nets = nn.ModuleList(
        nn.Sequential(
            nn.Linear(2, wide),
            nn.ReLU(),
            nn.Linear(wide, wide),
            nn.ReLU(),
            nn.Linear(wide, 4),
        )
        for _ in range(depth)
    ).to(setting.device)
    masks = torch.tensor([[0.0, 1.0], [1.0, 0.0]] * (depth // 2), device=setting.device)
    base = torch.distributions.MultivariateNormal(
        torch.zeros(2, device=setting.device), torch.eye(2, device=setting.device)
    )
    batches = setting.batches(lambda: torch.randn(rows, 2).cumsum(1).sin())
    optimizer = torch.optim.Adam(nets.parameters(), lr=1e-4)

    @setting.region
    def train(z: torch.Tensor) -> torch.Tensor:
        log_det = z.new_zeros(z.shape[0])
        for net, mask in zip(reversed(nets), reversed(masks), strict=True):
            s, t = net(z * mask).chunk(2, 1)
            s = torch.tanh(s) * (1 - mask)
            z = (1 - mask) * (z - t) * torch.exp(-s) + mask * z
            log_det = log_det - s.sum(1)
        loss = -(base.log_prob(z) + log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [nets, optimizer])


@program()
def nerf(setting: Setting) -> Built:
    """NeRF: rays of a picture are sampled, coded by sines, and rendered."""
    wide, depth, rays, samples = setting.pick((16, 2, 16, 8), (256, 8, 1024, 64))
    sizes = [63, *[wide] * depth]
    layers = [
        part
        for a, b in itertools.pairwise(sizes)
        for part in (nn.Linear(a, b), nn.ReLU())
    ]
    model = nn.Sequential(*layers, nn.Linear(wide, 4)).to(setting.device)
    batches = setting.batches(lambda: (torch.randn(rays, 3), torch.rand(rays, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    origin = torch.tensor([0.0, 0.0, -4.0], device=setting.device)

    @setting.region
    def train(toward: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
        toward = nn.functional.normalize(toward, dim=-1)
        depths = torch.linspace(2, 6, samples, device=setting.device)
        depths = depths + torch.rand(rays, samples, device=setting.device) * 4 / samples
        points = origin + toward[:, None] * depths[..., None]
        parts = [points]
        for k in range(10):
            parts += [torch.sin(2.0**k * points), torch.cos(2.0**k * points)]
        raw = model(torch.cat(parts, -1))
        rgb, density = torch.sigmoid(raw[..., :3]), torch.relu(raw[..., 3])
        gaps = depths[:, 1:] - depths[:, :-1]
        gaps = torch.cat([gaps, torch.full_like(gaps[:, :1], 1e10)], -1)
        alpha = 1 - torch.exp(-density * gaps)
        clear = torch.cumprod(1 - alpha + 1e-10, -1)
        clear = torch.cat([torch.ones_like(clear[:, :1]), clear[:, :-1]], -1)
        seen = ((alpha * clear)[..., None] * rgb).sum(-2)
        loss = nn.functional.mse_loss(seen, colour)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        loss = train(*batches(i))
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * 0.1 ** (i / 250000)
        return loss

    return Built(step, [model, optimizer])
