"""Loops of libraries that train or evaluate: peft, accelerate, Lightning and others."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .language import bert_config, gpt2, llama, texts
from .program import Built, Setting, program


def classifier(setting: Setting) -> nn.Sequential:
    """Layers for small pictures."""
    width = setting.pick(16, 512)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(28 * 28, width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )


def digits(setting: Setting) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of small pictures, with their labels."""
    rows = setting.pick(8, 64)
    return torch.randn(rows, 1, 28, 28), torch.randint(10, (rows,))


@program("transformers", "peft")
def peft_lora(setting: Setting) -> Built:
    """peft: Llama with LoRA learns from texts."""
    import peft

    config = peft.LoraConfig(
        r=8,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["q_proj", "v_proj"],
        task_type="CAUSAL_LM",
    )
    model = peft.get_peft_model(llama(setting), config).train()
    rows, length = setting.pick((2, 12), (4, 128))
    ids = texts(setting, rows, length, setting.pick(200, 32000))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)

    @setting.region
    def train(x: torch.Tensor) -> torch.Tensor:
        loss = model(input_ids=x, attention_mask=torch.ones_like(x), labels=x).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def step(i: int) -> Any:
        return train(ids(i))

    return Built(step, [model, optimizer])


@program("accelerate", "transformers")
def accelerate_loop(setting: Setting) -> Built:
    """accelerate: GPT-2 in its loop, gradients accumulated over two batches."""
    import accelerate

    accelerator = accelerate.Accelerator(
        cpu=not setting.device.startswith("cuda"), gradient_accumulation_steps=2
    )
    model = gpt2(setting).train()
    rows, length = setting.pick((2, 12), (4, 128))
    ids = texts(setting, rows, length, model.config.vocab_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)

    @setting.region
    def learn(x: torch.Tensor) -> torch.Tensor:
        loss = model(input_ids=x, labels=x).loss
        accelerator.backward(loss)
        return loss

    def step(i: int) -> Any:
        x = ids(i)
        with accelerator.accumulate(model):
            loss = learn(x)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        return loss.detach()

    return Built(step, [model, optimizer, scheduler])


@program("pytorch_lightning")
def lightning_fit(setting: Setting) -> Built:
    """Lightning: a pass is a `Trainer.fit` of eight batches, with logging."""
    import logging

    import pytorch_lightning as lightning

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Classifier(lightning.LightningModule):
        """As Lightning's first example has it."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = setting.region(classifier(setting))
            self.losses: list[torch.Tensor] = []

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            """The loss of a batch."""
            x, y = batch
            loss = nn.functional.cross_entropy(self.layers(x), y)
            self.log("train_loss", loss)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """A new one for each `fit`."""
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    model = Classifier()
    batches = [[digits(setting) for _ in range(8)] for _ in range(4)]

    def step(i: int) -> Any:
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="gpu" if setting.device.startswith("cuda") else "cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model.losses.clear()
        trainer.fit(model, torch.utils.data.DataLoader(batches[i % 4], batch_size=None))
        return torch.stack(model.losses)

    return Built(step, [model])


@program("lightning_fabric")
def lightning_fabric(setting: Setting) -> Built:
    """Lightning Fabric: a loop by hand around its model and optimizer."""
    import lightning_fabric as fabric

    accelerator = "gpu" if setting.device.startswith("cuda") else "cpu"
    made = fabric.Fabric(accelerator=accelerator, devices=1)
    model = classifier(setting)
    model, optimizer = made.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    batches = setting.batches(lambda: digits(setting))

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        made.backward(loss)
        optimizer.step()
        return loss.detach()

    def step(i: int) -> Any:
        return train(*batches(i))

    return Built(step, [model, optimizer])


@program("torchmetrics")
def metrics_evaluation(setting: Setting) -> Built:
    """torchmetrics: a loop of evaluation; metrics are computed at each eighth batch."""
    import torchmetrics

    model = classifier(setting).to(setting.device).eval()
    kinds = {"task": "multiclass", "num_classes": 10}
    metrics = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.Accuracy(**kinds),
            "f1": torchmetrics.F1Score(**kinds, average="macro"),
            "auroc": torchmetrics.AUROC(**kinds, thresholds=20),
            "confusion": torchmetrics.ConfusionMatrix(**kinds),
        }
    ).to(setting.device)
    batches = setting.batches(lambda: digits(setting))
    score = setting.region(model)

    @torch.no_grad()
    def step(i: int) -> Any:
        x, y = batches(i)
        metrics.update(score(x).softmax(-1), y)
        if i % 8 < 7:
            return ()
        found = metrics.compute()
        metrics.reset()
        return found, found["accuracy"].item()

    def states() -> Any:
        return [metric.metric_state for metric in metrics.values(copy_state=False)]

    return Built(step, [model, states])


def sentence_model(setting: Setting, folder: str) -> Any:
    """A model of sentence-transformers on BERT, with a tokenizer of made-up words."""
    import pathlib

    import sentence_transformers
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"word{n}" for n in range(setting.pick(195, 5000))]
    (pathlib.Path(folder) / "vocab.txt").write_text("\n".join(words))
    config = bert_config(setting)
    transformers.BertModel(config).save_pretrained(folder)
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = transformers.BertTokenizerFast(vocab=numbers)
    tokenizer.save_pretrained(folder)
    return sentence_transformers.SentenceTransformer(folder, device=setting.device)


def sentences(setting: Setting, count: int) -> list[str]:
    """Texts of made-up words, of many lengths."""
    words = setting.pick(195, 5000)
    lengths = torch.randint(3, setting.pick(12, 50), (count,)).tolist()
    return [
        " ".join(f"word{n}" for n in torch.randint(words, (length,)).tolist())
        for length in lengths
    ]


@program("sentence_transformers", "transformers")
def sentence_encode(setting: Setting) -> Built:
    """sentence-transformers: `encode` of texts and their nearest in a corpus."""
    import tempfile

    import sentence_transformers.util as util

    with tempfile.TemporaryDirectory() as folder:
        model = sentence_model(setting, folder)
    every = [sentences(setting, setting.pick(6, 64)) for _ in range(8)]
    model.forward = setting.region(model.forward)  # which `encode` calls
    corpus = model.encode(every[0], convert_to_tensor=True, show_progress_bar=False)

    def step(i: int) -> Any:
        found = model.encode(
            every[i % 8], convert_to_tensor=True, show_progress_bar=False
        )
        return found, util.semantic_search(found, corpus, top_k=3)[0]

    return Built(step, [model])


@program("sentence_transformers", "transformers")
def sentence_training(setting: Setting) -> Built:
    """sentence-transformers: learns by `MultipleNegativesRankingLoss` on pairs."""
    import tempfile

    from sentence_transformers.losses import MultipleNegativesRankingLoss

    with tempfile.TemporaryDirectory() as folder:
        model = sentence_model(setting, folder).train()
    loss_of = MultipleNegativesRankingLoss(model)
    rows = setting.pick(4, 32)
    pairs = [(sentences(setting, rows), sentences(setting, rows)) for _ in range(8)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    nothing = torch.empty(0)

    @setting.region
    def train(features: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        loss = loss_of(features, nothing)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def step(i: int) -> Any:
        tokens = [dict(model.tokenize(side)) for side in pairs[i % 8]]
        features = [
            {k: v.to(setting.device) for k, v in side.items() if hasattr(v, "to")}
            for side in tokens
        ]
        return train(features)

    return Built(step, [model, optimizer])
