"""Reinforcement learning: environments in Python or on the device."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


class CartPole:
    """The pole on a cart, in Python numbers."""

    def __init__(self) -> None:
        self.state = [0.0] * 4
        self.steps = 0

    def reset(self) -> list[float]:
        """Begin again."""
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return list(self.state)

    def step(self, action: int) -> tuple[list[float], float, bool]:
        """Push left or right; gives the state, the reward and whether it is over."""
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        pushed = (force + 0.05 * turn**2 * math.sin(angle)) / 1.1
        bent = 9.8 * math.sin(angle) - math.cos(angle) * pushed
        bent /= 0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        moved = pushed - 0.05 * bent * math.cos(angle) / 1.1
        x, speed = x + 0.02 * speed, speed + 0.02 * moved
        angle, turn = angle + 0.02 * turn, turn + 0.02 * bent
        self.state = [x, speed, angle, turn]
        self.steps += 1
        over = abs(x) > 2.4 or abs(angle) > 0.21 or self.steps >= 500
        return list(self.state), 1.0, over


def net(enter: int, wide: int, leave: int) -> nn.Sequential:
    """Three layers."""
    return nn.Sequential(
        nn.Linear(enter, wide),
        nn.Tanh(),
        nn.Linear(wide, wide),
        nn.Tanh(),
        nn.Linear(wide, leave),
    )


@program()
def dqn(setting: Setting) -> Built:
    """PyTorch's DQN tutorial: a pass is a step of CartPole and one of the optimizer."""
    policy = net(4, setting.pick(16, 128), 2).to(setting.device)
    target = net(4, setting.pick(16, 128), 2).to(setting.device)
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, amsgrad=True)
    rows = setting.pick(4, 128)
    memory: list[tuple[torch.Tensor, ...]] = []
    world = CartPole()
    state = torch.tensor([world.reset()], device=setting.device)
    best = setting.region(policy)

    def chosen(i: int) -> torch.Tensor:
        if random.random() > 0.05 + 0.85 * math.exp(-i / 1000):
            with torch.no_grad():
                return best(state).max(1).indices.view(1, 1)
        return torch.tensor([[random.randrange(2)]], device=setting.device)

    @setting.region
    def learn(
        states: torch.Tensor,
        actions: torch.Tensor,
        nexts: torch.Tensor,
        rewards: torch.Tensor,
        going: torch.Tensor,
    ) -> None:
        values = policy(states).gather(1, actions)
        with torch.no_grad():
            future = target(nexts).max(1).values * going
        loss = nn.functional.smooth_l1_loss(values, (future * 0.99 + rewards)[:, None])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()

    @setting.region
    def follow() -> None:
        kept = target.state_dict()
        for name, value in policy.state_dict().items():
            kept[name] = value * 0.005 + kept[name] * 0.995
        target.load_state_dict(kept)

    def step(i: int) -> Any:
        nonlocal state
        action = chosen(i)
        seen, reward, over = world.step(action.item())
        after = torch.tensor([seen], device=setting.device)
        reward_there = torch.tensor([reward], device=setting.device)
        alive = torch.tensor([not over], device=setting.device)
        memory.append((state, action, after, reward_there, alive))
        del memory[:-10000]
        state = after
        if over:
            state = torch.tensor([world.reset()], device=setting.device)
        if len(memory) < rows:
            return over
        drawn = zip(*random.sample(memory, rows), strict=True)
        learn(*map(torch.cat, drawn))
        follow()
        return over

    return Built(step, [policy, target, optimizer, lambda: state])


def advantages(
    rewards: torch.Tensor,
    values: torch.Tensor,
    overs: list[torch.Tensor],
    future: torch.Tensor,
) -> torch.Tensor:
    """Generalised advantages of a rollout; `overs` has one more than it has steps."""
    gains = torch.zeros_like(rewards)
    gain = torch.zeros_like(future)
    for t in reversed(range(len(rewards))):
        alive = 1 - overs[t + 1]
        wrong = rewards[t] + 0.99 * future * alive - values[t]
        gains[t] = gain = wrong + 0.99 * 0.95 * alive * gain
        future = values[t]
    return gains


@program()
def ppo(setting: Setting) -> Built:
    """PPO: a pass is a rollout of CartPoles in Python and epochs of minibatches."""
    worlds, length, epochs, parts = setting.pick((2, 4, 1, 2), (8, 32, 4, 4))
    wide = setting.pick(16, 64)
    actor, critic = (
        net(4, wide, 2).to(setting.device),
        net(4, wide, 1).to(setting.device),
    )
    weights = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(weights, lr=2.5e-4, eps=1e-5)
    every = [CartPole() for _ in range(worlds)]
    now = torch.tensor([world.reset() for world in every], device=setting.device)
    over = torch.zeros(worlds, device=setting.device)

    gains_of = setting.region(advantages)

    @setting.region
    def act(state: torch.Tensor) -> Any:
        choice = torch.distributions.Categorical(logits=actor(state))
        return choice, choice.sample(), critic(state).flatten()

    @setting.region
    def learn(
        states: torch.Tensor,
        actions: torch.Tensor,
        logs: torch.Tensor,
        gains: torch.Tensor,
        returns: torch.Tensor,
    ) -> torch.Tensor:
        choice = torch.distributions.Categorical(logits=actor(states))
        ratio = (choice.log_prob(actions) - logs).exp()
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        clipped = ratio.clamp(0.8, 1.2)
        loss = torch.max(-gains * ratio, -gains * clipped).mean()
        loss = loss + 0.25 * ((critic(states).flatten() - returns) ** 2).mean()
        loss = loss - 0.01 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 0.5)
        optimizer.step()
        return loss

    @torch.no_grad()
    def rollout() -> list[torch.Tensor]:
        nonlocal now, over
        kept = []
        for _ in range(length):
            choice, action, value = act(now)
            seen = [w.step(a) for w, a in zip(every, action.cpu().numpy(), strict=True)]
            reward = torch.tensor([r for _, r, _ in seen]).to(setting.device)
            kept.append((now, action, choice.log_prob(action), reward, over, value))
            states = [
                w.reset() if o else s for w, (s, _, o) in zip(every, seen, strict=True)
            ]
            now = torch.tensor(states).to(setting.device)
            over = torch.tensor([float(o) for _, _, o in seen]).to(setting.device)
        states, actions, logs, rewards, overs, values = map(
            torch.stack, zip(*kept, strict=True)
        )
        gains = gains_of(rewards, values, [*overs, over], critic(now).flatten())
        return [
            part.flatten(0, 1)
            for part in (states, actions, logs, gains, gains + values)
        ]

    def step(_: int) -> Any:
        flat = rollout()
        for _ in range(epochs):
            order = torch.randperm(worlds * length, device=setting.device)
            for chosen in order.chunk(parts):
                loss = learn(*(part[chosen] for part in flat))
        return loss.item()

    return Built(step, [actor, critic, optimizer, lambda: (now, over)])


