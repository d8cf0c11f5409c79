"""The kernels that burn-fused is compared with, through autograd as a model calls them."""

import importlib.metadata
import sys

import torch
import torch.nn.functional as F

try:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    LIGER = importlib.metadata.version("liger-kernel")
except ImportError as error:
    print(f"Liger Kernel is left out: {error}", file=sys.stderr)
    LIGER = None


def by_torch(op, x, gamma, beta, dy, epsilon):
    size = x.shape[1:]
    functions = {
        "rms_norm": lambda x, gamma: F.rms_norm(x, size, gamma, epsilon),
        "layer_norm": lambda x, gamma, beta: F.layer_norm(x, size, gamma, beta, epsilon),
        "softmax": lambda x: F.softmax(x, 1),
        "log_softmax": lambda x: F.log_softmax(x, 1),
    }
    return differentiate(functions[op], op, x, gamma, beta, dy)


def by_liger(op, x, gamma, beta, dy, epsilon):
    """None where there is no such kernel, or none that runs."""
    if LIGER is None or not x.is_cuda:
        return None
    # As the package calls them by default.
    functions = {
        "rms_norm": lambda x, gamma: LigerRMSNormFunction.apply(x, gamma, epsilon),
        "layer_norm": lambda x, *parameters: LigerLayerNormFunction.apply(x, *parameters, epsilon),
        "softmax": LigerSoftmaxFunction.apply,
    }
    if op not in functions:
        return None
    try:
        return differentiate(functions[op], op, x, gamma, beta, dy)
    except Exception as error:  # Triton has many kinds of them for a size that it cannot do.
        print(f"Liger's {op} on {list(x.shape)} failed: {error}", file=sys.stderr)
        return None


def differentiate(function, op, x, gamma, beta, dy):
    """The output and gradients of a call on copies: some backward passes write over their input."""
    parameters = {"rms_norm": {"dgamma": gamma}, "layer_norm": {"dgamma": gamma, "dbeta": beta}}
    leaves = {"dx": x, **parameters.get(op, {})}
    leaves = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
    y = function(*leaves.values())
    # Before the backward pass, which may write over what was saved.
    outputs = {"y": y.detach().clone()}
    y.backward(dy.clone())
    return outputs | {name: leaf.grad for name, leaf in leaves.items()}


def versions(device):
    """What is compared, for the table's caption."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else "the CPU"
    liger = f", Liger Kernel {LIGER}" if LIGER and device.type == "cuda" else ""
    return f"PyTorch {torch.__version__}{liger} on {name}"
