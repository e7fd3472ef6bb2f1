#!/usr/bin/env python3
"""Generation with key-value caches that grow by a token at a time.

Several batches of requests of different lengths are served in turn. Each cache is the library's
own: every token makes new, slightly larger tensors of every layer and drops the old ones. Batches
end at different times, and new ones take their place. A step decodes some tokens for one batch.
The loss of a step is the sum of the largest logits, so it depends on all that was computed.
Deterministic.
"""

import torch

import common
import lora_ckpt

NAME = "generate_kv"
WARM_UP = 4
SIZES = {
    "full": {"layers": 16, "width": 2560, "inner": 8192, "heads": 20, "kv_heads": 20,
             "vocabulary": 64000, "longest": 8192, "sessions": 5, "batch": (16, 40),
             "prompt": (256, 3072), "answer": (16, 96), "tokens_a_step": 8},
    "tiny": {"layers": 2, "width": 32, "inner": 64, "heads": 4, "kv_heads": 2, "vocabulary": 128,
             "longest": 128, "sessions": 2, "batch": (1, 3), "prompt": (4, 16), "answer": (4, 8),
             "tokens_a_step": 2},
}


class Session:
    """A batch of requests: its cache, its last tokens, and how many are still wanted."""

    def __init__(self, run, model):
        from transformers import DynamicCache

        sizes = run.sizes
        shape = (run.rng.randint(*sizes["batch"]), run.rng.randint(*sizes["prompt"]))
        self.model = model
        self.wanted = run.rng.randint(*sizes["answer"])
        self.cache = DynamicCache()
        self.length = 0
        self.tokens = torch.randint(sizes["vocabulary"], shape, device=run.device,
                                    generator=run.generator)

    def advance(self):
        """One token more for every request; returns the sum of the logits of those chosen."""
        length = self.tokens.shape[1]
        places = torch.arange(self.length, self.length + length, device=self.tokens.device)
        out = self.model(input_ids=self.tokens, position_ids=places.unsqueeze(0),
                         past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        best, chosen = out.logits[:, -1].float().max(dim=-1)
        self.tokens = chosen.unsqueeze(1)
        self.length += length
        self.wanted -= 1
        return best.sum()


def prepare(run):
    model = lora_ckpt.make_llama(run).eval()
    sessions = []

    @torch.inference_mode()
    def step(number):
        if len(sessions) < run.sizes["sessions"]:
            sessions.append(Session(run, model))
            turn = len(sessions) - 1
        else:
            turn = number % len(sessions)
        session = sessions[turn]
        if session.wanted <= 0:
            sessions[turn] = None  # its cache must be gone before the next one's comes
            del session
            session = sessions[turn] = Session(run, model)
        total = torch.zeros((), device=run.device)
        with common.deterministic_attention():
            for _ in range(run.sizes["tokens_a_step"]):
                total += session.advance()
        return total

    return step


if __name__ == "__main__":
    common.main(NAME)
