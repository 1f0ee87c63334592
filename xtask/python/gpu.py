#!/usr/bin/env python3
"""Time PyTorch on a device: eager and torch.compile, batch 1, float32 without TF32, medians in ms.

Prints `NAME eager E, compiled C` for each model that its package has. torch, torchvision and
transformers must be importable; what is not there is said, and fails.
"""
import sys
import time


def median(run, torch):
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(100):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def main():
    try:
        import torch
        import torchvision
        from transformers import BertConfig, BertModel
    except ImportError as error:
        sys.exit(f"{error}: install torch, torchvision and transformers")
    if not torch.cuda.is_available():
        sys.exit("torch sees no device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    names = ["resnet50", "mobilenet_v2", "squeezenet1_1", "vgg16", "resnext50_32x4d", "efficientnet_b0", "vit_b_16"]
    image = torch.randn(1, 3, 224, 224, device="cuda")
    models = [(name, getattr(torchvision.models, name)(weights=None), (image,)) for name in names]
    wide = torch.randn(1, 3, 299, 299, device="cuda")
    models.append(("inception_v3", torchvision.models.inception_v3(weights=None, init_weights=False), (wide,)))
    tokens = torch.randint(0, 1000, (1, 128), device="cuda")
    models.append(("bert_base", BertModel(BertConfig()), (tokens, torch.ones_like(tokens))))
    with torch.inference_mode():
        for name, model, inputs in models:
            model = model.cuda().eval()
            compiled = torch.compile(model)
            eager, fast = median(lambda: model(*inputs), torch), median(lambda: compiled(*inputs), torch)
            print(f"{name} eager {eager:.3f}, compiled {fast:.3f}", flush=True)


if __name__ == "__main__":
    main()
