"""Encoders of transformers with small random weights: "ragged" gives what "sdpa" gives."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import ragged_attention as ra  # noqa: E402
import ragged_attention.transformers as ragged_transformers  # noqa: E402

SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
TOLERANCE = {"atol": 2e-5, "rtol": 1e-4}


def pair(model_class, config):
    """The same weights under sdpa and under ragged."""
    torch.manual_seed(0)
    models = []
    for implementation in ("sdpa", "ragged"):
        config._attn_implementation = implementation
        model = model_class._from_config(config, attn_implementation=implementation).eval()
        if models:
            model.load_state_dict(models[0].state_dict())
        models.append(model)
    assert models[1].config._attn_implementation == "ragged"
    return models


def outputs(models, **inputs):
    with torch.inference_mode():
        return [model(**inputs).last_hidden_state for model in models]


@pytest.mark.parametrize("padding", ["right", "left", "none"])
def test_bert(padding):
    models = pair(transformers.BertModel, transformers.BertConfig(vocab_size=50, **SMALL))
    ids = torch.randint(0, 50, (3, 9))
    mask = torch.ones(3, 9, dtype=torch.long)
    if padding != "none":
        for row, length in enumerate((9, 4, 6)):
            mask[row, length:] = 0
        mask = mask if padding == "right" else mask.flip(1)
    theirs, ours = outputs(models, input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(ours[mask == 1], theirs[mask == 1], **TOLERANCE)


def test_siglip_vision():
    config = transformers.SiglipVisionConfig(image_size=32, patch_size=8, **SMALL)
    theirs, ours = outputs(pair(transformers.SiglipVisionModel, config),
                           pixel_values=torch.randn(2, 3, 32, 32))
    torch.testing.assert_close(ours, theirs, **TOLERANCE)


def test_whisper_encoder():
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=96,
        num_mel_bins=16, max_source_positions=50,
    )  # fmt: skip
    theirs, ours = outputs(pair(WhisperEncoder, config), input_features=torch.randn(2, 16, 100))
    torch.testing.assert_close(ours, theirs, **TOLERANCE)


def vision_tower(module, name, config):
    modeling = pytest.importorskip(f"transformers.models.{module}.modeling_{module}")
    return pair(getattr(modeling, name), config)


GRID = torch.tensor([[1, 8, 12], [1, 4, 4], [2, 4, 8]])  # images and a clip: time, height, width


def qwen25_vl():
    config = transformers.Qwen2_5_VLConfig().vision_config
    for name, value in {"depth": 3, "hidden_size": 64, "num_heads": 4, "intermediate_size": 96,
                        "out_hidden_size": 32, "window_size": 56, "fullatt_block_indexes": [1]}.items():
        setattr(config, name, value)
    return "qwen2_5_vl", "Qwen2_5_VisionTransformerPretrainedModel", config, 3 * 2 * 14 * 14


def qwen3_vl():
    config = transformers.Qwen3VLConfig().vision_config
    for name, value in {"depth": 3, "hidden_size": 64, "num_heads": 4, "intermediate_size": 96,
                        "out_hidden_size": 32, "deepstack_visual_indexes": [1]}.items():
        setattr(config, name, value)
    return "qwen3_vl", "Qwen3VLVisionModel", config, 3 * 2 * 16 * 16


def first(result):
    result = result[0] if isinstance(result, tuple) else result
    return result if isinstance(result, torch.Tensor) else result.last_hidden_state


@pytest.mark.parametrize("tower", [qwen25_vl, qwen3_vl])
def test_qwen_vision_towers(tower, monkeypatch):
    module, name, config, patch = tower()
    theirs, ours = vision_tower(module, name, config)
    pixels = torch.randn(int(GRID.prod(1).sum()), patch)
    calls = []
    real = ragged_transformers.varlen.flash_attn_varlen_func
    monkeypatch.setattr(ragged_transformers.varlen, "flash_attn_varlen_func",
                        lambda *a, **k: calls.append(a) or real(*a, **k))
    with torch.inference_mode():
        want = first(theirs(pixels, grid_thw=GRID))
        torch.testing.assert_close(first(ours(pixels, grid_thw=GRID)), want, **TOLERANCE)
        assert not calls  # "ragged": a call for each image or window
        ragged_transformers.use(ours)
        torch.testing.assert_close(first(ours(pixels, grid_thw=GRID)), want, **TOLERANCE)
    assert len(calls) == 3  # one for each layer


def test_what_is_not_served_is_refused_by_name():
    module = torch.nn.Module()
    q = torch.randn(1, 2, 4, 16)
    forward = ragged_transformers.ragged_attention_forward
    for arguments, text in [
        ({"dropout": 0.1}, "dropout must be 0.0"),
        ({"sliding_window": 4}, "sliding_window must be None"),
        ({"softcap": 30.0}, "softcap must be None"),
        ({"attention_mask": torch.zeros(1, 1, 4, 4)}, r"attention_mask must be \[batch, kv_len\]"),
    ]:
        with pytest.raises(ra.UnsupportedError, match=text):
            forward(module, q, q, q, **arguments)


def test_windows_of_a_model_are_refused_by_name():
    config = transformers.ModernBertConfig(
        vocab_size=50, local_attention=4, global_attn_every_n_layers=2, max_position_embeddings=64,
        pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2, **SMALL
    )  # fmt: skip
    model = transformers.ModernBertModel._from_config(config, attn_implementation="ragged").eval()
    with pytest.raises(ra.UnsupportedError, match="masks must be causal or full|sliding_window"):
        outputs([model], input_ids=torch.randint(3, 50, (2, 9)))
