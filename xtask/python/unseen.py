#!/usr/bin/env python3
"""Make networks that nothing in the project was tuned on, for `cargo xtask race --unseen`.

    unseen.py OUT_DIR [NAME...]

OUT_DIR/NAME/ gets model.onnx (every size fixed, batch 1, the weights inside the file) and
inputs/VALUE.npy. Architectures are from torchvision, timm and transformers, and small ones are written
below. Weights and inputs are drawn from a seed; nothing is downloaded. With names, only these are made.

A new network has weights that spare a runtime work: scales of 1, biases of 0, branches that are multiplied
by 0. Such constants are drawn too. Then the batch norms take their statistics from a seeded batch, so that
values neither vanish nor grow from layer to layer. Every file is run by ONNX Runtime, and the script fails if
its outputs are not finite, are constant, or differ from PyTorch's.
"""
import gc
import logging
import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import timm
import torch
import torchvision
import transformers
from timm.utils.model import reparameterize_model
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

OPSET = 20
# The default exporter makes a Loop of an LSTM; the older one makes the operator LSTM.
TRACED = ["bilstm_tagger"]
# The largest relative L2 difference between ONNX Runtime's outputs and PyTorch's.
TOLERANCE = 1e-3


def he(network):
    """Draw the weights of convolutions so that a ReLU after each keeps the scale of values."""
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight)
    return network


def doubled(source, out):
    """Two convolutions of 3x3, as U-Net has them, with batch norms."""
    parts = []
    for channels in (source, out):
        parts += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """U-Net with four levels."""

    def __init__(self, width=32, classes=2):
        super().__init__()
        sizes = [width << level for level in range(5)]
        self.down = nn.ModuleList(doubled(a, b) for a, b in zip([3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, stride=2) for size in sizes[-2::-1])
        self.joined = nn.ModuleList(doubled(2 * size, size) for size in sizes[-2::-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image):
        kept = []
        for level, down in enumerate(self.down):
            image = down(functional.max_pool2d(image, 2) if level else image)
            kept.append(image)
        kept.pop()
        for up, joined in zip(self.up, self.joined):
            image = joined(torch.cat([kept.pop(), up(image)], 1))
        return self.head(image)


class Detector(nn.Module):
    """A detector: ResNet-18, a pyramid of features, two heads that all levels share, and boxes decoded from
    anchors (without suppression)."""

    def __init__(self, size=320, width=96, classes=20, ratios=(0.5, 1.0, 2.0), scales=(1.0, 1.5)):
        super().__init__()
        self.backbone = torchvision.models.resnet18(weights=None)
        self.lateral = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in (128, 256, 512))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.further = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.classes, count = classes, len(ratios) * len(scales)
        self.scores, self.boxes = self.tower(width, count * classes), self.tower(width, count * 4)
        anchors = []
        for stride in (8, 16, 32, 64):
            middles = (torch.arange(size // stride) + 0.5) * stride
            y, x = torch.meshgrid(middles, middles, indexing="ij")
            areas = [(4 * stride * scale, ratio) for ratio in ratios for scale in scales]
            sides = torch.tensor([[side * ratio**half for half in (-0.5, 0.5)] for side, ratio in areas])
            sides = sides.expand(*x.shape, count, 2)
            centres = torch.stack([x, y], -1)[:, :, None].expand_as(sides)
            anchors.append(torch.cat([centres, sides], -1).reshape(1, -1, 4))
        self.register_buffer("anchors", torch.cat(anchors, 1))
        he(self)
        for tower in (self.scores, self.boxes):
            nn.init.normal_(tower[-1].weight, std=0.01)

    @staticmethod
    def tower(width, out):
        hidden = [part for _ in range(2) for part in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Conv2d(width, out, 3, padding=1))

    def levels(self, image):
        body = self.backbone
        image = body.layer1(body.maxpool(body.relu(body.bn1(body.conv1(image)))))
        found = []
        for layer in (body.layer2, body.layer3, body.layer4):
            image = layer(image)
            found.append(image)
        found = [lateral(one) for lateral, one in zip(self.lateral, found)]
        for finer in (1, 0):
            coarser = functional.interpolate(found[finer + 1], scale_factor=2.0, mode="nearest")
            found[finer] = found[finer] + coarser
        found = [smooth(one) for smooth, one in zip(self.smooth, found)]
        return [*found, self.further(found[-1])]

    def forward(self, image):
        levels = self.levels(image)

        def rows(tower, columns):
            return torch.cat([tower(one).permute(0, 2, 3, 1).reshape(1, -1, columns) for one in levels], 1)

        # Calibration has more than one image, and needs no boxes.
        if image.shape[0] != 1:
            return levels[0]
        shifts, growth = rows(self.boxes, 4).split(2, -1)
        centres, sides = self.anchors.split(2, -1)
        middles, halves = centres + shifts * sides, 0.5 * sides * growth.exp()
        return rows(self.scores, self.classes).sigmoid(), torch.cat([middles - halves, middles + halves], -1)


class Edsr(nn.Module):
    """Super-resolution by two, as EDSR: residual blocks without norms, and a shuffle of pixels."""

    def __init__(self, width=32, blocks=8):
        super().__init__()

        def conv(source, out):
            return nn.Conv2d(source, out, 3, padding=1)

        self.first, self.after, self.last = conv(3, width), conv(width, width), conv(width, 3)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width)) for _ in range(blocks)
        )
        self.larger = nn.Sequential(conv(width, 4 * width), nn.PixelShuffle(2))

    def forward(self, image):
        first = value = self.first(image)
        for block in self.blocks:
            value = value + 0.1 * block(value)
        return self.last(self.larger(first + self.after(value)))


