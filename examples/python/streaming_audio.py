"""A streaming audio encoder: each frame sees its own block of frames and the blocks before it, so that
what came out for a block never changes when more audio arrives. Three streams of different lengths, read
whole and read block by block, give the same rows.
"""

import numpy as np
import ragged_attention as ra

HEADS, HEAD_DIM, BLOCK = 6, 64, 50  # a block is one second of 20 ms frames
STREAMS = [330, 75, 1500]  # frames


def main():
    random = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(STREAMS)])
    q, k, v = random.standard_normal((3, offsets[-1], HEADS, HEAD_DIM), np.float32)
    encoder = ra.RaggedBlockCausalWrapper(HEADS, HEADS, HEAD_DIM, BLOCK, device="cpu",
                                          q_data_type="fp32")
    encoder.plan(offsets)
    whole = encoder.run(q, k, v)

    # The same, as it arrives: the newest block of every stream attends all that the stream has so far.
    newest = ra.RaggedCrossPrefillWrapper(HEADS, HEADS, HEAD_DIM, device="cpu", q_data_type="fp32")
    arrived = np.zeros_like(q)
    for begin in range(0, max(STREAMS), BLOCK):
        alive = [i for i, frames in enumerate(STREAMS) if frames > begin]
        starts = offsets[alive]
        ends = [min(begin + BLOCK, STREAMS[i]) for i in alive]
        newest.plan(
            ra.SegmentSpans(starts + begin, [end - begin for end in ends]),
            ra.SegmentSpans(starts, ends),
        )
        newest.run(q, k, v, out=arrived)  # rows of other blocks stay as they are
    error = np.abs(arrived - whole).max()
    print(f"{len(STREAMS)} streams, {offsets[-1]} frames in blocks of {BLOCK}; largest difference "
          f"between read whole and read as it arrives: {error:.1e}")
    assert error < 1e-5


if __name__ == "__main__":
    main()
