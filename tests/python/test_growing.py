"""What stays in a program is replayed beside what is another one at each pass."""

from __future__ import annotations

import pytest
import skips
import torch
from torch import nn
from watching import BUILD_TIMEOUT_S, assert_same_bits, watched

TOKENS = 48
WORDS = 100
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(skips.gpus() == 0, reason=skips.NO_GPU),
        ],
    ),
]


class Decoder(nn.Module):
    """Makes a word of the last one and of how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.places = nn.Embedding(2 * TOKENS, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(12))
        self.head = nn.Linear(32, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Words [1, n] become scores of the next one, [1, WORDS]."""
        last = text[:, -1:].clone()  # with strides that grow
        place = torch.arange(text.shape[1], device=text.device)[-1:]
        first = torch.arange(1, device=text.device)  # as in each layer
        h = self.words(last) + self.places(place) + first
        for layer in self.layers:
            h = torch.relu(layer(h)) * 1.5 + h + torch.arange(1, device=text.device)
        scores: torch.Tensor = self.head(h[:, -1])
        return scores


@pytest.mark.parametrize("device", DEVICES)
def test_a_text_that_grows(device: str) -> None:
    """The layers of a token are those of the next, and the text never is."""
    torch.manual_seed(3)
    model = Decoder().to(device)

    def write() -> tuple[list[torch.Tensor], list[int]]:
        text = torch.zeros(1, 3, dtype=torch.long, device=device)
        scores = []
        with torch.no_grad():
            for _ in range(TOKENS):
                scores.append(model(text))
                word = scores[-1].argmax(-1, keepdim=True)
                text = torch.cat([text, word], 1)
                word.item()
                wait()
        return scores, text.tolist()[0]

    with watched(device) as session:

        def wait() -> None:
            assert session.wait(BUILD_TIMEOUT_S)

        scores, text = write()
        # Again: its lengths have come before, and its tokens have the same plan, but
        # for where the last word lies: it has several alignments, each of which is
        # learnt.
        write()
        learned, report = session.stats(), str(session.explain())
        again, same_text = write()
        during = session.stats().since(learned)

    def wait() -> None:
        pass

    expected, words = write()
    assert text == same_text == words
    assert_same_bits(scores, expected)
    assert_same_bits(again, expected)
    # Of thirty tokens' layers, at least.
    ops = 6 * len(model.layers)
    assert learned.followed > 30 * ops, report
    assert "a new op each time" in report
    assert during.followed > (TOKENS - 16) * ops, str(session.explain())
    assert during.replays < 3 * TOKENS, str(session.explain())