class Tagger(nn.Module):
    """A tag for each word, by two layers of LSTMs in both directions."""

    def __init__(self, words=10000, width=128, tags=20):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, input_ids):
        return self.head(self.lstm(self.words(input_ids))[0])


class Causal(nn.Module):
    """Two dilated convolutions that see only the past, and a shortcut."""

    def __init__(self, width, dilation):
        super().__init__()
        self.before = 2 * dilation
        convs = (nn.Conv1d(width, width, 3, dilation=dilation, bias=False) for _ in range(2))
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))

    def forward(self, value):
        out = value
        for conv, norm in zip(self.convs, self.norms):
            out = functional.relu(norm(conv(functional.pad(out, (self.before, 0)))))
        return functional.relu(value + out)


class Tcn(nn.Module):
    """Words in a second of sound, by dilated convolutions over time."""

    def __init__(self, width=64, classes=35):
        super().__init__()
        self.front = nn.Conv1d(1, width, 16, stride=8, padding=4, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.body = nn.Sequential(*(Causal(width, 1 << power) for power in range(8)))
        self.head = nn.Linear(width, classes)

    def forward(self, sound):
        return self.head(self.body(functional.relu(self.norm(self.front(sound)))).mean(-1))


class Layer(nn.Module):
    """A layer of GPT-2 that gets the keys and values of the words before."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, value, key, past):
        batch, length, width = value.shape
        parts = self.attend(self.norms[0](value)).split(width, -1)
        query, new, found = (part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        key, past = torch.cat([key, new], 2), torch.cat([past, found], 2)
        out = functional.scaled_dot_product_attention(query, key, past)
        value = value + self.project(out.transpose(1, 2).reshape(batch, length, width))
        hidden = functional.gelu(self.wide(self.norms[1](value)), approximate="tanh")
        return value + self.narrow(hidden), key, past


class Step(nn.Module):
    """One word through GPT-2 small, with a cache of keys and values."""

    def __init__(self, words=50257, positions=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        self.head.weight = self.words.weight

    def forward(self, input_ids, position_ids, *past):
        value, present = self.words(input_ids) + self.positions(position_ids), []
        for layer, key, before in zip(self.layers, past[::2], past[1::2]):
            value, *both = layer(value, key, before)
            present += both
        return self.head(self.norm(value)), *present


class Of(nn.Module):
    """One field of what a network returns."""

    def __init__(self, network, field):
        super().__init__()
        self.network, self.field = network, field

    def forward(self, image):
        return self.network(image)[self.field]


class Text(nn.Module):
    """The last states of an encoder of text."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, input_ids, attention_mask):
        return self.network(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Words(nn.Module):
    """The scores of the next word at each place."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, input_ids):
        return self.network(input_ids=input_ids, use_cache=False).logits


def pictured(network, size=224, outputs=("output",)):
    return network, {"image": torch.randn(1, 3, size, size)}, outputs


def vision(name, **settings):
    return pictured(getattr(torchvision.models, name)(weights=None, **settings))


def segmented(name, size=320):
    make = getattr(torchvision.models.segmentation, name)
    return pictured(Of(make(weights=None, weights_backbone=None, num_classes=21), "out"), size)


def from_timm(name, size=224):
    return pictured(timm.create_model(name, pretrained=False), size)


def text(network, words, length=128):
    tokens = torch.randint(0, words, (1, length))
    return Text(network), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, ("hidden",)


def distilbert():
    config = transformers.DistilBertConfig()
    return text(transformers.DistilBertModel(config), config.vocab_size)


def t5_encoder():
    # The sizes of t5-small, which are the defaults.
    config = transformers.T5Config()
    return text(transformers.T5EncoderModel(config), config.vocab_size)


def wav2vec2():
    network = transformers.Wav2Vec2Model(transformers.Wav2Vec2Config())
    # The weights of this convolution are a product of two parameters only while it learns.
    parametrize.remove_parametrizations(network.encoder.pos_conv_embed.conv, "weight")
    return Of(network, "last_hidden_state"), {"sound": torch.randn(1, 16000)}, ("hidden",)


def gpt2_64():
    config = transformers.GPT2Config()
    tokens = torch.randint(0, config.vocab_size, (1, 64))
    return Words(transformers.GPT2LMHeadModel(config)), {"input_ids": tokens}, ("logits",)


def gpt2_step(words=50257, layers=12, past=256):
    names = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    inputs = {"input_ids": torch.randint(0, words, (1, 1)), "position_ids": torch.tensor([[past]])}
    inputs |= {f"past_key_values.{name}": torch.randn(1, 12, past, 64) for name in names}
    return Step(words=words, layers=layers), inputs, ("logits", *(f"present.{name}" for name in names))


NETWORKS = {
    "bilstm_tagger": lambda: (Tagger(), {"input_ids": torch.randint(0, 10000, (1, 64))}, ("tags",)),
    "convnext_tiny": lambda: vision("convnext_tiny"),
    "deeplabv3_mobilenet": lambda: segmented("deeplabv3_mobilenet_v3_large"),
    "densenet121": lambda: vision("densenet121"),
    "distilbert": distilbert,
    "edsr": lambda: pictured(he(Edsr())),
    "efficientnet_v2_s": lambda: vision("efficientnet_v2_s"),
    "fpn_detector": lambda: pictured(Detector(), 320, ("scores", "boxes")),
    "ghostnet": lambda: from_timm("ghostnet_100"),
    "googlenet": lambda: vision("googlenet", aux_logits=False, init_weights=True),
    "gpt2_64": gpt2_64,
    "gpt2_step": gpt2_step,
    "lraspp_mobilenet": lambda: segmented("lraspp_mobilenet_v3_large"),
    "maxvit_t": lambda: vision("maxvit_t"),
    "mixer_s16": lambda: from_timm("mixer_s16_224"),
    "mnasnet1_0": lambda: vision("mnasnet1_0"),
    "mobilevit_s": lambda: from_timm("mobilevit_s", 256),
    "regnet_y_800mf": lambda: vision("regnet_y_800mf"),
    "repvgg_a0": lambda: from_timm("repvgg_a0"),
    "shufflenet_v2": lambda: vision("shufflenet_v2_x1_0"),
    "swin_t": lambda: vision("swin_t"),
    "t5_encoder": t5_encoder,
    "tcn_audio": lambda: (he(Tcn()), {"sound": torch.randn(1, 1, 16000)}, ("scores",)),
    "unet": lambda: pictured(he(UNet()), 256),
    "wav2vec2": wav2vec2,
}


def drawn(network):
    """Draw each parameter whose values are all equal: scales of 1 or nearly 0, biases and matrices of 0."""
    for name, parameter in network.named_parameters():
        if parameter.numel() < 2 or parameter.min() != parameter.max():
            continue
        if parameter.numel() > parameter.shape[0]:
            nn.init.normal_(parameter, std=(parameter.shape[0] / parameter.numel()) ** 0.5)
        elif name.endswith("bias"):
            nn.init.normal_(parameter, std=0.05)
        else:
            nn.init.uniform_(parameter, 0.5, 1.0)


def calibrated(network, inputs):
    """Let the batch norms take the statistics of a batch of four."""
    norms = [part for part in network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    (given,) = inputs.values()
    for norm in norms:
        norm.reset_running_stats()
        # The mean over all batches, which are one.
        norm.momentum = None
        norm.train()
    network(torch.randn(4, *given.shape[1:]))
    network.eval()


def checked(path, inputs, want, outputs):
    """Run a file, and return the scale of its first output and the number of its nodes."""
    graph = onnx.load(path).graph
    for value in [*graph.input, *graph.output]:
        if any(dim.dim_value < 1 for dim in value.type.tensor_type.shape.dim):
            raise ValueError(f"the sizes of `{value.name}` are not fixed")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [[value.name for value in side] for side in (session.get_inputs(), session.get_outputs())]
    if names != [list(inputs), list(outputs)]:
        raise ValueError(f"its inputs and outputs are {names}")
    got = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    for name, one, other in zip(outputs, got, want):
        if not np.isfinite(one).all() or one.std() == 0:
            raise ValueError(f"the output `{name}` is constant or not finite")
        departure = np.linalg.norm(one - other.numpy()) / np.linalg.norm(other.numpy())
        if departure > TOLERANCE:
            raise ValueError(f"the output `{name}` departs from PyTorch's by {departure:.1e}")
    return got[0].std(), len(graph.node)


def make(name, folder):
    torch.manual_seed(0)
    network, inputs, outputs = NETWORKS[name]()
    network.eval()
    os.makedirs(os.path.join(folder, "inputs"), exist_ok=True)
    for value, tensor in inputs.items():
        np.save(os.path.join(folder, "inputs", value.replace("/", "_") + ".npy"), tensor.numpy())
    path = os.path.join(folder, "model.onnx")
    with torch.no_grad():
        drawn(network)
        calibrated(network, inputs)
        # As it is deployed: branches that are sums of convolutions become one (RepVGG).
        network = reparameterize_model(network, inplace=True)
        want = network(*inputs.values())
        settings = {} if name in TRACED else {"external_data": False, "verbose": False}
        torch.onnx.export(
            network,
            tuple(inputs.values()),
            path,
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=OPSET,
            dynamo=name not in TRACED,
            **settings,
        )
    scale, nodes = checked(path, inputs, want if isinstance(want, tuple) else (want,), outputs)
    size = os.path.getsize(path) / 1e6
    print(f"  {name}: {size:.1f} MB, {nodes} nodes, outputs of {scale:.2g}", flush=True)


def main(out, names):
    if unknown := [name for name in names if name not in NETWORKS]:
        sys.exit(f"there is no network {unknown[0]}; known are {', '.join(NETWORKS)}")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for name in names or NETWORKS:
        try:
            make(name, os.path.join(out, name))
        except Exception as problem:
            sys.exit(f"{name} cannot be made: {type(problem).__name__}: {problem}")
        gc.collect()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
