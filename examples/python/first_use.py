"""Ten lines: three images of different sizes through one attention layer, without padding."""

import numpy as np
import ragged_attention as ra

q, k, v = np.random.default_rng(0).standard_normal((3, 1700, 16, 72), np.float32)
attention = ra.RaggedPrefillWrapper(16, 16, 72, device="cpu", q_data_type=q.dtype)
attention.plan([0, 729, 1458, 1700])  # once a step
out = attention.run(q, k, v)          # once a layer
print(attention.explain())
assert out.shape == q.shape and np.isfinite(out).all()
