"""Denoising steps of a diffusion transformer for requests of different sizes.

Latent tokens attend their own request's text (cross-attention), and a frozen prefix of reference tokens
together with themselves (prefixed, two sources): keys and values of text and prefix are computed once for
all steps, and never copied next to the latents' own.
"""

import torch
import ragged_attention as ra
from ragged_attention.config import (
    RaggedAttentionConfig,
    RaggedCrossAttentionSpec,
    RaggedCrossAttentionStep,
    RaggedPrefixedAttentionSpec,
    RaggedPrefixedAttentionStep,
    Segment,
    cross_label,
)

HEADS, KV_HEADS, HEAD_DIM, STEPS = 8, 2, 64, 3
LATENT, TEXT, PREFIX = [256, 96, 160], [21, 77, 8], [64, 0, 120]  # tokens of each request


def segments(label, spans):
    return tuple(Segment(f"request {i}", label, span) for i, span in enumerate(spans))


def managers():
    """Declared once, at load."""
    config = RaggedAttentionConfig(HEADS, KV_HEADS, HEAD_DIM, dtype="fp32")
    specs = (RaggedCrossAttentionSpec("to_text", {"dit"}, config),
             RaggedPrefixedAttentionSpec("to_prefix", {"dit"}, config))
    return [spec.resource_class(spec, device="cpu") for spec in specs]


def keys(tokens):
    return torch.randn(tokens, KV_HEADS, HEAD_DIM), torch.randn(tokens, KV_HEADS, HEAD_DIM)


def alone(q, k, v):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(*(x.transpose(0, 1) for x in (q, k, v)), enable_gqa=True).transpose(0, 1)


def main():
    torch.manual_seed(0)
    to_text, to_prefix = managers()
    text_k, text_v = keys(sum(TEXT))  # frozen
    prefix_k, prefix_v = keys(sum(PREFIX))
    text, prefix = cross_label("latent", "text"), cross_label("latent", "prefix")
    for step in range(STEPS):
        # A step like the one before costs next to nothing to plan.
        latent = segments("latent", LATENT)
        to_text.plan(RaggedCrossAttentionStep(latent + segments("text", TEXT), (("latent", "text"),)))
        to_prefix.plan(
            RaggedPrefixedAttentionStep(
                latent + segments("prefix", PREFIX), (("latent", "prefix"),), two_sources=True
            )
        )
        q = torch.randn(sum(LATENT), HEADS, HEAD_DIM)
        k, v = keys(sum(LATENT))
        from_text = to_text.run(q, text_k, text_v, text)
        from_prefix = to_prefix.run_two_sources(prefix, q, prefix_k, prefix_v, k, v)
        error = 0.0
        parts = [x.split(n) for x, n in ((q, LATENT), (k, LATENT), (v, LATENT), (text_k, TEXT),
                                         (text_v, TEXT), (prefix_k, PREFIX), (prefix_v, PREFIX),
                                         (from_text, LATENT), (from_prefix, LATENT))]
        for q1, k1, v1, tk, tv, pk, pv, out_text, out_prefix in zip(*parts, strict=True):
            want = alone(q1, torch.cat([pk, k1]), torch.cat([pv, v1]))
            error = max(error, (out_text - alone(q1, tk, tv)).abs().max().item(),
                        (out_prefix - want).abs().max().item())
        print(f"step {step}: largest difference from PyTorch, request by request: {error:.1e}")
        assert error < 1e-5
    print(to_prefix.explain(prefix))


if __name__ == "__main__":
    main()