@program()
def soft_actor_critic(setting: Setting) -> Built:
    """SAC: twin critics, a squashed Gaussian and a learned temperature; a buffer on the device."""
    wide, rows, size = setting.pick((16, 8, 64), (256, 256, 100000))
    there = {"device": setting.device}
    actor = net(8, wide, 4).to(setting.device)
    critics = nn.ModuleList([net(10, wide, 1), net(10, wide, 1)]).to(setting.device)
    targets = nn.ModuleList([net(10, wide, 1), net(10, wide, 1)]).to(setting.device)
    targets.load_state_dict(critics.state_dict())
    log_heat = torch.zeros(1, requires_grad=True, **there)
    acts = torch.optim.Adam(actor.parameters(), lr=3e-4)
    judges = torch.optim.Adam(critics.parameters(), lr=1e-3)
    heats = torch.optim.Adam([log_heat], lr=1e-3)
    states, nexts = torch.randn(2, size, 8, **there)
    actions, rewards = (
        torch.rand(size, 2, **there) * 2 - 1,
        torch.randn(size, 1, **there),
    )

    def drawn(s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log = actor(s).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log.clamp(-5, 2).exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        logs = normal.log_prob(raw) - torch.log(1 - action**2 + 1e-6)
        return action, logs.sum(-1, keepdim=True)

    def least(of: nn.ModuleList, s: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        both = [critic(torch.cat([s, a], -1)) for critic in of]
        return torch.min(*both)

    @setting.region
    def learn(
        s: torch.Tensor,
        a: torch.Tensor,
        r: torch.Tensor,
        after: torch.Tensor,
        heat: float,
    ) -> None:
        with torch.no_grad():
            action, logs = drawn(after)
            wanted = r + 0.99 * (least(targets, after, action) - heat * logs)
        found = [critic(torch.cat([s, a], -1)) for critic in critics]
        loss = sum(nn.functional.mse_loss(value, wanted) for value in found)
        judges.zero_grad()
        loss.backward()
        judges.step()
        action, logs = drawn(s)
        loss = (heat * logs - least(critics, s, action)).mean()
        acts.zero_grad()
        loss.backward()
        acts.step()
        loss = (-log_heat.exp() * (logs.detach() - 2)).mean()
        heats.zero_grad()
        loss.backward()
        heats.step()
        with torch.no_grad():
            for old, new in zip(
                targets.parameters(), critics.parameters(), strict=True
            ):
                old.data.copy_(0.005 * new.data + 0.995 * old.data)

    def step(_: int) -> Any:
        at = torch.randint(size, (rows,), **there)
        batch = states[at], actions[at], rewards[at], nexts[at]
        with torch.no_grad():
            heat = log_heat.exp().item()
        learn(*batch, heat)
        return heat

    return Built(step, [actor, critics, targets, log_heat, acts, judges, heats])


@program()
def policy_gradient(setting: Setting) -> Built:
    """REINFORCE: a pass is an episode, as long as it lasts; an action is read at each step."""
    policy = net(4, setting.pick(16, 128), 2).to(setting.device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    world, longest = CartPole(), setting.pick(12, 60)

    @setting.region
    def act(seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        choice = torch.distributions.Categorical(torch.softmax(policy(seen), 1))
        action = choice.sample()
        return action, choice.log_prob(action)

    @setting.region
    def learn(logs: list[torch.Tensor], gains: torch.Tensor) -> None:
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        loss = torch.cat(
            [-log * gain for log, gain in zip(logs, gains, strict=True)]
        ).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def step(_: int) -> Any:
        state, over = world.reset(), False
        logs: list[torch.Tensor] = []
        rewards: list[float] = []
        while not over and len(rewards) < longest:
            seen = torch.tensor(state).unsqueeze(0).to(setting.device)
            action, log = act(seen)
            logs.append(log)
            state, reward, over = world.step(action.item())
            rewards.append(reward)
        returns: list[float] = []
        for reward in reversed(rewards):
            returns.insert(0, reward + 0.99 * (returns[0] if returns else 0.0))
        learn(logs, torch.tensor(returns, device=setting.device))
        return len(rewards)

    return Built(step, [policy, optimizer])
