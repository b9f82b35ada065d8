"""A vision transformer's step over images of different sizes: most layers attend within windows, some
within the whole image (Qwen2.5-VL's vision tower). Both are layouts of the same packed tokens, so that a
step is two plans and no token is padded, masked or moved between layers.
"""

import torch
import ragged_attention as ra

HEADS, HEAD_DIM, WINDOW, LAYERS, FULL_LAYERS = 4, 40, 8, 4, {3}
IMAGES = [(24, 32), (8, 8), (16, 40)]  # rows and columns of patches


def step_layouts(images):
    """cu_seqlens of the windows and of the images. Tokens of one window lie together."""
    windows, whole = [0], [0]
    for rows, columns in images:
        for row in range(0, rows, WINDOW):
            for column in range(0, columns, WINDOW):
                height, width = min(WINDOW, rows - row), min(WINDOW, columns - column)
                windows.append(windows[-1] + height * width)
        whole.append(whole[-1] + rows * columns)
    return windows, whole


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        width = HEADS * HEAD_DIM
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x, attend):
        # Views of the fused projection: read in place, by their strides.
        q, k, v = self.qkv(self.norm(x)).view(-1, 3, HEADS, HEAD_DIM).unbind(1)
        return x + self.out(attend(q, k, v).flatten(1))


def each_segment_alone(cu_seqlens):
    """The same with PyTorch's own attention, one segment after the other."""

    def attend(*qkv):
        parts = zip(*(x.split([b - a for a, b in zip(cu_seqlens, cu_seqlens[1:])]) for x in qkv))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        return torch.cat([sdpa(*(x.transpose(0, 1) for x in part)).transpose(0, 1) for part in parts])

    return attend


def main():
    torch.manual_seed(0)
    layers = [Layer() for _ in range(LAYERS)]
    new = lambda: ra.RaggedPrefillWrapper(HEADS, HEADS, HEAD_DIM, device="cpu", q_data_type="fp32")  # noqa: E731
    within_windows, within_images = new(), new()  # once, at load

    windows, whole = step_layouts(IMAGES)  # once a step
    within_windows.plan(windows)
    within_images.plan(whole)

    x = expected = torch.randn(whole[-1], HEADS * HEAD_DIM)
    with torch.inference_mode():
        for i, layer in enumerate(layers):
            full = i in FULL_LAYERS
            x = layer(x, (within_images if full else within_windows).run)
            expected = layer(expected, each_segment_alone(whole if full else windows))
    error = (x - expected).abs().max().item()
    print(f"{len(IMAGES)} images, {len(windows) - 1} windows, {whole[-1]} tokens; largest difference "
          f"from PyTorch's attention, segment by segment: {error:.1e}")
    assert error < 1e-5


if __name__ == "__main__":
    main()
