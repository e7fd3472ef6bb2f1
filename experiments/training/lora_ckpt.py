#!/usr/bin/env python3
"""LoRA on a Llama of random weights, with gradient checkpointing.

Frozen bf16 weights, adapters on all projections (peft), each layer recomputed in the backward
pass; the length differs from step to step. The logits of the large vocabulary are far larger than
any other tensor and come and go in every step. Deterministic.
"""

import torch

import common

NAME = "lora_ckpt"
WARM_UP = 2
SIZES = {
    "full": {"layers": 16, "width": 2560, "inner": 8192, "heads": 20, "kv_heads": 4,
             "vocabulary": 128256, "tokens": 24576, "shortest": 512, "longest": 6144, "rank": 16},
    "tiny": {"layers": 2, "width": 32, "inner": 64, "heads": 4, "kv_heads": 2, "vocabulary": 128,
             "tokens": 96, "shortest": 8, "longest": 32, "rank": 2},
}


def make_llama(run):
    """A Llama of the run's sizes, bf16 on a GPU, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = run.sizes
    config = LlamaConfig(
        vocab_size=sizes["vocabulary"], hidden_size=sizes["width"],
        intermediate_size=sizes["inner"], num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"], num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=sizes["longest"], attn_implementation="sdpa", use_cache=False)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if run.is_cuda else torch.float32)
    try:
        with run.device:
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def prepare(run):
    from peft import LoraConfig, get_peft_model

    sizes = run.sizes
    config = LoraConfig(
        r=sizes["rank"], lora_alpha=2 * sizes["rank"], lora_dropout=0.05, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                        "down_proj"])
    with run.device:
        model = get_peft_model(make_llama(run), config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4, foreach=True)

    def step(_):
        length = run.rng.randint(sizes["shortest"], sizes["longest"])
        tokens = torch.randint(sizes["vocabulary"], (max(1, sizes["tokens"] // length), length),
                               device=run.device, generator=run.generator)
        with common.deterministic_attention():
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    common.main(NAME)
