"""PyTorch's own kernels, called as autograd calls them, and what its compiler makes of the ops."""

import torch
from torch.nn import functional

EPSILON = 1e-5


class Eager:
    def __init__(self, case):
        self.gamma, self.beta = case.parameter(), case.parameter()
        self.shape = [case.columns]
        self.dtype = case.dtype

    def rms_fwd(self, x, dy):
        return torch.ops.aten._fused_rms_norm(x, self.shape, self.gamma, EPSILON)

    def rms_bwd(self, x, dy, kept):
        _, root = kept
        wanted = [True, True]
        return torch.ops.aten._fused_rms_norm_backward(dy, x, self.shape, root, self.gamma, wanted)

    def ln_fwd(self, x, dy):
        return torch.ops.aten.native_layer_norm(x, self.shape, self.gamma, self.beta, EPSILON)

    def ln_bwd(self, x, dy, kept):
        _, mean, root = kept
        wanted = [True, True, True]
        return torch.ops.aten.native_layer_norm_backward(
            dy, x, self.shape, mean, root, self.gamma, self.beta, wanted
        )

    def softmax_fwd(self, x, dy, dim=-1):
        return torch.ops.aten._softmax(x, dim, False)

    def softmax_bwd(self, x, dy, kept, dim=-1):
        return torch.ops.aten._softmax_backward_data(dy, kept, dim, self.dtype)

    def log_softmax_fwd(self, x, dy):
        return torch.ops.aten._log_softmax(x, -1, False)

    def log_softmax_bwd(self, x, dy, kept):
        return torch.ops.aten._log_softmax_backward_data(dy, kept, -1, self.dtype)

    def softmax_dim1_fwd(self, x, dy):
        return self.softmax_fwd(x, dy, 1)

    def softmax_dim1_bwd(self, x, dy, kept):
        return self.softmax_bwd(x, dy, kept, 1)


class Compiled:
    """Backward through autograd, without what it adds on the host."""

    def __init__(self, case):
        torch._dynamo.reset()
        gamma, beta = (case.parameter().requires_grad_() for _ in range(2))
        shape = [case.columns]
        ops = {
            "rms": (lambda x: functional.rms_norm(x, shape, gamma, EPSILON), [gamma]),
            "ln": (lambda x: functional.layer_norm(x, shape, gamma, beta, EPSILON), [gamma, beta]),
            "softmax": (lambda x: torch.softmax(x, -1), []),
            "log_softmax": (lambda x: torch.log_softmax(x, -1), []),
            "softmax_dim1": (lambda x: torch.softmax(x, 1), []),
        }
        for name, (op, parameters) in ops.items():
            self.add(name, torch.compile(op, mode="max-autotune-no-cudagraphs"), parameters)

    def add(self, name, op, parameters):
        def forward(x, dy):
            if not x.requires_grad:
                return op(x)
            return x, op(x)

        def backward(x, dy, kept):
            x, y = kept
            return torch.autograd.grad(y, [x, *parameters], dy, retain_graph=True)

        setattr(self, f"{name}_fwd", forward)
        setattr(self, f"{name}_bwd", backward)

    tracks = True
