#!/usr/bin/env python3
"""PyTorch over Pleat as its allocator, whole. Needs a GPU; checks its results."""

import torch

import pleat_torch

pleat_torch.install()  # before the first use of CUDA; nothing else changes


def main():
    torch.manual_seed(1)
    x = torch.randn(2048, 1024, device="cuda")
    torch.testing.assert_close((x @ x.T).cpu(), x.cpu() @ x.cpu().T, rtol=1e-3, atol=1e-2)
    print(torch.cuda.memory_summary(abbreviated=True))
    print("results are right")


if __name__ == "__main__":
    main()
