"""Capture once, replay for every layout: capacity mode, with a CUDA graph where there is a GPU.

A wrapper with ceilings makes every choice and buffer from them. A captured layer then replays any layout
within them: plan the next step, fill the static inputs, replay. On a CPU the same wrapper runs the layer
directly, and everything else is the same.
"""

import ragged_attention as ra
import torch

SEGMENTS, TOKENS, HEADS, DIM = 8, 1024, 8, 64
STEPS = [[300, 212, 512], [1024], [7, 0, 1, 90, 33], [128] * 8]


def layer(attention, x, out):
    """Stands for a block of a model: queries, keys and values of one static input."""
    q, k, v = x.unflatten(-1, (3, HEADS, DIM)).unbind(1)
    attention.run(q, k, v, out)


def main():
    gpu = torch.cuda.is_available() and bool({"sm90", "sm80"} & set(ra.built_backends()))
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    attention = ra.RaggedPrefillWrapper(
        HEADS, HEADS, DIM, max_num_segments=SEGMENTS, max_total_tokens=TOKENS, device=device,
        accelerator_graph=True, q_data_type=dtype,
    )  # fmt: skip
    eager = ra.RaggedPrefillWrapper(HEADS, HEADS, DIM, device=device, q_data_type=dtype)
    x = torch.zeros(TOKENS, 3 * HEADS * DIM, device=device, dtype=dtype)
    out = torch.zeros(TOKENS, HEADS, DIM, device=device, dtype=dtype)

    attention.plan([0, TOKENS])
    layer(attention, x, out)  # once before the capture, which allocates nothing then
    replay = lambda: layer(attention, x, out)  # noqa: E731
    if gpu:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            layer(attention, x, out)
        replay = graph.replay

    for lengths in STEPS:
        cu_seqlens = torch.tensor([0, *lengths]).cumsum(0)
        rows = int(cu_seqlens[-1])
        x[:rows] = torch.randn(rows, x.shape[1]).to(x)
        attention.plan(cu_seqlens)  # copies the layout into static buffers; no capture anew
        replay()
        eager.plan(cu_seqlens)
        want = torch.empty_like(out[:rows])
        layer(eager, x[:rows], want)
        torch.testing.assert_close(out[:rows], want)
    how = "replays of one CUDA graph" if gpu else "runs within the ceilings"
    print(f"{len(STEPS)} layouts, {how}, each equal to an eager run; {attention.workspace_bytes} bytes")


if __name__ == "__main__":
    main()
