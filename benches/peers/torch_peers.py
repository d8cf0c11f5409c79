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

    tracks = True

    def __init__(self, case):
        torch._dynamo.reset()
        gamma, beta = (case.parameter().requires_grad_() for _ in range(2))
        shape = [case.columns]

        def rms(x, dy=None):
            return functional.rms_norm(x, shape, gamma, EPSILON)

        def layer(x, dy=None):
            return functional.layer_norm(x, shape, gamma, beta, EPSILON)

        # Forward the residual is in the gradient's place.
        def of_sum(norm):
            def op(x, residual):
                total = x + residual
                return norm(total), total

            return op

        def attention(x, dy):
            queries, keys = x.shape[-2:]
            position = lambda count: torch.arange(count, device=x.device)
            left_out = position(keys) > position(queries).unsqueeze(-1) + (keys - queries)
            return torch.softmax((x * 0.125).masked_fill(left_out, float("-inf")), -1)

        targets = case.targets() if case.op == "ce" else None
        op, parameters = {
            "rms": (rms, [gamma]),
            "ln": (layer, [gamma, beta]),
            "add_rms": (of_sum(rms), [gamma]),
            "add_ln": (of_sum(layer), [gamma, beta]),
            "softmax": (lambda x, dy: torch.softmax(x, -1), []),
            "log_softmax": (lambda x, dy: torch.log_softmax(x, -1), []),
            "attention": (attention, []),
            "ce": (lambda x, dy: functional.cross_entropy(x.float(), targets, reduction="none"), []),
            "softmax_dim1": (lambda x, dy: torch.softmax(x, 1), []),
        }[case.op]
        self.op = torch.compile(op, mode="max-autotune-no-cudagraphs")
        self.parameters = parameters
        setattr(self, f"{case.op}_fwd", self.forward)
        setattr(self, f"{case.op}_bwd", self.backward)

    def forward(self, x, dy):
        if not x.requires_grad:
            return self.op(x, dy)
        return x, self.op(x, dy)

    def backward(self, x, dy, kept):
        x, outputs = kept
        # Of a sum and its norm, x is in the place of the sum's gradient.
        gradients = [dy, x.detach()] if isinstance(outputs, tuple) else [dy]
        wanted = [x, *self.parameters]
        return torch.autograd.grad(outputs, wanted, gradients, retain_graph=True)
