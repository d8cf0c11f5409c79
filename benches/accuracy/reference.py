"""What the ops must give, in float64, and the scale that errors are measured on."""

import torch

NORMS = ("rms_norm", "layer_norm")


def reference(op, x, gamma, beta, dy, epsilon):
    """The exact output and gradients, each by its name with its scale."""
    x, gamma, beta, dy = (tensor.double() for tensor in (x, gamma, beta, dy))
    if op in NORMS:
        return norm(op, x, gamma, beta, dy, epsilon)
    return softmax(op, x, dy)


def norm(op, x, gamma, beta, dy, epsilon):
    mean = lambda tensor: tensor.mean(1, keepdim=True)
    layer = op == "layer_norm"
    centred = x - mean(x) if layer else x
    inverse = 1 / (mean(centred.square()) + epsilon).sqrt()
    normalised = centred * inverse
    y = normalised * gamma
    scaled = dy * gamma
    dx = scaled - normalised * mean(scaled * normalised)
    outputs = {"dgamma": column_sum(dy * normalised)}
    if layer:
        y = y + beta
        dx = dx - mean(scaled)
        outputs["dbeta"] = column_sum(dy)
    dx = dx * inverse
    return {"y": (y, largest(y)), "dx": (dx, largest(dx)), **outputs}


def softmax(op, x, dy):
    shifted = x - x.amax(1, keepdim=True)
    total = lambda tensor: tensor.sum(1, keepdim=True)
    logarithm = shifted - total(shifted.exp()).log()
    y = logarithm.exp()
    if op == "softmax":
        # The two terms cancel, the more the nearer y is to 0 or 1: an error is one of the terms.
        dx = y * (dy - total(dy * y))
        return {"y": (y, largest(y)), "dx": (dx, largest(y) * largest(dy))}
    dx = dy - y * total(dy)
    return {"y": (logarithm, largest(logarithm)), "dx": (dx, largest(dx))}


def largest(tensor):
    """The largest magnitude of each row."""
    return tensor.abs().amax(1, keepdim=True)


def column_sum(terms):
    """The sum of each column, and the larger of its magnitude and its terms' root of squares."""
    value = terms.sum(0)
    return value, torch.maximum(value.abs(), terms.square().sum(0).sqrt())


def units(scale, dtype):
    """The scale itself for f32; for narrower types, one unit in the last place at the scale."""
    if dtype == torch.float32:
        return scale
    info = torch.finfo(dtype)
    # The power of two below the scale: frexp's mantissas are from 1/2 to 1.
    power = 2.0 ** (torch.frexp(scale).exponent - 1).double()
    return power.clamp(min=info.smallest_normal) * info.eps
