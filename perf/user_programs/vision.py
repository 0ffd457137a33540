"""Pictures: torchvision and timm, inference and training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .program import Built, Setting, program


def pictures(setting: Setting, rows: int, side: int, classes: int = 1000) -> Any:
    """Batches of pictures with their labels."""
    return setting.batches(
        lambda: (torch.randn(rows, 3, side, side), torch.randint(classes, (rows,)))
    )


@program("torchvision")
def resnet_inference(setting: Setting) -> Built:
    """torchvision: ResNet-50 names what pictures show, one picture at a time."""
    import torchvision

    name = setting.pick("shufflenet_v2_x0_5", "resnet50")
    model = getattr(torchvision.models, name)().to(setting.device).eval()
    batches = pictures(setting, 1, setting.pick(32, 224))
    score = setting.region(model)

    @torch.inference_mode()
    def step(i: int) -> Any:
        scores = score(batches(i)[0]).softmax(1)
        best = scores.argmax(1).item()
        return best, scores[0, best].item()

    return Built(step, [model])


@program("torchvision")
def resnet_training(setting: Setting) -> Built:
    """torchvision: ResNet-18 learns by SGD; accuracy is summed up on the device."""
    import torchvision

    name = setting.pick("shufflenet_v2_x0_5", "resnet18")
    model = getattr(torchvision.models, name)(num_classes=10)
    model = model.to(setting.device).train()
    batches = pictures(setting, *setting.pick((2, 32, 10), (32, 224, 10)))
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4
    )
    right = torch.zeros((), device=setting.device)

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right.add_((scores.argmax(1) == y).sum())
        return loss

    def step(i: int) -> Any:
        loss = train(*batches(i))
        return loss.item() if i % 20 == 19 else loss.detach()

    return Built(step, [model, optimizer, right])


@program("timm")
def timm_ema_mixup(setting: Setting) -> Built:
    """timm: ViT-S learns with mixup, soft targets and an average of its weights."""
    import timm
    import timm.data
    import timm.loss
    import timm.optim
    import timm.utils

    name = setting.pick("vit_tiny_patch16_224", "vit_small_patch16_224")
    side = setting.pick(32, 224)
    depth = setting.pick({"depth": 2}, {})
    model = timm.create_model(name, img_size=side, num_classes=100, **depth)
    model = model.to(setting.device).train()
    average = timm.utils.ModelEmaV3(model, decay=0.999)
    mixup = timm.data.Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=100)
    batches = pictures(setting, setting.pick(4, 32), side, classes=100)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=5e-4)
    loss_of = timm.loss.SoftTargetCrossEntropy()

    @setting.region
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def step(i: int) -> Any:
        loss = train(*mixup(*batches(i)))
        average.update(model, step=i)
        return loss.detach()

    return Built(step, [model, average, optimizer])


@program("timm")
def timm_inference(setting: Setting) -> Built:
    """timm: EfficientNet gives the five best classes of pictures, in half precision."""
    import timm

    name = setting.pick("mobilenetv3_small_050", "efficientnet_b0")
    model = timm.create_model(name).to(setting.device).eval()
    batches = pictures(setting, *setting.pick((1, 32), (8, 224)))
    dtype = setting.pick(torch.bfloat16, torch.float16)
    score = setting.region(model)

    @torch.no_grad()
    def step(i: int) -> Any:
        with torch.autocast(setting.device.split(":")[0], dtype):
            scores = score(batches(i)[0])
        return torch.topk(scores.float().softmax(1) * 100, k=5)

    return Built(step, [model])


def detector(setting: Setting) -> nn.Module:
    """A Faster R-CNN on MobileNet, or on one convolution."""
    import torchvision
    import torchvision.models.detection as detection

    if setting.size == "full":
        return detection.fasterrcnn_mobilenet_v3_large_320_fpn(
            weights=None, weights_backbone=None, num_classes=5
        )
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.ReLU())
    backbone.out_channels = 8
    anchors = detection.anchor_utils.AnchorGenerator(((16, 32),), ((1.0,),))
    pool = torchvision.ops.MultiScaleRoIAlign(["0"], output_size=3, sampling_ratio=2)
    return detection.FasterRCNN(
        backbone,
        min_size=48,
        max_size=64,
        rpn_anchor_generator=anchors,
        box_roi_pool=pool,
        box_head=detection.faster_rcnn.TwoMLPHead(8 * 9, 32),
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(32, 5),
        rpn_pre_nms_top_n_train=50,
        rpn_post_nms_top_n_train=20,
    )


@program("torchvision")
def detection_training(setting: Setting) -> Built:
    """torchvision: a Faster R-CNN learns boxes; its shapes depend on its data."""
    model = detector(setting).to(setting.device).train()
    model.backbone = setting.region(model.backbone)  # what follows depends on data
    height, width, rows = setting.pick((48, 64, 1), (240, 320, 4))

    def picture() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        count = int(torch.randint(1, 6, ()))
        corner = torch.rand(count, 2) * torch.tensor([width, height]) * 0.6
        extent = 4 + torch.rand(count, 2) * torch.tensor([width, height]) * 0.3
        boxes = torch.cat([corner, corner + extent], 1)
        labels = torch.randint(1, 5, (count,))
        return torch.rand(3, height, width), {"boxes": boxes, "labels": labels}

    batches = setting.batches(lambda: [picture() for _ in range(rows)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(i: int) -> Any:
        images, targets = zip(*batches(i), strict=True)
        losses = model(list(images), list(targets))
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return {name: loss.detach() for name, loss in losses.items()}

    return Built(step, [model, optimizer])


@program("torchvision")
def segmentation(setting: Setting) -> Built:
    """torchvision: LR-ASPP names each pixel of a picture; labels go to the host."""
    import torchvision

    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None
    )
    model = model.to(setting.device).eval()
    batches = pictures(setting, 1, setting.pick(32, 320))
    score = setting.region(model)

    @torch.inference_mode()
    def step(i: int) -> Any:
        labels = score(batches(i)[0])["out"].argmax(1)
        return labels.to(torch.uint8).cpu()

    return Built(step, [model])


@program("torchvision")
def augmentation(setting: Setting) -> Built:
    """torchvision.transforms.v2: random crops, flips, colours and erasing of a batch."""
    from torchvision.transforms import v2

    side = setting.pick(24, 224)
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(side, antialias=True),
            v2.RandomHorizontalFlip(0.5),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.RandomGrayscale(0.2),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            v2.RandomErasing(0.25),
        ]
    )
    rows, raw = setting.pick((4, 32), (32, 256))
    batches = setting.batches(
        lambda: torch.randint(256, (rows, 3, raw, raw), dtype=torch.uint8)
    )
    augment = setting.region(transform)

    def step(i: int) -> Any:
        return augment(batches(i))

    return Built(step, [])


@program("torchvision")
def style_transfer(setting: Setting) -> Built:
    """torchvision: the tutorial's style transfer: a picture is fitted by LBFGS."""
    import torchvision

    vgg = torchvision.models.vgg
    layers = vgg.make_layers(vgg.cfgs["A"], batch_norm=False)
    model = (
        layers[: setting.pick(6, 16)].to(setting.device).eval().requires_grad_(False)
    )
    for layer in model:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False
    side = setting.pick(32, 224)

    def gram(x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(2)
        return flat @ flat.transpose(1, 2) / flat.numel()

    content, style = torch.rand(2, 1, 3, side, side, device=setting.device)
    wanted, wanted_gram = model(content).detach(), gram(model(style)).detach()
    picture = content.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([picture], max_iter=setting.pick(3, 20))
    losses: list[torch.Tensor] = []

    @setting.region
    def learn() -> torch.Tensor:
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        found = model(picture)
        loss = nn.functional.mse_loss(found, wanted)
        loss = loss + 1e6 * nn.functional.mse_loss(gram(found), wanted_gram)
        loss.backward()
        return loss

    def closure() -> torch.Tensor:
        loss = learn()
        losses.append(loss.detach())
        return loss

    def step(_: int) -> Any:
        losses.clear()
        optimizer.step(closure)
        return torch.stack(losses)

    return Built(step, [picture, optimizer])


@program()
def contrastive_queue(setting: Setting) -> Built:
    """MoCo: two encoders, a momentum update, and a queue of negatives."""
    rows, side, wide, size = setting.pick((4, 16, 8, 16), (64, 64, 64, 4096))

    def encoder() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, wide, 3, 2, 1),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Conv2d(wide, 2 * wide, 3, 2, 1),
            nn.BatchNorm2d(2 * wide),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * wide, 128),
        ).to(setting.device)

    query, key = encoder(), encoder()
    key.load_state_dict(query.state_dict())
    queue = nn.functional.normalize(
        torch.randn(128, size, device=setting.device), dim=0
    )
    views = setting.batches(lambda: torch.randn(2, rows, 3, side, side))
    optimizer = torch.optim.SGD(query.parameters(), lr=0.03, momentum=0.9)
    head = 0

    @setting.region
    def train(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q = nn.functional.normalize(query(one), dim=1)
        with torch.no_grad():
            for mine, theirs in zip(key.parameters(), query.parameters(), strict=True):
                mine.mul_(0.999).add_(theirs, alpha=0.001)
            k = nn.functional.normalize(key(other), dim=1)
        near = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        far = torch.einsum("nc,ck->nk", [q, queue.clone().detach()])
        logits = torch.cat([near, far], 1) / 0.07
        labels = torch.zeros(rows, dtype=torch.long, device=setting.device)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, k

    def step(i: int) -> Any:
        nonlocal head
        loss, k = train(*views(i))
        queue[:, head : head + rows] = k.T
        head = (head + rows) % size
        return loss.detach()

    return Built(step, [query, key, queue, optimizer, lambda: head])
