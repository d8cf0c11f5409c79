"""QuACK, whose LayerNorm wants its parameters in f32."""

import importlib

import torch

# The package exports functions under the names of these modules.
norms = importlib.import_module("quack.rmsnorm")
softmaxes = importlib.import_module("quack.softmax")

EPSILON = 1e-5


class Quack:
    def __init__(self, case):
        self.gamma, self.beta = case.parameter(), case.parameter()
        self.wide = [parameter.float() for parameter in (self.gamma, self.beta)]

    def rms_fwd(self, x, dy):
        return norms.rmsnorm_fwd(x, self.gamma, eps=EPSILON, store_rstd=True)

    def rms_bwd(self, x, dy, kept):
        is_root = lambda value: isinstance(value, torch.Tensor) and value.dim() == 1
        root = next(value for value in reversed(kept) if is_root(value))
        return norms.rmsnorm_bwd(x, self.gamma, dy, root)

    def ln_fwd(self, x, dy):
        return norms.layernorm_fwd(x, *self.wide, EPSILON, return_rstd=True, return_mean=True)

    def ln_bwd(self, x, dy, kept):
        _, root, mean = kept
        return norms.layernorm_bwd(x, self.wide[0], dy, root, mean)

    def softmax_fwd(self, x, dy):
        return softmaxes.softmax_fwd(x)

    def softmax_bwd(self, x, dy, kept):
        return softmaxes.softmax_bwd(dy, kept)
