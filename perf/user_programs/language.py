"""Language models of transformers: encoders, causal models, training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


def bert_config(setting: Setting, **more: Any) -> Any:
    """BERT-base, or a tiny one."""
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    small |= {"intermediate_size": 64, "vocab_size": 200}
    return transformers.BertConfig(**setting.pick(small, {}), **more)


def gpt2(setting: Setting) -> Any:
    """GPT-2, or a tiny one."""
    import transformers

    small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 200}
    config = transformers.GPT2Config(
        **setting.pick(small, {}), bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config).to(setting.device)


def t5(setting: Setting) -> Any:
    """T5-small, or a tiny one."""
    import transformers

    small = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
    small |= {"vocab_size": 200}
    config = transformers.T5Config(**setting.pick(small, {}), decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config).to(setting.device)


def llama(setting: Setting) -> Any:
    """A Llama of 110 million parameters, or a tiny one."""
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    small |= {"intermediate_size": 64, "vocab_size": 200}
    full = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    full |= {"intermediate_size": 2048, "vocab_size": 32000}
    config = transformers.LlamaConfig(
        **setting.pick(small, full), num_key_value_heads=2
    )
    return transformers.LlamaForCausalLM(config).to(setting.device)


def texts(setting: Setting, rows: int, length: int, words: int) -> Any:
    """Batches of tokens."""
    return setting.batches(lambda: torch.randint(3, words, (rows, length)))


@program("transformers")
def bert_encode(setting: Setting) -> Built:
    """transformers: BERT encodes a batch of 16 texts of one length."""
    import transformers

    model = transformers.BertModel(bert_config(setting)).to(setting.device).eval()
    rows, length = setting.pick((4, 16), (16, 128))
    ids = texts(setting, rows, length, model.config.vocab_size)
    mask = torch.ones(rows, length, dtype=torch.long, device=setting.device)
    encode = setting.region(model)

    @torch.no_grad()
    def step(i: int) -> Any:
        return encode(input_ids=ids(i), attention_mask=mask).last_hidden_state

    return Built(step, [model])


@program("transformers")
def bert_lengths(setting: Setting) -> Built:
    """transformers: BERT encodes sentences; each batch is padded to its longest one."""
    import transformers

    model = transformers.BertModel(bert_config(setting)).to(setting.device).eval()
    rows, longest = setting.pick((4, 16), (16, 128))

    def batch() -> dict[str, torch.Tensor]:
        lengths = torch.randint(longest // 4, longest + 1, (rows, 1))
        mask = (torch.arange(int(lengths.max())) < lengths).long()
        ids = torch.randint(3, model.config.vocab_size, tuple(mask.shape)) * mask
        return {"input_ids": ids, "attention_mask": mask}

    encoded = setting.batches(batch, count=64)

    @setting.region
    def embed(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(pooled, dim=1)

    @torch.no_grad()
    def step(i: int) -> Any:
        return embed(encoded(i))

    return Built(step, [model])


@program("transformers")
def gpt2_forward(setting: Setting) -> Built:
    """transformers: GPT-2 gives the loss of texts, to compute perplexity."""
    model = gpt2(setting).eval()
    rows, length = setting.pick((2, 16), (4, 256))
    ids = texts(setting, rows, length, model.config.vocab_size)
    score = setting.region(model)

    @torch.inference_mode()
    def step(i: int) -> Any:
        x = ids(i)
        return torch.exp(score(input_ids=x, labels=x).loss).item()

    return Built(step, [model])


@program("transformers")
def gpt2_training(setting: Setting) -> Built:
    """transformers: GPT-2 in the loop of Trainer: clipping, AdamW, a schedule."""
    import transformers

    model = gpt2(setting).train()
    rows, length = setting.pick((2, 16), (4, 256))
    ids = texts(setting, rows, length, model.config.vocab_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scheduler = transformers.get_linear_schedule_with_warmup(optimizer, 10, 100000)

    @setting.region
    def train(x: torch.Tensor) -> torch.Tensor:
        loss = model(input_ids=x, labels=x).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def step(i: int) -> Any:
        loss = train(ids(i))
        scheduler.step()
        return loss

    return Built(step, [model, optimizer, scheduler])


@program("transformers")
def bert_training(setting: Setting) -> Built:
    """transformers: BERT learns to classify texts; the loss is read at each tenth step."""
    import transformers

    config = bert_config(setting, num_labels=2)
    model = (
        transformers.BertForSequenceClassification(config).to(setting.device).train()
    )
    rows, length = setting.pick((4, 16), (16, 128))
    words = config.vocab_size

    def batch() -> dict[str, torch.Tensor]:
        ids = torch.randint(3, words, (rows, length))
        mask = torch.ones_like(ids)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": torch.randint(2, (rows,)),
        }

    batches = setting.batches(batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    running: list[float] = []

    @setting.region
    def train(inputs: dict[str, torch.Tensor]) -> Any:
        outputs = model(**inputs)
        outputs.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return outputs

    def step(i: int) -> Any:
        outputs = train(batches(i))
        if i % 10 == 9:
            running.append(outputs.loss.item())
        return outputs.logits.detach()

    return Built(step, [model, optimizer, running])


@program("transformers")
def t5_training(setting: Setting) -> Built:
    """transformers: T5 learns to translate, an encoder and a decoder; Adafactor."""
    import transformers

    model = t5(setting).train()
    rows, length = setting.pick((2, 12), (8, 64))

    def batch() -> dict[str, torch.Tensor]:
        shape = (rows, length)
        return {
            "input_ids": torch.randint(3, model.config.vocab_size, shape),
            "labels": torch.randint(3, model.config.vocab_size, shape),
        }

    batches = setting.batches(batch)
    optimizer = transformers.Adafactor(
        model.parameters(), lr=1e-3, relative_step=False, scale_parameter=False
    )

    @setting.region
    def train(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [model, optimizer])


@program("transformers")
def clip_training(setting: Setting) -> Built:
    """transformers: CLIP learns from pairs of images and texts."""
    import transformers

    tower = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    tower |= {"num_attention_heads": 2}
    text = tower | {"vocab_size": 200, "eos_token_id": 2, "bos_token_id": 1}
    seen = tower | {"image_size": 32, "patch_size": 16}
    config = transformers.CLIPConfig(
        **setting.pick({"text_config": text, "vision_config": seen}, {})
    )
    model = transformers.CLIPModel(config).to(setting.device).train()
    rows, length = setting.pick((4, 8), (16, 32))
    side, words = config.vision_config.image_size, config.text_config.vocab_size

    def batch() -> dict[str, torch.Tensor]:
        return {
            "input_ids": torch.randint(3, words, (rows, length)),
            "pixel_values": torch.randn(rows, 3, side, side),
        }

    batches = setting.batches(batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.2)

    @setting.region
    def train(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        loss = model(**inputs, return_loss=True).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        return loss.detach()

    def step(i: int) -> Any:
        return train(batches(i))

    return Built(step, [model, optimizer])
