#!/usr/bin/env python3
"""PyTorch over Pleat through CUDAPluggableAllocator. Needs a GPU; checks its results."""

import torch

import pleat_torch.level1

pleat_torch.level1.install()  # before the first use of CUDA; nothing else changes


def main():
    torch.manual_seed(1)
    x = torch.randn(2048, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x @ x.T
        x.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    wanted = x.cpu() @ x.cpu().T
    torch.testing.assert_close(y.cpu(), wanted, rtol=1e-3, atol=1e-2)

    static = torch.randn(512, 512, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = (static @ static).relu()
    static.fill_(0.5)
    graph.replay()
    torch.testing.assert_close(out.cpu(), torch.full((512, 512), 128.0))

    print(pleat_torch.level1.memory_summary(abbreviated=True))
    print("results are right")


if __name__ == "__main__":
    main()
