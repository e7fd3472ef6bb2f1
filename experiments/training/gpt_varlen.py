#!/usr/bin/env python3
"""A GPT trained on batches of varying sequence length.

Every step draws a length and fills a budget of tokens with sequences of it, as loaders that bucket
by length do. Activations, attention buffers and the logits change their sizes from step to step.
fp32 weights, bf16 autocast, flash attention, fused AdamW, clipped gradients. Deterministic.
"""

import torch
from torch import nn
from torch.nn import functional

import common

NAME = "gpt_varlen"
WARM_UP = 3
SIZES = {
    "full": {"layers": 16, "width": 2048, "heads": 16, "vocabulary": 50304, "tokens": 24576,
             "shortest": 384, "longest": 4096},
    "tiny": {"layers": 2, "width": 32, "heads": 2, "vocabulary": 101, "tokens": 128,
             "shortest": 8, "longest": 40},
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        with common.deterministic_attention():
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x))))


class Gpt(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width = sizes["width"]
        self.tokens = nn.Embedding(sizes["vocabulary"], width)
        self.places = nn.Embedding(sizes["longest"], width)
        self.blocks = nn.ModuleList(Block(width, sizes["heads"]) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, sizes["vocabulary"], bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def draw_shape(run):
    """Sequences and their length; lengths are spread evenly on a logarithmic scale."""
    sizes = run.sizes
    ratio = sizes["longest"] / sizes["shortest"]
    length = int(sizes["shortest"] * ratio ** run.rng.random())
    return max(1, sizes["tokens"] // length), length


def prepare(run):
    with run.device:
        model = Gpt(run.sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step(_):
        shape = draw_shape(run)
        data = torch.randint(run.sizes["vocabulary"], (shape[0], shape[1] + 1), device=run.device,
                             generator=run.generator)
        with torch.autocast(run.device.type, torch.bfloat16):
            loss = model(data[:, :-1], data[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    common.main(NAME)
