"""torch_geometric: a graph network is trained on one graph.

    python examples/recipes/geometric_graph.py

Not replayed: the removal of edges from a node to itself, whose number depends on data,
and Adam's number of steps, which it reads on the CPU without `fused=True`.
"""

from __future__ import annotations

from typing import Any

import checks
import reprise
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv

STEPS = 60


class Net(nn.Module):
    """A convolution and attention over the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(16, 32), GATConv(32, 4)

    def forward(self, graph: Data) -> torch.Tensor:
        h = self.first(graph.x, graph.edge_index).relu()
        h = functional.dropout(h, training=self.training)
        return self.second(h, graph.edge_index)


def train() -> list[Any]:
    """Weights, the optimizer's state and all losses."""
    torch.manual_seed(0)
    edges, classes = torch.randint(100, (2, 400)), torch.randint(4, (100,))
    graph = Data(x=torch.randn(100, 16), edge_index=edges, y=classes).to(checks.DEVICE)
    net = Net().to(checks.DEVICE)
    optimizer = torch.optim.Adam(net.parameters())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(graph), graph.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [net.state_dict(), optimizer.state_dict(), losses]


# On a GPU sums over edges are in no fixed order, unless this is asked for.
torch.use_deterministic_algorithms(True, warn_only=True)
expected = train()
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = train()
checks.finish(found, expected, least=0.4)
