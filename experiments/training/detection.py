#!/usr/bin/env python3
"""An object detector (RetinaNet on ResNet-50) on images of many scales.

Every step draws a scale and gives every image its own form within it; the number of objects differs
from image to image. Batches are padded to their largest image, so no two steps are alike.
fp32 weights, bf16 autocast, SGD with momentum. The first max-pooling is replaced by an average
pooling, whose backward pass is deterministic; operators that are not are listed in the record.
"""

import torch

import common

NAME = "detection"
WARM_UP = 3
SIZES = {
    "full": {"images": 16, "scales": (448, 512, 576, 640, 704, 800, 896), "objects": 80},
    "tiny": {"images": 2, "scales": (64, 96), "objects": 5},
}
CLASSES = 91


def draw_image(run, scale):
    """A random image with one side near the scale, and boxes that lie inside it."""
    height = int(scale * run.rng.uniform(0.75, 1.0))
    width = int(scale * run.rng.uniform(0.75, 1.6))
    if run.rng.random() < 0.3:
        height, width = width, height
    image = torch.rand((3, height, width), device=run.device, generator=run.generator)
    boxes = []
    labels = []
    for _ in range(run.rng.randint(1, run.sizes["objects"])):
        w = run.rng.uniform(0.02, 0.5) * width
        h = run.rng.uniform(0.02, 0.5) * height
        x = run.rng.uniform(0, width - w)
        y = run.rng.uniform(0, height - h)
        boxes.append((x, y, x + w, y + h))
        labels.append(run.rng.randint(1, CLASSES - 1))
    target = {"boxes": torch.tensor(boxes, device=run.device),
              "labels": torch.tensor(labels, device=run.device)}
    return image, target


def prepare(run):
    from torchvision.models.detection import retinanet_resnet50_fpn_v2

    with run.device:
        model = retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None, num_classes=CLASSES,
                                          _skip_resize=True)
    model.backbone.body["maxpool"] = torch.nn.AvgPool2d(3, stride=2, padding=1)
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-3, momentum=0.9, weight_decay=1e-4, foreach=True)

    def step(_):
        scale = run.rng.choice(run.sizes["scales"])
        batch = [draw_image(run, scale) for _ in range(run.sizes["images"])]
        with torch.autocast(run.device.type, torch.bfloat16):
            losses = model([image for image, _ in batch], [target for _, target in batch])
            loss = sum(losses.values())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 10.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    common.main(NAME)
