#!/usr/bin/env python3
"""Whole training steps of a vision transformer as CUDA graphs, one for each image size.

A size is captured when it first comes, forward, backward and optimizer in one graph; later steps of
that size replay it. All graphs share one pool. Every few steps the model is evaluated eagerly on
images of a size that is never captured. Without a GPU every step is eager. Deterministic.
"""

import torch
from torch import nn
from torch.nn import functional

import common

NAME = "graph_step"
PATCH = 16
SIZES = {
    "full": {"layers": 24, "width": 1024, "heads": 16, "batch": 80, "images": (224, 288, 384, 448),
             "evaluated": (160, 512), "evaluate_batch": (64, 160), "classes": 1000},
    "tiny": {"layers": 2, "width": 32, "heads": 2, "batch": 2, "images": (32, 48, 64, 80),
             "evaluated": (32, 64), "evaluate_batch": (1, 3), "classes": 10},
}
WARM_UP = 6  # the four captures, an evaluation, a replay
EVALUATE_EVERY = 5


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        with common.deterministic_attention():
            mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x))))


class VisionTransformer(nn.Module):
    """Positions are a fixed sine pattern, made anew for every size: nothing is interpolated."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["width"]
        self.patches = nn.Linear(3 * PATCH * PATCH, width)
        self.layers = nn.ModuleList(Layer(width, sizes["heads"]) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, sizes["classes"])

    def forward(self, images):
        batch, _, height, width = images.shape
        parts = images.view(batch, 3, height // PATCH, PATCH, width // PATCH, PATCH)
        x = self.patches(parts.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, 3 * PATCH * PATCH))
        places = torch.arange(x.shape[1], device=x.device, dtype=torch.float32).unsqueeze(1)
        waves = torch.arange(x.shape[2], device=x.device, dtype=torch.float32)
        x = x + torch.sin(places * torch.exp(-waves / 128)).to(x.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))


class Step:
    """A training step for one image size, captured when there is a GPU."""

    def __init__(self, run, model, optimizer, image, pool):
        self.run = run
        self.model = model
        self.optimizer = optimizer
        dtype = next(model.parameters()).dtype
        batch = run.sizes["batch"]
        self.images = torch.zeros((batch, 3, image, image), device=run.device, dtype=dtype)
        self.labels = torch.zeros(batch, device=run.device, dtype=torch.long)
        self.graph = None
        self.loss = None
        if run.is_cuda:
            self.capture(pool)

    def work(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.model(self.images).float(), self.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def capture(self, pool):
        """Once eagerly, so that libraries are set up and the optimizer has its state."""
        self.fill()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.work()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.loss = self.work()

    def fill(self):
        self.images.uniform_(-1, 1, generator=self.run.generator)
        self.labels.random_(self.run.sizes["classes"], generator=self.run.generator)

    def __call__(self):
        self.fill()
        if self.graph is None:
            return self.work()
        self.graph.replay()
        return self.loss


def evaluate(run, model):
    first, last = run.sizes["evaluated"]
    image = run.rng.randrange(first, last + 1, PATCH)
    batch = run.rng.randint(*run.sizes["evaluate_batch"])
    dtype = next(model.parameters()).dtype
    images = torch.rand((batch, 3, image, image), device=run.device, dtype=dtype,
                        generator=run.generator)
    with torch.no_grad():
        return model(images).float().square().mean()


def prepare(run):
    with run.device:
        model = VisionTransformer(run.sizes).to(torch.bfloat16 if run.is_cuda else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=run.is_cuda)
    pool = torch.cuda.graph_pool_handle() if run.is_cuda else None
    steps = {}
    images = run.sizes["images"]

    def step(number):
        if number % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            return evaluate(run, model)
        image = images[number] if number < len(images) else run.rng.choice(images)
        if image not in steps:
            steps[image] = Step(run, model, optimizer, image, pool)
        return steps[image]().clone()

    return step


if __name__ == "__main__":
    common.main(NAME)
