"""Recurrent networks and transformers of torch alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import rnn

from .program import Built, Setting, program


@program()
def truncated_lstm(setting: Setting) -> Built:
    """A word model by LSTM: truncated backpropagation; its state goes from pass to pass."""
    words, wide, rows, length = setting.pick((50, 16, 4, 8), (10000, 650, 20, 35))
    embed, leave = nn.Embedding(words, wide), nn.Linear(wide, words)
    layers = nn.LSTM(wide, wide, 2, dropout=0.2)
    model = nn.ModuleList([embed, layers, leave]).to(setting.device).train()
    batches = setting.batches(lambda: torch.randint(words, (length + 1, rows)))
    zeros = torch.zeros(2, rows, wide, device=setting.device)
    state = (zeros, zeros.clone())
    total = 0.0

    @setting.region
    def train(ids: torch.Tensor, state: tuple[torch.Tensor, ...]) -> Any:
        model.zero_grad()
        state = (state[0].detach(), state[1].detach())
        out, state = layers(embed(ids[:-1]), state)
        scores = leave(out).view(-1, words)
        loss = nn.functional.cross_entropy(scores, ids[1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-1.0)
        return loss, state

    def step(i: int) -> Any:
        nonlocal state, total
        loss, state = train(batches(i), state)
        total += loss.item()
        return total

    return Built(step, [model, lambda: state])


@program()
def packed_tagger(setting: Setting) -> Built:
    """An LSTM tags words; sentences of many lengths are packed."""
    words, wide, rows, longest = setting.pick((50, 16, 4, 10), (5000, 256, 32, 60))
    embed, leave = nn.Embedding(words, wide, padding_idx=0), nn.Linear(2 * wide, 9)
    layers = nn.LSTM(wide, wide, batch_first=True, bidirectional=True)
    model = nn.ModuleList([embed, layers, leave]).to(setting.device).train()

    def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lengths = torch.randint(2, longest + 1, (rows,))
        texts = [torch.randint(1, words, (int(n),)) for n in lengths]
        tags = [torch.randint(9, (int(n),)) for n in lengths]
        padded = rnn.pad_sequence(texts, batch_first=True)
        return (
            padded,
            rnn.pad_sequence(tags, batch_first=True, padding_value=-100),
            lengths,
        )

    batches = [batch() for _ in range(16)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @setting.region
    def train(
        ids: torch.Tensor, tags: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        packed = rnn.pack_padded_sequence(
            embed(ids), lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = rnn.pad_packed_sequence(layers(packed)[0], batch_first=True)
        scores = leave(out)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        ids, tags, lengths = batches[i % 16]
        return train(ids.to(setting.device), tags.to(setting.device), lengths)

    return Built(step, [model, optimizer])


@program()
def attention_translation(setting: Setting) -> Built:
    """The tutorial's translation: a GRU cell with attention decodes word by word."""
    words, wide, rows, length = setting.pick((50, 16, 4, 6), (4000, 128, 32, 10))
    enter, back = nn.Embedding(words, wide), nn.Embedding(words, wide)
    encoder, decoder = nn.GRU(wide, wide, batch_first=True), nn.GRUCell(2 * wide, wide)
    score, query = nn.Linear(wide, 1), nn.Linear(wide, wide)
    leave = nn.Linear(wide, words)
    parts = [enter, back, encoder, decoder, score, query, leave]
    model = nn.ModuleList(parts).to(setting.device).train()
    batches = setting.batches(lambda: torch.randint(words, (2, rows, length)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    @setting.region
    def train(source: torch.Tensor, target: torch.Tensor, forced: bool) -> torch.Tensor:
        seen, hidden = encoder(enter(source))
        state = hidden[0]
        word = torch.zeros(rows, dtype=torch.long, device=setting.device)
        logs = []
        for t in range(length):
            weights = score(torch.tanh(query(state)[:, None] + seen)).softmax(1)
            context = (weights * seen).sum(1)
            state = decoder(torch.cat([back(word), context], 1), state)
            logs.append(torch.log_softmax(leave(state), -1))
            word = target[:, t] if forced else logs[-1].argmax(-1).detach()
        out = torch.stack(logs, 1)
        loss = nn.functional.nll_loss(out.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def step(i: int) -> Any:
        source, target = batches(i)
        forced = torch.rand(()).item() < 0.5  # teacher forcing, drawn on the host
        return train(source, target, forced).item()

    return Built(step, [model, optimizer])


@program()
def transformer_translation(setting: Setting) -> Built:
    """`nn.Transformer` learns with masks, and Noam's schedule."""
    words, wide, depth = setting.pick((50, 16, 1), (8000, 512, 3))
    heads, rows, length = setting.pick((2, 2, 6), (8, 16, 40))
    embed, leave = nn.Embedding(words, wide), nn.Linear(wide, words)
    core = nn.Transformer(wide, heads, depth, depth, 4 * wide, 0.1, batch_first=True)
    model = nn.ModuleList([embed, core, leave]).to(setting.device).train()
    batches = setting.batches(lambda: torch.randint(words, (2, rows, length + 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98))
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: wide**-0.5 * min((n + 1) ** -0.5, (n + 1) * 400**-1.5)
    )

    @setting.region
    def train(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        asked, wanted = target[:, :-1], target[:, 1:]
        causal = nn.Transformer.generate_square_subsequent_mask(
            asked.shape[1], device=setting.device
        )
        out = core(
            embed(source),
            embed(asked),
            tgt_mask=causal,
            src_key_padding_mask=source == 0,
            tgt_is_causal=True,
        )
        loss = nn.functional.cross_entropy(
            leave(out).flatten(0, 1),
            wanted.flatten(),
            ignore_index=0,
            label_smoothing=0.1,
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        loss = train(*batches(i))
        scheduler.step()
        return loss

    return Built(step, [model, optimizer, scheduler])


@program()
def encoder_inference(setting: Setting) -> Built:
    """`nn.TransformerEncoder` in evaluation, by its fast path, with a padding mask."""
    wide, heads, depth, rows, length = setting.pick(
        (16, 2, 2, 2, 6), (512, 8, 6, 8, 64)
    )
    layer = nn.TransformerEncoderLayer(wide, heads, 4 * wide, batch_first=True)
    model = nn.TransformerEncoder(layer, depth).to(setting.device).eval()

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.randint(1, length + 1, (rows, 1))
        return torch.randn(rows, length, wide), torch.arange(length) >= lengths

    batches = setting.batches(batch)
    encode = setting.region(model)

    @torch.inference_mode()
    def step(i: int) -> Any:
        x, padded = batches(i)
        return encode(x, src_key_padding_mask=padded)

    return Built(step, [model])


@program()
def mixture_of_experts(setting: Setting) -> Built:
    """Experts take the tokens that `torch.where` finds: shapes depend on the data."""
    wide, experts, rows = setting.pick((16, 4, 24), (512, 8, 1024))
    gate = nn.Linear(wide, experts)
    nets = [
        nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))
        for _ in range(experts)
    ]
    model = nn.ModuleList([gate, *nets]).to(setting.device).train()
    batches = setting.batches(lambda: torch.randn(rows, wide))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    @setting.region
    def train(x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(gate(x), 2)
        weights = weights.softmax(-1)
        out = torch.zeros_like(x)
        for number, net in enumerate(nets):
            token, place = torch.where(chosen == number)
            out[token] += weights[token, place, None] * net(x[token])
        loss = nn.functional.mse_loss(out, x.roll(1, 0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [model, optimizer])
