#!/usr/bin/env python3
"""The GPT of gpt_varlen, sharded over several GPUs with FSDP2.

    torchrun --standalone --nproc-per-node 2 fsdp2.py --allocator A --steps N

Every block is gathered before use and freed after it, on streams of its own; lengths differ from
step to step but are the same on all ranks. Deterministic for two ranks: a sum of two is the same in
either order. Without GPUs it runs on gloo.
"""

import os

import torch
import torch.distributed as dist
from torch import nn

import common
import gpt_varlen

NAME = "fsdp2"
WARM_UP = 3
SIZES = {"full": dict(gpt_varlen.SIZES["full"], layers=28),
         "tiny": gpt_varlen.SIZES["tiny"]}


def prepare(run):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    world = int(os.environ.get("WORLD_SIZE", "1"))
    if "RANK" not in os.environ:  # alone, to try it
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29533")
    if run.is_cuda:
        dist.init_process_group("nccl", device_id=run.device)
    else:
        dist.init_process_group("gloo")
    mesh = init_device_mesh(run.device.type, (world,))
    with run.device:
        model = gpt_varlen.Gpt(run.sizes)  # the same on all ranks: they share the seed
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    # Lengths come from the shared seed, data from one that differs by rank.
    run.generator.manual_seed(run.seed * 1000 + dist.get_rank())

    def step(_):
        shape = gpt_varlen.draw_shape(run)
        data = torch.randint(run.sizes["vocabulary"], (shape[0], shape[1] + 1), device=run.device,
                             generator=run.generator)
        loss = model(data[:, :-1], data[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.detach()
        dist.all_reduce(loss)
        return loss

    return step


def finish():
    """All ranks together, so that none finds another gone."""
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    common.main(NAME)
