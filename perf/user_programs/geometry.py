"""Graphs, points and symmetry: torch-geometric, e3nn, molecules."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


def citations(setting: Setting) -> dict[str, torch.Tensor]:
    """A graph as large as Cora, with features, classes and a mask of training."""
    nodes, edges, features = setting.pick((40, 120, 16), (2708, 10556, 1433))
    return {
        "x": torch.rand(nodes, features).to(setting.device),
        "edge_index": torch.randint(nodes, (2, edges)).to(setting.device),
        "y": torch.randint(7, (nodes,)).to(setting.device),
        "mask": (torch.rand(nodes) < 0.3).to(setting.device),
    }


def node_classifier(setting: Setting, layers: nn.ModuleList) -> Built:
    """Two layers learn the classes of nodes, as torch-geometric's examples do."""
    graph = citations(setting)
    model = layers.to(setting.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def forward() -> torch.Tensor:
        h = nn.functional.dropout(graph["x"], 0.5, model.training)
        h = nn.functional.elu(layers[0](h, graph["edge_index"]))
        h = nn.functional.dropout(h, 0.5, model.training)
        return layers[1](h, graph["edge_index"])

    @setting.region
    def train() -> torch.Tensor:
        model.train()
        optimizer.zero_grad()
        mask = graph["mask"]
        loss = nn.functional.cross_entropy(forward()[mask], graph["y"][mask])
        loss.backward()
        optimizer.step()
        return loss

    @setting.region
    @torch.no_grad()
    def evaluate() -> torch.Tensor:
        model.eval()
        mask = graph["mask"]
        return (forward().argmax(-1) == graph["y"])[~mask].sum() / (~mask).sum()

    def step(_: int) -> Any:
        loss, right = train(), evaluate()
        return loss.item(), right.item()

    return Built(step, [model, optimizer])


@program("torch_geometric")
def graph_convolution(setting: Setting) -> Built:
    """torch-geometric: its GCN example, with training and evaluation in each epoch."""
    from torch_geometric.nn import GCNConv

    features, wide = setting.pick((16, 8), (1433, 16))
    return node_classifier(
        setting, nn.ModuleList([GCNConv(features, wide), GCNConv(wide, 7)])
    )


@program("torch_geometric")
def graph_attention(setting: Setting) -> Built:
    """torch-geometric: its GAT example, with training and evaluation in each epoch."""
    from torch_geometric.nn import GATConv

    features, wide = setting.pick((16, 4), (1433, 8))
    first = GATConv(features, wide, heads=8, dropout=0.6)
    last = GATConv(8 * wide, 7, heads=1, concat=False, dropout=0.6)
    return node_classifier(setting, nn.ModuleList([first, last]))


@program("torch_geometric")
def graph_batches(setting: Setting) -> Built:
    """torch-geometric: GIN learns from batches of small graphs, each of other sizes."""
    import torch_geometric.data as data
    import torch_geometric.loader as loader
    from torch_geometric.nn import MLP, GINConv, global_add_pool

    def graph() -> data.Data:
        nodes = int(torch.randint(5, setting.pick(10, 40), ()))
        edges = torch.randint(nodes, (2, 4 * nodes))
        x, y = torch.rand(nodes, 7), torch.randint(2, (1,))
        return data.Data(x=x, edge_index=edges, y=y)

    graphs = [graph() for _ in range(setting.pick(32, 512))]
    rows, wide = setting.pick((8, 16), (64, 64))
    convolutions = [GINConv(MLP([7, wide, wide])), GINConv(MLP([wide, wide, wide]))]
    head = MLP([wide, wide, 2], norm=None, dropout=0.5)
    model = nn.ModuleList([*convolutions, head]).to(setting.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batches = list(loader.DataLoader(graphs, batch_size=rows))

    @setting.region
    def train(batch: data.Data) -> torch.Tensor:
        h = batch.x
        for convolution in convolutions:
            h = convolution(h, batch.edge_index).relu()
        scores = head(global_add_pool(h, batch.batch, size=rows))
        loss = nn.functional.cross_entropy(scores, batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches[i % len(batches)].to(setting.device))

    return Built(step, [model, optimizer])


@program("e3nn")
def tensor_product(setting: Setting) -> Built:
    """e3nn: a network of tensor products learns from points, as its tutorial has it."""
    from e3nn import nn as enn
    from e3nn import o3

    points, channels, near = setting.pick((8, 2, 4), (200, 8, 16))
    harmonics = o3.Irreps.spherical_harmonics(2)
    hidden = o3.Irreps(f"{channels}x0e + {channels}x1o + {channels}x2e")
    first = o3.FullyConnectedTensorProduct(
        "1x0e", harmonics, hidden, shared_weights=False
    )
    last = o3.FullyConnectedTensorProduct(
        hidden, harmonics, "1x0e", shared_weights=False
    )
    sizes = [8, 16, first.weight_numel], [8, 16, last.weight_numel]
    weights = [enn.FullyConnectedNet(size, torch.relu) for size in sizes]
    model = nn.ModuleList([first, last, *weights]).to(setting.device)
    batches = setting.batches(lambda: torch.randn(points, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    grid = torch.linspace(0, 4, 8, device=setting.device)

    @setting.region
    def train(at: torch.Tensor) -> torch.Tensor:
        apart = torch.cdist(at, at) + 100 * torch.eye(points, device=setting.device)
        source = apart.topk(near, largest=False).indices.flatten()
        target = torch.arange(points, device=setting.device).repeat_interleave(near)
        edge = at[target] - at[source]
        angle = o3.spherical_harmonics(harmonics, edge, True, normalization="component")
        radial = torch.exp(-((edge.norm(dim=1)[:, None] - grid) ** 2))
        h = torch.ones(points, 1, device=setting.device)
        for product, weight in ((first, weights[0]), (last, weights[1])):
            message = product(h[source], angle, weight(radial))
            h = torch.zeros(points, message.shape[1], device=setting.device)
            h = h.index_add(0, target, message) / near**0.5
        loss = (h.sum() - at.norm()) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [model, optimizer])


@program()
def point_cloud(setting: Setting) -> Built:
    """PointNet learns classes of point clouds, which are turned at random."""
    rows, points, wide = setting.pick((4, 32, 8), (32, 1024, 64))
    sizes = [3, wide, 2 * wide, 16 * wide]
    layers = [
        part
        for a, b in itertools.pairwise(sizes)
        for part in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
    ]
    features = nn.Sequential(*layers)
    head = nn.Sequential(
        nn.Linear(16 * wide, 4 * wide),
        nn.BatchNorm1d(4 * wide),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(4 * wide, 10),
    )
    model = nn.Sequential(features, head).to(setting.device).train()
    batches = setting.batches(
        lambda: (torch.randn(rows, points, 3), torch.randint(10, (rows,)))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        turn = torch.rand((), device=setting.device) * 6.2832
        c, s, zero, one = turn.cos(), turn.sin(), turn * 0, turn * 0 + 1
        rotation = torch.stack([c, -s, zero, s, c, zero, zero, zero, one]).view(3, 3)
        found = features((x @ rotation).transpose(1, 2)).amax(2)
        loss = nn.functional.cross_entropy(head(found), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(*batches(i))

    return Built(step, [model, optimizer])


@program()
def molecular_dynamics(setting: Setting) -> Built:
    """Lennard-Jones atoms: forces by autograd, velocity Verlet, energy each tenth pass."""
    side = setting.pick(3, 8)
    atoms = torch.cartesian_prod(*[torch.arange(side) * 1.2] * 3).to(setting.device)
    speeds = 0.1 * torch.randn(atoms.shape, device=setting.device)
    i, j = torch.triu_indices(len(atoms), len(atoms), 1, device=setting.device)
    dt, box = 1e-3, 1.2 * side

    def potential(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        at = at.detach().requires_grad_(True)
        apart = at[i] - at[j]
        apart = apart - box * torch.round(apart / box)
        inverse = 1 / (apart**2).sum(-1).clamp(min=0.5) ** 3
        energy = (4 * (inverse**2 - inverse)).sum()
        return energy.detach(), -torch.autograd.grad(energy, at)[0]

    _, forces = potential(atoms)

    @setting.region
    def move(
        atoms: torch.Tensor, speeds: torch.Tensor, forces: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        speeds = speeds + 0.5 * dt * forces
        atoms = (atoms + dt * speeds) % box
        energy, forces = potential(atoms)
        speeds = speeds + 0.5 * dt * forces
        return atoms, speeds, forces, energy

    def step(number: int) -> Any:
        nonlocal atoms, speeds, forces
        atoms, speeds, forces, energy = move(atoms, speeds, forces)
        if number % 10 < 9:
            return ()
        return (energy + 0.5 * (speeds**2).sum()).item()

    return Built(step, [lambda: (atoms, speeds, forces)])
