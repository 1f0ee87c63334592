"""ONNX's own test suite, run through `ovolo.backend`.

`docs/CONFORMANCE.md` gives the reason for each case that is expected to fail.
"""

import numpy as np
import onnx
import ovolo.backend
import pytest
from onnx import helper
from onnx.backend.test import BackendTest

#: Cases that are expected to fail, by their reason. One that passes is an error, so that this list stays true.
EXPECTED = {
    "the operator is refused: each of the cases is in another file format": [
        "image_decoder_decode_bmp_rgb",
        "image_decoder_decode_jpeg2k_rgb",
        "image_decoder_decode_jpeg_bgr",
        "image_decoder_decode_jpeg_grayscale",
        "image_decoder_decode_jpeg_rgb",
        "image_decoder_decode_png_rgb",
        "image_decoder_decode_pnm_rgb",
        "image_decoder_decode_tiff_rgb",
        "image_decoder_decode_webp_rgb",
    ],
    "the numbers are random, and ONNX defines no generator": [
        "bernoulli",
        "bernoulli_double",
        "bernoulli_double_expanded",
        "bernoulli_expanded",
        "bernoulli_seed",
        "bernoulli_seed_expanded",
        "training_dropout",
        "training_dropout_default",
        "training_dropout_default_mask",
        "training_dropout_mask",
    ],
    "one or two elements differ by more than the tolerance, which is about one step of the type": [
        "attention_4d_causal_fp16",
        "attention_4d_causal_fp16_expanded",
        "attention_4d_gqa_with_past_and_present_fp16",
        "attention_4d_gqa_with_past_and_present_fp16_expanded",
    ],
    "where ovolo gives 0, the values of the suite are 1.9e-7, and it allows 1e-7": [
        "dft_inverse",
        "dft_inverse_opset19",
    ],
    "the suite cannot compare sequences that have scalars": ["loop16_seq_none"],
}


class Nominal(ovolo.backend.Backend):
    """Prices kernels without the speeds of the machine, so that the same ones are tested everywhere."""

    @classmethod
    def prepare(cls, model, device="CPU", **settings):
        """Makes a model ready to run."""
        return super().prepare(model, device, cost="flops", threads=1, **settings)


suite = BackendTest(Nominal, __name__)
# Whole networks, which the suite would fetch from the network.
NETWORKS = "bvlc_alexnet|densenet121|inception_v1|inception_v2|resnet50|shufflenet|squeezenet|vgg19|zfnet512"
suite.exclude(f"^test_({NETWORKS})_")
for name in sum(EXPECTED.values(), []):
    suite.xfail(f"^test_{name}_cpu$")
globals().update(suite.test_cases)


def test_a_node_runs_alone():
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.float32([1, 2]), np.float32([3, 4])
    assert ovolo.backend.run_node(node, [a, b]).c.tolist() == [4, 6]


def test_a_model_is_prepared_for_a_device():
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "negative",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    prepared = ovolo.backend.prepare(model, "CPU:0")
    x = np.float32([1, -2])
    for inputs in (x, [x], {"x": x}):
        assert prepared.run(inputs)[0].tolist() == [-1, 2]
    assert ovolo.backend.run_model(model, [x]).y.tolist() == [-1, 2]
    assert not ovolo.backend.supports_device("TPU")
    with pytest.raises(ValueError, match="no device TPU"):
        ovolo.backend.prepare(model, "TPU")
