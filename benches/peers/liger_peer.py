"""Liger-Kernel. Its cross-entropy reads numbers back from the device, which a graph cannot hold."""

from liger_kernel.ops.fused_add_rms_norm import (
    fused_add_rms_norm_backward,
    fused_add_rms_norm_forward,
)
from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward
from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward
from liger_kernel.ops.softmax import _softmax_backward, _softmax_forward

EPSILON = 1e-5


class Liger:
    def __init__(self, case):
        self.gamma, self.beta = case.parameter(), case.parameter()

    def rms_fwd(self, x, dy):
        return rms_norm_forward(x, self.gamma, EPSILON, 0.0, "llama", None)

    def rms_bwd(self, x, dy, kept):
        _, x_2d, root, block, warps, casting = kept
        return rms_norm_backward(
            dy, x_2d, self.gamma, root, 0.0, casting, block, warps, False, None
        )

    # Forward the residual is in the gradient's place; backward x is in that of the sum's gradient.
    def add_rms_fwd(self, x, dy):
        return fused_add_rms_norm_forward(x, dy, self.gamma, EPSILON, 0.0, "llama")

    def add_rms_bwd(self, x, dy, kept):
        _, total, root, block, warps, stages, casting = kept
        return fused_add_rms_norm_backward(
            dy, x, total, self.gamma, root, 0.0, casting, block, warps, stages, False
        )

    def ln_fwd(self, x, dy):
        return layer_norm_forward(x, self.gamma, self.beta, EPSILON)

    def ln_bwd(self, x, dy, kept):
        _, x_2d, mean, root, *_ = kept
        return layer_norm_backward(dy, x_2d, self.gamma, self.beta, mean, root)

    def softmax_fwd(self, x, dy):
        return _softmax_forward(x)

    def softmax_bwd(self, x, dy, kept):
        # Liger writes the gradient over `dy`.
        y, *plan = kept
        return _softmax_backward(dy, y, *plan)
