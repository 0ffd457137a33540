"""Serves requests in batches of whatever waits: one region, a variant for each size.

    python examples/batch_server.py [--device cpu] [--clients 6] [--requests 40] [--most 8]

Clients are threads that send one row at a time. The server takes what has come, runs the
model on it as it is (no padding), and gives each client its row. Sizes that came before
are replayed without Python; their plans take turns in one arena. Every answer is compared
with the model's own for that batch.
"""

from __future__ import annotations

import argparse
import collections
import queue
import threading
from concurrent.futures import Future
from typing import Any

import reprise
import torch
from torch import nn

WIDTH = 64


class Server:
    """Batches of at most `most` rows, one after the other, on a thread of its own."""

    def __init__(self, model: nn.Module, most: int) -> None:
        self.plain = model
        self.fast: Any = reprise.region(model)
        self.most = most
        self.sizes: collections.Counter[int] = collections.Counter()
        self.wrong = 0
        self._waiting: queue.Queue[tuple[torch.Tensor, Future[Any]] | None] = (
            queue.Queue()
        )
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def ask(self, row: torch.Tensor) -> Future[Any]:
        """The model's answer to one row, once it has been in a batch."""
        answer: Future[Any] = Future()
        self._waiting.put((row, answer))
        return answer

    def close(self) -> None:
        """What has come is served."""
        self._waiting.put(None)
        self._thread.join()

    def _take(self) -> tuple[list[tuple[torch.Tensor, Future[Any]]], bool]:
        """What waits, one at least; and whether it is the end."""
        batch = []
        asked = self._waiting.get()
        while asked is not None:
            batch.append(asked)
            if len(batch) == self.most:
                return batch, False
            try:
                asked = self._waiting.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    @torch.no_grad()
    def _serve(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._take()
            if not batch:
                continue
            rows = torch.stack([row for row, _ in batch])
            answers = self.fast(rows)
            with reprise.session(enabled=False):
                self.wrong += not torch.equal(answers, self.plain(rows))
            self.sizes[len(batch)] += 1
            for (_, asked), answer in zip(batch, answers, strict=True):
                asked.set_result(answer)


def main() -> Server:
    """Serve some clients, and say what became of their batches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--requests", type=int, default=40, help="of each client")
    parser.add_argument("--most", type=int, default=8, help="rows in a batch")
    arguments = parser.parse_args()
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(8)]
    model = nn.Sequential(*layers).to(arguments.device).eval()
    reprise.enable(arguments.device, policy="always")
    server = Server(model, arguments.most)

    def ask() -> None:
        for _ in range(arguments.requests):
            row = torch.randn(WIDTH).to(arguments.device)
            server.ask(row).result()

    clients = [threading.Thread(target=ask) for _ in range(arguments.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    server.close()
    sizes = ", ".join(f"{n} x {size}" for size, n in sorted(server.sizes.items()))
    print(f"batches: {sizes}; wrong: {server.wrong}")
    print(server.fast.explain())
    reprise.disable()
    return server


if __name__ == "__main__":
    main()
