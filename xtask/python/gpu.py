#!/usr/bin/env python3
"""Time PyTorch on a device: eager and torch.compile, batch 1, medians in ms.

Prints `NAME PRECISION eager E, compiled C` for each model that its package has, in float32 (without
TF32), TF32, float16 and bfloat16. torch, torchvision and transformers must be importable; what is not
there is said, and fails.
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
    names = ["resnet50", "mobilenet_v2", "squeezenet1_1", "vgg16", "resnext50_32x4d", "efficientnet_b0", "vit_b_16"]
    image = torch.randn(1, 3, 224, 224, device="cuda")
    models = [(name, getattr(torchvision.models, name)(weights=None), (image,)) for name in names]
    wide = torch.randn(1, 3, 299, 299, device="cuda")
    models.append(("inception_v3", torchvision.models.inception_v3(weights=None, init_weights=False), (wide,)))
    tokens = torch.randint(0, 1000, (1, 128), device="cuda")
    models.append(("bert_base", BertModel(BertConfig()), (tokens, torch.ones_like(tokens))))
    precisions = [
        ("float32", torch.float32),
        ("TF32", torch.float32),
        ("float16", torch.float16),
        ("bfloat16", torch.bfloat16),
    ]
    with torch.inference_mode():
        for name, model, inputs in models:
            for precision, dtype in precisions:
                torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
                torch.backends.cudnn.allow_tf32 = precision == "TF32"
                # What was compiled under the other setting is not taken for this one.
                torch.compiler.reset()
                model = model.to(device="cuda", dtype=dtype).eval()
                given = [value.to(dtype) if value.is_floating_point() else value for value in inputs]
                compiled = torch.compile(model)
                eager, fast = median(lambda: model(*given), torch), median(lambda: compiled(*given), torch)
                print(f"{name} {precision} eager {eager:.3f}, compiled {fast:.3f}", flush=True)


if __name__ == "__main__":
    main()
